"""Rescue: give back the jobs of processes that are gone with their host or supervisor.

A chore of a domain's leader, run in its track's thread of the supervisor that leads; it needs no code of the jobs' workers. (A
process that dies alone is its supervisor's business.) It looks when the next process row would expire, and every third of
FASTQ_PROCESS_TTL at least, so a host's jobs are back within the ttl and a second. If one has expired it walks through the jobs
that are available or running, a window at a time, and gives back the jobs of processes that are gone. It walks now and then in
any case: for jobs of processes that have no row. A new leader does not begin with that: the backlog may be long.

A missing beat means nothing while no beat could be written: after an outage, or a jump of the server's clock, every row has
expired and every process lives. So no process counts as gone before the database has been seen to answer for a beat (`Answers`),
which each term finds out for itself; in ordinary operation that has long been so when a row expires.

For a job that is given back the attempt counts, and the last one ends it as discarded, with the reason among its errors. Nobody
knows any more which of the jobs had started. A job with max_attempts = 1 might have, so it is not run again: to allow one attempt
means at most one, and `fastq jobs retry` gives another. A job with a cancellation asked for ends as cancelled.

Invariants:
- Each job is looked at again when it is changed: same claim, same attempt, still running, its process still without a sign of
  life.
- Only queues of the domain, and those that a process of the domain worked: the one that has expired may have been the last.
- A walk is for the processes that the look before it found expired; one that expires meanwhile waits for the next look.
- The rows of expired processes stay, so that other domains see them too; `processes` deletes them later.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from fastq.events import emit, tell_ended
from fastq.lead.rescue.stranded import Walks
from fastq.lead.term.batch import Batch
from fastq.postgres import hints
from fastq.texts import error_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.config import Config
    from fastq.lead.term.chore import Site

BATCH = 1_000
"""Jobs given back by one statement: each is a delete and an insert, or an update with a new error; some 40 ms."""

ALL = 60.0
"""Seconds until all running jobs are looked at though no process has expired: for those of processes that have no row.
A guess: this hardly happens, and the look reads every job that is available or running."""

AGAIN = 2.0
"""Seconds until the next look when some jobs were locked or just set aside: a completion under way has ended by then."""

MARGIN = 0.05
"""Seconds after the moment at which a process expires: a beat that was on its way has arrived."""

SLACK = 0.5
"""Seconds beyond a beat until each living process has beaten after an outage: a supervisor that lost its session tries again
each 0.2 s, and one that was not disturbed (the clock jumped) beats at its usual time, and a little later."""

STEPS = 5
"""Looks into which that time is cut. Each counts for one part of it at most, so that an outage in between does not count."""

NAP = 0.005
"""Seconds between batches and windows, for the others; a guess."""

GONE = "the process that had it is gone: its host no longer gives a sign of life; whether the job had started is not known"


class Answers:
    """For how long the database has been seen to answer, without a break in which a living process could have expired.

    The chore owns it, and alone calls it.
    """

    def __init__(self, heard: float) -> None:
        self.heard = heard  # seconds
        self.why = "the term has just begun"  # the reason why `heard` is so short
        self._at: float | None = None  # the server's clock at the last answer
        self._server = 0.0  # when it was started

    def take(self, at: float, server: float, mute: bool, config: Config) -> None:
        """Count an answer; begin anew if there was a break. By the server's clock, since rows expire by it."""
        gap = 0.0 if self._at is None else max(0.0, at - self._at)
        why, step = "", enough(config) / STEPS
        if self._at is not None and server != self._server:
            why = "the server has started anew, or is another one"
        elif gap > config.process_ttl / 2:  # with the beat before it and the retry after it that may have been a whole ttl
            why = f"by its clock the server did not answer for {gap:.1f} s"
        elif mute:
            why = "this supervisor's own beats do not arrive"
        if why:
            # While our own beats are missing they may be missing until the next look, whose step must not count.
            self.heard, self.why = -step if mute else 0.0, why
        else:
            self.heard += min(gap, step)
        self._at, self._server = at, server


def enough(config: Config) -> float:
    """Return for how many seconds the database must have answered: each living process has beaten by then."""
    return config.beat_interval + SLACK


class Rescue:
    """The chore. Its attributes are its own, in its track's thread; a new term makes a new one."""

    name = "rescue"

    def __init__(self, all_in: float = ALL, heard: float = 0.0) -> None:
        """Begin with so many seconds until the first walk that no expired process calls for, and so many of heard answers."""
        self._answers = Answers(heard)
        self._told = False  # whether the wait has been reported
        self._ask_at = 0.0  # monotonic time
        self._batch = Batch(self.name, BATCH)
        self._walks = Walks(self.name)
        self._stranded: Sequence[tuple[Any, ...]] = ()  # read and not written yet: id, claim, attempt
        self._expired: frozenset[int] = frozenset()  # processes, when the walk began
        self._done: frozenset[int] = frozenset()  # expired processes that a whole walk has dealt with
        self._all_at = time.monotonic() + all_in  # of the next walk, even if no process has expired
        self._found = self._again = self._ended = 0  # of the present walk

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Look at the processes, or at one window of jobs, or give back one batch."""
        if not (self._walks.under_way or self._stranded):
            return self._look(site)
        if time.monotonic() >= self._ask_at:
            self._ask(site)  # a long walk is no break
        if not self._stranded:
            self._walk(site)
        if self._stranded:
            self._rescue(site)
        if not (self._walks.under_way or self._stranded):
            self._finish()
        return NAP

    def end(self, site: Site, reason: str) -> None:
        """Leave the rest to the next leader."""

    def _ask(self, site: Site) -> tuple[frozenset[int], float | None]:
        """Ask for the expired processes and the seconds until the next one expires; take in that there was an answer."""
        config = site.config
        answer = site.connection.run_one("process_expired", site.fence.holder, config.process_ttl)
        expired, next_in, at, server, mute = answer
        self._answers.take(at, server, mute, config)
        self._ask_at = time.monotonic() + config.process_ttl / 3
        return frozenset(expired), next_in

    def _look(self, site: Site) -> float:
        """Begin a walk if a process is newly gone; return when to look again."""
        self._expired, next_in = self._ask(site)
        self._done &= self._expired  # one that came back may go again
        missing = enough(site.config) - self._answers.heard
        if missing > 0:
            self._tell(missing)
            return min(missing, enough(site.config) / STEPS)
        self._told = False
        if self._expired - self._done or time.monotonic() >= self._all_at:
            self._walks.begin()
            self._found = self._again = self._ended = 0
            return NAP
        often = min(site.config.process_ttl / 3, self._all_at - time.monotonic())
        return often if next_in is None else min(max(next_in, 0.0) + MARGIN, often)

    def _tell(self, seconds: float) -> None:
        """Say once that processes have expired and why that is not believed yet."""
        if (silent := self._expired - self._done) and not self._told:
            self._told = True
            emit("rescue.waits", processes=len(silent), seconds=round(seconds, 1), why=self._answers.why)

    def _walk(self, site: Site) -> None:
        """Read the stranded jobs of the next window."""
        rows = self._walks.window(site, self._expired)
        aside = set(self._batch.aside())
        self._stranded = [row for row in rows if row[0] not in aside]
        self._found += len(self._stranded)

    def _rescue(self, site: Site) -> None:
        def put(rows: Sequence[tuple[Any, ...]]) -> None:
            ids, claims, attempts = (list(column) for column in zip(*rows, strict=True))
            what = (site.queues, site.config.leader_domain, ids, claims, attempts)
            again, ended, _, fates = hints.sending(
                site.connection, lambda channel: site.write("job_rescue", *what, channel, error_json(GONE))
            )
            self._again += again
            self._ended += ended
            site.changed += again + ended
            tell_ended(fates)

        self._stranded = self._batch.write(self._stranded, put)

    def _finish(self) -> None:
        """Report the results of the walk, and set the time of the next one."""
        self._done = self._expired
        self._all_at = time.monotonic() + (ALL if self._again + self._ended == self._found else AGAIN)
        if self._again or self._ended:
            emit("jobs.rescued", level=logging.WARNING, processes=len(self._expired), again=self._again, ended=self._ended)
