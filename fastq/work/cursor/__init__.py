"""Where the next claim of a queue starts, and the proof that nothing is left behind it.

Run by the producers' threads of a host; the positions lie on the board that its processes share.
"""
