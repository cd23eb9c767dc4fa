"""Leases: names that one process holds at a time. Electors compete for them in supervisors, and in workers for singletons."""
