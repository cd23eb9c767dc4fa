"""The application's handlers: of attempts that have failed by an exception, and of jobs whose process has died under them.

Both are hooks around all workers of a registry, outside of its other hooks. `ErrorHandler` looks at the exception with which
`work` and its hooks have ended, `CrashHandler` at the note that was left with a job (sql/job_recover.sql; of a job with a process
of its own, sql/job_crashed.sql), in the attempt after the crash and before `work`. They run where the job runs, in an executor
thread, on the event loop or in the job's own process: no code of the user's runs in a supervisor. The functions of
a handler are set while the application is imported, and only read afterwards; nothing is kept of a job.

Invariant: a handler of errors that returns None, or fails, changes nothing. Handlers deliberately hear nothing of decisions
(`Snooze`, `Cancel`), cancelled jobs, attempts that were given up, and args that do not fit: `work` has raised nothing there.
"""

from __future__ import annotations

import inspect
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from fastq.args.hook import Hook
from fastq.args.meta import CRASHED
from fastq.errors import RegistryError
from fastq.hooks.many import results_of
from fastq.jobs.declaration import is_function
from fastq.jobs.job import JobInterrupt, JobTimeout
from fastq.jobs.outcome import Snooze, Verdict
from fastq.jobs.worker_faults import place
from fastq.texts import name_of, told

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from fastq.jobs.job import Job
    from fastq.jobs.worker import Worker

_SIGNAL = re.compile(r"signal (\d+)")


@dataclass(frozen=True)
class Crash:
    """The death of the process that executed a job: its `cause` ("signal 9", "exit code 3"), the time `at` which it was noticed.

    `signal` is the number of the signal, None if there was none. `crashes` counts the deaths that this job is blamed for so far,
    this one among them: the process may have executed others as well.

    Of an isolated job the process was its own: `memory` is the number of bytes that it had at its most, and the `cause` may be
    "timeout", where the job did not end in its time and its process was killed.
    """

    cause: str
    signal: int | None
    crashes: int
    at: datetime
    memory: int | None = None


def crash_of(job: Job[Any]) -> Crash | None:
    """Return the crash that has ended the attempt before this one; None if that ended otherwise."""
    noted = job.meta.get(CRASHED.name)
    if noted is None or noted["next"] != job.attempt:
        return None
    found = _SIGNAL.fullmatch(noted["cause"])
    number, at = int(found[1]) if found else None, datetime.fromisoformat(noted["at"])
    return Crash(noted["cause"], number, noted["crashes"], at, noted.get("memory"))


class _Handler(Hook):
    """One of the two: the functions that are asked, a sync one and one that awaits."""

    decorator = ""
    wanted = ""

    def __init__(self) -> None:
        self._sync: Callable[[Any, Any], object] | None = None
        self._async: Callable[[Any, Any], Awaitable[object]] | None = None

    def __bool__(self) -> bool:
        """Tell whether there is anybody to ask."""
        return self._sync is not None or self._async is not None

    def add(self, function: Callable[[Any, Any], Any]) -> None:
        """Take the function of one form, or raise RegistryError."""
        if not is_function(function):
            raise RegistryError(f"{self.decorator}: expected a function, got {function!r}")
        signature = inspect.signature(function)
        try:
            signature.bind(None, None)
        except TypeError as error:
            raise RegistryError(f"{place(function)} takes {signature} ({error}); write: {self.wanted}") from error
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise RegistryError(f"{place(function)} has a yield in it, so calling it would run nothing; write: {self.wanted}")
        awaits = inspect.iscoroutinefunction(function)
        known = self._async if awaits else self._sync
        if known is not None:
            form = "async def" if awaits else "def"
            raise RegistryError(
                f"{self.decorator} has two handlers with {form}, {place(known)} and {place(function)}; remove one"
            )
        if awaits:
            self._async = function
        else:
            self._sync = function

    def check(self, worker: Worker[Any]) -> None:
        """Refuse a worker that nobody could be asked about."""
        if self and not worker.is_async and self._sync is None:
            assert self._async is not None
            raise RegistryError(
                f"{place(type(worker))} has def work, and {place(self._async)} is an async def; "
                f"before it add one for both forms: {self.wanted}"
            )

    def _ask(self, job: Job[Any], about: object) -> object:
        assert self._sync is not None  # `check` has seen to it
        try:
            return self._sync(job, about)
        except Verdict as decided:  # raised instead of returned
            return decided

    async def _ask_async(self, job: Job[Any], about: object) -> object:
        if self._async is None:
            return self._ask(job, about)
        try:
            return await self._async(job, about)
        except Verdict as decided:
            return decided


class ErrorHandler(_Handler):
    """Asks about the exception of an attempt that has failed."""

    decorator = "@registry.on_error"
    wanted = "def handle(job: Job[Any], error: BaseException) -> Snooze | None"

    def work(self, job: Job[Any], proceed: Callable[[], object]) -> object:
        """Ask about an exception."""
        try:
            return proceed()
        except BaseException as raised:
            decided = self._decision(job, raised)
            if decided is None:
                raise
            return decided

    async def work_async(self, job: Job[Any], proceed: Callable[[], Awaitable[object]]) -> object:
        """Ask about an exception."""
        try:
            return await proceed()
        except BaseException as raised:
            decided = await self._decision_async(job, raised)
            if decided is None:
                raise
            return decided

    def work_many(self, jobs: Sequence[Job[Any]], proceed: Callable[[], object]) -> object:
        """Ask about the exception of each job that has failed."""
        try:
            results = results_of(jobs, proceed())
        except BaseException as raised:
            decided = [self._decision(job, raised) for job in jobs]
            if not any(decided):
                raise
            return [decision or raised for decision in decided]
        asked = zip(jobs, results, strict=True)
        return [(self._decision(job, it) or it) if isinstance(it, BaseException) else it for job, it in asked]

    async def work_many_async(self, jobs: Sequence[Job[Any]], proceed: Callable[[], Awaitable[object]]) -> object:
        """Ask about the exception of each job that has failed."""
        try:
            results = results_of(jobs, await proceed())
        except BaseException as raised:
            decided = [await self._decision_async(job, raised) for job in jobs]
            if not any(decided):
                raise
            return [decision or raised for decision in decided]
        asked = zip(jobs, results, strict=True)
        return [(await self._decision_async(job, it) or it) if isinstance(it, BaseException) else it for job, it in asked]

    def _decision(self, job: Job[Any], raised: BaseException) -> Verdict | None:
        error = failure_of(raised)
        if error is None:
            return None
        try:
            return _fitting(self._ask(job, error), error)
        except Exception as another:  # noqa: BLE001 - a handler that fails must not hide the failure that it was asked about
            return _fitting(another, error)

    async def _decision_async(self, job: Job[Any], raised: BaseException) -> Verdict | None:
        error = failure_of(raised)
        if error is None:
            return None
        try:
            return _fitting(await self._ask_async(job, error), error)
        except Exception as another:  # noqa: BLE001 - the same
            return _fitting(another, error)


class CrashHandler(_Handler):
    """Asks, before `work`, about the crash that has ended the attempt before. A job of a batch worker is alone then."""

    decorator = "@registry.on_crash"
    wanted = "def handle(job: Job[Any], crash: Crash) -> Snooze | None"

    def work(self, job: Job[Any], proceed: Callable[[], object]) -> object:
        """Ask about a crash, if there was one."""
        crash = crash_of(job)
        decided = None if crash is None else _due(self._ask(job, crash), crash)
        return proceed() if decided is None else decided

    async def work_async(self, job: Job[Any], proceed: Callable[[], Awaitable[object]]) -> object:
        """Ask about a crash, if there was one."""
        crash = crash_of(job)
        decided = None if crash is None else _due(await self._ask_async(job, crash), crash)
        return await proceed() if decided is None else decided

    def work_many(self, jobs: Sequence[Job[Any]], proceed: Callable[[], object]) -> object:
        """Ask about the crash of a job that is given alone, since there was one."""
        return self.work(jobs[0], proceed)

    async def work_many_async(self, jobs: Sequence[Job[Any]], proceed: Callable[[], Awaitable[object]]) -> object:
        """Ask about the crash of a job that is given alone."""
        return await self.work_async(jobs[0], proceed)


def failure_of(raised: BaseException) -> BaseException | None:
    """Return the error by which an attempt fails; None if the exception is a decision, or ends a job that was cancelled."""
    if not isinstance(raised, Exception) and raised.args and isinstance(raised.args[0], JobInterrupt):
        raised = raised.args[0]  # a CancelledError: fastq has told the job to end, and the event loop puts the reason there
    if isinstance(raised, Verdict) or (isinstance(raised, JobInterrupt) and not isinstance(raised, JobTimeout)):
        return None
    return raised


def _fitting(decided: object, error: BaseException) -> Verdict | None:
    """Return the decision about an error; None if there is none. Anything else is noted below the error's traceback."""
    if isinstance(decided, Verdict):
        return decided.because(error)
    if decided is not None:
        fault = told(decided) if isinstance(decided, BaseException) else f"it returned a {name_of(decided)}"
        with suppress(BaseException):  # an error may have notes of its own that are no list
            error.add_note(f"the handler of errors failed too: {fault}; expected Snooze, Cancel, Discard, Retry, or None")
    return None


def _due(decided: object, crash: Crash) -> Verdict | None:
    """Return the decision about a crash, None to go on to `work`.

    A Snooze counts from the crash: the attempt that it has put off is asked about again when it comes.
    """
    if decided is None:
        return None
    if not isinstance(decided, Verdict):
        raise TypeError(f"the handler of crashes returned a {name_of(decided)}, expected Snooze, Cancel, Discard, Retry, or None")
    if isinstance(decided, Snooze):
        left = crash.at + timedelta(seconds=decided.seconds) - datetime.now(UTC)
        return Snooze(left) if left > timedelta(0) else None
    return decided
