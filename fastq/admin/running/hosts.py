"""List the worker processes and the jobs that run in them, for an operator.

Runs in the caller's thread, over a connection of the caller's (admin/session.py), values in and values out; it keeps nothing. The
rows of processes are written by the beats of their supervisors, those of jobs by claims. A job in state running executes, or
waits in its process for an executor: the table does not tell which.

It deliberately knows nothing of memory and threads: no table has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from fastq.postgres.db import Connection

FIRST = 2_000
"""Jobs at the head of each queue and priority that are looked at for running ones: more than the processes of ten hosts run in
one queue, and some milliseconds."""

TOTAL = 6_000
"""Jobs that are looked at over all queues: some 10 ms, a page of the table for each."""

PROCESSES = 5_000
"""Processes that are listed at most: those of some hundred hosts."""


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
    return [ProcessRow(*row) for row in connection.run("process_list", PROCESSES)]


def list_running(connection: Connection, limit: int = 50) -> list[RunningRow]:
    """Return the jobs that run, longest first."""
    return [RunningRow(*row) for row in connection.run("job_running", FIRST, limit, TOTAL)]
