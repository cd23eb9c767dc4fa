"""SQLAlchemy: a session per job, which is committed when the work has returned and rolled back when it has raised.

    SESSION = SessionPerJob(sessionmaker(engine))
    registry = Registry(hooks=[SESSION])

    def work(self, job): SESSION.session.add(...)

A hook runs where the job runs, in an executor thread or on the event loop. One object serves all threads of a process: the
session of a job lies in a context variable, which only the code of that job sees.

Invariant: a job sees no session of another job, and no session outlives its job. The session is committed before fastq writes the
end of the job, so a process that dies in between does the work again: docs/effects-once.md has the way in which both are one
transaction. This module deliberately imports nothing of SQLAlchemy: it calls what the application gives.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fastq.args.hook import Hook
from fastq.errors import OptionError

# The package is no dependency: a checker has nothing to say where it is not installed.
# pyright: reportMissingImports=false
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from sqlalchemy.ext.asyncio import AsyncSession
    from sqlalchemy.orm import Session

    from fastq.jobs.job import Job

AnySession = TypeVar("AnySession", bound="Session")
AnyAsyncSession = TypeVar("AnyAsyncSession", bound="AsyncSession")
AnyOne = TypeVar("AnyOne")


class SessionPerJob(Hook, Generic[AnySession]):
    """Makes a session for each job of a `def work`, or each call of a `def work_many`; `session` is that of the job at hand."""

    def __init__(self, make: Callable[[], AnySession]) -> None:
        self._make = _callable(make, self)
        self._session: ContextVar[AnySession] = ContextVar("session")

    @property
    def session(self) -> AnySession:
        """The session of the job that this code runs in."""
        return _current(self._session, self, "def work")

    def work(self, job: Job[Any], proceed: Callable[[], object]) -> object:  # noqa: ARG002 - a session knows no job
        """Work a job with a session."""
        return self._with_session(proceed)

    def work_many(self, jobs: Sequence[Job[Any]], proceed: Callable[[], object]) -> object:  # noqa: ARG002 - the same
        """Work the jobs of one call with one session."""
        return self._with_session(proceed)

    async def work_async(self, job: Job[Any], proceed: Callable[[], Awaitable[object]]) -> object:  # noqa: ARG002 - the same
        """Work a job of an `async def work` without one: a registry may have workers of both forms."""
        return await proceed()

    async def work_many_async(self, jobs: Sequence[Job[Any]], proceed: Callable[[], Awaitable[object]]) -> object:  # noqa: ARG002 - the same
        """Work the jobs of an `async def work_many` without one."""
        return await proceed()

    def _with_session(self, proceed: Callable[[], object]) -> object:
        with self._make() as session, session.begin():  # takes a connection with its first statement, not before
            token = self._session.set(session)
            try:
                return proceed()
            finally:
                self._session.reset(token)


class AsyncSessionPerJob(Hook, Generic[AnyAsyncSession]):
    """Makes an asyncio session for each job of an `async def work`, or each call of an `async def work_many`."""

    def __init__(self, make: Callable[[], AnyAsyncSession]) -> None:
        self._make = _callable(make, self)
        self._session: ContextVar[AnyAsyncSession] = ContextVar("session")

    @property
    def session(self) -> AnyAsyncSession:
        """The session of the job that this code runs in."""
        return _current(self._session, self, "async def work")

    async def work_async(self, job: Job[Any], proceed: Callable[[], Awaitable[object]]) -> object:  # noqa: ARG002 - a session knows no job
        """Work a job with a session."""
        return await self._with_session(proceed)

    async def work_many_async(self, jobs: Sequence[Job[Any]], proceed: Callable[[], Awaitable[object]]) -> object:  # noqa: ARG002 - the same
        """Work the jobs of one call with one session."""
        return await self._with_session(proceed)

    def work(self, job: Job[Any], proceed: Callable[[], object]) -> object:  # noqa: ARG002 - the same
        """Work a job of a `def work` without one: a registry may have workers of both forms."""
        return proceed()

    def work_many(self, jobs: Sequence[Job[Any]], proceed: Callable[[], object]) -> object:  # noqa: ARG002 - the same
        """Work the jobs of a `def work_many` without one."""
        return proceed()

    async def _with_session(self, proceed: Callable[[], Awaitable[object]]) -> object:
        async with self._make() as session, session.begin():
            token = self._session.set(session)
            try:
                return await proceed()
            finally:
                self._session.reset(token)


def _callable(make: Any, hook: Hook) -> Any:
    if not callable(make):
        maker = "async_sessionmaker(engine)" if isinstance(hook, AsyncSessionPerJob) else "sessionmaker(engine)"
        raise OptionError(
            f"{type(hook).__name__}({make!r}): expected a function that makes a session; write {type(hook).__name__}({maker})"
        )
    return make


def _current(variable: ContextVar[AnyOne], hook: Hook, form: str) -> AnyOne:
    """Return the session of the job at hand, or raise RuntimeError with what may be missing."""
    try:
        return variable.get()
    except LookupError:
        name = type(hook).__name__
        raise RuntimeError(
            f"{name}.session: expected to be called by the work of a job, got no session; this object makes one for each "
            f"'{form}' of the registry, kind or worker that has it as a hook, and a thread that the work starts does not see it"
        ) from None
