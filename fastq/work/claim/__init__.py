"""The producer's thread: which jobs this process takes, how many, and what becomes of those it cannot run."""
