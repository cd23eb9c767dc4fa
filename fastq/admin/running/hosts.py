"""List the worker processes and the jobs that run in them, for an operator.

Runs in the caller's thread, over a connection of the caller's (admin/session.py), values in and values out; it keeps nothing. The
rows of processes are written by the beats of their supervisors, with the figures that these have measured
(host/vitals/gauges.py), and those of jobs by claims. A job in state running executes, or waits in its process for an executor:
the table does not tell which.

It deliberately asks no process for anything: whereabouts.py does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.admin.session import Ask, answered

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fastq.admin.session import Asking
    from fastq.postgres.db import Connection

FIRST = 2_000
"""Jobs at the head of each queue and priority that are looked at for running ones: more than the processes of ten hosts run in
one queue, and some milliseconds."""

TOTAL = 6_000
"""Jobs that are looked at over all queues: some 10 ms, a page of the table for each."""

PROCESSES = 5_000
"""Processes that are listed at most: those of some hundred hosts."""


class ProcessVitals(msgspec.Struct, frozen=True):
    """The figures of one worker process at its last beat; None where the system does not tell."""

    rss: int | None = None  # bytes of memory that it has
    pss: int | None = None  # the same, where pages that processes share count by share; measured once a minute
    threads: int | None = None
    cpu: float | None = None  # seconds of processor time so far
    load: float | None = None  # the share of one core that it has taken since the beat before
    executors: int = 0  # that it has, of all its queues
    busy: int = 0  # those of them that have a job, a bundle as one
    held: int = 0  # jobs that it has: waiting for an executor, executing, or not written yet

    @property
    def resting(self) -> int:
        """Count the executors that have no job."""
        return max(0, self.executors - self.busy)


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One worker process, as its supervisor has announced it."""

    id: int
    host: str
    pid: int
    supervisor: str  # host:pid:random
    queues: list[str]
    domain: str
    started_at: datetime
    expires_at: datetime
    lives: bool
    kinds: list[str] | None  # that it has workers for; None: its program announces none, so it may have any
    vitals: ProcessVitals | None  # None: it has not been measured yet, or its program is older than that


@dataclass(frozen=True, slots=True)
class RunningRow:
    """One job that runs; `process` is the number of its process, and `host` is None if that has no row any more."""

    id: int
    kind: str
    queue: str
    attempt: int
    max_attempts: int
    tags: list[str] | None
    attempted_at: datetime | None
    cancel_requested: bool
    process: int | None
    host: str | None
    pid: int | None
    fraction: float | None
    text: str | None


def list_processes(connection: Connection) -> list[ProcessRow]:
    """Return the worker processes by host."""
    return answered(connection, all_processes())


def all_processes() -> Asking[list[ProcessRow]]:
    """Ask for the worker processes, by host."""
    rows = yield Ask("process_list", (PROCESSES,))
    return [_process(row) for row in rows]


def _process(row: Sequence[Any]) -> ProcessRow:
    values = [*row]
    values[-1] = _vitals(values[-1])
    return ProcessRow(*values)


def _vitals(told: object) -> ProcessVitals | None:
    """Read the figures as the row has them; some drivers return JSON as text."""
    if told is None:
        return None
    return msgspec.json.decode(told, type=ProcessVitals) if isinstance(told, str) else msgspec.convert(told, ProcessVitals)


def list_running(connection: Connection, limit: int = 50) -> list[RunningRow]:
    """Return the jobs that run, longest first."""
    return [RunningRow(*row) for row in connection.run("job_running", FIRST, limit, TOTAL)]
