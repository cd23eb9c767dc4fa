"""Partitions: make the archive's partitions of the days to come, and drop those that are old enough.

A chore of the schema's leader, around fastq/partitions.py. A day is dropped when the longest retention is over
(FASTQ_ARCHIVE_DAYS, or a longer rule of FASTQ_KEEP); what must go earlier is pruned row by row (prune.py). What is that old
in the default partition, where jobs land whose day has none, is deleted by the batch. Each of these is done though another fails.

DDL cannot carry the fence, so each transaction takes it first and keeps it: nobody else becomes the leader before it has ended.
Should this process be frozen in between, the server ends the transaction (idle_in_transaction_session_timeout) before
the lease runs out.
"""

from __future__ import annotations

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

NAP = 0.005
"""Seconds between batches, for the others; a guess."""


class Partitions:
    """The chore."""

    name = "partitions"

    def __init__(self) -> None:
        self._size = Size(self.name, BATCH)
        self._pages = Size(self.name, partitions.BLOCKS)
        self._block: int | None = None  # page of what was set aside to go on from; None: nothing is known to be aside

    def start(self, site: Site) -> None:
        """Need nothing: a day without a partition is stored in the default one."""

    def run(self, site: Site) -> float:
        """Drop and make what is due, delete a batch from the default partition, and bring back a batch of what was set aside."""
        days = Retention.parse(site.config.keep).whole_days(site.config.archive_days)
        frozen = max(1, int(site.config.lease_ttl / 2 * 1000))
        failures: list[db.Error] = []
        more = False

        def hold() -> None:
            site.connection.execute(f"set local idle_in_transaction_session_timeout = {frozen}")
            site.write("lease_hold")

        for step in (self._drop, self._prune, self._make, self._bring_back):
            try:
                more |= step(site, days, hold)
            except db.Error as error:
                if not site.connection.usable:
                    raise
                failures.append(error)
        if failures:
            raise failures[0]
        return NAP if more else INTERVAL

    def end(self, site: Site, reason: str) -> None:
        """Leave nothing behind: each partition is one transaction."""

    def _drop(self, site: Site, days: int, hold: Callable[[], None]) -> bool:
        for name in partitions.drop_old_partitions(site.connection, days, hold=hold):
            emit("archive.pruned", partition=name)
            site.changed += 1
        return False

    def _make(self, site: Site, _: int, hold: Callable[[], None]) -> bool:
        site.changed += len(partitions.ensure_partitions(site.connection, hold=hold))
        return False

    def _prune(self, site: Site, days: int, _: Callable[[], None]) -> bool:
        """Delete a batch of what is old in the default partition; True if there may be more."""
        size = self._size.now
        try:
            with block_ranges(site):
                (deleted,) = site.write("archive_prune_default", days, size)
        except db.Error as error:
            if not too_slow(error) or size == 1:
                raise
            self._size.shrink(size, error)
            return True
        self._size.succeeded(deleted)
        site.changed += deleted
        return bool(deleted == size)

    def _bring_back(self, site: Site, days: int, hold: Callable[[], None]) -> bool:
        """Bring back some pages of what was set aside; True if there may be more."""
        pages = self._pages.now
        try:
            self._block = partitions.bring_back(site.connection, days, self._block or 0, pages, hold)
        except db.Error as error:
            if not too_slow(error) or pages == 1:
                raise
            self._pages.shrink(pages, error)
            return True
        self._pages.succeeded(pages)
        return self._block is not None
