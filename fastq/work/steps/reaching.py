"""Let the jobs of a worker process reach the records of their steps, and leave a run early.

Made by the main thread of a worker process at its start (work/reach.py); called in the threads and on the event loop that execute
jobs. It deliberately holds no connection: records.py and records_async.py do.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from fastq.events import emit
from fastq.jobs.job import JobLost
from fastq.work.steps.parking import Interrupted, Leaving, Parked, TakenAway, described
from fastq.work.steps.records import Records
from fastq.work.steps.records_async import AsyncRecords

if TYPE_CHECKING:
    from fastq.enqueue.settings import Settings
    from fastq.jobs.job import Job
    from fastq.steps.through import Saying

T = TypeVar("T")


class Reaching:
    """The way of one process (steps/through.py says what is asked of it)."""

    def __init__(self, settings: Settings) -> None:
        self._records = Records(settings)
        self._records_async = AsyncRecords(settings)

    def run(self, saying: Saying[T]) -> T:
        """Run the statements in a thread."""
        return self._records.run(saying)

    async def run_async(self, saying: Saying[T]) -> T:
        """Run the statements in an event loop."""
        return await self._records_async.run(saying)

    def parked(self, job: Job[Any], what: str, seconds: float, signal: str | None = None, seen: int = 0) -> BaseException:
        """Have the job run again after so many seconds or upon the signal; at its deadline at the latest."""
        for rule in job.batch.around:
            seconds = rule.parked(job, seconds)
        verdict = Parked(seconds, signal, seen)
        job.outcome = Leaving(job, what, verdict)
        emit("job.parked", level=logging.DEBUG, id=job.id, kind=job.kind, attempt=job.attempt, **described(verdict))
        return verdict

    def handed_back(self, job: Job[Any], what: str) -> BaseException:
        """Have the job go on in another process."""
        job.outcome = Leaving(job, what, Interrupted())
        emit("job.interrupted", id=job.id, kind=job.kind, attempt=job.attempt, before=what)
        return Interrupted()

    def lost(self, job: Job[Any], what: str) -> BaseException:
        """Note that the row is no longer ours."""
        job.outcome = TakenAway()
        emit("job.lost", level=logging.WARNING, id=job.id, kind=job.kind, attempt=job.attempt)
        return JobLost(
            f"job {job.id} was taken away from this process before {what} could be remembered (given back, or ended by somebody "
            "else), so what this run does no longer counts"
        )
