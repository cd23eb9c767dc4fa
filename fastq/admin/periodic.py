"""List, pause, resume, run and delete periodic jobs, for an operator.

Runs in the caller's thread, which is the main thread of `fastq periodic`, over a connection of the caller's (session.py), values
in and values out; it keeps nothing. Each change is one statement with a notification to the leader; should that be lost, the
leader finds the change within seconds.

It deliberately changes no definition: definitions are the application's, and its next start would write them again. So a
definition that a living process declares is not deleted either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastq.errors import FastqError
from fastq.jobs.periodic import check_name
from fastq.jobs.schedule import schedule_of
from fastq.postgres import hints

if TYPE_CHECKING:
    from datetime import datetime

    from fastq.postgres.db import Connection


@dataclass(frozen=True, slots=True)
class PeriodicRow:
    """One periodic job as the database has it."""

    name: str
    schedule: str
    tz: str
    queue: str
    kind: str
    missed: str
    backfill: int
    last_tick: datetime | None
    next_tick: datetime | None
    paused_at: datetime | None
    definitions: int  # how many different ones living processes declare; 0: none does, so it does not tick
    error: str | None
    led: bool  # somebody leads a domain that maintains the queue; else nobody makes it tick

    @property
    def state(self) -> str:
        """Say in a word whether it ticks."""
        if self.paused_at or not self.definitions:
            return "paused" if self.paused_at else "undeclared"
        return "on" if self.led else "no leader"


@dataclass(frozen=True, slots=True)
class TickRow:
    """One tick that was enqueued; `state` is None if its job is kept no longer."""

    tick: datetime
    job: int
    state: str | None
    attempted_at: datetime | None
    finalized_at: datetime | None


def list_ticks(connection: Connection, name: str, limit: int = 20) -> list[TickRow]:
    """Return the last ticks of a periodic job, newest first."""
    return [TickRow(*row) for row in connection.run("periodic_history", check_name(name), limit)]


def list_periodic(connection: Connection) -> list[PeriodicRow]:
    """Return all periodic jobs by name."""
    return [PeriodicRow(*row) for row in connection.run("periodic_list", None)]


def find_periodic(connection: Connection, name: str) -> PeriodicRow:
    """Return one, or raise FastqError that names the nearest way to find out."""
    return PeriodicRow(*_first(connection.run("periodic_list", check_name(name)), name))


def pause_periodic(connection: Connection, name: str) -> datetime:
    """Drop the ticks of a periodic job from now on; return since when."""
    check_name(name)
    paused = hints.sending(connection, lambda channel: connection.run("periodic_pause", name, channel))
    paused_at: datetime = _first(paused, name)[0]
    return paused_at


def resume_periodic(connection: Connection, name: str) -> datetime | None:
    """Let a paused one go on; return its next tick, None if it was not paused."""
    row = find_periodic(connection, name)
    next_tick = schedule_of(row.schedule, row.tz).next_after(connection.run_one("clock_after", 0.0)[0])
    resumed = hints.sending(
        connection, lambda channel: connection.run("periodic_resume", name, row.schedule, row.tz, next_tick, channel)
    )
    return next_tick if resumed else None


def run_periodic(connection: Connection, name: str) -> int:
    """Enqueue the job of a periodic job now; return its id."""
    check_name(name)
    return int(_first(hints.sending(connection, lambda channel: connection.run("periodic_run", name, channel)), name)[0])


def delete_periodic(connection: Connection, name: str) -> int:
    """Delete one that no living process declares; return how many rows of its ticks went with it."""
    find_periodic(connection, name)
    deleted = connection.run("periodic_delete", name)
    if not deleted:
        raise FastqError(
            f"periodic job '{name}' is declared by a living process, which would write it again: take it out of the code first; "
            f"fastq periodic pause {name} stops its ticks"
        )
    return int(deleted[0][0])


def _first(rows: list[tuple[Any, ...]], name: str) -> tuple[Any, ...]:
    if not rows:
        raise FastqError(f"there is no periodic job '{name}'; fastq periodic list shows them")
    return rows[0]
