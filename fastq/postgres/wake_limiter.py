"""Say when a wake-up may be sent: at most one per queue and INTERVAL, the first at once, the last never left out.

A client's sessions make one at their first use: the blocking ones one in each process, called by the threads that enqueue and by
their timers; the others one in each event loop, called there alone. NOTIFY takes a lock of the whole database at commit, so a
thousand small enqueues a second must not send a thousand. Two edges:
- leading: `lead` allows a wake-up to go out with the enqueueing statement itself;
- trailing: a wake-up that was not allowed is noted by `trail` *after* its commit, and sent by the timer that `trail` asks for.
  Without it the second of two enqueues in quick succession would wait for the next poll.

While the server has no room for notifications (hints.py) it allows none and forgets the noted ones: the next poll finds the jobs.

It knows times and names alone; the clients' sessions own it, the timers and the connections. Jobs that are enqueued in the
caller's transaction do not pass here: there Postgres folds equal wake-ups into one, and the time of the commit is not ours to
know.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from threading import Lock

INTERVAL = 0.010
"""Seconds between two wake-ups of a queue: 100 a second cost nothing to notice, and no job waits noticeably longer."""

REMEMBERED = 10_000
"""Names of queues to keep the last wake-up of; beyond them all are forgotten, which costs some wake-ups too many."""


class WakeLimiter:
    """Remember when each queue was last woken, and which wait for their trailing wake-up; any thread, under the lock."""

    def __init__(self, interval: float = INTERVAL, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval
        self._clock = clock
        self._lock = Lock()
        self._sent: dict[str, float] = {}
        self._waiting: set[str] = set()
        self._coming = False  # somebody was asked to call `take`
        self._rests_until = -math.inf  # one store, without the lock: the last one wins

    def rest(self, seconds: float) -> None:
        """Allow no wake-up for so long."""
        self._rests_until = self._clock() + seconds

    @property
    def resting(self) -> bool:
        """Tell whether no wake-up is allowed at all."""
        return self._clock() < self._rests_until

    def lead(self, names: Collection[str]) -> bool:
        """Tell whether one of these may be woken now; if so, all of them count as woken: one statement wakes them all."""
        now = self._clock()
        if now < self._rests_until:
            return False
        with self._lock:
            if not any(self._is_due(name, now) for name in names):
                return False
            if len(self._sent) > REMEMBERED:
                self._sent.clear()
            self._sent.update(dict.fromkeys(names, now))
            return True

    def trail(self, names: Collection[str]) -> float | None:
        """Note that these are to be woken; return in how many seconds to call `take`, None if somebody will already."""
        if self.resting:
            return None
        with self._lock:
            self._waiting.update(names)
            if self._coming or not self._waiting:
                return None
            self._coming = True
            return self._next()

    def take(self, everything: bool = False) -> tuple[list[str], float | None]:
        """Return the queues to wake now, and in how many seconds to come again (None: no need)."""
        now = self._clock()
        with self._lock:
            due = [name for name in self._waiting if everything or self._is_due(name, now)]
            self._sent.update(dict.fromkeys(due, now))
            self._waiting.difference_update(due)
            self._coming = bool(self._waiting)
            return due, self._next() if self._waiting else None

    def _is_due(self, name: str, now: float) -> bool:
        return now - self._sent.get(name, -math.inf) >= self._interval

    def _next(self) -> float:
        now = self._clock()
        return max(0.0, min(self._sent.get(name, -math.inf) for name in self._waiting) + self._interval - now)
