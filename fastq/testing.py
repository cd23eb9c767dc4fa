"""What helps to test programs that use fastq, imported by tests alone: leases in memory, on a board whose time can be moved."""

from fastq.leases.memory import LeaseBoard, MemoryLease

__all__ = ["LeaseBoard", "MemoryLease"]
