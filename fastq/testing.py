"""Help for tests of programs that use fastq, imported by tests alone: leases in memory, transactions of jobs made by hand.

The leases are on a board with a clock to set.

Used in the threads of a test, which makes and owns the objects.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from fastq.enqueue.settings import Settings
from fastq.leases.memory import LeaseBoard, MemoryLease
from fastq.results import transacting
from fastq.work.effects.transaction import Transactions

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LeaseBoard", "MemoryLease", "transactions"]


@contextmanager
def transactions(url: str | None = None) -> Iterator[None]:
    """Let `job.transaction()` of a `Job.of(...)` work: it commits or rolls back your statements, and there is no job to end.

    `url`: the database for transactions without a connection of yours; otherwise that of FASTQ_DATABASE_URL.
    """
    with transacting.beginning_by(Transactions(Settings(url, None, None)).begin):
        yield
