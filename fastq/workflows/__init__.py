"""Workflows, as your program builds them: steps and edges, settled into a plan. Plain values, no I/O."""
