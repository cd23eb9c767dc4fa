"""The work of a leader, in threads of the supervisor that is elected: the leases, and the chores that belong to each.

One module runs elsewhere: `fastq run` writes the declarations (definitions.py) before its supervisor starts.
"""
