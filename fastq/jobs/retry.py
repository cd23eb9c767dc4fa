"""Decide how long a failed job waits before its next attempt.

No clock and no state; any thread may call it. For an exception of `work`, `delay_of` asks the worker, whose `retry_delay` is code
of the user's, in the executors' threads and on the event loop; for failures elsewhere `default_delay` is called alone, and is
pure.

The wait grows with the fourth power of the attempt: 1 s, 16 s, 81 s ... 25 attempts span about three weeks, long enough
to fix a bug over a holiday. The jitter keeps jobs that failed together from coming back together.
It does not decide whether there is a next attempt: that is `max_attempts`.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Protocol

from fastq.texts import told

if TYPE_CHECKING:
    from fastq.jobs.worker import Worker

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


def delay_of(worker: Worker[Any], attempt: int, cause: BaseException) -> tuple[float, str]:
    """Return the seconds that the worker wants to wait, or the default and the fault in the worker's answer."""
    try:
        delay = float(worker.retry_delay(attempt, cause))
    except BaseException as error:  # noqa: BLE001 - the user's policy must not cost the job, nor the thread
        return default_delay(attempt), f"\nretry_delay failed too, so the default applies: {told(error)}"
    if 0 <= delay <= MAX_DELAY:
        return delay, ""
    wrong = f"\nretry_delay gave {delay!r}, expected seconds from 0 to {MAX_DELAY:.0f}, so the default applies"
    return default_delay(attempt), wrong
