"""How many jobs to claim for one queue: as many as its executors can start, and as many again as they will start soon.

The producer's own, one for each queue, used by its thread alone. Jobs are held ready at the pace at which they have ended lately,
so slow jobs are not hoarded by one process while another idles, and fast ones come by the thousand. It deliberately does not know
why a claim failed (portion.py), nor how many ids and bytes the process has room for: its producer tells.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.work.claim.portion import Portion
    from fastq.work.cursor.cursor import Cursor
    from fastq.work.shared.feed import Feed

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


class Demand:
    """The pace of one queue, and the jobs that it calls for."""

    def __init__(self, feed: Feed, cursor: Cursor, portion: Portion, config: Config) -> None:
        self.pace = 0.0  # jobs ended per second
        self._feed = feed
        self._cursor = cursor
        self._portion = portion
        self._config = config
        self._measured_at = time.monotonic()
        self._ended = 0

    def prefetch(self) -> int:
        """Return how many jobs to hold ready beyond those that the executors can start at once."""
        now, feed, config = time.monotonic(), self._feed, self._config
        if now - self._measured_at >= PACE_WINDOW:
            # Jobs that have ended, not those that have started: idle executors start a burst of slow jobs in no time.
            ended = max(self._ended, feed.claimed - feed.waiting() - feed.busy())
            seconds = now - self._measured_at
            pace = (ended - self._ended) / seconds
            kept = PACE_KEPT ** (seconds / PACE_WINDOW)
            self.pace = max(pace, kept * self.pace + (1 - kept) * pace)
            self._measured_at, self._ended = now, ended
        if feed.handed and not feed.waiting() and self._cursor.backlog:
            self._ran_dry(now)
        return min(CLAIMS * config.batch, int(self.pace * config.prefetch))

    def _ran_dry(self, now: float) -> None:
        """Raise the pace to that of the jobs handed out last: nothing came after them, so the pace of the rounds is too low."""
        feed, config = self._feed, self._config
        ended = max(0, feed.handed - feed.busy())
        pace = ended / max(now - feed.handed_at, 1e-6)
        self.pace = max(self.pace, min(pace, GROWTH * ended / max(config.prefetch, PACE_WINDOW)))
        feed.handed = 0

    def wanted(self, prefetch: int, room: int) -> int:
        """Return how many jobs to claim now, beyond which `prefetch` are to be held ready, 0 for none; `room` is the ring's."""
        waiting, free = self._feed.waiting(), self._feed.free()
        if waiting > prefetch // 2 and waiting >= free:
            return 0
        # Every id that may still be unwritten must fit the ring, with any mix of queues.
        return max(0, self._portion.limit(min(free + prefetch - waiting, self._config.batch, room)))
