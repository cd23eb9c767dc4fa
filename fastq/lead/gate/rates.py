"""The rates in the gatekeeper's memory: when the next job of each key may start.

Made and used by the keeper (keeper.py), in the thread of the gatekeeper's track, in the supervisor that leads; that thread alone
writes these gates and keys.

A key of a rate is a bucket, counted in seconds: it is full at `full_at`, each job that goes takes its weight times the interval
out of it, and a job goes if the bucket has enough for it. The promise is about *starts*, and a start follows its admission by
some milliseconds, or by minutes if no process is there. So the jobs that were let go and are not known to have started (`taken`)
still have their share of the bucket, which fills up beside them only: however long the processes were away, all that may start at
once is one bucket. The chore asks the database which of them have started, soon after they were let go.

Invariants: in each window of `per` seconds jobs of at most `at_most + burst` start, by weight, unless one alone is heavier than a
bucket; a term begins with empty buckets, since it does not know when jobs started before; a key is kept until its bucket is full.
The classes deliberately have no clock and send no statement: the chore tells the time, and asks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from fastq.args.rate import Pace
from fastq.lead.gate.keys import Gate, Key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastq.args.gates import Entry
    from fastq.lead.gate.keys import Line, Numbers
    from fastq.lead.gate.starts import Starts

STRETCH, LEAST_STRETCH = 0.005, 0.02
"""By how much `per` is stretched, as a share, and in seconds. Half of it is how late a start may be known without delaying the
next one; the other half is how far a start may lie from its claim without one too many in a window. So 99.5 % of a rate are
used, and 98 % where `per` is a second. A guess at what nobody misses."""

NEVER = -math.inf
"""Until when a key without a debt is held up: one number for all keys."""

RECORDED = 0.001
"""Seconds of debt beyond an empty bucket that are put on record, for a new leader to know them: it begins with empty buckets."""


class RateGate(Gate["RateKey"]):
    """A rate, with its keys."""

    __slots__ = ("burst", "coded", "depth", "drops", "interval", "per", "slack", "starts")

    starts: Starts

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.coded = 0.0, 0  # the time and the burst in the code, as the line says that came last
        self.per, self.burst, self.drops = 0.0, 0, False
        self.interval = self.depth = self.slack = 0.0  # s: between two starts, of a full bucket, a start may be known late

    @classmethod
    def reads(cls, entry: Entry) -> bool:
        """Tell whether the time and the burst can be read."""
        try:
            pace = msgspec.convert(entry.more, Pace)
        except msgspec.ValidationError:
            return False
        return pace.per > 0 and pace.burst >= 0

    def meet(self, starts: Starts) -> None:
        """Hear who knows the time and the jobs that have not started."""
        self.starts = starts

    def made(self, name: str) -> RateKey:
        """Make a key."""
        return RateKey(self, name)

    def forget(self, key: RateKey) -> None:
        """Forget a key that no line has, as soon as its bucket is full."""
        if key.unused():
            self.starts.leaving.pop(key, None)
            del self.keys[key.key]
        else:
            self.starts.leaving[key] = None

    def tell(self, entry: Entry) -> bool:
        """Take the numbers in the code from the line that came last; tell whether they are others."""
        pace = msgspec.convert(entry.more, Pace)
        before = self.default, self.coded, self.drops
        self.default, self.coded, self.drops = entry.at_most, (pace.per, pace.burst), pace.over == "drop"
        if (self.default, self.coded, self.drops) == before:
            return False
        self.said = f"{self.default} per {pace.per:g} s, burst {pace.burst}{', drops' if self.drops else ''}"
        return True

    def obey(self, values: Mapping[str, Numbers]) -> bool:
        """Take the numbers that an operator has set, or those in the code; tell whether they are others."""
        _, per, burst = values.get(self.name, (0, None, None))
        pace = per or self.coded[0], self.coded[1] if burst is None else burst
        same, (self.per, self.burst) = (self.per, self.burst) == pace, pace
        if not super().obey(values) and same:
            return False
        before, stretch = self.interval, max(self.per * STRETCH, LEAST_STRETCH)
        self.interval, self.slack = (self.per + stretch) / (self.at_most or max(1, self.default)), stretch / 2
        self.depth = (self.burst + 1) * self.interval + self.slack
        if self.interval < before:
            for key in self.keys.values():
                key.hurry(self.interval / before)
        return True


class RateKey(Key):
    """One key of one rate. `taken` is the weight of the jobs that were let go and are not known to have started."""

    __slots__ = ("due", "full_at", "not_before")
    gate: RateGate
    asks = True

    def __init__(self, gate: RateGate, key: str) -> None:
        super().__init__(gate, key)
        starts = gate.starts
        self.full_at = starts.born + gate.depth  # empty when the term began; of a key that was forgotten this is past
        self.not_before = starts.debts.pop((gate.name, key), NEVER)
        self.full_at = max(self.full_at, self.not_before + gate.depth)
        self.due = math.inf  # when it is looked at next

    def has_room(self, weight: int) -> bool:
        """Tell whether a job of this weight may start now; one that is heavier than a bucket needs a full one."""
        gate = self.gate
        now = gate.starts.now
        if not gate.at_most or now < self.not_before or (gate.paused and self.is_paused()):
            return False
        missing = max(self.full_at - now, self.taken * gate.interval)
        return missing <= max(gate.depth - weight * gate.interval, gate.slack)

    def await_room(self, weight: int) -> None:
        """Hear that a job of this weight stands here, and have the key looked at when the bucket has enough for it."""
        gate = self.gate
        enough = max(gate.depth - weight * gate.interval, gate.slack)
        if gate.at_most and self.taken * gate.interval <= enough:  # else when one of the jobs that were let go has started
            gate.starts.look(self, max(self.full_at - enough, self.not_before))

    def drops(self) -> bool:
        """Tell whether a job that finds no room here is dropped."""
        return self.gate.drops

    def take(self, weight: int) -> None:
        """Count a job that is let go."""
        starts, gate = self.gate.starts, self.gate
        self.full_at = max(self.full_at, starts.now) + weight * gate.interval
        self.taken += weight
        self._note_debt()

    def stayed(self, line: Line, weight: int) -> None:  # noqa: ARG002 - a tenant asks
        """Count a job no longer that was to be let go, and has stayed."""
        self.full_at -= weight * self.gate.interval
        self.taken -= weight

    def give(self, weight: int) -> None:
        """Hear that jobs have left, which makes no room here."""

    def goes_yet(self, weight: int) -> None:
        """Hear that a job was let go in another term, and has not started."""
        self.taken += weight

    def started(self, weight: int, at: float) -> None:
        """Hear that a job has started: until then the bucket has not filled up."""
        self.full_at = max(self.full_at, at + self.taken * self.gate.interval)
        self.taken -= weight

    def spend(self, weight: int, until: float) -> None:
        """Hear that so much has been spent beside the jobs, and that nothing may start until then."""
        gate, now = self.gate, self.gate.starts.now
        if until > now:
            self.not_before = max(self.not_before, until)
            self.full_at = max(self.full_at, until + gate.burst * gate.interval)
        self.full_at = max(self.full_at, now) + weight * gate.interval
        self._note_debt()

    def hurry(self, by: float) -> None:
        """Hear that a larger number holds: what is missing in the bucket is there sooner."""
        now = self.gate.starts.now
        self.full_at = min(self.full_at, now + max(0.0, self.full_at - now) * by)

    def unused(self) -> bool:
        """Tell whether the key may be forgotten."""
        now = self.gate.starts.now
        return not self.taken and self.full_at <= now and self.not_before <= now

    def owes_until(self) -> float:
        """Return when the bucket is no more than empty."""
        return max(self.not_before, self.full_at - self.gate.depth)

    def _note_debt(self) -> None:
        starts = self.gate.starts
        if self.owes_until() > starts.now + RECORDED:
            starts.owing[self] = None
