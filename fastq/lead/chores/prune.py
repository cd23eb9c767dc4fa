"""Prune: delete finished jobs that a rule of `FASTQ_KEEP` keeps shorter than their day's partition.

A chore of a domain's leader, run in its track's thread of the supervisor that leads, for its queues; without rules it has
nothing to do. For each share of jobs that are kept equally long a walk goes through the archive, oldest first, in windows of
time. A window is read by the block ranges, the jobs found in it are deleted by their row addresses (ctid), and the walk goes on
behind it: so it never reads jobs that it has pruned. At the first jobs that are not old enough it rests, and goes on from there
as time passes. Jobs may come back to days that it has passed (from job_archive_rest: partitions.py). So when all walks rest,
they begin anew once a day. A job that stays is thus read once per term and day.

A window is as long as it takes to hold a fraction of LIMIT jobs: it is halved when there are more, or when reading takes too
long, and doubled when there are few. It is halved as well when it is full of jobs that cannot be deleted, since others may lie
behind them; the look leaves out jobs that are set aside (batch.py), but there may be more. It never spans two days: a day is
one partition, and a row address is unique only there.

Invariants: a deletion re-checks id, address, time and queue. A job that cannot be deleted is reported, passed over, and goes
with its partition.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fastq.jobs.retention import Retention
from fastq.lead.term.batch import Batch
from fastq.lead.term.chore import block_ranges
from fastq.postgres import db, sqlstate

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fastq.jobs.retention import Share
    from fastq.lead.term.chore import Site

LIMIT = 5_000
"""Finished jobs that one window brings at most, deleted by one statement: some 30 ms."""

STEP = 3_600.0
"""Seconds of a walk's first window; it finds its own length soon."""

LONGEST_STEP, SHORTEST_STEP = 86_400.0, 1e-6
"""Seconds: windows end with their day; times are stored to the microsecond."""

REST = 60.0
"""Seconds between looks when all walks have come to the present: a job that is kept for days may stay a minute longer."""

ANEW = 86_400.0
"""Seconds between the beginnings of the walks, at least: jobs that come back to days that they have passed wait that long. Rules
are in days, and beginning anew reads all jobs that other rules keep longer; a guess."""

NAP = 0.005
"""Seconds between windows, for the others; a guess."""


class Walk:
    """The way of one share through the archive, made, used and written by the chore that it belongs to, in its thread."""

    def __init__(self, share: Share) -> None:
        self.share = share
        self.resting = False
        self._low: datetime | None = None  # begin of the next window; None: before the oldest partition
        self._step = STEP
        self._old: Sequence[tuple[Any, ...]] = ()  # read and not deleted yet: id, row address, queue
        self._window: tuple[datetime, datetime] | None = None  # that they were read from
        self._full = False
        self._pruned = 0  # in the present window
        self._last = False  # it ends where jobs are not old enough

    def go(self, site: Site, batch: Batch, oldest: int) -> None:
        """Read the next window, or delete a batch of its jobs."""
        if not self._old and not self._read(site, batch.aside(), oldest):
            return
        assert self._window is not None  # it was read
        low, high = self._window

        def put(rows: Sequence[tuple[Any, ...]]) -> None:
            ids, addresses, _ = (list(column) for column in zip(*rows, strict=True))
            pruned, _ = site.write("archive_prune", site.queues, low, high, ids, addresses)
            self._pruned += pruned
            site.changed += pruned

        if self._full and self._step > SHORTEST_STEP and not self._pruned and batch.crowded:
            self._old = ()  # more bad rows than can be set aside: take a shorter window first, which can be read to its end
        if self._old:
            self._old = batch.write(self._old, put)
        if not self._old:
            self._go_on(low, high)

    def _read(self, site: Site, aside: list[int], oldest: int) -> bool:
        rules = (self.share.days, self.share.queue, list(self.share.others), list(self.share.states))
        try:
            with block_ranges(site):
                ids, addresses, queues, low, high, last = site.connection.run_one(
                    "archive_old", site.queues, self._low, oldest, self._step, *rules, LIMIT, aside
                )
        except db.Error as error:
            if not sqlstate.too_slow(error) or self._step <= 1.0:
                raise
            self._step /= 4
            return False
        if high <= low:
            self.resting = True
            return False
        self._old, self._window, self._last = list(zip(ids, addresses, queues, strict=True)), (low, high), last
        self._full, self._pruned = len(ids) == LIMIT, 0
        return True

    def _go_on(self, low: datetime, high: datetime) -> None:
        """Stay in a window that has more, else go behind it."""
        if self._full and (self._pruned or self._step > SHORTEST_STEP):
            self._low, self._step = low, max(self._step / 2, SHORTEST_STEP)
            return
        self._low, self.resting = high, self._last
        if self._pruned < LIMIT // 4:
            self._step = min(self._step * 2, LONGEST_STEP)


class Prune:
    """The chore. Its attributes are its own, in its track's thread; a new term makes a new one."""

    name = "prune"

    def __init__(self) -> None:
        self._batch = Batch(self.name, LIMIT, group=lambda row: row[2])
        self._walks: list[Walk] | None = None
        self._queues: list[str] | None = None  # that the walks are for
        self._oldest = 0  # days: before that there are no partitions
        self._anew_at = 0.0  # monotonic time from which they begin anew

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Take one step of the walk whose turn it is."""
        if self._walks is None or site.queues != self._queues:
            self._walks = self._begin(site)  # a queue that came to the domain has a past
        for walk in self._walks:
            if not walk.resting:
                self._walks = [
                    *(other for other in self._walks if other is not walk),
                    walk,
                ]  # first: a walk that fails is not the next
                walk.go(site, self._batch, self._oldest)
                return NAP
        for walk in self._walks:
            walk.resting = False
        if time.monotonic() >= self._anew_at:
            self._walks = None
        return REST

    def end(self, site: Site, reason: str) -> None:
        """Leave the rest to the next leader."""

    def _begin(self, site: Site) -> list[Walk]:
        """Make the walks that the rules ask for."""
        retention = Retention.parse(site.config.keep)
        self._oldest = retention.whole_days(site.config.archive_days) + 1
        self._queues = site.queues
        self._anew_at = time.monotonic() + ANEW
        return [
            Walk(share)
            for share in retention.shares(site.config.archive_days)
            if share.queue is None or not site.queues or share.queue in site.queues
        ]
