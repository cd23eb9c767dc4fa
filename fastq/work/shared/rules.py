"""Rules around the attempts of jobs, by the key of meta that asks for them: AROUND lists all.

A feature that has a say when an attempt begins, in how long it may take, in how long a job may be parked, or in whether and when
a failed job is tried again, is a rule in a module of its own, and a line here. The producer's thread of a worker process looks
the rules of a claim's jobs up, jobs with the same ones form a batch, and the rules are put around the batch's `work` once,
outside of the hooks: a job that does not start runs none of them. A rule is made at import and never changes; it runs in each
thread that executes or fails a job.

Invariant: a job with none of these keys in its meta passes no code of a rule, a claim of jobs without meta not even the lookup.
It deliberately gives a rule no way to the database: a rule decides by a job's meta and the clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from fastq.args.meta import ATTEMPTS, DEADLINE, EXPIRES, KEEP_TRYING_FOR
from fastq.work.shared.in_time import EndsBy, SinceProgress, StartsBefore, TriedUntil

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastq.jobs.job import Job
    from fastq.jobs.outcome import Failed


class Around(Protocol):
    """The rule of one key."""

    @property
    def apart(self) -> bool:
        """Tell whether each job needs a batch of its own, for instance since each has another limit of time."""
        ...

    def put_around(self, batch: Any, row: int, /) -> None:
        """Wrap the batch's `work`, or set its `timeout`; `row` is the first of its jobs, none of which has started."""
        ...

    def refuse(self, job: Job[Any], /) -> object:
        """Return the outcome of an attempt that is not to start, None for any other; for jobs that do not pass `work`."""
        ...

    def parked(self, job: Job[Any], seconds: float, /) -> float:
        """Return after how many seconds a job that parks is to run again at the latest; never raise."""
        ...

    def counted(self, job: Job[Any], attempt: int, /) -> int:
        """Return the number of a failed attempt by which the delay behind it is found; never raise."""
        ...

    def judged(self, job: Job[Any], result: Failed, /) -> Failed:
        """Return the failure of an attempt as it is, or another one in its place; never raise."""
        ...


AROUND: dict[str, Around] = {
    EXPIRES.name: StartsBefore(EXPIRES, "expired"),
    DEADLINE.name: EndsBy(DEADLINE, "deadline"),
    KEEP_TRYING_FOR.name: TriedUntil(KEEP_TRYING_FOR),
    ATTEMPTS.name: SinceProgress(),
}


def around_of(meta: Mapping[str, Any], job_id: int) -> tuple[tuple[Around, ...], int]:
    """Return the rules of a job by its meta, and its id if they want it apart from others, else 0."""
    if AROUND.keys().isdisjoint(meta):
        return (), 0
    rules = tuple(rule for name, rule in AROUND.items() if name in meta)
    return rules, job_id if any(rule.apart for rule in rules) else 0
