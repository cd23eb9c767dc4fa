"""Jobs that are executed together, in one call of `work_many`: which of them start, and the outcome of each.

Made in the thread that takes it from the inbox (gathering.py), used by the slot that executes it, in that slot's thread of a
worker process. The main thread, as the watchdog, reads it, and writes `cancelled` and `asked`; the fields of a job are written as
job.py says. To the watchdog a bundle looks like a job: it has an id, a timeout, and may be told to end.

Invariant: each job has an outcome of its own, and its attempt counts as if it had been executed alone. A bundle deliberately
calls no code of the user's but what settle.py calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastq.hooks.many import results_of
from fastq.jobs.job import JobCancelled
from fastq.jobs.outcome import Cancel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastq.jobs.job import Job
    from fastq.jobs.worker import Worker

    Settle = Callable[..., object]

NOT_STARTED = "cancelled before it started"


class Bundle:
    """Jobs of one kind that were claimed from one queue, each with its cell on the board."""

    __slots__ = ("asked", "cells", "id", "jobs", "timeout", "worker")

    def __init__(self, worker: Worker[Any], jobs: Sequence[Job[Any]], cells: Sequence[int]) -> None:
        self.worker = worker
        self.jobs = jobs
        self.cells = cells
        self.id = jobs[0].id
        self.timeout: float | None = worker.timeout  # of all of them together
        self.asked: set[int] = set()  # ids of jobs that were cancelled by somebody, while they execute

    @property
    def batch(self) -> Bundle:
        """Say where the timeout stands, as a job does."""
        return self

    @property
    def cancelled(self) -> bool:
        """Tell whether all jobs are to end."""
        return all(job.cancelled for job in self.jobs)

    @cancelled.setter
    def cancelled(self, value: bool) -> None:
        for job in self.jobs:
            job.cancelled = value

    @property
    def ids(self) -> list[int]:
        """Return the ids of the jobs."""
        return [job.id for job in self.jobs]

    def cancel(self, ids: set[int]) -> bool:
        """Tell those of the jobs that they were cancelled; tell whether all are by now, and were not before."""
        mine = [job for job in self.jobs if job.id in ids and not job.cancelled]
        for job in mine:
            self.asked.add(job.id)
            job.cancelled = True
        return bool(mine) and self.cancelled

    def part(self, by: Settle) -> tuple[Bundle | None, Bundle | None]:
        """Part the bundle into the jobs that start, and those that do not and have an outcome; where there are none, None."""
        out: list[int] = []
        stay: list[int] = []
        for place, job in enumerate(self.jobs):
            (out if self._left_out(job, by) else stay).append(place)
        return (self if not out else self._some(stay)), self._some(out)

    def _some(self, places: Sequence[int]) -> Bundle | None:
        if not places:
            return None
        return Bundle(self.worker, [self.jobs[place] for place in places], [self.cells[place] for place in places])

    def shorten(self) -> None:
        """Have the bundle end when the first of its jobs has to: a rule around some may have shortened their time."""
        limits = {job.batch.timeout for job in self.jobs if job.batch.around}
        self.timeout = min((limit for limit in (*limits, self.timeout) if limit is not None), default=None)

    @staticmethod
    def _left_out(job: Job[Any], by: Settle) -> bool:
        if job.cancelled:
            job.outcome = Cancel(NOT_STARTED)
        elif job.batch.around:
            try:
                job.outcome = next((late for rule in job.batch.around if (late := rule.refuse(job)) is not None), None)
            except BaseException as error:  # noqa: BLE001 - a moment that nobody can read: this attempt fails, and no other one
                job.outcome = by(job, None, error)
        return job.outcome is not None

    def settle(self, value: object, error: BaseException | None, by: Settle, *, leaving: bool) -> None:
        """Give each job its outcome, by the value that the call returned or the error that it raised."""
        results: Sequence[Any] = ()
        if error is None:
            try:
                results = results_of(self.jobs, value)
            except BaseException as raised:  # noqa: BLE001 - a mapping of the user's may raise anything
                error = raised
        for place, job in enumerate(self.jobs):
            result = results[place] if error is None else None
            failure = error if error is not None else result if isinstance(result, BaseException) else None
            if failure is not None and job.id in self.asked:
                failure = JobCancelled("cancelled while running")
            job.outcome = by(job, None if failure is not None else result, failure, leaving=leaving)
