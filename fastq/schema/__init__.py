"""The tables: brought to this program's version by commands; the partitions of the archive, kept by a thread of the leader.

The modules keep nothing of their own: all state is in the database.
"""
