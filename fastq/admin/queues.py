"""List queues with their counts, show why jobs wait for a worker, pause and resume a queue, for an operator.

Runs in the caller's thread, such as the main thread of `fastq queues` and `fastq run`, over a connection of the caller's
(session.py), and keeps nothing. Counts stop at COUNT, so that a queue of millions is listed as fast as another. Pauses of all
sorts are the matter of pauses.py. It deliberately knows nothing of single jobs: those are jobs.py's and changes.py's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastq.admin import pauses
from fastq.args.versions.names import told

if TYPE_CHECKING:
    from datetime import datetime

    from fastq.postgres.db import Connection

COUNT = 100_000
"""Where counting stops, for each queue: about 50 ms of reading an index. A count that has reached it means 'or more'."""

TOTAL = 1_000_000
"""Where counting stops over all queues or kinds: some seconds of reading an index."""

GLANCE, GLANCE_TOTAL = 10_000, 12_000
"""The same for what people leave open, and look at again every few seconds. Each job that is counted has its state on a page of
its own, three microseconds where the server has to fetch that from the system."""

KINDS = 1_000
"""Kinds with jobs that wait for a worker are listed up to this number: more than an app has, and some milliseconds."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue; the counts stop at `counted_to`, and `more` says which of them did."""

    name: str
    paused_at: datetime | None  # by its own pause, or by that of everything
    paused_until: datetime | None
    pause_reason: str | None
    available: int
    claimed: int  # in state running: they execute, or wait in their process for an executor; the table does not tell which
    scheduled: int
    retryable: int
    waiting: int
    processes: int  # that work it and live
    counted_to: int = COUNT

    @property
    def unworked(self) -> bool:
        """Tell whether the queue has jobs to run and no process that works it."""
        return not self.processes and bool(self.available or self.scheduled or self.retryable or self.waiting)

    @property
    def more(self) -> frozenset[str]:
        """Return the counts that have stopped: those of available and claimed jobs stop together, and so do some others."""
        together = (("available", "claimed"), ("scheduled", "retryable"), ("waiting",))
        return frozenset(
            name for names in together if sum(getattr(self, one) for one in names) >= self.counted_to for name in names
        )

    @property
    def state(self) -> str:
        """Say in a word whether its jobs go on."""
        return "paused" if self.paused_at else "unworked" if self.unworked else "open"


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A kind of a queue with jobs that wait for a worker; their count stops at COUNT."""

    queue: str
    kind: str  # with the version of the args, where the jobs have one: mail@3
    jobs: int
    known: bool  # a living process works the queue and has a worker for the kind
    paused_at: datetime | None = None  # the kind is
    paused_until: datetime | None = None
    reason: str | None = None
    counted_to: int = COUNT

    @property
    def why(self) -> str:
        """Say why they wait."""
        if self.paused_at is not None:
            return str(pauses.PauseRow("kind", self.kind, "", self.paused_at, self.paused_until, self.reason))
        if self.known:
            return f"a living process has a worker for {told(self.kind)}, and takes it when it has room"
        return f"no living process of queue '{self.queue}' has a worker for {told(self.kind)}"


def list_queues(connection: Connection, count: int = COUNT, total: int = TOTAL) -> list[QueueRow]:
    """Return the queues by name: those with living jobs, with a process that works them, or that were ever paused.

    Counts stop at `count`, and where there are many queues before that, so that `total` jobs are counted over all of them.
    """
    return [QueueRow(*row) for row in connection.run("queue_list", count, total)]


def list_waiting(connection: Connection, count: int = COUNT, total: int = TOTAL) -> list[WaitingRow]:
    """Return the kinds with jobs that wait for a worker, by queue; counts stop as those of queues do, the list at KINDS."""
    return [WaitingRow(*row) for row in connection.run("kind_waiting", count, KINDS, total)]


def pause_queue(connection: Connection, queue: str, until: Any = None, reason: str = "") -> datetime:
    """Stop claims from a queue, on all hosts at their next claim; return since when it is paused."""
    return pauses.pause(connection, {"queue": queue}, until, reason)


def resume_queue(connection: Connection, queue: str) -> bool:
    """Let a queue go on; False if it was not paused."""
    return pauses.resume(connection, {"queue": queue})
