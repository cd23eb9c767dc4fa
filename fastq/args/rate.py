"""`Rate`: a gate that spaces the starts of jobs, so many in a time.

    class MailArgs(Args, kind="mail", gates=[Rate("mail-api", at_most=100, per=60, burst=10, by="account_id")])

Declared at import and never changed; read in the enqueuing thread (`spent` too, by a client), and in the producer's for a job
that came past its gates. Its entry in a job's meta has one element more than that of other gates: the time, the burst, and
whether a job that cannot start now is dropped. It deliberately decides nothing: lead/gate/rates.py does.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

import msgspec

from fastq.args.gates import MOST, Gate, Weight
from fastq.args.keyed import By, as_key
from fastq.errors import OptionError

LEAST_PER, LONGEST_PER = 1.0, 31 * 86_400.0
"""Seconds that a rate may count by: below a second the way from one start to the next is what counts; a month is a guess."""

OVER = ("wait", "drop")


class Pace(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The further element of a rate's entry."""

    per: float
    burst: int
    over: str = "wait"


class Rate(Gate):
    """So many starts in a time: `Rate("mail-api", at_most=100, per=60)` in all, with `by="account_id"` of each account.

    Starts are spaced: after a pause `burst` more may start at once, so no window of `per` seconds has more than
    `at_most + burst`. Each start of a job counts, also that of its next attempt. `weight` is how much one job counts.
    `over="drop"` ends a job as cancelled that could not start at once. A job that returns `RateLimited(30)` holds its key up.
    """

    sort = "rate"

    def __init__(
        self,
        name: str,
        at_most: int,
        *,
        per: float | timedelta,
        burst: int = 0,
        by: By = None,
        weight: Weight = 1,
        over: Literal["wait", "drop"] = "wait",
    ) -> None:
        super().__init__(name, at_most, by, weight)
        told = f"Rate({name!r})"
        seconds: object = per.total_seconds() if isinstance(per, timedelta) else per
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not LEAST_PER <= seconds <= LONGEST_PER:
            raise OptionError(f"{told}: per={per!r}: expected seconds from {LEAST_PER:.0f} to {LONGEST_PER:,.0f}, or a timedelta")
        if not _counts(burst, 0):
            raise OptionError(f"{told}: burst={burst!r}: expected a whole number from 0 on")
        if over not in OVER:
            raise OptionError(f"{told}: over={over!r}: expected 'wait' or 'drop'")
        self.per = float(seconds)
        self.burst = burst
        self.over = over

    def more(self, args: Any, kind: str) -> list[Any]:  # noqa: ARG002 - they do not differ from job to job
        """Return the time, the burst, and what becomes of a job that cannot start now."""
        return self._pace()

    def spent(self, key: object, weight: int) -> str:
        """Return the gates of a job that would count so much at a key, as JSON: for what starts outside of jobs."""
        told = f"Rate({self.name!r})"
        if not _counts(weight, 1):
            raise OptionError(f"{told}: weight={weight!r}: expected a whole number from 1 on")
        if (self.by is None) != (key is None):
            expected = "no key, for it has one for all" if self.by is None else f"a value of {self.by!r} as the key"
            raise OptionError(f"{told}: key={key!r}: expected {expected}")
        try:
            name = msgspec.Raw(b'""') if key is None else as_key(key)
        except (TypeError, ValueError) as error:
            raise OptionError(f"{told}: key={key!r}: {error}") from error
        return msgspec.json.encode([[self.sort, self.name, name, weight, self.at_most, self._pace()]]).decode()

    def _pace(self) -> list[Any]:
        per = self._per()
        return [per, self.burst] if self.over == "wait" else [per, self.burst, self.over]

    def _per(self) -> float:
        return int(self.per) if self.per.is_integer() else self.per

    def __repr__(self) -> str:
        """Write it as one would make it."""
        by = f", by={self.by!r}" if self.by is not None else ""
        weight = f", weight={self.weight!r}" if self.weight != 1 else ""
        burst = f", burst={self.burst}" if self.burst else ""
        over = f", over={self.over!r}" if self.over != "wait" else ""
        return f"Rate({self.name!r}, at_most={self.at_most}, per={self._per()}{burst}{by}{weight}{over})"


def _counts(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST
