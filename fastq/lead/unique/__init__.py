"""Unique jobs, as far as a leader looks after them: the keys that were given up are swept away."""
