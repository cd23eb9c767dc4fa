"""Say which wake-ups a client sends: each at once while jobs come now and then, one in a tenth of a second while they come often.

A client's sessions make one at their first use: the blocking ones one in each process, called by the threads that enqueue; the
others one in each event loop, called there alone. NOTIFY takes a lock of the whole database at commit, so a thousand small
enqueues a second must not send a thousand. For each queue:
- after a rest, `lead` lets a wake-up ride with the enqueueing statement itself. That commit waits for the disk with the lock in
  its hand, and all others with a notification wait behind it, so this is seldom done;
- else `trail` gives, after the commit, the wake-ups to send by a statement of their own, which waits for no disk;
- where BURST of them have gone within their intervals, the next one says that jobs come often (hints.OFTEN), and so does each
  after it while they do. Whoever hears it looks again and again by itself for LASTS. So for that long no job of this queue needs
  a wake-up, and none is left to be sent later.

While the server has no room for notifications (hints.py) it allows none: the next poll finds the jobs.

It knows times and names alone; the clients' sessions own it and the connections. Jobs that are enqueued in the caller's
transaction do not pass here: there Postgres folds equal wake-ups into one, and the time of the commit is not ours to know.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from threading import Lock

from fastq.postgres.hints import LASTS, OFTEN

INTERVAL = 0.010
"""Seconds for each wake-up of a queue, in the mean: from a hundred jobs a second on, looks that come by themselves find more than
one."""

BURST = 3
"""Wake-ups that may follow one another at once: a request enqueues two or three jobs one by one, and each of them shall start
at once. A guess."""

QUIET = 0.05
"""Seconds without a wake-up of a queue after which one may ride: so ten programs hold the lock for 200 commits a second at most,
a tenth of the time where the disk takes half a millisecond. Those behind it start 0.1 ms later (docs/adr/0045)."""

SOON = 0.025
"""Seconds after those looks within which another job says that jobs still come often: at a hundred a second nine in ten do."""

REMEMBERED = 10_000
"""Names of queues to keep the wake-ups of; beyond them all are forgotten, which costs some wake-ups too many."""


class WakeLimiter:
    """Remember how often each queue was woken, and which are looked at anyway; any thread, under the lock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._sent_at: dict[str, float] = {}  # by name: the last wake-up
        self._rested_at: dict[str, float] = {}  # when its wake-ups will have had their intervals
        self._looks_until: dict[str, float] = {}  # until when it is looked at anyway
        self._rests_until = -math.inf  # one store, without the lock: the last one wins

    def rest(self, seconds: float) -> None:
        """Allow no wake-up for so long."""
        self._rests_until = self._clock() + seconds

    @property
    def resting(self) -> bool:
        """Tell whether no wake-up is allowed at all."""
        return self._clock() < self._rests_until

    def lead(self, names: Collection[str]) -> bool:
        """Tell whether a wake-up of these may ride with the statement that enqueues; if so, all of them count as woken."""
        now = self._clock()
        if now < self._rests_until:
            return False
        with self._lock:
            if not any(now - self._sent_at.get(name, -math.inf) >= QUIET and not self._comes_often(name, now) for name in names):
                return False
            for name in names:
                self._count(name, now)
            return True

    def trail(self, names: Collection[str]) -> list[str]:
        """Return the hints to send now, after the commit of jobs; they count as sent."""
        now = self._clock()
        if now < self._rests_until:
            return []
        hints: list[str] = []
        with self._lock:
            for name in names:
                if now < self._looks_until.get(name, -math.inf):
                    continue
                hints.append(name)
                if self._comes_often(name, now) or self._rested_at.get(name, -math.inf) - now > (BURST - 0.5) * INTERVAL:
                    self._looks_until[name] = now + LASTS
                    hints.append(f"{OFTEN.word} {name}")
                self._count(name, now)
        return hints

    def forget(self) -> None:
        """Take note that hints may not have arrived: the next jobs send theirs."""
        with self._lock:
            for known in (self._sent_at, self._rested_at, self._looks_until):
                known.clear()

    def _comes_often(self, name: str, now: float) -> bool:
        """Tell whether it is looked at anyway, or was until a moment ago."""
        return now < self._looks_until.get(name, -math.inf) + SOON

    def _count(self, name: str, now: float) -> None:
        if len(self._sent_at) > REMEMBERED:
            for known in (self._sent_at, self._rested_at, self._looks_until):
                known.clear()
        self._sent_at[name] = now
        self._rested_at[name] = max(now, self._rested_at.get(name, now)) + INTERVAL
