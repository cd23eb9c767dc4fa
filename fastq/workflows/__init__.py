"""Workflows as plain values: your program builds their steps and edges, and settles them into a plan.

The command `fastq workflows` draws them. Each value belongs to the thread that has made it.
"""
