"""What a job tells of its work: the value that it returns, as JSON, and how far it is."""
