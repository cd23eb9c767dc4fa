"""Help for tests of programs that use fastq, imported by tests alone: leases in memory, on a board with a clock to set.

Used in the threads of a test, which makes and owns the objects.
"""

from fastq.leases.memory import LeaseBoard, MemoryLease

__all__ = ["LeaseBoard", "MemoryLease"]
