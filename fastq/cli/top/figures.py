"""Look at the database once: read the values that a view shows, and those that each view has on top.

Run by the watcher's thread, or by the main thread for `--once`, over one connection. A `Looker` belongs to that thread, and keeps
the values that change slowly between two looks: statistics, which worker processes write every few seconds, and notices. The
`Figures` of a look are plain values that nobody changes.

Invariant: each statement is bounded: counts stop, lists have a limit, statistics come from their own table.
It deliberately judges nothing: rows, words and notices are those of fastq/admin/.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from fastq import admin
from fastq.admin import statistics
from fastq.admin.queues import GLANCE, GLANCE_TOTAL
from fastq.admin.running import list_notices, list_processes, list_running
from fastq.cli.top import narrowed, onejob

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fastq.admin.dead.lately import Lately
    from fastq.admin.running import Notice, ProcessRow, RunningRow
    from fastq.admin.search import JobFilter, JobPage
    from fastq.admin.statistics import StatRow, Times
    from fastq.postgres.db import Connection

STATISTICS, NOTICES = 5.0, 10.0
"""Seconds for which statistics are shown again, as worker processes write theirs so often; and notices, of seven statements."""

MINUTES = 15
"""Minutes of which the failures are drawn: as many as a person remembers a deploy. A guess."""

PERCENTILES = 300.0
"""Seconds from which percentiles are taken: fewer attempts are timed in a minute than a 95th percentile takes."""

RUNNING = 500
"""Running jobs that are read, those that began first: five screens of a large terminal."""

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Rates:
    """The statistics of a queue: `rate`, and `failing` by the minute, of the last 1 to 2 minutes; `failures` of each minute."""

    rate: float = 0.0
    failing: float = 0.0
    failures: tuple[int, ...] = (0,) * MINUTES
    wait: Times | None = None
    run: Times | None = None


class QueueFigures(NamedTuple):
    """A queue and its statistics."""

    queue: admin.QueueRow
    rates: Rates


class Wanted(NamedTuple):
    """The values that are asked for: those of a view, or of a job; `views` has several for `--once --json`."""

    views: tuple[str, ...]
    narrow: JobFilter
    job: int | None = None
    asked: int = 0  # how often the stack of that job was asked for anew


@dataclass(frozen=True, slots=True)
class Figures:
    """The values of one look. A list is empty where its view was not asked for."""

    wanted: Wanted
    at: datetime
    queues: list[QueueFigures]
    processes: list[ProcessRow]
    running: list[RunningRow]
    jobs: JobPage | None
    failures: Lately | None
    notices: list[Notice]
    job: onejob.OneJob | None


class Looker:
    """One look after the other."""

    def __init__(self) -> None:
        self._rates: dict[str, Rates] = {}
        self._notices: list[Notice] = []
        self._rated = self._noticed = -float("inf")  # monotonic times
        self._job: tuple[int, onejob.OneJob] | None = None  # the job that was read last, and how often its stack was asked for

    def look(self, connection: Connection, wanted: Wanted) -> Figures:
        """Read the values that are asked for."""
        queues = admin.list_queues(connection, GLANCE, GLANCE_TOTAL)
        now = time.monotonic()
        if now - self._rated >= STATISTICS:
            self._rates, self._rated = read_rates(connection), now
        if now - self._noticed >= NOTICES:
            self._notices, self._noticed = list_notices(connection, queues), now
        views, narrow = wanted.views, wanted.narrow
        runs = "running" in views or "processes" in views
        found = Figures(
            wanted,
            datetime.now(UTC),
            [QueueFigures(queue, self._rates.get(queue.name, Rates())) for queue in queues],
            list_processes(connection),
            list_running(connection, RUNNING) if runs else [],
            None,
            None,
            self._notices,
            None,
        )
        kept = narrowed.keep(found, narrow)
        return replace(
            kept,
            jobs=narrowed.jobs(connection, narrow) if "jobs" in views else None,
            failures=narrowed.failures(connection, narrow) if "failures" in views else None,
            job=self._one(connection, wanted),
        )

    def _one(self, connection: Connection, wanted: Wanted) -> onejob.OneJob | None:
        """Read the job that is shown alone; its stack once, unless it was asked for anew."""
        if wanted.job is None:
            self._job = None
            return None
        before = self._job[1] if self._job is not None and self._job[0] == wanted.asked else None
        self._job = (wanted.asked, onejob.read_job(connection, wanted.job, before))
        return self._job[1]

    def forget(self) -> None:
        """Read all of it the next time: something was changed, or the connection is a new one."""
        self._rated = self._noticed = -float("inf")


def read_rates(connection: Connection) -> dict[str, Rates]:
    """Read the statistics of each queue."""
    whole = statistics.stats(connection, PERCENTILES, by="queue")
    return rates_of(whole, statistics.stats(connection, MINUTES * 60.0, by="queue", step="minute"))


def rates_of(whole: Sequence[StatRow], minutes: Iterable[StatRow]) -> dict[str, Rates]:
    """Make rates of the statistics of the last minutes, in one and by the minute."""
    rows = [*minutes]
    ends = [row.at + timedelta(seconds=row.seconds) for row in (*whole, *rows)]
    if not ends:
        return {}
    end = max(ends)  # the database's time of this look, where there are percentiles
    present = end.replace(second=0, microsecond=0)
    first = present - (MINUTES - 1) * MINUTE
    length = (end - present).total_seconds() + MINUTE.total_seconds()
    times = {row.queue: row for row in whole}
    found = {}
    for name in {row.queue or "" for row in (*whole, *rows)}:
        own = [row for row in rows if row.queue == name and row.at >= first]
        late = [row for row in own if row.at >= present - MINUTE]
        failures = [0] * MINUTES
        for row in own:
            failures[(row.at - first) // MINUTE] += row.failed
        told = times.get(name)
        found[name] = Rates(
            sum(row.ended for row in late) / length,
            60.0 * sum(row.failed for row in late) / length,
            tuple(failures),
            told.wait if told else None,
            told.run if told else None,
        )
    return found
