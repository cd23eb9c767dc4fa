"""What a worker process knows of one of its queues: the cursor, the lanes, how much waits and how fast it goes.

Made by the process and used by the thread of the producer alone, but for `drain` and `concurrency`, which the main thread uses.
It counts jobs by what the lanes and the board show, so executors do nothing for it. It deliberately talks to no database and
wakes nobody but executors.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.jobs.job import Job
    from fastq.work.claim.portion import Portion
    from fastq.work.cursor.cursor import Cursor
    from fastq.work.execute.loop import Loop
    from fastq.work.shared.lane import Lane, Room

PACE_WINDOW = 0.01
"""Seconds over which a pace is measured at least: one short job within a round would look like thousands a second."""

PACE_KEPT = 0.5
"""Share of a pace that is left after a window without any end: a hiccup is forgotten within three of them."""

CLAIMS = 2
"""Whole claims to hold ready at most. With one, executors that are done with it in milliseconds wait for the next; with two, one
is claimed while they work the other: 4 to 10 % more jobs a second. The ring of ids on the board has room for four."""

GROWTH = 8
"""Times as many jobs as have just ended may be held ready, where all that was handed out ran out while there was backlog. The
pace of so few says little, so it has to prove itself again; with 8, jobs of microseconds come by the thousand after four claims
instead of ten. Not without backlog: after a trickle of quick jobs one process would hoard the slow ones that come next."""


class Feed:
    """What the producer knows of one queue: its cursor, its lanes, its pace."""

    def __init__(self, number: int, cursor: Cursor, portion: Portion, threads: Lane | None, loop: Lane | None) -> None:
        self.number = number
        self.cursor = cursor
        self.portion = portion
        self.threads = threads
        self.loop = loop
        self.lanes = [lane for lane in (threads, loop) if lane is not None]
        self.concurrency = self.lanes[0].concurrency
        self.room: Room | None = None  # before the lanes, where there are two
        self.claimed = 0
        self.pace = 0.0  # jobs ended per second
        self._measured_at = self._handed_at = time.monotonic()
        self._ended = 0
        self._handed = 0  # jobs that were handed out last

    def waiting(self) -> int:
        """Count the jobs that have not started: in the room before two lanes, or in the only inbox."""
        return len(self.room.waiting if self.room else self.lanes[0].inbox)

    def prefetch(self, config: Config) -> int:
        """Return how many jobs to hold ready beyond what the executors can start at once."""
        now = time.monotonic()
        if now - self._measured_at >= PACE_WINDOW:
            # What has ended, not what has started: idle executors start a burst of slow jobs in no time.
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
        """Count the places that are taken, the executors that do not rest, or the jobs on the loop."""
        if self.room is not None:
            return self.concurrency - self.room.free
        if self.threads is not None:
            return self.concurrency - self.threads.resting
        return sum(word > 0 for word in self.lanes[0].board.slots)

    def free(self) -> int:
        """Count the jobs that can start at once: the queue's concurrency less what runs, in threads and on the loop together."""
        return max(0, self.concurrency - self.busy())

    def hunger(self) -> None:
        """Have us called when nothing waits any more."""
        for inlet in [self.room] if self.room else self.lanes:
            inlet.hungry = True

    def put(self, jobs: list[Job[Any]], low: int, loop: Loop | None) -> None:
        """Hand jobs out: to the room before two lanes, or to the only lane."""
        self._handed, self._handed_at = len(jobs), time.monotonic()
        if self.room is not None:
            self.room.put(jobs, low)
            return
        self.lanes[0].put(jobs, low)
        if self.loop is not None and loop is not None:
            loop.start_slots(self.loop)

    def drain(self) -> list[Job[Any]]:
        """Take out all jobs that have not started."""
        waiting = self.room.drain() if self.room else []  # first: from there they enter the lanes
        entered = [job for lane in self.lanes for job in lane.drain()]
        if self.room:
            self.room.vacate(len(entered))
        return waiting + entered
