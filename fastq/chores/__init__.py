"""What leaders do: each chore in a file of its own, all of them alike (chore.py)."""
