"""Unique jobs, as far as a leader looks after them: its thread sweeps the keys away that were given up."""
