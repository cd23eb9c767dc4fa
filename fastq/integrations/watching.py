"""Share between the hooks of this room: a block around an attempt that learns how it ends, and headers that travel with a job.

The block runs where the job runs, in an executor thread or on the event loop; headers are written by the thread or event loop
that enqueues. A hook keeps nothing of a job: a `Watch` is made for each attempt, and ends with it.

Invariant: the value and the exception of the work pass as they are: a hook of this room watches and decides nothing. It
deliberately never looks at args.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import msgspec

from fastq.args.hook import Enqueuing, Hook
from fastq.hooks.handlers import failure_of
from fastq.hooks.many import results_of
from fastq.jobs.outcome import Cancel, Discard, RateLimited, Retry, Snooze, Standing, Verdict, failed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from types import TracebackType

    from fastq.jobs.job import Job

MOST_HEADERS = 1_500
"""Bytes of JSON that the headers of one hook may take of the 4,096 that a job carries (args/hook.py): both hooks fit, and leave
room for values of the user's. Traces need some 250; the rest is baggage, which others have put there."""

VERDICTS = {Snooze: "snoozed", RateLimited: "rate_limited", Cancel: "cancelled", Discard: "discarded", Retry: "failed"}
"""The outcome that each decision is told as."""


class Watch:
    """A block around one attempt, which is given the value of the work."""

    def __init__(self, job: Job[Any]) -> None:
        self.job = job
        self._value: object = None

    def returned(self, value: object) -> object:
        """Take the value of the work, and return it."""
        self._value = value
        return value

    def __enter__(self) -> Self:
        """Begin."""
        self.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None) -> None:
        """End, with the outcome of the attempt and the error by which it has failed."""
        self.end(*_ended(self.job, self._value, raised))

    def begin(self) -> None:
        """Begin to watch."""

    def end(self, outcome: str, error: BaseException | None) -> None:
        """Tell how the attempt has ended; "failed" means that another one follows."""


class Watcher(Hook):
    """A hook that has a `Watch` stand around the work of both forms."""

    def watch(self, job: Job[Any]) -> Watch:
        """Make the block for an attempt."""
        return Watch(job)

    def work(self, job: Job[Any], proceed: Callable[[], object]) -> object:
        """Watch a `def work`."""
        with self.watch(job) as watch:
            return watch.returned(proceed())

    async def work_async(self, job: Job[Any], proceed: Callable[[], Awaitable[object]]) -> object:
        """Watch an `async def work`."""
        with self.watch(job) as watch:
            return watch.returned(await proceed())

    def work_many(self, jobs: Sequence[Job[Any]], proceed: Callable[[], object]) -> object:
        """Watch a `def work_many`, in the name of each job."""
        watches = [self.watch(job).__enter__() for job in jobs]
        try:
            value = proceed()
        except BaseException as raised:
            _close(watches, [raised] * len(jobs))
            raise
        return _told(watches, value)

    async def work_many_async(self, jobs: Sequence[Job[Any]], proceed: Callable[[], Awaitable[object]]) -> object:
        """Watch an `async def work_many`, in the name of each job."""
        watches = [self.watch(job).__enter__() for job in jobs]
        try:
            value = await proceed()
        except BaseException as raised:
            _close(watches, [raised] * len(jobs))
            raise
        return _told(watches, value)


def _told(watches: Sequence[Watch], value: object) -> object:
    """Have watches end as their jobs do, and return the value."""
    try:
        results = results_of([watch.job for watch in watches], value)
    except (TypeError, ValueError) as error:
        results = [error] * len(watches)
    _close(watches, results)
    return value


def _close(watches: Sequence[Watch], results: Sequence[object]) -> None:
    """End watches with these results, the last one first: each may have put itself in the place of the one before it."""
    for watch, result in reversed([*zip(watches, results, strict=True)]):
        if isinstance(result, BaseException) and not isinstance(result, Verdict):
            watch.__exit__(type(result), result, result.__traceback__)
        else:
            watch.returned(result)
            watch.__exit__(None, None, None)


def _has_next(job: Job[Any], error: BaseException) -> bool:
    """Tell whether this failure of an attempt leaves another one.

    A job with `keep_trying_for` or a deadline has one if that comes in time: its worker's `retry_delay` is asked here, too.
    """
    batch: Any = job.batch
    if batch.around:
        return failed(job, "", cause=error).delay is not None
    return job.attempt < job.max_attempts


def carry(enqueuing: Enqueuing, name: str, headers: dict[str, str]) -> None:
    """Have headers travel with a job; where they are too long the longest stay behind, for a trace must not refuse a job."""
    while headers and len(msgspec.json.encode(headers)) > MOST_HEADERS:
        del headers[max(headers, key=lambda header: len(headers[header]))]
    if headers:
        enqueuing.carry(**{name: headers})


def carried(job: Job[Any], name: str) -> dict[str, str]:
    """Return the headers that have come with a job; none if it has none, or other values by this name."""
    headers = job.carried.get(name)
    if not isinstance(headers, Mapping):
        return {}
    return {header: value for header, value in headers.items() if isinstance(value, str)}


def _ended(job: Job[Any], value: object, raised: BaseException | None) -> tuple[str, BaseException | None]:
    """Return the outcome of an attempt as it is told, and the error by which it has failed."""
    error = None if raised is None else failure_of(raised)
    if error is not None:
        if error is not raised and raised is not None:  # of a job on the event loop that was told to end: it has been nowhere
            error = error.with_traceback(raised.__traceback__)
        return _standing(job) or ("failed" if _has_next(job, error) else "discarded"), error
    if raised is not None and not isinstance(raised, Verdict):
        return "interrupted", None
    decided = value if raised is None else raised
    if _standing(job) or not isinstance(decided, Verdict):
        return _standing(job) or "completed", None
    told = VERDICTS.get(type(decided), type(decided).__name__.lower())
    return ("discarded" if told == "failed" and not _has_next(job, decided) else told), None


def _standing(job: Job[Any]) -> str:
    """Name the outcome of a job that has ended in a transaction: by which verdict, that one knows."""
    return job.outcome.told if isinstance(job.outcome, Standing) else ""
