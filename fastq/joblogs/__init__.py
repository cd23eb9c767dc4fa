"""Job logs: the records and the prints of the jobs of a kind, kept with each attempt as a transcript."""
