"""Enqueue the ticks of periodic jobs that are due by the database's clock, by each definition's policy for late ones.

A chore of a domain's leader, run in its track's thread of the supervisor that leads, for the schedules of its queues. All that
it needs is in the database. So it ticks for definitions that its own program does not know, but only for those that a living
process declares.

Invariants:
- A tick and its job are one statement, and a tick is unique: two leaders at once enqueue it once.
- If a tick cannot be enqueued, its schedule keeps it, with the reason on record, and does not hold up the others.

It finds the schedule that spoils a batch by itself, not by batch.py: there are few, each is reported by name with the reason in
its row, and it is tried again after seconds.

It deliberately knows nothing that another leader would not. On `self` it keeps only the times of the next attempts, the size of
a batch, and the names that it has reported already.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from fastq.errors import OptionError
from fastq.events import emit
from fastq.jobs.periodic import due_ticks
from fastq.jobs.schedule import schedule_of
from fastq.postgres import db, hints, sqlstate
from fastq.size import Aside, Size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fastq.lead.term.chore import Site

BATCH = 100
"""Schedules in one statement at most: each has one tick as a rule, and many are due at midnight together."""

TICKS = 2_000
"""Ticks in one statement, about: twice as many as one schedule may make up for."""

BLOCKED = 0.1
"""Seconds until schedules are tried again that somebody has locked."""

LOOK = 2.0
"""Seconds at most between looks while there are periodic jobs: a process that declares one does not announce itself."""

IDLE = 30.0
"""Seconds at most between looks while there is no periodic job; the first one is announced by a notification."""

AGAIN = 10.0
"""Seconds until a schedule is tried again after its tick could not be enqueued: a guess; somebody has to repair it."""

KEPT = 7 * 86_400.0
"""Seconds that the rows of ticks are kept, to look at: the default of the archive, which has their jobs."""

PRUNED, PRUNE_INTERVAL = 2_000, 600.0
"""Rows of ticks to delete at once for each schedule, and seconds between: three times as many as one tick a second leaves."""

COMPARE_INTERVAL = 10.0
"""Seconds between looks for definitions that differ: two beats, since that is how they become known. And for a clock set back."""


class Scheduled(NamedTuple):
    """A schedule that is due or lacks a next tick: the columns of periodic_due.sql behind its first three."""

    name: str
    schedule: str
    tz: str
    missed: str
    backfill: int
    hash: str
    next_tick: datetime | None
    first: bool  # the pending tick is the run at its start


class Due(NamedTuple):
    """The ticks to enqueue for a schedule, and the time of its next tick."""

    name: str
    hash: str
    ticks: Sequence[datetime]
    next: datetime
    late: bool  # ticks were missed, or made up for


class Periodic:
    """The chore; its statements are periodic_*.sql.

    Its attributes are its own, in its track's thread; a new term makes a new one.
    """

    name = "periodic"

    def __init__(self) -> None:
        self._size = Size(BATCH)  # schedules
        self._aside: Aside[str] = Aside()  # names of the schedules that failed
        self._differing: dict[str, list[str]] = {}
        self._compare_at = self._prune_at = 0.0  # monotonic

    def start(self, site: Site) -> None:
        """Nothing has to be there."""

    def end(self, site: Site, reason: str) -> None:
        """Nothing is left behind."""

    def run(self, site: Site) -> float:
        """Enqueue the ticks that are due, a batch of schedules; return when the next tick is."""
        now = time.monotonic()
        rows = site.connection.run("periodic_due", site.queues, self._size.now, self._aside.keys())
        clock, wait, known = rows[0][:3]
        found: list[Due] = []
        for row in rows if rows[0][3] is not None else []:
            due = self._due(site, clock, Scheduled._make(row[3:]))
            found += [due] if due is not None else []
            if sum(len(each.ticks) for each in found) >= TICKS:
                break
        if found:
            # There may be more, and the next one may have come due; locked schedules are left for a moment.
            return 0.0 if self._enqueue(site, found) else BLOCKED
        self._look_around(site, now, known)
        limit = LOOK if known or site.config.poll_only else IDLE
        return min(each for each in (limit, wait, self._aside.wait()) if each is not None)

    def _due(self, site: Site, clock: datetime, row: Scheduled) -> Due | None:
        """Compute the ticks of a schedule; None if it cannot be read here: a zone that this host does not know."""
        try:
            when, policy, ticks = schedule_of(row.schedule, row.tz), (row.missed, row.backfill), []
            if row.next_tick is not None:
                ticks = due_ticks(when, policy, row.next_tick, clock, first=row.first)
            after = when.next_after(clock)
        except OptionError as error:
            self._set_aside(site, row.name, row.hash, str(error))
            return None
        return Due(row.name, row.hash, ticks, after, row.next_tick is not None and ticks != [row.next_tick])

    def _enqueue(self, site: Site, due: Sequence[Due]) -> bool:
        """Write a batch; if it fails it is halved until the failing schedule is alone. Tell whether any row was written."""
        ticks = [(each.name, tick) for each in due for tick in each.ticks]
        try:
            columns = (
                [each.name for each in due],
                [each.hash for each in due],
                [each.next for each in due],
                [name for name, _ in ticks],
                [tick for _, tick in ticks],
            )
            jobs, moved, _ = hints.sending(site.connection, lambda channel: site.write("periodic_enqueue", *columns, channel))
        except db.Error as error:
            if not (sqlstate.row_refused(error) or sqlstate.too_slow(error)):
                raise  # a full disk, a server that only reads: no schedule's fault
            return self._failed(site, due, error)
        self._size.succeeded(self._size.now)  # a few schedules as well as many: they are few in most tables
        site.changed += jobs
        for each in due:
            if each.late and each.name in moved:
                emit("periodic.missed", level=logging.WARNING, name=each.name, enqueued=len(each.ticks))
        return bool(moved)

    def _failed(self, site: Site, due: Sequence[Due], error: db.Error) -> bool:
        if sqlstate.too_slow(error):
            self._size.shrink(len(due))
            if len(due) > 1:
                return False  # fewer at once, with the next run
        if len(due) == 1:
            self._set_aside(site, due[0].name, due[0].hash, db.first_line(error))
            return True
        half = len(due) // 2
        done = self._enqueue(site, due[:half])
        return self._enqueue(site, due[half:]) or done

    def _set_aside(self, site: Site, name: str, hash_: str, reason: str) -> None:
        """Leave a schedule alone for a while; its tick stays pending."""
        self._aside.put([name], AGAIN)
        emit("periodic.failed", level=logging.ERROR, name=name, error=reason, again=AGAIN)
        site.write("periodic_failed", name, hash_, reason)

    def _look_around(self, site: Site, now: float, known: int) -> None:
        """Do less urgent work: report definitions that differ, follow a clock that was set back, delete old ticks."""
        if known and now >= self._compare_at:
            self._compare_at = now + COMPARE_INTERVAL
            differing = {name: sorted(hashes) for name, hashes in site.connection.run("periodic_differs", site.queues)}
            for name, hashes in differing.items():
                if self._differing.get(name) != hashes:
                    emit("periodic.differs", level=logging.WARNING, name=name, hashes=hashes)
            self._differing = differing
            if rewound := site.write("periodic_rewind", site.queues)[0]:
                emit("periodic.rewound", level=logging.WARNING, names=sorted(rewound))
        if known and now >= self._prune_at:
            pruned = site.write("periodic_prune", site.queues, KEPT, PRUNED)[0]
            site.changed += pruned
            self._prune_at = now + (PRUNE_INTERVAL if pruned < PRUNED else 1.0)
