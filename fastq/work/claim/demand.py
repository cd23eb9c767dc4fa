"""How much the next claim of a queue may bring: jobs, bytes of large args, and which rows it passes over.

The main thread of a worker process makes these objects before any other thread starts; from then on the producer's thread alone
uses them. A queue has one `Demand` and two `Portion`s: one in its `Demand`, for the available jobs, and one in its `Waiting`
(waiting.py), for the waiting ones. The producer asks a `Demand` before each claim and before it sleeps (`wanted`), and tells it
each answer (`brought`):

    Demand     as many jobs as the executors can start, and as many again as they will start soon. Jobs are held ready at the
               pace at which they have ended lately, so slow jobs are not hoarded by one process while another idles, and fast
               ones come by the thousand. Where executors stood idle while a claim was under way, more are held ready: the
               claim's thread has to wait for the interpreter between its steps, behind all executors that want it too.
    Portion    a claim that fails is tried again with half the jobs, down to one, and the size is doubled again while claims
               that filled it go well. A single job that the database refuses to change (a trigger of the user's raises, its
               args are too large for an answer) is set aside for a while, so that the others behind it are claimed.

Large args are bounded by the statement itself, which takes no more of them than the process's budget says (budget.py). The mean
of the last claim only spares it looking at thousands of rows of which it can take a few.
It deliberately talks to no database, and does not know how many ids the board has room for: the producer tells.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from fastq.events import emit
from fastq.postgres import db, sqlstate
from fastq.size import Aside, Size
from fastq.work.cursor.claims import Bound
from fastq.work.shared.budget import share

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.work.codec.claimed import Claimed
    from fastq.work.cursor.cursor import Cursor
    from fastq.work.shared.budget import Budget
    from fastq.work.shared.lane import Feed, Load

PACE_WINDOW = 0.01
"""Seconds over which a pace is measured at least: one short job within a round would look like thousands a second."""

PACE_KEPT = 0.5
"""Share of a pace that is left after a window without any end: a hiccup is forgotten within three of them."""

READY = 2
"""Whole claims to hold ready at most. With one, executors that are done with it in milliseconds wait for the next; with two, one
is claimed while they work the other: 4 to 10 % more jobs a second. The ring of ids on the board has room for four."""

GROWTH = 8
"""If all jobs that were handed out have ended while there was backlog, up to this many times as many are held ready next. The
pace of so few says little, so it has to prove itself again; with 8, jobs of microseconds come by the thousand after four claims
instead of ten. Not without backlog: after a trickle of quick jobs one process would hoard the slow ones that come next."""

LONGEST = 0.25
"""Seconds of the pace to hold ready at most, where claims take so long that less runs out. A claim needs the interpreter some
six times, and behind sixteen executors that all compute it waits 40 ms for it each time (median). A whole second kept the
executors no busier, and left one of two processes with half a second of jobs at the end of a backlog (docs/adr/0046). Nor is it
more than a whole claim: jobs of microseconds have that ready by their pace."""

ENOUGH = 0.8
"""Factor by which that becomes less with each claim that came when more than half of what was left at its call still waited: one
that took long by accident is forgotten after eight. A guess."""

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
        self._passes_by = False  # whether there may be any
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
        aside = self._aside.keys() if self._passes_by else []
        self._passes_by = bool(aside)
        return Bound(budget.share if budget.came == budget.left else budget.next(), budget.counted_from, aside)

    def brought(self, count: int, size: int) -> None:
        """Note how many jobs a claim has brought, of so many bytes."""
        self.mean_bytes = size / count
        if not self._size.whole:
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
        self._passes_by = True
        if len(self._aside) <= MAX_TOLD:
            emit("claim.job_skipped", level=logging.ERROR, id=job, kind=kind, again=ASIDE, error=db.first_line(error))
        return True


class Demand:
    """The pace of one queue, and the jobs that it calls for."""

    def __init__(self, feed: Feed, cursor: Cursor, budget: Budget, config: Config) -> None:
        self.pace = 0.0  # jobs ended per second
        self.portion = Portion(config)
        self.jobs = 0  # that were wanted last
        self.low = 0  # jobs left in the inbox at which the producer is to be called: half of what is held ready
        self._feed = feed
        self._cursor = cursor
        self._budget = budget
        self._config = config
        self._measured_at = time.monotonic()
        self._worked = 0.0  # seconds before that which are not in the pace yet
        self._was_dry = False  # as of then: nothing was left, and nothing had come since
        self._ended = 0
        self._times = 1.0  # as much as config.prefetch says is held ready
        self._marked = 0  # jobs that are left in the inbox behind the last mark

    def wanted(self, room: int, load: Load) -> int:
        """Return how many jobs to claim now, 0 for none, and bound the cursor's next claim; `room` is the ring's."""
        budget, waiting, free = self._budget, load.waiting, load.room
        self._cursor.claims.bound = self.portion.bound(budget)
        most = self.portion.limit(self._config.batch)
        prefetch = self.prefetch(load)
        self.low = prefetch // 2
        if (waiting > self.low and waiting >= free) or (budget.came != budget.left and budget.room() <= 0):
            self.jobs = 0
        else:
            # Every id that may still be unwritten must fit the ring, with any mix of queues.
            self.jobs = max(0, min(free + prefetch - waiting, most, room))
        return self.jobs

    def brought(self, claimed: Claimed) -> None:
        """Take in what a claim has brought, before any of its jobs can end, and bound the cursor's next claim."""
        count = len(claimed.ids)
        self._feed.claimed += count
        self.portion.brought(count, len(claimed.args))
        if claimed.counted != 0:  # else none of the args is large
            self._budget.took(claimed)
        self._look_ahead()
        self._marked = self.low
        self._cursor.claims.bound = self.portion.bound(self._budget)

    def mark_again(self) -> None:
        """Have the producer called once more, when the inbox runs low, if the pace has fallen and its call came too early."""
        if 0 < self.low < self._marked:
            self._marked = self.low
            self._feed.mark(self.low)

    def prefetch(self, load: Load) -> int:
        """Return how many jobs to hold ready beyond those that the executors can start at once."""
        now, feed, config = time.monotonic(), self._feed, self._config
        worked = self._worked + self._working(now)
        if worked >= PACE_WINDOW:
            # Jobs that have ended, not those that have started: idle executors start a burst of slow jobs in no time.
            ended = max(self._ended, feed.claimed - load.waiting - load.busy)
            pace = (ended - self._ended) / worked
            kept = PACE_KEPT ** (worked / PACE_WINDOW)
            self.pace = max(pace, kept * self.pace + (1 - kept) * pace)
            self._measured_at, self._ended, self._worked = now, ended, 0.0
        elif self._cursor.peeked:
            self._measured_at, self._worked = now, worked
        if feed.handed and not load.waiting and self._cursor.words.backlog:
            self._ran_dry(now, load.busy)
        ready = self.pace * config.prefetch
        return min(READY * config.batch, int(max(ready, min(self._times * ready, config.batch))))

    def _look_ahead(self) -> None:
        """Hold more ready if executors stood idle while the claim was under way, and less if it came in good time."""
        prefetch = self._config.prefetch
        if not self._cursor.words.backlog:
            self._times = 1.0
            return
        load = self._feed.load()
        if not load.waiting:
            if prefetch and 2 * load.busy <= self._feed.concurrency:
                self._times = max(1.0, min(2 * self._times, LONGEST / prefetch))
        elif 2 * load.waiting > self.low:
            self._times = max(1.0, ENOUGH * self._times)

    def _working(self, now: float) -> float:
        """Return for how long there was something to execute since the last measurement, as far as it is known.

        Where there are several queues, the producer comes late: the time for which a queue with backlog had run dry, since
        nobody claimed for it, says nothing of its jobs.
        """
        feed, since = self._feed, self._measured_at
        if not self._cursor.peeked or not self._cursor.words.backlog:
            return now - since
        dry = feed.dry_at > feed.handed_at
        was_dry, self._was_dry = self._was_dry, dry
        return max(0.0, (feed.dry_at if dry else now) - (max(since, feed.handed_at) if was_dry else since))

    def _ran_dry(self, now: float, busy: int) -> None:
        """Raise the pace to that of the jobs handed out last: nothing came after them, so the pace of the rounds is too low.

        The producer may come back late, from a round over other queues: the time for which nothing was there does not count.
        """
        feed, config = self._feed, self._config
        ended = max(0, feed.handed - busy)
        pace = ended / max((feed.dry_at if feed.dry_at > feed.handed_at else now) - feed.handed_at, 1e-6)
        self.pace = max(self.pace, min(pace, GROWTH * ended / max(config.prefetch, PACE_WINDOW)))
        feed.handed = 0
