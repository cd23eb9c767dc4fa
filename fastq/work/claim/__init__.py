"""The producer's thread: which jobs this process takes, how many, and where those go that it cannot run."""
