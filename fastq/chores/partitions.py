"""Partitions: make the archive's partitions of the days to come, and drop those that are old enough.

A chore of the schema's leader, around fastq/partitions.py. A day is dropped when the longest retention is over
(FASTQ_ARCHIVE_DAYS, or a longer rule of FASTQ_KEEP); what must go earlier is pruned row by row (prune.py). What is that old
in the default partition, where jobs land whose day has none, is deleted by the batch.

DDL cannot carry the fence, so each transaction takes it first and keeps it: nobody else becomes the leader before it has ended.
Should this process be frozen in between, the server ends the transaction (idle_in_transaction_session_timeout) before
the lease runs out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastq import partitions
from fastq.events import emit
from fastq.retention import Retention

if TYPE_CHECKING:
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

    def start(self, site: Site) -> None:
        """Need nothing: a day without a partition is stored in the default one."""

    def run(self, site: Site) -> float:
        """Make and drop what is due, and delete a batch from the default partition."""
        days = Retention.parse(site.config.keep).whole_days(site.config.archive_days)
        frozen = max(1, int(site.config.lease_ttl / 2 * 1000))

        def hold() -> None:
            site.connection.execute(f"set local idle_in_transaction_session_timeout = {frozen}")
            site.write("lease_hold")

        site.changed += len(partitions.ensure_partitions(site.connection, hold=hold))
        for name in partitions.drop_old_partitions(site.connection, days, hold=hold):
            emit("archive.pruned", partition=name)
            site.changed += 1
        (deleted,) = site.write("archive_prune_default", days, BATCH)
        site.changed += deleted
        return NAP if deleted == BATCH else INTERVAL

    def end(self, site: Site, reason: str) -> None:
        """Leave nothing behind: each partition is one transaction."""
