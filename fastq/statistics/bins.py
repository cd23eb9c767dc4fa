"""Sort durations into bins, and estimate percentiles by how many are in each.

Pure functions: worker processes sort (work/complete/tally.py), clients and commands estimate (admin/statistics/). Four bins
double a duration, so the middle of a bin is off by 9.1 % at most from any duration in it (2 to the power of 1/8). That bounds the
error of each percentile, however many durations there are and however they are spread. Bins never change: rows of other hosts and
of last year have them, and a sum of two histograms is the sum of their counts.

It deliberately keeps no duration, and knows no other error: whether few durations stand for many jobs is for others to say.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LEAST = 1e-5
"""Seconds: the end of bin 0. A job that does nothing takes less, and nobody looks for the difference."""

PER_OCTAVE = 4
"""Bins from a duration to twice that: an error of 9.1 %. With two of them it is 19 %, with eight 4.4 %, for twice the bytes."""

LAST = 160
"""The last bin: from 107 days on."""

OF_WAITS = 256
"""The number of the bin 0 for waiting times: a row has the bins of both in one list."""

ERROR = 2 ** (1 / (2 * PER_OCTAVE)) - 1
"""The share by which an estimate is off at most."""


def bin_of(seconds: float) -> int:
    """Return the bin of a duration; one below 0, by clocks that differ, is in the first."""
    return 0 if seconds <= LEAST else min(math.ceil(PER_OCTAVE * math.log2(seconds / LEAST)), LAST)


def middle_of(number: int) -> float:
    """Return the duration that stands for all of a bin: the geometric mean of its ends."""
    return LEAST if number <= 0 else LEAST * 2.0 ** ((number - 0.5) / PER_OCTAVE)


def percentiles(counts: Mapping[int, int], shares: Sequence[float]) -> list[float | None]:
    """Estimate the durations below which these shares of all lie, by the nearest rank; None if there is no duration.

    `shares` go up.
    """
    total = sum(counts.values())
    if not total:
        return [None] * len(shares)
    found: list[float | None] = []
    below = 0
    for number in sorted(counts):
        below += counts[number]
        while len(found) < len(shares) and below >= math.ceil(shares[len(found)] * total):
            found.append(middle_of(number))
    return found
