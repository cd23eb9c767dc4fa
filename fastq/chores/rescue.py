"""Rescue: give back the jobs of processes that are gone with their host or supervisor.

A chore of a domain's leader; it needs no code of the jobs' workers. (A process that dies alone is its supervisor's business.)
It looks when the next process row would expire, and every two thirds of FASTQ_PROCESS_TTL at least, so a host's jobs are back
within the ttl and a second. If one has expired it walks through the jobs that are available or running, a window at a time,
and gives back those whose process is gone. It walks now and then in any case: for jobs of processes that nobody knows. A new
leader does not begin with that: the backlog may be long.

What becomes of a job: the attempt counts, and the last one ends it as discarded, with the reason among its errors. Which of
the jobs had started is not known any more. A job with max_attempts = 1 might have, so it is not run again: whoever allows one
attempt asks for at most one, and `fastq jobs retry` gives another. A job whose cancellation was asked for ends as cancelled.

Invariants:
- Each job is looked at again when it is changed: same claim, same attempt, still running, its process still without a sign of
  life.
- Only queues of the domain, and those that a process of the domain worked: the one that has expired may have been the last.
- The rows of expired processes stay, so that other domains see them too; `processes` deletes them later.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from fastq import db
from fastq.chores.batch import Batch, Size, too_slow
from fastq.events import emit
from fastq.outcome import error_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.chores.chore import Site

BATCH = 1_000
"""Jobs given back by one statement: each is a delete and an insert, or an update with a new error; some 40 ms."""

WINDOW = 20_000
"""Jobs looked at by one statement: some 30 ms; a backlog of a million takes fifty."""

SMALLEST_WINDOW = 100
"""Below that it is not the window that takes long."""

ALL = 60.0
"""Seconds until all running jobs are looked at though no process has expired: for those of processes that nobody knows.
A guess: it is for what hardly happens, and the look reads every job that is available or running."""

AGAIN = 2.0
"""Seconds until the next look when some jobs were locked or just set aside: who was completing them has done so then."""

MARGIN = 0.05
"""Seconds after the moment at which a process expires: a beat that was on its way has arrived."""

NAP = 0.005
"""Seconds between batches and windows, for the others; a guess."""

BEGIN = ("", 0, 0)
"""The place before the first job."""

GONE = "the process that had it is gone: its host no longer gives a sign of life; whether the job had started is not known"


class Rescue:
    """The chore."""

    name = "rescue"

    def __init__(self, all_in: float = ALL) -> None:  # seconds until the first walk that nobody's end has caused
        self._batch = Batch(self.name, BATCH)
        self._window = Size(self.name, WINDOW, SMALLEST_WINDOW)
        self._place: tuple[str, int, int] | None = None  # where the walk is; None: none is under way
        self._stranded: Sequence[tuple[Any, ...]] = ()  # read and not written yet: id, claim, attempt
        self._expired: frozenset[int] = frozenset()  # processes, when the walk began
        self._done: frozenset[int] = frozenset()  # expired processes that a whole walk has dealt with
        self._all_at = time.monotonic() + all_in  # of the next walk whatever has expired
        self._found = self._again = self._ended = 0  # of the present walk

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Look at the processes, or at one window of jobs, or give back one batch."""
        if self._place is None and not self._stranded:
            return self._look(site)
        if not self._stranded:
            self._walk(site)
        if self._stranded:
            self._rescue(site)
        if self._place is None and not self._stranded:
            self._finish()
        return NAP

    def end(self, site: Site, reason: str) -> None:
        """Leave the rest to the next leader."""

    def _look(self, site: Site) -> float:
        """Ask for expired processes; begin a walk if one is new."""
        expired, next_in = site.connection.run_one("process_expired")
        self._expired = frozenset(expired)
        self._done &= self._expired  # one that came back may go again
        if self._expired - self._done or time.monotonic() >= self._all_at:
            self._place, self._found, self._again, self._ended = BEGIN, 0, 0, 0
            return NAP
        often = min(site.config.process_ttl * 2 / 3, self._all_at - time.monotonic())
        return often if next_in is None else min(max(next_in, 0.0) + MARGIN, often)

    def _walk(self, site: Site) -> None:
        """Read what is stranded in the next window."""
        window, domain = self._window.now, site.config.leader_domain
        try:
            ids, claims, attempts, looked, *place = site.connection.run_one(
                "job_stranded", site.queues, domain, *(self._place or BEGIN), window, site.config.process_ttl
            )
        except db.Error as error:
            if not too_slow(error) or window <= SMALLEST_WINDOW:
                raise
            self._window.shrink(window, error)
            return
        self._window.succeeded(window)
        aside = set(self._batch.aside())
        self._stranded = [row for row in zip(ids, claims, attempts, strict=True) if row[0] not in aside]
        self._found += len(self._stranded)
        self._place = (place[0], place[1], place[2]) if looked == window else None

    def _rescue(self, site: Site) -> None:
        def put(rows: Sequence[tuple[Any, ...]]) -> None:
            ids, claims, attempts = (list(column) for column in zip(*rows, strict=True))
            again, ended, _ = site.write(
                "job_rescue",
                site.queues,
                site.config.leader_domain,
                ids,
                claims,
                attempts,
                site.config.channel,
                error_json(GONE),
            )
            self._again += again
            self._ended += ended
            site.changed += again + ended

        self._stranded = self._batch.write(self._stranded, put)

    def _finish(self) -> None:
        """Tell what the walk brought, and when the next one is due."""
        self._done = self._expired
        self._all_at = time.monotonic() + (ALL if self._again + self._ended == self._found else AGAIN)
        if self._again or self._ended:
            emit("jobs.rescued", level=logging.WARNING, processes=len(self._expired), again=self._again, ended=self._ended)
