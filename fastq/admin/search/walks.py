"""Walk through the jobs, newest first, a bounded look at a time, and find those that fit a filter.

Run by the thread or event loop that asks for a page (pages.py), as an `Asking` (admin/session.py): so the commands, both clients
and the leader's operations take the same way. A `Walk` belongs to the call that makes it; between two calls a place (cursors.py)
is all that is known.

A walk has legs (routes.py chooses them). On each of them a statement looks at so many rows and no more: the newest living ones
below an id; the finished ones of a window of time, which is shortened while it has more than that; the living and finished ones
of a few thousand ids. A look takes some 0.1 s at most, whatever the filter asks for: how much it is to look at follows the time
that the last one took. So no statement runs into a time limit, and where one does all the same, the walk ends there. When the
caller's patience is over, the walk ends at a place, and goes on from there another time.

Invariant: a job that is there from the first page to the last, and fits, comes exactly once; but beyond the newest ids (TOGETHER)
a job that ends meanwhile may come twice. It deliberately counts nothing and sorts nothing that it has not looked at.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from fastq.admin.jobs import JobRow, row_of
from fastq.admin.search import routes, terms
from fastq.admin.search.cursors import ALL, CHOSEN, ENDED, LIVING, Place
from fastq.admin.session import Ask
from fastq.jobs.job import EARLIEST, LATEST

if TYPE_CHECKING:
    from fastq.admin.search.job_filter import JobFilter
    from fastq.admin.search.routes import Bounds
    from fastq.admin.session import Asking

FEWEST, FIRST, MOST = 500, 2_000, 50_000
"""Rows that one look reads: at least, at first, and at most. 50,000 small ones take some 50 ms."""

QUICK, SLOW = 0.05, 0.2
"""Seconds of a look: after a quicker one the next is twice as large, after a slower one half as large."""

FIXED, LASTING = 1.5, 0.5
"""A look that takes up to so many times as long as the quickest one takes that time for something else than its rows: for pages
of the day that have no summary yet, which each look reads. Then the next one is larger, up to so many seconds of a look."""

SHORT, LONG = timedelta(seconds=5), timedelta(days=400)
"""The window of time of the first look at finished jobs; and that from which on the next one has no beginning."""

EMPTIER, SHORTER = 4, 8
"""How many times as long the next window is, if this one had less than a quarter of the rows of a look; and how many times as
short, if it had more rows than that."""

SAID = 4
"""Columns of job_search.sql before those of a job."""

INSTANT = timedelta(microseconds=1)
"""The unit in which times are stored: all finished jobs of a window of one are read, however many a statement has ended at
once."""

SETTLED = timedelta(minutes=5)
"""By how much the order of ids and that in which jobs were enqueued may differ: a transaction takes both at nearly the same
moment."""

CHUNK, SPREAD = 500, 5_000
"""Jobs that one statement looks up by their ids; finished ones lie within so many ids, which one look at the block ranges
finds."""


class Found(NamedTuple):
    """A job that fits, its address in the archive (None if it lives), and the place behind it."""

    job: JobRow
    address: str | None
    behind: Place


class Looked(NamedTuple):
    """The jobs of a walk that fit, newest first, and the place that it has come to; None: the end."""

    found: list[Found]
    place: Place | None
    until: datetime
    rows: int


class Pace:
    """How much the next look reads: so many rows, or a window of time. A walk that goes on at once keeps it."""

    def __init__(self) -> None:
        self.look = FIRST
        self._least = float("inf")  # seconds of the quickest look lately
        self.span: timedelta | None = SHORT  # of finished jobs; None: the window has no beginning

    def took(self, seconds: float, rows: int | None) -> None:
        """Choose the size of the next look by the time that one took, and its rows; None: it ran into a limit of time."""
        if rows is not None:
            self._least = min(seconds, self._least * 1.1)
        if seconds < max(QUICK, min(FIXED * self._least, LASTING)):
            self.look = min(self.look * 2, MOST)
        elif seconds > SLOW and (rows is None or (seconds > 2 * self._least and 2 * rows >= self.look)):
            self.look = max(self.look // 2, FEWEST)  # so many rows were the reason


def walk(
    wanted: JobFilter,
    place: Place | None,
    limit: int,
    patience: float,
    *,
    ended_by: datetime | None = None,
    one_leg: bool = False,
    pace: Pace | None = None,
) -> Asking[Looked]:
    """Go on from a place, or begin, until so many jobs fit, time is over or nothing is left.

    With `ended_by` finished jobs that ended later are left out; with `one_leg` it ends with the leg, too.
    """
    give_up = time.monotonic() + patience
    if place is None:
        [(now, newest)] = yield Ask("search_begin")
        bounds = routes.bounds_of(wanted, now)
        place = routes.begun(wanted, bounds, now, int(newest))
        chosen = yield from routes.chosen(wanted, bounds, now)
        if chosen is not None:
            place = place.moved(leg=CHOSEN)
    else:
        bounds = routes.bounds_of(wanted, place.now)
        chosen = (yield from routes.chosen(wanted, bounds, place.now)) if place.leg == CHOSEN else None
        if place.leg == CHOSEN and chosen is None:  # they have become too many
            place = place.moved(leg=LIVING, top=place.id)
    if ended_by is not None:
        bounds = bounds._replace(ended_to=ended_by if bounds.ended_to is None else min(ended_by, bounds.ended_to))
    walker = Walk(wanted, bounds, chosen or [], limit, wanted.stored(place.now), pace or Pace())
    at: Place | None = place
    while at is not None and walker.left and not walker.stuck:
        at = yield from walker.step(at)
        if time.monotonic() > give_up or (one_leg and at is not None and at.leg != place.leg):
            break
    found = [each for each in walker.found if ended_by is None or (each.job.finalized_at or ended_by) <= ended_by]
    return Looked(found, at, walker.until or place.now, walker.rows)


class Walk:
    """The looks of one call, and what they have found."""

    def __init__(self, wanted: JobFilter, bounds: Bounds, chosen: list[int], limit: int, stored: str, pace: Pace) -> None:
        self.found: list[Found] = []
        self.until: datetime | None = None
        self.rows = 0  # looked at
        self.stuck = False  # a look ran into a time limit all the same: somebody has locked a table, or the disk is slow
        self._wanted = wanted
        self._bounds = bounds
        self._chosen = chosen
        self._limit = limit
        self._stored = stored
        self._pace = pace
        self._place: Place | None = None  # of the present step

    @property
    def left(self) -> int:
        """Return how many more jobs are wanted."""
        return self._limit - len(self.found)

    def step(self, place: Place) -> Asking[Place | None]:
        """Look once; return the place behind it, None at the end."""
        self._place = place
        steps = {CHOSEN: self._among, ALL: self._together, LIVING: self._living, ENDED: self._ended}
        return (yield from steps[place.leg](place))

    def _together(self, place: Place) -> Asking[Place | None]:
        """Look at the living and finished jobs of the next ids."""
        low = max(place.id - self._pace.look, place.top)
        _, _, enqueued, _ = yield from self._search(low, place.id, living=True, ended=True, look=None)
        if self.stuck:
            return place.moved(leg=LIVING, top=place.id)
        self.rows += max(place.id - low, 0)
        if not self.left:
            return self.found[-1].behind
        self.until = enqueued or self.until
        return place.moved(id=low, leg=ALL if low > place.top else LIVING)

    def _living(self, place: Place) -> Asking[Place | None]:
        """Look at the next living jobs below an id."""
        if not self._bounds.living or place.id <= self._bounds.low:
            return self._behind(place)
        looked, low, enqueued, _ = yield from self._search(self._bounds.low, place.id, living=True, look=self._pace.look)
        if self.stuck:
            return place
        self.rows += looked
        if not self.left:
            return self.found[-1].behind
        self.until = enqueued or self.until
        since = self._bounds.created_from
        older = since is not None and enqueued is not None and enqueued < since - SETTLED
        return self._behind(place) if older or low <= self._bounds.low else place.moved(id=low)

    def _behind(self, place: Place) -> Place | None:
        """Return the place behind the living jobs."""
        return place.moved(leg=ENDED, at=None) if self._bounds.ended and place.top > self._bounds.low else None

    def _ended(self, place: Place) -> Asking[Place | None]:
        """Look at the next finished jobs before a time."""
        at, first = place.at, self._bounds.ended_from
        if at is None:
            [(now, _)] = yield Ask("search_begin")
            at = now if self._bounds.ended_to is None else min(now, self._bounds.ended_to)
            return place.moved(at=at, id=terms.LARGEST)
        since = first if self._pace.span is None else at - self._pace.span if first is None else max(at - self._pace.span, first)
        look = None if self._pace.span is not None and self._pace.span <= INSTANT else self._pace.look
        window = (since, at, place.id)
        _, _, _, crowd = yield from self._search(self._bounds.low, place.top, ended=True, look=look, window=window)
        if self.stuck:
            return place
        if look is not None and crowd > look:
            self._pace.span = max(((at - since) if since is not None else LONG) / SHORTER, INSTANT)
            return place
        self.rows += crowd
        if not self.left:
            return self.found[-1].behind
        if crowd * EMPTIER < self._pace.look:
            self._pace.span = self._pace.span * EMPTIER if self._pace.span is not None and self._pace.span < LONG else None
        if since is None or (first is not None and since <= first):
            return None
        self.until = since
        return place.moved(at=since, id=0)

    def _among(self, place: Place) -> Asking[Place | None]:
        """Look at the next of those jobs that another index has told."""
        ids = [number for number in self._chosen if number <= place.id]
        if not ids:
            return None
        chunk = [number for number in ids[:CHUNK] if not self._bounds.ended or number > ids[0] - SPREAD]
        told = ",".join(map(str, chunk))
        rows = yield Ask("job_search_ids", (self._stored, told, self._bounds.living, self._bounds.ended, self.left))
        self._take(rows)
        self.rows += len(chunk)
        if not self.left:
            return self.found[-1].behind
        return place.moved(id=chunk[-1] - 1) if len(chunk) < len(ids) else None

    def _search(
        self,
        low: int,
        high: int,
        *,
        living: bool = False,
        ended: bool = False,
        look: int | None,
        window: tuple[datetime | None, datetime | None, int] = (None, None, terms.LARGEST),
    ) -> Asking[tuple[int, int, datetime | None, int]]:
        """Look at a window, and take the jobs that fit; return what job_search.sql says of it."""
        since, until, below = window
        times = (since or EARLIEST, until or LATEST, below)
        began = time.monotonic()
        rows = yield Ask("job_search", (self._stored, low, high, living, ended, look, *times, self.left), bounded=True)
        self._pace.took(
            time.monotonic() - began, None if not rows else high - low if look is None else max(rows[0][0], rows[0][3])
        )
        self.stuck = not rows
        if self.stuck:
            return 0, high, None, 0
        looked, reached, enqueued, crowd = rows[0][:SAID]
        self._take([row[SAID:] for row in rows if row[SAID + 1] is not None])
        return int(looked), int(reached), enqueued, int(crowd)

    def _take(self, rows: Sequence[Sequence[Any]]) -> None:
        place = self._place
        assert place is not None  # a step is under way
        for address, *row in rows:
            job = row_of(row)
            behind = place.moved(at=job.finalized_at, id=job.id) if place.leg == ENDED else place.moved(id=job.id - 1)
            self.found.append(Found(job, address, behind))
