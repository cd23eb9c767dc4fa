"""Export the jobs that fit a filter, some lines at a time: first those that live, then those that have ended.

An `Export` belongs to the caller, who asks it for the next lines until there are none, in his thread or event loop; it is a few
numbers and a page of ids, however many jobs there are. Each `Asking` is some short statements: no transaction and no snapshot
lasts as long as the export.

Living jobs come by their ids, the oldest first, so that an import keeps their order. They are looked at in windows of ids, each
of LOOK rows at most: a window with more is made narrower, one with few makes the next wider. Finished ones come by a walk
(admin/search/walks.py), the last that ended first, but those alone that had ended when the export began.

Invariant: a job that is there from the beginning to the end, and fits, comes exactly once. One that ends meanwhile comes as it is
when its turn comes; one that is retried by hand meanwhile may be missing. It deliberately opens no args.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from fastq.admin.exports import exported
from fastq.admin.search import routes, terms
from fastq.admin.search.cursors import ENDED, Place
from fastq.admin.search.job_filter import JobFilter
from fastq.admin.search.walks import SAID, walk
from fastq.admin.session import Ask
from fastq.errors import DatabaseUnavailable
from fastq.jobs.job import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fastq.admin.session import Asking

LOOK = 2_000
"""Living jobs that one statement looks at, at most: some milliseconds."""

FEW, WIDER = 4, 4
"""A window with less than a quarter of LOOK makes the next one four times as wide; one with more than LOOK is made narrower."""

PAGE, PATIENCE = 1_000, 5.0
"""Finished jobs that are found before they are read, and the seconds after which fewer will do."""

CHUNK = 100
"""Jobs that one statement reads with their args, a megabyte each at most."""

TRIES = 5
"""Looks without an answer in time, one after the other, before the export gives up: somebody holds a lock on a table, say."""


class Export:
    """One export."""

    def __init__(self, which: JobFilter | str) -> None:
        self.jobs = 0  # that were given out
        self._wanted = JobFilter.of(which)
        self._now: datetime | None = None  # the database's, when it began
        self._stored = ""
        self._low = self._high = 0  # the living jobs between these ids are to be looked at
        self._width = LOOK
        self._place: Place | None = None  # among the finished jobs; None: there are no more
        self._found: deque[tuple[int, str | None, datetime | None]] = deque()  # ids, and the addresses and ends of finished jobs
        self._ended = False
        self._tries = 0

    def more(self) -> Asking[list[str]]:
        """Return the next lines; none when all were returned."""
        if self._now is None:
            return (yield from self._begin())
        while not self._found and (self._low < self._high or self._place is not None):
            yield from self._look_at_living() if self._low < self._high else self._look_at_finished()
        if self._found:
            some = [self._found.popleft() for _ in range(min(CHUNK, len(self._found)))]
            lines = yield from self._read(some)
            self.jobs += len(lines)
            return lines or (yield from self.more())
        if self._ended:
            return []
        self._ended = True
        return [exported.end(self.jobs)]

    def _begin(self) -> Asking[list[str]]:
        [(now, newest)] = yield Ask("search_begin")
        [(source, database)] = yield Ask("export_source")
        self._now, self._stored = now, self._wanted.stored(now)
        bounds = routes.bounds_of(self._wanted, now)
        high = min(bounds.high, int(newest))
        if bounds.living:
            self._low, self._high = bounds.low, high
        if bounds.ended:
            self._place = Place(ENDED, high, None, high, now)
        return [exported.head(source, database, str(self._wanted), now)]

    def _look_at_living(self) -> Asking[None]:
        """Look at the next window of ids."""
        high = min(self._low + self._width, self._high)
        window = (self._low, high, True, False, LOOK, EARLIEST, LATEST, terms.LARGEST, LOOK)
        rows = yield Ask("job_search", (self._stored, *window), bounded=True)
        self._count(answered=bool(rows))
        if not rows:
            self._width = max(self._width // WIDER, 1)
            return
        looked = int(rows[0][0])
        if looked >= LOOK and high - self._low > LOOK:
            self._width = max((high - self._low) // WIDER, LOOK)
            return
        self._found.extend((int(row[SAID + 1]), None, None) for row in reversed(rows) if row[SAID + 1] is not None)
        self._low = high
        if looked * FEW < LOOK:
            self._width *= WIDER

    def _look_at_finished(self) -> Asking[None]:
        before = self._place
        looked = yield from walk(self._wanted, before, PAGE, PATIENCE, ended_by=self._now, one_leg=True)
        self._count(answered=looked.place != before)
        self._found.extend((each.job.id, each.address, each.job.finalized_at) for each in looked.found)
        self._place = looked.place

    def _count(self, *, answered: bool) -> None:
        self._tries = 0 if answered else self._tries + 1
        if self._tries >= TRIES:
            raise DatabaseUnavailable(f"the export got no answer in time, {TRIES} times: is a table locked? begin it once more")

    def _read(self, some: Sequence[tuple[int, str | None, datetime | None]]) -> Asking[list[str]]:
        """Read the jobs that were found; those that have moved between the tables since then at their other place."""
        rows = yield from _rows(some)
        lost = [job for job, _, _ in some if job not in rows]
        if lost:
            told = ",".join(map(str, lost))
            again = yield Ask("job_search_ids", (self._stored, told, True, True, len(lost)))
            rows |= yield from _rows([(int(row[1]), row[0], row[12]) for row in again])
        return [exported.written(rows[job]) for job, _, _ in some if job in rows]


def _rows(some: Sequence[tuple[int, str | None, datetime | None]]) -> Asking[dict[int, Sequence[Any]]]:
    """Return the rows of jobs by their ids."""
    if not some:
        return {}
    living = ",".join(str(job) for job, address, _ in some if address is None)
    finished = [(job, address, at) for job, address, at in some if address is not None and at is not None]
    ends = [at for _, _, at in finished] or [EARLIEST]
    ids = ",".join(str(job) for job, _, _ in finished)
    places = ";".join(address for _, address, _ in finished)
    rows = yield Ask("job_export", (living, ids, places, min(ends), max(ends)))
    return {int(row[0]): row for row in rows}
