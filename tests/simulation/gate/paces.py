"""What rates promise, by a ledger of the starts: as a world of the simulation draws them, and as it checks them.

A start is the claim that follows an admission. In each window of `per` seconds the starts of a key weigh at most `at_most` and
the bucket, whatever the processes, the leaders and the connections do. Nothing is let go at a key of which the term knows that a
rate was exceeded there. A job is dropped only at a key where a job starts, something was spent, or a term has begun not long ago.
"""

from collections import deque
from dataclasses import dataclass

import msgspec


@dataclass(frozen=True)
class Pace:
    """A rate, as the code has it."""

    name: str
    at_most: int
    per: float
    burst: int
    keys: int
    heaviest: int
    drops: bool

    @classmethod
    def of(cls, dice, number):
        return cls(
            name=f"r{number}",
            at_most=dice.choice([1, 2, 5, 20]),
            per=dice.choice([0.1, 0.3, 1.0]),
            burst=dice.choice([0, 0, 1, 3]),
            keys=dice.choice([1, 2, 6]),
            heaviest=dice.choice([1, 1, 2, 7]),
            drops=dice.random() < 0.2,
        )

    @property
    def most(self):
        """Return what the starts of a window weigh at most: a job that is heavier than the bucket takes the place of one."""
        return self.at_most + max(self.burst + 1, self.heaviest) - 1

    def entry(self, key, weight):
        more = [self.per, self.burst, "drop"] if self.drops else [self.per, self.burst]
        return ["rate", self.name, msgspec.Raw(key.encode()), weight, self.at_most, more]


class Ledger:
    """The starts of each key, and for how long nothing may start there."""

    def __init__(self, clock, paces):
        self.clock = clock
        self.paces = {pace.name: pace for pace in paces}
        self.starts = {}  # by gate and key: moments in ns and weights, of the last window
        self.until = {}  # ns, by gate and key: as the present term knows
        self.busy = {}  # ns, by gate and key: when the bucket is full again at the latest, if nothing else comes
        self.began = 0

    def begin(self, debts):
        """Hear that a term begins, and what it has been told: the buckets are empty."""
        self.until = debts
        self.busy = {}
        self.began = self.clock.ns

    def hold(self, keys, until):
        for key in keys:
            self.until[key] = max(until, self.until.get(key, 0))
            self.take(key, 0, until)

    def take(self, key, weight, until=0):
        """Hear that a bucket is emptied."""
        pace = self.paces[key[0]]
        beside = (weight + pace.burst + 1) * 1.3 * (pace.per + 0.02) / pace.at_most * 1e9
        self.busy[key] = max(self.busy.get(key, 0), self.clock.ns, until) + int(beside)

    def start(self, row):
        """Hear that a job starts, and look at the window that ends now."""
        now = self.clock.ns
        self.keep_busy(row)  # the term learns of it a moment later, and until then the bucket does not fill up
        for key, weight in row.paces:
            pace, starts = self.paces[key[0]], self.starts.setdefault(key, deque())
            starts.append((now, weight))
            while starts[0][0] < now - int(pace.per * 1e9):
                starts.popleft()
            found = sum(weight for _, weight in starts)
            assert found <= pace.most, f"{found} start at {key} within {pace.per} s, where {pace.most} may"

    def admit(self, row):
        for key, _ in row.paces:
            assert self.clock.ns >= self.until.get(key, 0) - 1_000, f"job {row.id} is let go at {key}, which is held up"

    def keep_busy(self, row):
        for key, weight in row.paces:
            self.take(key, weight)

    def drop(self, row, others):
        """Check that a job is dropped at a key that has been busy, or where one of the others was let go and has not started."""
        for key, weight in row.paces:
            pace = self.paces[key[0]]
            empty = self.began + int((weight + pace.burst + 2) * 1.3 * (pace.per + 0.02) / pace.at_most * 1e9)
            if pace.drops and any(key == other for one in others for other, _ in one.paces):
                return
            if pace.drops and self.clock.ns <= max(self.busy.get(key, 0), empty) + int(1e9):
                return
        raise AssertionError(f"job {row.id} is dropped, and nothing was in its way")
