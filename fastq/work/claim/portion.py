"""How much the next claim of a queue may bring: by count, by bytes, and without the rows that cannot be claimed.

The producer's own, one for each queue. A claim that fails is tried again with half the jobs, down to one, and the size is doubled
again while claims that filled it go well. A single job that the database refuses to change (a trigger of the user's raises, its
args are too large for an answer) is set aside for a while, so that the others behind it are claimed.

Large args are bounded by the statement itself, which takes no more of them than the budget says (budget.py). The mean of the last
claim only spares it looking at thousands of rows of which it can take a few.
It deliberately talks to no database.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fastq.events import emit
from fastq.postgres import db, sqlstate
from fastq.size import Aside, Size
from fastq.work.cursor.claims import Bound
from fastq.work.shared.budget import share

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.work.shared.budget import Budget

ASIDE = 60.0
"""Seconds until a job that was refused is tried again: the figure of the chores, for the same reason."""

MAX_ASIDE = 1_000
"""Jobs set aside at most: each row that a claim walks over is compared with all of them."""

MAX_TOLD = 10
"""Jobs aside up to which each is reported: with more of them the cause is probably not the jobs, and the log shows enough."""


class Portion:
    """The size of one queue's claims."""

    def __init__(self, config: Config) -> None:
        self._size = Size(config.batch)  # jobs
        self.mean_bytes = 0.0  # of the last claim's args, by job
        self._bytes = share(config.prefetch_bytes)
        self._aside: Aside[int] = Aside(MAX_ASIDE)  # ids of jobs
        self._suspect = 0  # the job that stood first when a claim of one was refused last

    @property
    def whole(self) -> bool:
        """Tell whether nothing has gone wrong lately."""
        return self._size.whole

    def limit(self, wanted: int) -> int:
        """Return how many of the wanted jobs a claim may bring."""
        if self.mean_bytes:
            wanted = min(wanted, max(1, int(self._bytes / self.mean_bytes)))
        return min(wanted, self._size.now)

    def bound(self, budget: Budget) -> Bound:
        """Return the bound of the next claim."""
        return Bound(budget.next(), budget.counted_from, self._aside.keys())

    def brought(self, count: int, size: int) -> None:
        """Note how many jobs a claim has brought, of so many bytes."""
        self.mean_bytes = size / count
        self._size.succeeded(count)

    def failed(self, tried: int, queue: str, error: BaseException) -> None:
        """Take half as many next time."""
        if self.whole and (sqlstate.row_refused(error) or sqlstate.too_slow(error)):  # a lost connection has an event elsewhere
            emit("claim.shrunk", level=logging.WARNING, queue=queue, tried=tried, error=db.first_line(error))
        self._size.shrink(tried)

    def set_aside(self, job: int, kind: str, error: BaseException) -> bool:
        """Set aside a job that stood first when a claim of one was refused, if it did so before; tell whether that was done."""
        if job != self._suspect:
            self._suspect = job  # another host may have held up the one that was first
            return False
        self._aside.put([job], ASIDE)
        if len(self._aside) <= MAX_TOLD:
            emit("claim.job_skipped", level=logging.ERROR, id=job, kind=kind, again=ASIDE, error=db.first_line(error))
        return True
