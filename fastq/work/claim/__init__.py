"""The producer's thread: which jobs this process takes, how many, and where those go that it cannot run.

It also fails the attempts that the table says run here, but that this process does not hold.
"""
