"""What an operator does about encrypted args: to encrypt those of living jobs anew, with the newest key.

Runs where the rest of `admin/` runs: in the caller's thread, or in that of a client.
"""
