"""The commands about the things for which one job waits for others: gates, keys of unique jobs, workflows.

Each runs in the main thread of its program.
"""
