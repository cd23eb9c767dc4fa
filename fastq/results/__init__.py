"""What a job tells of its work: the value that it returns, as JSON, how far it is, and the transaction that it ends in."""
