"""Ask for statistics, and for how many jobs live: the questions, their checks, and the functions of an operator.

The functions run in the caller's thread over a connection of the caller's (admin/session.py), and keep nothing; the clients run
the same statements on their own sessions (enqueue/operate/). No job that has ended is counted here: worker processes have done
that (work/complete/tally.py). The count of living jobs stops at a limit.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from fastq.admin.session import Ask, answered
from fastq.admin.statistics.measured import Living, StatRow, rows_of
from fastq.args.faults import show
from fastq.args.options import MAX_DELAY
from fastq.errors import OptionError

if TYPE_CHECKING:
    from fastq.admin.session import Asking
    from fastq.postgres.db import Connection

By = Literal["queue", "kind"]
Step = Literal["minute", "hour", "day"]
Since = datetime | timedelta | float

HOUR = 3_600.0
"""Seconds to which statistics go back unless it is said."""

LIVING = 10_000
"""Where counting of living jobs stops, for each queue: some 5 ms of reading an index. More than a person tells apart."""

MOST_LIVING = 1_000_000
"""The highest limit: half a second for each queue."""

TOTAL = 30_000
"""Where counting stops over all queues, unless a caller's limit for one is higher. With 12 queues of 10 million jobs, of which
the server had read none lately, 10,000 of each took longer than the 10 s of a statement (python -m bench.scale commands)."""


def stats(
    connection: Connection,
    since: Since = HOUR,
    by: By | None = None,
    step: Step | None = None,
    *,
    queue: str | None = None,
    kind: str | None = None,
    times: bool = True,
) -> list[StatRow]:
    """Return the statistics, as `client.stats` does; without `times` the counts alone, which is quicker."""
    return answered(connection, what_was_counted(since, by, step, queue, kind, times=times))


def living(connection: Connection, limit: int = LIVING) -> list[Living]:
    """Count the living jobs of each queue, up to a limit."""
    return answered(connection, jobs_that_live(limit))


def what_was_counted(
    since: Since, by: By | None, step: Step | None, queue: str | None, kind: str | None, *, times: bool = True
) -> Asking[list[StatRow]]:
    """Read the statistics since a time, or of the last seconds."""
    grouped = _one_of("by", by, ("queue", "kind"), "all")
    span = _one_of("step", step, ("minute", "hour", "day"), "whole")
    rows = yield Ask("stat_read", (*_since(since), span, grouped, queue, kind, times))
    return rows_of(rows, grouped)


def jobs_that_live(limit: int) -> Asking[list[Living]]:
    """Count the living jobs of each queue."""
    if isinstance(limit, bool) or not 0 < limit <= MOST_LIVING:
        raise OptionError(f"limit {show(limit)}: expected a number of jobs from 1 to {MOST_LIVING}")
    return [Living(*row) for row in (yield Ask("stat_living", (limit, max(limit, TOTAL))))]


def _one_of(name: str, value: str | None, words: tuple[str, ...], without: str) -> str:
    if value is None:
        return without
    if value not in words:
        raise OptionError(f"{name} {show(value)}: expected {', '.join(map(repr, words))} or None")
    return value


def _since(since: object) -> tuple[float, str | None]:
    """Return so many seconds, and the time that comes before them if one was given."""
    if isinstance(since, datetime) and since.utcoffset() is not None:
        return HOUR, since.isoformat()
    seconds = since.total_seconds() if isinstance(since, timedelta) else since
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MAX_DELAY:
        raise OptionError(f"since {show(since)}: expected a time with a zone, a timedelta, or seconds from 0 to {MAX_DELAY:.0f}")
    return float(seconds), None
