"""One queue as its worker process sees it: the cursor, the lanes, how many jobs wait and how fast they end.

Made by the process and used by the thread of the producer alone, but for `drain` and `concurrency`, which the main thread uses.
It counts jobs in the lanes and on the board, so executors do nothing for it. It deliberately talks to no database and
wakes nobody but executors.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fastq.work.shared.lane import Dispatcher

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.jobs.job import Job
    from fastq.work.claim.portion import Portion
    from fastq.work.cursor.cursor import Cursor
    from fastq.work.shared.lane import Lane

PACE_WINDOW = 0.01
"""Seconds over which a pace is measured at least: one short job within a round would look like thousands a second."""

PACE_KEPT = 0.5
"""Share of a pace that is left after a window without any end: a hiccup is forgotten within three of them."""

CLAIMS = 2
"""Whole claims to hold ready at most. With one, executors that are done with it in milliseconds wait for the next; with two, one
is claimed while they work the other: 4 to 10 % more jobs a second. The ring of ids on the board has room for four."""

GROWTH = 8
"""If all jobs that were handed out have ended while there was backlog, up to this many times as many are held ready next. The
pace of so few says little, so it has to prove itself again; with 8, jobs of microseconds come by the thousand after four claims
instead of ten. Not without backlog: after a trickle of quick jobs one process would hoard the slow ones that come next."""


class Feed:
    """One queue of the producer's: its cursor, its lanes, its pace."""

    def __init__(self, number: int, cursor: Cursor, portion: Portion, lanes: list[Lane]) -> None:
        self.number = number
        self.cursor = cursor
        self.portion = portion
        self.lanes = lanes  # one per mode
        self.concurrency = lanes[0].concurrency
        self.dispatcher = Dispatcher(self.concurrency, lanes) if len(lanes) > 1 else None
        self._inlet = self.dispatcher or lanes[0]
        self.claimed = 0
        self.pace = 0.0  # jobs ended per second
        self._measured_at = self._handed_at = time.monotonic()
        self._ended = 0
        self._handed = 0  # jobs that were handed out last

    def waiting(self) -> int:
        """Count the jobs that have not started: before the lanes, or in the only inbox."""
        return self._inlet.waiting()

    def prefetch(self, config: Config) -> int:
        """Return how many jobs to hold ready beyond those that the executors can start at once."""
        now = time.monotonic()
        if now - self._measured_at >= PACE_WINDOW:
            # Jobs that have ended, not those that have started: idle executors start a burst of slow jobs in no time.
            ended = max(self._ended, self.claimed - self.waiting() - self.busy())
            seconds = now - self._measured_at
            pace = (ended - self._ended) / seconds
            kept = PACE_KEPT ** (seconds / PACE_WINDOW)
            self.pace = max(pace, kept * self.pace + (1 - kept) * pace)
            self._measured_at, self._ended = now, ended
        if self._handed and not self.waiting() and self.cursor.backlog:
            self._ran_dry(now, config)
        return min(CLAIMS * config.batch, int(self.pace * config.prefetch))

    def _ran_dry(self, now: float, config: Config) -> None:
        """Raise the pace to that of the jobs handed out last: nothing came after them, so the pace of the rounds is too low."""
        ended = max(0, self._handed - self.busy())
        pace = ended / max(now - self._handed_at, 1e-6)
        self.pace = max(self.pace, min(pace, GROWTH * ended / max(config.prefetch, PACE_WINDOW)))
        self._handed = 0

    def busy(self) -> int:
        """Count the jobs that run: by the places that are taken where there are several lanes, else as the mode counts."""
        return self._inlet.busy()

    def free(self) -> int:
        """Count the jobs that can start at once: the queue's concurrency less the jobs that run, in all lanes together."""
        return max(0, self.concurrency - self.busy())

    def hunger(self) -> None:
        """Have us called when nothing waits any more."""
        self._inlet.hungry = True

    def put(self, jobs: list[Job[Any]], low: int) -> None:
        """Hand jobs out: to the dispatcher before several lanes, or to the only lane."""
        self._handed, self._handed_at = len(jobs), time.monotonic()
        self._inlet.put(jobs, low)

    def by_lane(self, jobs: list[Job[Any]]) -> list[tuple[Lane, list[Job[Any]]]]:
        """Say which jobs are for which lane, by the modes of their workers; lanes without any are left out."""
        if len(self.lanes) == 1:
            return [(self.lanes[0], jobs)]
        shares = [(lane, [job for job in jobs if job.batch.worker.mode == lane.mode]) for lane in self.lanes]
        return [(lane, share) for lane, share in shares if share]

    def drain(self) -> list[Job[Any]]:
        """Take out all jobs that have not started."""
        waiting = self.dispatcher.drain() if self.dispatcher else []  # first: from there they enter the lanes
        entered = [job for lane in self.lanes for job in lane.drain()]
        if self.dispatcher:
            self.dispatcher.vacate(len(entered))
        return waiting + entered
