"""Help for tests of programs that use fastq, imported by tests alone: leases in memory, and jobs made by hand.

The leases are on a board with a clock to set.

Used in the threads of a test, which makes and owns the objects.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from fastq.enqueue.settings import Settings
from fastq.leases.memory import LeaseBoard, MemoryLease
from fastq.results import transacting
from fastq.steps import through
from fastq.steps.remembered import Remembered
from fastq.work.effects.transaction import Transactions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

__all__ = ["LeaseBoard", "MemoryLease", "Remembered", "steps", "transactions"]


@contextmanager
def transactions(url: str | None = None) -> Iterator[None]:
    """Let `job.transaction()` of a `Job.of(...)` work: it commits or rolls back your statements, and there is no job to end.

    `url`: the database for transactions without a connection of yours; otherwise that of FASTQ_DATABASE_URL.
    """
    with transacting.beginning_by(Transactions(Settings(url, None, None)).begin):
        yield


@contextmanager
def steps(signals: Mapping[str, Any] | None = None) -> Iterator[Remembered]:
    """Have the jobs of a test share their records of steps, by their ids: a second `work(Job.of(...))` finds those of the first.

    `signals`: the values that `job.wait_for` finds, by name. What is given back says by `done(job_id)` which values a job has
    kept. No time passes: a sleep is over at once, and so is a wait with a timeout for a signal that is not given.
    """
    remembered = Remembered(signals)
    with through.using(remembered):
        yield remembered
