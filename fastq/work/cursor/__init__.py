"""Where the next claim of a queue starts, and the proof that nothing is left behind it."""
