"""Partitions: make the archive's partitions of the days to come, and drop those that are old enough.

A chore of the schema's leader, run in its track's thread of the supervisor that leads, around fastq/schema/partitions.py. A day
is dropped when the longest retention is over (FASTQ_ARCHIVE_DAYS, or a longer rule of FASTQ_KEEP); rows that must go earlier
are pruned one by one (prune.py). Before that the discarded jobs of such days are taken off the list of them by the batch, and
counted in the same statement, so that their numbers are kept. The default partition has the jobs of days without a partition:
those of the same age are deleted by the batch. Each of these steps is done even if another fails.

Rows that fastq/schema/partitions.py set aside (job_archive_rest) come back by some pages a run. When somebody reads the archive
for long, so that a lock does not come, the chore rests before it tries again: each try may hold up completions for as long as it
waits. Pages that are refused because of a row (a user's trigger raises) come back one by one, and such a page row by row; a row
that is refused then stays aside until it is as old as a day that is dropped. It is tried again after ANEW, and by the next
leader.

The term sets `site.changed` to zero before each run; this chore adds to it. DDL cannot carry the fence, so each transaction
takes it first and keeps it: nobody else becomes the leader before it has ended. Should this process be frozen in between, the
server ends the transaction (idle_in_transaction_session_timeout) before the lease runs out.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from fastq.events import emit
from fastq.jobs.retention import Retention
from fastq.lead.term.batch import MAX_BAD, ChoreSize
from fastq.lead.term.chore import block_ranges
from fastq.postgres import db, sqlstate
from fastq.schema import partitions

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.lead.term.chore import Site

INTERVAL = 3_600.0
"""Seconds between looks at the partitions, which are made three days ahead."""

BATCH = 10_000
"""Rows that one statement deletes from the default partition: some 50 ms, which should disturb nobody; a guess."""

REST = 30.0
"""Seconds before a lock that did not come in time is tried for again: at partitions.LOCK_TIMEOUT for each of the days to be
made, completions may wait for some percent of the time. A guess."""

ANEW = 86_400.0
"""Seconds before rows that were refused on their way back are tried again: that goes through all pages. A guess."""

NAP = 0.005
"""Seconds between batches, for the others; a guess."""


class Partitions:
    """The chore. Its attributes are its own, in its track's thread; a new term makes a new one."""

    name = "partitions"

    def __init__(self) -> None:
        self._size = ChoreSize(self.name, BATCH)
        self._pages = ChoreSize(self.name, partitions.BLOCKS)
        self._dead = ChoreSize(self.name, BATCH)
        self._page = 0  # of job_archive_rest, to go on from
        self._singly = 0  # pages below this one come back one at a time: a batch with them was refused
        self._refused = 0  # rows of earlier pages that stay, until they have all been reported
        self._hopeful = True  # of the last page that came back row by row, at least one was taken
        self._anew_at = 0.0  # monotonic time from which the pages are gone through again
        self._behind = False  # days that are to be dropped have discarded jobs that are not counted
        self._days_at = 0.0  # monotonic time from which days are dropped and made again

    def start(self, site: Site) -> None:
        """Need nothing: a day without a partition is stored in the default one."""

    def run(self, site: Site) -> float:
        """Drop and make partitions, delete a batch from the default one, and bring back a batch of the rows set aside."""
        days = Retention.parse(site.config.keep).whole_days(site.config.archive_days)
        frozen = max(1, int(site.config.lease_ttl / 2 * 1000))
        failures: list[db.Error] = []
        pauses = [INTERVAL]

        def hold() -> None:
            site.connection.execute(f"set local idle_in_transaction_session_timeout = {frozen}")
            site.write("lease_hold")

        now = time.monotonic()
        days_due = now >= self._days_at  # not with each batch: their locks may be waited for
        for step in (self._count, self._drop, self._prune, self._make, self._bring_back):
            if (step in (self._drop, self._make) and not days_due) or (step in (self._drop, self._prune) and self._behind):
                continue
            try:
                pauses.append(step(site, days, hold))
            except db.Error as error:
                if not site.connection.usable:
                    raise
                failures.append(error)
        if failures:
            raise failures[0]
        if days_due:
            self._days_at = now + REST
        return REST if REST in pauses else min(pauses)

    def end(self, site: Site, reason: str) -> None:
        """Leave nothing behind: each partition is one transaction."""

    def _count(self, site: Site, days: int, _: Callable[[], None]) -> float:
        """Count a batch of the discarded jobs of old days, which leave the list of them."""
        size, was_behind, self._behind = self._dead.now, self._behind, False
        try:
            deleted, _ = site.write("dead_prune", days, size)
        except db.Error as error:
            if not sqlstate.too_slow(error) or size == 1:
                raise  # the days are dropped all the same: a number for people must not fill the disk
            self._behind = True
            self._dead.too_slow(size, error)
            return NAP
        self._dead.succeeded(deleted)
        site.changed += deleted
        self._behind = deleted == size
        return NAP if self._behind else REST if was_behind else INTERVAL

    def _drop(self, site: Site, days: int, hold: Callable[[], None]) -> float:
        for name in partitions.drop_old_partitions(site.connection, days, hold=hold):
            emit("archive.pruned", partition=name)
            site.changed += 1
        return INTERVAL

    def _make(self, site: Site, _: int, hold: Callable[[], None]) -> float:
        site.changed += len(partitions.ensure_partitions(site.connection, hold=hold))
        return INTERVAL

    def _prune(self, site: Site, days: int, _: Callable[[], None]) -> float:
        """Delete a batch of the old rows in the default partition."""
        size = self._size.now
        try:
            with block_ranges(site):
                (deleted,) = site.write("archive_prune_default", days, size)
        except db.Error as error:
            if not sqlstate.too_slow(error) or size == 1:
                raise
            self._size.too_slow(size, error)
            return NAP
        self._size.succeeded(deleted)
        site.changed += deleted
        return NAP if deleted == size else INTERVAL

    def _bring_back(self, site: Site, days: int, hold: Callable[[], None]) -> float:
        """Bring back some pages of job_archive_rest, or drop it when all are back."""
        pages = 1 if self._page < self._singly else self._pages.now
        aside = partitions.pages_aside(site.connection)
        if aside is None:
            self._page = 0
            return INTERVAL
        if self._page == 0:
            self._singly, self._refused, self._hopeful, self._anew_at = 0, 0, True, time.monotonic() + ANEW
        try:
            if self._page >= aside:
                return self._end_of_pages(site, days, hold)
            if not partitions.bring_back(site.connection, days, (self._page, 0), (self._page + pages, 0), hold):
                return REST
        except db.Error as error:
            if sqlstate.row_refused(error) and self._page < aside:
                self._singly = max(self._singly, self._page + pages)
                return NAP if pages > 1 else self._bring_rows_back(site, days, hold)
            if not sqlstate.too_slow(error) or pages == 1:
                raise
            self._pages.too_slow(pages, error)
            return NAP
        self._pages.succeeded(pages)
        self._page += pages
        return NAP

    def _bring_rows_back(self, site: Site, days: int, hold: Callable[[], None]) -> float:
        """Bring back a page row by row, report the rows that are refused, and go on behind it."""
        rows = partitions.rows_aside(site.connection, self._page)
        passed = 0
        for tried, (number, row) in enumerate(rows):
            if not passed and not self._hopeful and tried == MAX_BAD:
                break  # all are refused, it seems
            try:
                if not partitions.bring_back(site.connection, days, (self._page, number), (self._page, number + 1), hold):
                    return REST
                passed += 1
            except db.Error as error:
                if not sqlstate.row_refused(error):
                    raise
                if self._refused + tried - passed < MAX_BAD:
                    emit("chore.row_skipped", level=logging.WARNING, chore=self.name, id=row, error=db.first_line(error))
        self._refused += len(rows) - passed
        self._hopeful = passed > 0
        self._page += 1
        return NAP

    def _end_of_pages(self, site: Site, days: int, hold: Callable[[], None]) -> float:
        """Drop job_archive_rest, unless some of its rows stay, or go through it again."""
        gone = partitions.drop_aside(site.connection, days, hold)
        if gone is None:
            return REST
        if not gone and self._refused > MAX_BAD:
            emit("chore.rows_skipped", level=logging.ERROR, chore=self.name, rows=self._refused, error="kept in job_archive_rest")
            self._refused = 0
        if gone or time.monotonic() >= self._anew_at:
            self._page = 0
        return INTERVAL
