"""Choose a few jobs of a claim, and time their attempts.

Chosen in the producer's thread of a worker process, before the claim's jobs are handed out: of each kind one job in SHARE, one
at least, and MOST at most. Such a job gets a batch of its own, equal to that of its neighbours but for its `work`, which looks
at a clock before and after. So the others pass no code of this, and the executors know of neither. At low rates, where a claim
brings a job or two, each job is timed; at high rates one stands for SHARE, and where claims are full for half of one.

A `Stopwatch` is written by the thread that executes the job, and read by the completer's after the attempt has ended.

Invariant: the jobs for which the chosen ones of a batch stand are as many as the batch has. It deliberately takes the time of
hooks and rules around `work` for a part of it.
"""

from __future__ import annotations

import random
import struct
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from fastq.leases.lease import boottime
from fastq.work.codec.claimed import EPOCH, UNIX
from fastq.work.codec.codec import KindBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastq.jobs.job import Job

SHARE = 256
"""Jobs of a kind in a claim for which one is timed: a process that works 10,000 jobs a second in small claims still times 2,300 a
minute, of which 23 lie above the 99th percentile."""

MOST = 2
"""Jobs of a kind in a claim that are timed at most. One costs the process some 10 us, from here to the row in the table, and a
job that does nothing 0.9: of a full claim of 5,000 jobs two are 0.4 % of that, where one in SHARE were 4 %. A process at that
rate makes ten such claims a second and still times 1,200 jobs a minute, of which 12 lie above the 99th percentile."""

ALL = attrgetter(*KindBatch.__slots__)


BETWEEN_EPOCHS = (EPOCH - UNIX).total_seconds()
"""Seconds from 1970 to the moment from which a claim counts the microseconds of `created`."""


class Stopwatch:
    """When an attempt began and ended, by the clock that nobody sets; 0 before that."""

    __slots__ = ("began", "ended")

    def __init__(self) -> None:
        self.began = self.ended = 0.0


class Timed(KindBatch):
    """The batch of one job that is timed."""

    __slots__ = ("enqueued", "seq", "stands_for", "stopwatch")

    def __init__(self, batch: KindBatch, row: int, stands_for: int) -> None:
        (  # as they stand in `KindBatch.__slots__`: a loop over these takes three times as long
            self._claimed,
            self.around,
            self.asks_for,
            self.claim,
            self.ends,
            self.gated,
            self.kind,
            self.limit,
            self.max_attempts,
            self.priorities,
            self.queue,
            self.steps,
            self.timeout,
            self.times,
            self.version,
            self.work,
            self.worker,
        ) = ALL(batch)
        claimed = self._claimed
        self.seq = claimed.seqs[row]  # the job's place in the order in which jobs became available
        # When it was enqueued, in seconds since 1970 by the database's clock. No datetime: Postgres has times that Python lacks.
        self.enqueued = BETWEEN_EPOCHS + struct.unpack_from(">q", claimed.created, 8 * row)[0] / 1e6
        self.stands_for = stands_for  # so many jobs, with itself
        self.stopwatch = Stopwatch()
        self.work = partial(_await_job if batch.worker.is_async else _run_job, self.stopwatch, batch.work)


def choose(jobs: Sequence[Job[Any]]) -> None:
    """Have some of the jobs of one batch timed, any one of each SHARE, or of more where those would be more than MOST."""
    count = len(jobs)
    share = max(SHARE, -(-count // MOST))
    for first in range(0, count, share):
        block = min(share, count - first)
        job: Any = jobs[first + int(random.random() * block)]  # noqa: S311 - any will do
        job.batch = Timed(job.batch, job.row, block)


def around_many(work: Callable[[Any], Any], jobs: Sequence[Job[Any]], *, is_async: bool) -> Callable[[Any], Any]:
    """Return the function to call with the jobs of a bundle, so that those of them that are timed have its time."""
    stopwatches = [job.batch.stopwatch for job in jobs if type(job.batch) is Timed]
    if not stopwatches:
        return work
    return partial(_await_many if is_async else _run_many, stopwatches, work)


def _run_job(stopwatch: Stopwatch, work: Callable[[Any], object], job: Job[Any]) -> object:
    stopwatch.began = boottime()
    try:
        return work(job)
    finally:
        stopwatch.ended = boottime()


async def _await_job(stopwatch: Stopwatch, work: Callable[[Any], Any], job: Job[Any]) -> object:
    stopwatch.began = boottime()
    try:
        return await work(job)
    finally:
        stopwatch.ended = boottime()


def _run_many(stopwatches: Sequence[Stopwatch], work: Callable[[Any], object], jobs: Any) -> object:
    began = boottime()
    try:
        return work(jobs)
    finally:
        _note(stopwatches, began)


async def _await_many(stopwatches: Sequence[Stopwatch], work: Callable[[Any], Any], jobs: Any) -> object:
    began = boottime()
    try:
        return await work(jobs)
    finally:
        _note(stopwatches, began)


def _note(stopwatches: Sequence[Stopwatch], began: float) -> None:
    ended = boottime()
    for stopwatch in stopwatches:
        stopwatch.began, stopwatch.ended = began, ended
