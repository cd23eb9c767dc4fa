"""Decide how long a failed job waits before its next attempt.

Pure: no clock and no state; any thread may call it. For an exception of `work` it is called through `Worker.retry_delay`, in
the executors' threads and on the event loop; for failures elsewhere directly, without asking the worker.

The wait grows with the fourth power of the attempt: 1 s, 16 s, 81 s ... 25 attempts span about three weeks, long enough
to fix a bug over a holiday. The jitter keeps jobs that failed together from coming back together.
It does not decide whether there is a next attempt: that is `max_attempts`.
"""

import random
from typing import Protocol

JITTER = 0.1  # share of the delay, each way; enough to spread a burst, too little to notice
MAX_DELAY = 366 * 86_400.0  # a year: reached at attempt 75; without it attempt 32,767 leaves the range of timestamptz


class Uniform(Protocol):
    """The one method that is needed of `random` or of a seeded `random.Random`."""

    def uniform(self, a: float, b: float, /) -> float:
        """Draw a float from a to b."""
        ...


def default_delay(attempt: int, rng: Uniform = random) -> float:
    """Return attempt**4 seconds, give or take a tenth, and a year at most."""
    return min(float(attempt) ** 4, MAX_DELAY) * rng.uniform(1 - JITTER, 1 + JITTER)
