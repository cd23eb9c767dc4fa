"""Begin the transaction in which a job ends: what `job.transaction()` gives, and who makes it in this process.

`begin` is called in the thread or on the event loop that executes the job. A worker process says at its start how it makes these
transactions (`begin_by`, called by its main thread before any other thread runs): work/effects/transaction.py. A test says so for
a while. Where nobody has, there is no database that a job could end in, and `begin` refuses.

Invariant: one maker per process, and no other state. It deliberately knows nothing of connections: the maker does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from fastq.errors import FastqError

if TYPE_CHECKING:
    from types import TracebackType

    from fastq.jobs.job import Job

Given_co = TypeVar("Given_co", covariant=True)
Awaited_co = TypeVar("Awaited_co", covariant=True)


class Transaction(Protocol[Given_co, Awaited_co]):
    """A transaction that ends a job with what is written in it: `with` gives its connection, or `async with` in a coroutine.

    `outcome` may be set until its end to anything that `work` may return: a value to keep, `Snooze(60)`, `Cancel("why")` ...
    """

    outcome: object

    def __enter__(self) -> Given_co:
        """Begin, and give the connection."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None:
        """End the job and commit, or roll back."""
        ...

    async def __aenter__(self) -> Awaited_co:
        """Begin, and give the connection."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None:
        """End the job and commit, or roll back."""
        ...


Begin = Callable[["Job[Any]", Any, object], Transaction[Any, Any]]
"""A function that makes a transaction of a job, a connection of the user's or None, and an outcome."""

_begin: Begin | None = None  # by the main thread, before any other runs


def begin_by(begin: Begin | None) -> None:
    """Say how this process makes the transactions of jobs."""
    global _begin  # noqa: PLW0603 - one way per process, as that to the jobs before a step
    _begin = begin


@contextmanager
def beginning_by(begin: Begin) -> Iterator[None]:
    """Have them made so for a while: in a test."""
    before = _begin
    begin_by(begin)
    try:
        yield
    finally:
        begin_by(before)


def announce(tell: Callable[[], object]) -> None:
    """Have a function called before each transaction is made, where this process makes any."""
    make = _begin
    if make is None:
        return

    def announced(job: Job[Any], conn: Any, outcome: object) -> Transaction[Any, Any]:
        tell()
        return make(job, conn, outcome)

    begin_by(announced)


def begin(job: Job[Any], conn: Any, outcome: object) -> Transaction[Any, Any]:
    """Make the transaction of a job, or raise FastqError where there is no database that the job could end in."""
    if _begin is None:
        raise FastqError(
            "job.transaction: expected a worker process, in whose database the job can end; here is none (in a test: "
            "fastq.testing.transactions)"
        )
    return _begin(job, conn, outcome)
