"""The rules of `expires`, `deadline`, `keep_trying_for` and `attempts`: which attempts come too late, and which of them count.

Used through rules.py. `put_around` runs in the producer's thread of a worker process; the function that it puts around `work`,
in the executor's thread or on the event loop, at the moment when the attempt begins, and `parked` where the job parks; `counted`
and `judged` in whichever thread ends a failed attempt. Rules have no state but the batch's `timeout`, which the thread of the
batch's only job writes before its `work` starts.

Invariant: moments are compared with the database's clock, as far as it has come since the claim; a host's own clock has no say.
It deliberately interrupts nothing: the time that is left becomes the attempt's timeout, and the watchdog sees to that. It looks
at a job when its turn comes and not before, so that no index needs to know when jobs expire.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from fastq.args.meta import ATTEMPTS
from fastq.errors import FastqError
from fastq.jobs.job import Job, State
from fastq.jobs.outcome import Failed, Fate, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.args.meta import TimeKey


class Late(Verdict):
    """A job whose turn came too late: it ends, and no attempt counts. Returned in place of `work`, by a rule around it."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause

    def said(self) -> Late:
        """Return another one for the same cause."""
        return Late(self.cause)

    @property
    def fate(self) -> Fate:
        """End the job for its cause."""
        return Fate(State.CANCELLED, cause=self.cause)


class Rule:
    """A rule that has no say: what each other one begins with."""

    apart = False

    def put_around(self, batch: Any, row: int) -> None:
        """Leave the attempts as they are."""

    def refuse(self, job: Job[Any]) -> Verdict | None:  # noqa: ARG002 - Around's signature
        """Refuse none."""
        return None

    def parked(self, job: Job[Any], seconds: float) -> float:  # noqa: ARG002 - the same
        """Have a job that parks run again when it wants to."""
        return seconds

    def counted(self, job: Job[Any], attempt: int) -> int:  # noqa: ARG002 - the same
        """Count each attempt."""
        return attempt

    def judged(self, job: Job[Any], result: Failed) -> Failed:  # noqa: ARG002 - the same
        """Leave a failure as it is."""
        return result


class StartsBefore(Rule):
    """An attempt that would start after the job's moment does not start, and the job ends."""

    def __init__(self, key: TimeKey, cause: str) -> None:
        self._key = key
        self._cause = cause

    def put_around(self, batch: Any, row: int) -> None:  # noqa: ARG002 - Around's signature
        """Look at the clock before each call of `work`."""
        batch.work = partial(_await_job if batch.worker.is_async else _run_job, self, batch.work)

    def refuse(self, job: Job[Any]) -> Late | None:
        """Return an outcome if the attempt comes too late to start."""
        left = _left(self._key, job)
        return Late(self._cause) if left is not None and left <= 0 else None


class EndsBy(StartsBefore):
    """An attempt may take no longer than up to the job's moment, and no attempt is planned for a time behind it."""

    apart = True

    def put_around(self, batch: Any, row: int) -> None:
        """Shorten the timeout, too: for the supervisor, which knows no better if the attempt never lets the watchdog run."""
        super().put_around(batch, row)
        with suppress(FastqError):  # the attempt fails with this reason
            self._shorten(Job(0, 0, None, row, batch))

    def refuse(self, job: Job[Any]) -> Late | None:
        """Return an outcome if the attempt comes too late to start; have one that starts end in time."""
        self._shorten(job)
        return super().refuse(job)

    def _shorten(self, job: Job[Any]) -> None:
        batch: Any = job.batch
        left, timeout = _left(self._key, job), batch.worker.timeout
        if left is not None:
            batch.timeout = max(SHORTEST, left if timeout is None else min(timeout, left))

    def parked(self, job: Job[Any], seconds: float) -> float:
        """Have a job that parks wake up at its moment at the latest: it is judged then."""
        with suppress(FastqError):  # of a moment that nobody can read the next attempt tells
            left = _left(self._key, job)
            return seconds if left is None else min(seconds, max(left, 0.0))
        return seconds

    def judged(self, job: Job[Any], result: Failed) -> Failed:
        """Discard the job if its next attempt would come too late."""
        return Failed(result.error, None, self._cause) if _too_late(self._key, job, result) else result


class TriedUntil(Rule):
    """A failed job is tried again up to its moment."""

    def __init__(self, key: TimeKey) -> None:
        self._key = key

    def judged(self, job: Job[Any], result: Failed) -> Failed:
        """Discard the job if its next attempt would come too late: this one was its last."""
        return Failed(result.error, None) if _too_late(self._key, job, result) else result


class SinceProgress(Rule):
    """The attempts of a job count from its last progress on: the delay behind a failed one is that of a job that began there.

    How many there may be is in the job's row: the statement that writes a record raises `max_attempts`
    (sql/step_note_counted.sql). So each statement that ends a job after its last attempt is right without knowing this rule,
    whichever process has died.
    """

    def counted(self, job: Job[Any], attempt: int) -> int:
        """Return how many attempts have been made since the last progress; the one that got on is as the first of them."""
        allowed = job.meta.get(ATTEMPTS.name)
        since = attempt - job.max_attempts + allowed if type(allowed) is int else attempt
        return min(max(since, 1), attempt)


SHORTEST = 0.001
"""Seconds: the least timeout of an attempt, for 0 means no limit on the board. It is far less than a tick of the watchdog."""


def _left(key: TimeKey, job: Job[Any]) -> float | None:
    """Return the seconds up to the moment of a job, negative ones if it has passed; None if it has none."""
    moment, batch = key.of(job), job.batch
    now: Callable[[], Any] = batch.now  # type: ignore[attr-defined]
    return None if moment is None else (moment - now()).total_seconds()


def _too_late(key: TimeKey, job: Job[Any], result: Failed) -> bool:
    """Tell whether the next attempt would come behind the moment; of a moment that nobody can read it does not."""
    with suppress(FastqError):
        left = _left(key, job)
        return result.delay is not None and left is not None and result.delay > left
    return False


def _run_job(rule: StartsBefore, work: Callable[[Any], object], job: Job[Any]) -> object:
    late = rule.refuse(job)
    return work(job) if late is None else late


async def _await_job(rule: StartsBefore, work: Callable[[Any], Any], job: Job[Any]) -> object:
    late = rule.refuse(job)
    return await work(job) if late is None else late
