"""Tell when attempts start, and note for how long they run, for subscribers that have asked for such events by name.

`within` and `within_many` are called where the function of a kind is looked up, once per kind and claim (work/codec/codec.py)
or once per bundle (work/shared/called.py), and only while somebody has asked. The functions that they return run around `work`,
in executor threads and on the event loop. The times of an attempt are kept with the batch of its job, which dies with its jobs.

Invariant: where nobody has asked for an event of TIMED (events.py) no job comes here, and no clock is read. A job that was
claimed before somebody asked has no times, and its events tell none. It deliberately knows neither when a job was due nor how it
ends: a claim does not say the one, and the completer tells the other.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fastq.events import asked, emit_each

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastq.jobs.job import Job

STARTED = "job.started"

Times = dict[int, tuple[float, float | None]]
"""The monotonic times at which attempts began and ended, by the row of the job in its claim; None: it runs."""


def within(work: Callable[[Any], Any], times: Times, *, is_async: bool) -> Callable[[Any], Any]:
    """Return a function that tells of the start of each job if somebody has asked for that, and notes its times."""
    starts, clock = asked(STARTED), time.monotonic

    def timed(job: Job[Any]) -> object:
        if starts:
            emit_each(STARTED, (job,), _started)
        began = clock()
        times[job.row] = began, None
        try:
            return work(job)
        finally:
            times[job.row] = began, clock()

    async def timed_async(job: Job[Any]) -> object:
        if starts:
            emit_each(STARTED, (job,), _started)
        began = clock()
        times[job.row] = began, None
        try:
            return await work(job)
        finally:
            times[job.row] = began, clock()

    return timed_async if is_async else timed


def within_many(work: Callable[[Any], Any], *, is_async: bool) -> Callable[[Any], Any]:
    """Return a function that does the same for the jobs of one call of `work_many`."""

    def timed(jobs: Sequence[Job[Any]]) -> object:
        began = _begin(jobs)
        try:
            return work(jobs)
        finally:
            _note(jobs, began, time.monotonic())

    async def timed_async(jobs: Sequence[Job[Any]]) -> object:
        began = _begin(jobs)
        try:
            return await work(jobs)
        finally:
            _note(jobs, began, time.monotonic())

    return timed_async if is_async else timed


def facts_of(job: Job[Any], name: str) -> dict[str, object]:
    """Return the fields that an event of this name has for subscribers that have asked for it by name.

    `queue`; and if the attempt was timed `age`, the seconds from the enqueue to its start, and `ran`, those from there on: up to
    now if `work` goes on, as behind the transaction in which the job has ended.
    """
    if not asked(name):
        return {}
    facts: dict[str, object] = {"queue": job.queue}
    known = (job.batch.times or {}).get(job.row)
    if known is not None:
        (began, ended), now = known, time.monotonic()
        facts["age"] = _age(job, time.time() - (now - began))
        facts["ran"] = round((now if ended is None else ended) - began, 6)
    return facts


def _begin(jobs: Sequence[Job[Any]]) -> float:
    if asked(STARTED):
        emit_each(STARTED, [*jobs], _started)  # the list is the user's to change
    began = time.monotonic()
    _note(jobs, began, None)
    return began


def _note(jobs: Sequence[Job[Any]], began: float, ended: float | None) -> None:
    for job in jobs:
        if job.batch.times is not None:  # a bundle may have jobs that were claimed before somebody asked
            job.batch.times[job.row] = began, ended


def _started(job: Job[Any], at: float) -> dict[str, object]:
    return {"id": job.id, "kind": job.kind, "attempt": job.attempt, "queue": job.queue, "age": _age(job, at)}


def _age(job: Job[Any], at: float) -> float:
    """Return how old a job was at a time of this host's clock; one that differs from the database's shows here."""
    return round(max(0.0, at - job.created_at.timestamp()), 6)
