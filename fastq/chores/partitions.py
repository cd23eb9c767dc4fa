"""Partitions: make the archive's partitions of the days to come, and drop those that are old enough.

A chore of the schema's leader, around fastq/partitions.py. A day is dropped when the longest retention is over
(FASTQ_ARCHIVE_DAYS, or a longer rule of FASTQ_KEEP); what must go earlier is pruned row by row (prune.py). What is that old
in the default partition, where jobs land whose day has none, is deleted by the batch. Each of these is done though another fails.

What partitions.py set aside comes back by some pages a run. When somebody reads the archive for long, so that a lock does not
come, the chore rests before it tries again: each try may hold up completions for as long as it waits.

DDL cannot carry the fence, so each transaction takes it first and keeps it: nobody else becomes the leader before it has ended.
Should this process be frozen in between, the server ends the transaction (idle_in_transaction_session_timeout) before
the lease runs out.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastq import db, partitions
from fastq.chores.batch import Size, too_slow
from fastq.chores.prune import block_ranges
from fastq.events import emit
from fastq.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.chores.chore import Site

INTERVAL = 3_600.0
"""Seconds between looks at the partitions, which are made three days ahead."""

BATCH = 10_000
"""Rows that one statement deletes from the default partition: some 50 ms, a guess at what disturbs nobody."""

REST = 30.0
"""Seconds before a lock that did not come in time is tried for again: at partitions.LOCK_TIMEOUT for each of the days to be
made, completions may wait for some percent of the time. A guess."""

NAP = 0.005
"""Seconds between batches, for the others; a guess."""


class Partitions:
    """The chore."""

    name = "partitions"

    def __init__(self) -> None:
        self._size = Size(self.name, BATCH)
        self._pages = Size(self.name, partitions.BLOCKS)
        self._page = 0  # of what was set aside, to go on from
        self._days_at = 0.0  # monotonic time from which days are dropped and made again

    def start(self, site: Site) -> None:
        """Need nothing: a day without a partition is stored in the default one."""

    def run(self, site: Site) -> float:
        """Drop and make what is due, delete a batch from the default partition, and bring back a batch of what was set aside."""
        days = Retention.parse(site.config.keep).whole_days(site.config.archive_days)
        frozen = max(1, int(site.config.lease_ttl / 2 * 1000))
        failures: list[db.Error] = []
        pauses = [INTERVAL]

        def hold() -> None:
            site.connection.execute(f"set local idle_in_transaction_session_timeout = {frozen}")
            site.write("lease_hold")

        now = time.monotonic()
        days_due = now >= self._days_at  # not with each batch: their locks may be waited for
        for step in (self._drop, self._prune, self._make, self._bring_back):
            if step in (self._drop, self._make) and not days_due:
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

    def _drop(self, site: Site, days: int, hold: Callable[[], None]) -> float:
        for name in partitions.drop_old_partitions(site.connection, days, hold=hold):
            emit("archive.pruned", partition=name)
            site.changed += 1
        return INTERVAL

    def _make(self, site: Site, _: int, hold: Callable[[], None]) -> float:
        site.changed += len(partitions.ensure_partitions(site.connection, hold=hold))
        return INTERVAL

    def _prune(self, site: Site, days: int, _: Callable[[], None]) -> float:
        """Delete a batch of what is old in the default partition."""
        size = self._size.now
        try:
            with block_ranges(site):
                (deleted,) = site.write("archive_prune_default", days, size)
        except db.Error as error:
            if not too_slow(error) or size == 1:
                raise
            self._size.shrink(size, error)
            return NAP
        self._size.succeeded(deleted)
        site.changed += deleted
        return NAP if deleted == size else INTERVAL

    def _bring_back(self, site: Site, days: int, hold: Callable[[], None]) -> float:
        """Bring back some pages of what was set aside, or drop it when all are back."""
        pages = self._pages.now
        aside = partitions.pages_aside(site.connection)
        if aside is None:
            self._page = 0
            return INTERVAL
        try:
            if self._page >= aside:
                gone = partitions.drop_aside(site.connection, days, hold)
                return REST if gone is None else INTERVAL
            if not partitions.bring_back(site.connection, days, (self._page, 0), (self._page + pages, 0), hold):
                return REST
        except db.Error as error:
            if not too_slow(error) or pages == 1:
                raise
            self._pages.shrink(pages, error)
            return NAP
        self._pages.succeeded(pages)
        self._page += pages
        return NAP
