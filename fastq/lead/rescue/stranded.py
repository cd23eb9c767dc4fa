"""Walks through the running jobs, a window at a time, for those of processes that are gone.

Used by rescue.py alone, in its track's thread of the supervisor that leads; a walk belongs to one rescue.

There are two ways through the table `job`. In the order of claims, by the index of the jobs that are available or running, a
walk reads no job that waits for its time or at a gate. But dead rows that an old snapshot keeps alive lie at the beginning of
that index, and a walk reads each of them before it comes to the first living row: from some millions on, no time limit suffices.
Then the walk goes by the pages of the table, and a window takes the same time whether its rows live or not.

Invariant: a walk looks at each job that runs from its beginning to its end, if the row of the job stays where it is. A row that
is changed meanwhile may move behind the walk: the next walk finds it.
It deliberately changes nothing: rescue.py gives the jobs back, by a statement that looks again.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from fastq.events import emit
from fastq.lead.term.batch import ChoreSize
from fastq.postgres import db, sqlstate

if TYPE_CHECKING:
    from collections.abc import Collection

    from fastq.lead.term.chore import Site

    Rows = list[tuple[Any, ...]]

WINDOW = 20_000
"""Jobs looked at by one statement in the order of claims: some 30 ms; a backlog of a million takes fifty."""

PAGES = 4_000
"""Pages looked at by one statement: 32 MB, some 50 ms when they are in memory."""

FEWEST_PAGES = 100
"""Pages of the shortest window: if that takes too long as well, the number of pages is not the reason."""

DETOUR = 600.0
"""Seconds for which walks begin by pages after one in the order of claims took too long: an old snapshot lasts, and each try
costs as much of the server as the time limit allows. A guess."""

BEGIN = ("", 0, 0)
"""The position before the first job."""


class Walks:
    """One walk after the other. The chore `rescue` makes it, begins walks and takes their windows."""

    def __init__(self, chore: str) -> None:
        self._chore = chore
        self._pages = ChoreSize(chore, PAGES, FEWEST_PAGES)
        self._paged_until = 0.0  # monotonic time
        self.under_way = False  # a walk has begun and not come to the end
        self._position: tuple[str, int, int] = BEGIN  # of the last job, in the order of claims
        self._page: int | None = None  # the next one; None: the walk goes in the order of claims

    def begin(self) -> None:
        """Begin a walk."""
        self.under_way, self._position = True, BEGIN
        self._page = 0 if time.monotonic() < self._paged_until else None

    def window(self, site: Site, expired: Collection[int]) -> Rows:
        """Read the next window of the walk; return the stranded jobs in it: id, claim, attempt."""
        mine = (site.queues, site.config.leader_domain)
        gone = (site.config.process_ttl, list(expired))
        try:
            return self._in_order(site, mine, gone) if self._page is None else self._paged(site, self._page, mine, gone)
        except db.Error as error:
            if not sqlstate.too_slow(error):
                raise
            self._too_slow(error)
            return []

    def _in_order(self, site: Site, mine: tuple[object, ...], gone: tuple[object, ...]) -> Rows:
        *found, looked, queue, priority, seq = site.connection.run_one("job_stranded", *mine, *self._position, WINDOW, *gone)
        self._position, self.under_way = (queue, priority, seq), looked == WINDOW
        return list(zip(*found, strict=True))

    def _paged(self, site: Site, page: int, mine: tuple[object, ...], gone: tuple[object, ...]) -> Rows:
        many = self._pages.now
        *found, pages = site.connection.run_one("job_stranded_paged", *mine, f"({page},0)", f"({page + many},0)", *gone)
        self._pages.succeeded(many)
        self._page, self.under_way = page + many, page + many < pages
        return list(zip(*found, strict=True))

    def _too_slow(self, error: db.Error) -> None:
        """Go on by the pages of the table, or with fewer of them."""
        if self._page is None:
            self._page, self._paged_until = 0, time.monotonic() + DETOUR
            emit("rescue.detour", level=logging.WARNING, seconds=DETOUR, error=db.first_line(error))
        elif self._pages.now > FEWEST_PAGES:
            self._pages.too_slow(self._pages.now, error)
        else:
            raise error
