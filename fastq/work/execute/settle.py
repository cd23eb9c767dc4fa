"""Make an attempt's outcome from the value that `work` returned or the exception that it raised.

Run by the slot that executed the job: in an executor's or a bundle's thread, or on the event loop of a worker process; of an
isolated job in the main thread of the job's own process; in a test in its thread. Code of the user's runs here too
(`retry_delay`, the text of an exception, a subscriber of events): a slot shows that as SETTLING. It keeps nothing, and
deliberately writes nothing: the slot puts the outcome into its job, and the completer writes it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from fastq import texts
from fastq.events import emit
from fastq.hooks.timing import facts_of
from fastq.jobs import outcome
from fastq.jobs.job import JobCancelled
from fastq.jobs.outcome import Cancel, Output, Release, Snooze, Standing, Verdict
from fastq.results.encoding import misfit
from fastq.work.shared.called import unrun

if TYPE_CHECKING:
    from fastq.jobs.job import Job


def settle(job: Job[Any], value: object, error: BaseException | None, *, leaving: bool = False) -> object:
    """Return the outcome of an attempt; never raise, whatever the value or the error is.

    A job that was told to end because its process is `leaving` is handed back; told by anybody else, it is cancelled.
    The caller has a job in its hands: a thread that ended here would take its process along, a task its slot.
    """
    try:
        return _settled(job, value, error, leaving)
    except BaseException as another:  # noqa: BLE001 - code of the user's has run: a text, a subscriber
        return outcome.failed(job, f"the outcome of the attempt could not be told: {texts.told(another)}")


def _settled(job: Job[Any], value: object, error: BaseException | None, leaving: bool) -> object:
    if isinstance(job.outcome, Standing):
        return job.outcome.after(job, value, error, leaving=leaving)
    if isinstance(error, JobCancelled):
        return Release() if leaving else Cancel(str(error) or "cancelled while running")
    if isinstance(error, Verdict):
        value, error = error, None
    if error is None:
        result, problem = outcome.of_value(value)
        if problem:
            error = unrun(value)
        if error is None:
            if problem:
                emit("output.dropped", level=logging.WARNING, id=job.id, kind=job.kind, reason=problem)
            else:
                _tell(job, result)
            return result
    return _failed(job, error)


def _tell(job: Job[Any], result: object) -> None:
    """Report an outcome that somebody may want to hear of, though nothing has failed."""
    if isinstance(result, Snooze):
        facts = facts_of(job, "job.snoozed")
        emit("job.snoozed", level=logging.DEBUG, id=job.id, kind=job.kind, seconds=result.seconds, **facts)
    elif type(result) is Output and (worker := job.batch.worker) is not None:
        declared = worker.kind.result
        reason = None if declared is None else misfit(result.json, declared)
        if reason:
            emit("output.unfit", level=logging.WARNING, id=job.id, kind=job.kind, reason=reason)


def _failed(job: Job[Any], error: BaseException) -> object:
    kept = outcome.error_of(error)
    told, trace = texts.told(kept), texts.trace_of(kept)
    failed = outcome.failed(job, told, trace=trace, cause=error)
    fields = {**outcome.attempt_of(job, failed), **facts_of(job, "job.failed")}
    emit("job.failed", level=logging.WARNING, id=job.id, kind=job.kind, **fields, error=told, traceback=trace)
    return failed
