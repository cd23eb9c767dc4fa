"""Hold the statistics as an operator and a program see them, and make them of the rows of stat_read.sql.

Plain values and pure functions, used in the thread or event loop that asks. A row of the statement is about one outcome; those of
one name and one span of time become one `StatRow`, and their histograms one, of which the percentiles are estimated.

It deliberately rounds nothing and says how many attempts were timed: whether that is enough is for the reader to say.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastq.jobs.job import State
from fastq.statistics.bins import OF_WAITS, percentiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

ENQUEUED = "enqueued"
ENDS = (State.COMPLETED, State.CANCELLED, State.DISCARDED)
FAILURES = (State.RETRYABLE, State.DISCARDED)
SHARES = (0.5, 0.95, 0.99)
"""The shares of which a `Times` has the percentiles."""


@dataclass(frozen=True, slots=True)
class Times:
    """How long something took, in seconds; None where no attempt was timed. `timed` of them were, and stand for `attempts`.

    Percentiles are off by 9.1 % at most from those of the attempts that were timed.
    """

    timed: int
    attempts: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class StatRow:
    """The statistics of one span of time: of a queue, of a kind, or of all; the other names are None.

    `outcomes` counts attempts by the state in which they left their jobs: 'completed', 'cancelled' and 'discarded' have ended;
    'retryable' failed and are tried again, 'scheduled' were snoozed, 'available' handed back, 'waiting' put to wait for a signal,
    a gate or a worker. `enqueued` counts, of the jobs that have ended since, those that were enqueued then.
    """

    at: datetime
    seconds: float
    """The length of the span, as far as it has come."""

    queue: str | None
    kind: str | None
    outcomes: dict[str, int]
    ended: int
    """Jobs that completed, or were cancelled or discarded by a worker."""

    failed: int
    """Attempts that failed, whether the job was tried again or discarded."""

    rate: float
    """Jobs that ended, by the second."""

    enqueued: int
    run: Times
    """From the beginning of `work` to its end."""

    wait: Times
    """From when a job was due to the beginning of `work`."""


@dataclass(frozen=True, slots=True)
class Living:
    """The living jobs of one queue, by state. Counting stops at a limit, with many queues before it: then `at_least` is true."""

    queue: str
    available: int
    running: int
    scheduled: int
    retryable: int
    waiting: int
    at_least: bool


@dataclass(slots=True)
class _Sum:
    """The rows of one name and one span of time."""

    at: datetime
    name: str
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    figures: list[float] = field(default_factory=lambda: [0, 0.0, 0, 0.0])  # runs and waits, each with their seconds
    counts: Counter[int] = field(default_factory=Counter)  # by bin

    def add(self, row: Sequence[Any]) -> None:
        """Add a row of the statement."""
        outcome, jobs, *figures, bins, counts, seconds = row
        self.seconds = max(self.seconds, seconds)
        self.outcomes[outcome] += jobs
        self.figures = [before + more for before, more in zip(self.figures, figures, strict=True)]
        self.counts.update(dict(zip(bins, counts, strict=True)))

    def told(self, by: str) -> StatRow:
        """Return it as an operator sees it."""
        outcomes = dict(sorted(self.outcomes.items()))
        enqueued = outcomes.pop(ENQUEUED, 0)
        ended, failed = (sum(outcomes.get(state, 0) for state in states) for states in (ENDS, FAILURES))
        run = {number: count for number, count in self.counts.items() if number < OF_WAITS}
        wait = {number - OF_WAITS: count for number, count in self.counts.items() if number >= OF_WAITS}
        runs, run_seconds, waits, wait_seconds = self.figures
        return StatRow(
            self.at,
            self.seconds,
            self.name if by == "queue" else None,
            self.name if by == "kind" else None,
            outcomes,
            ended,
            failed,
            ended / self.seconds if self.seconds else 0.0,
            enqueued,
            _times(int(runs), run_seconds, run),
            _times(int(waits), wait_seconds, wait),
        )


def rows_of(found: Iterable[Sequence[Any]], by: str) -> list[StatRow]:
    """Make rows of those of the statement, which come in the order of time."""
    sums: dict[tuple[datetime, str], _Sum] = {}
    for at, name, *rest in found:
        sums.setdefault((at, name), _Sum(at, name)).add(rest)
    return [one.told(by) for one in sums.values()]


def _times(timed: int, seconds: float, counts: dict[int, int]) -> Times:
    attempts = sum(counts.values())
    return Times(timed, attempts, seconds / attempts if attempts else None, *percentiles(counts, SHARES))
