"""Census: count the jobs of each queue now and then, for the metrics of the host that leads.

A chore of the schema's leader, only where its supervisor answers a scraper (FASTQ_HEALTH): of fifty hosts one asks the database.
Run in its track's thread of the supervisor that leads, which writes `Counts`; the supervisor's main thread reads it.

Invariant: counts stop at COUNT in each queue, and queues are left out behind the first QUEUES, so neither a backlog nor thousands
of queues make it slow. It deliberately changes nothing and keeps no history: a scraper does.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from fastq.admin.queues import QueueRow
from fastq.events import emit
from fastq.postgres import db, sqlstate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.lead.term.chore import Site

INTERVAL = 15.0
"""Seconds between counts: how often scrapers come."""

DETOUR = 600.0
"""Seconds until the next count after one that took too long, as where an old snapshot keeps millions of dead rows: as `unworked`
waits."""

COUNT = 10_000
"""Where counting stops, for each queue: about 5 ms of reading an index. A count that has reached it means 'or more'."""

TOTAL = 1_000_000
"""Where counting stops over all queues: with more than a hundred of them, each count stops sooner."""

QUEUES = 1_000
"""Queues that are told: each is six lines of a page that a scraper reads every few seconds."""


class Counted(NamedTuple):
    """The counts of a moment, in monotonic time."""

    at: float
    queues: Sequence[QueueRow]


class Counts:
    """The newest counts of the leader in this supervisor; `newest` is replaced as a whole."""

    def __init__(self) -> None:
        self.newest: Counted | None = None  # None: this supervisor does not lead, or has not counted yet


class Census:
    """The chore."""

    name = "census"

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Count."""
        try:
            rows = site.connection.run("queue_list", COUNT, TOTAL)
        except db.Error as error:
            if not sqlstate.too_slow(error):
                raise
            emit("census.unseen", level=logging.WARNING, seconds=DETOUR, error=db.first_line(error))
            self._counts.newest = None
            return DETOUR
        self._counts.newest = Counted(time.monotonic(), [QueueRow(*row) for row in rows[:QUEUES]])
        return INTERVAL

    def end(self, site: Site, reason: str) -> None:
        """Have nothing counted: another host may lead."""
        del site, reason
        self._counts.newest = None
