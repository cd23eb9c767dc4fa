"""What the rates of the gatekeeper share: the time, the keys to be looked at later, the jobs that are not known to have started.

Made by the keeper, one for each; used and written by it and its rates (rates.py), in the thread of the gatekeeper's track, in the
supervisor that leads. A job that was let go starts when a process claims it, and no claim tells. So the chore asks the database,
soon after it has let jobs go: a start that is known late delays the next one, no more.

Invariant: a job that was let go at a rate is here until an answer says that it waits for no process any more. It deliberately
has no clock and sends no statement: the chore tells the time, and asks.
"""

from __future__ import annotations

import itertools
import math
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fastq.lead.gate.keys import Key, Line
    from fastq.lead.gate.rates import RateKey

FIRST_ASK, LONGEST_ASK = 0.01, 0.25
"""Seconds from an admission to the question whether the job has started, and at most between two while none does: a claim follows
its hint after some milliseconds. A guess: a statement of 0.1 ms each hundredth of a second is 1 % of the thread's time."""

ASKED = 2_000
"""Jobs that one question is about, as many as one statement lets go."""


class Starts:
    """What all rates of one keeper share."""

    def __init__(self, now: float) -> None:
        self.now = self.born = now
        self.debts: dict[tuple[str, str], float] = {}  # by gate and key, of keys that nobody has asked for: nothing before then
        self.owing: dict[RateKey, None] = {}  # keys with debts that are to be put on record
        self.leaving: dict[Key, None] = {}  # keys without lines, whose buckets are not full
        self.unstarted: dict[int, Line] = {}  # jobs that were let go, with their lines
        self._dues: list[tuple[float, int, RateKey]] = []  # a heap; some of it may be old
        self._number = itertools.count()
        self._ask_at, self._pause = math.inf, FIRST_ASK

    def owe(self, debts: Iterable[tuple[str, str, float]]) -> None:
        """Hear of debts that are on record: gate, key, and for how many seconds nothing may start there."""
        self.debts.update({(name, key): self.now + seconds for name, key, seconds in debts})

    def look(self, key: RateKey, at: float) -> None:
        """Have a key looked at then."""
        if at < key.due:
            key.due = at
            heappush(self._dues, (at, next(self._number), key))

    def passed(self, now: float) -> Iterable[RateKey]:
        """Hear the time; give the keys that are to be looked at now."""
        self.now = max(self.now, now)
        while self._dues and self._dues[0][0] <= self.now:
            at, _, key = heappop(self._dues)
            if at == key.due:
                key.due = math.inf
                yield key

    def due(self) -> float:
        """Return when the chore has to come again: to look at a key, to ask for starts."""
        return min(self._dues[0][0] if self._dues else math.inf, self._ask_at)

    def went(self, job: int, line: Line) -> None:
        """Hear that a job was let go."""
        self.unstarted[job] = line
        self._ask_at = min(self._ask_at, self.now + FIRST_ASK)
        self._pause = FIRST_ASK

    def ask_soon(self) -> None:
        """Have the question come with the next run, if there are jobs to ask about."""
        if self.unstarted:
            self._ask_at = self.now

    def to_ask(self) -> list[int]:
        """Return jobs that may not have started, if it is time to ask: those that were asked for longest ago."""
        if self.now < self._ask_at:
            return []
        self._ask_at = math.inf
        return list(itertools.islice(self.unstarted, ASKED))

    def answered(self, asked: Iterable[int], ages: Mapping[int, float]) -> Iterable[Key]:
        """Hear which of the jobs have started, and how many seconds ago; give the keys where that may make room."""
        found = [(self.now - ages[job], self.unstarted.pop(job)) for job in asked if job in self.unstarted and job in ages]
        for job in asked:
            if job in self.unstarted:
                self.unstarted[job] = self.unstarted.pop(job)
        self._pause = FIRST_ASK if found else min(2 * self._pause, LONGEST_ASK)
        if self.unstarted:
            self._ask_at = self.now + self._pause
        for at, line in sorted(found, key=lambda one: one[0]):
            for key, weight in zip(line.keys, line.weights, strict=True):
                key.started(weight, at)
                yield key

    def forgotten(self) -> list[Key]:
        """Return the keys that nobody needs any more."""
        gone = [key for key in self.leaving if key.of or key.unused()]
        for key in gone:
            del self.leaving[key]
        return [key for key in gone if not key.of]

    def owed(self) -> list[tuple[str, str, float]]:
        """Return debts that are to be put on record: gate, key, seconds from now."""
        owing, self.owing = self.owing, {}
        return [(key.gate.name, key.key, key.owes_until() - self.now) for key in owing]
