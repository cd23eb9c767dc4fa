"""Leases: names that one process holds at a time. Electors compete for them in supervisors, and in workers for singletons.

Any program may hold one of its own by `fastq.Lease` or `fastq.AsyncLease`, or in its tests by the twin in memory.py.
"""
