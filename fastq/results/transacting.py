"""Begin the transactions of jobs: the one in which a job ends (`job.transaction()`), and that of a step with its record.

`begin` and `note` are called in the thread or on the event loop that executes the job. A worker process says at its start how it
makes these transactions (`begin_by`, called by its main thread before any other thread runs): work/effects/transaction.py. A test
says so for a while. Where nobody has, there is no database to write to, and both refuse.

Invariant: one maker per process, and no other state. It deliberately knows nothing of connections: the maker does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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


class Record(Protocol):
    """The record of a step, as the transaction of the step writes it."""

    what: str  # "step 'charge' of job 1"
    name: str

    def keep(self, value: object) -> None:
        """Take the value of the step; raise if it cannot be kept."""
        ...

    def statement(self) -> tuple[str, tuple[object, ...]]:
        """Return the name of the statement that writes the record, and its parameters."""
        ...

    def written(self, answer: Sequence[Any]) -> None:
        """Take the answer of the statement; raise JobLost if the job is no longer ours."""
        ...

    def committed(self) -> None:
        """Note that the transaction has committed."""
        ...


class Maker(Protocol):
    """How a process makes the transactions of its jobs; the connection is one of the user's, or None."""

    def begin(self, job: Job[Any], conn: Any, outcome: object, /) -> Transaction[Any, Any]:
        """Make a transaction in which a job ends."""
        ...

    def note(self, job: Job[Any], conn: Any, record: Record, /) -> Transaction[Any, Any]:
        """Make a transaction in which the record of a step is written; its `outcome` is the value of the step."""
        ...


_maker: Maker | None = None  # by the main thread, before any other runs


def begin_by(maker: Maker | None) -> None:
    """Say how this process makes the transactions of jobs."""
    global _maker  # noqa: PLW0603 - one way per process, as that to the jobs before a step
    _maker = maker


@contextmanager
def beginning_by(maker: Maker) -> Iterator[None]:
    """Have them made so for a while: in a test."""
    before = _maker
    begin_by(maker)
    try:
        yield
    finally:
        begin_by(before)


class _Announced:
    """A maker that says so before it makes a transaction in which a job may end."""

    def __init__(self, maker: Maker, tell: Callable[[], object]) -> None:
        self._maker = maker
        self._tell = tell
        self.note = maker.note

    def begin(self, job: Job[Any], conn: Any, outcome: object, /) -> Transaction[Any, Any]:
        self._tell()
        return self._maker.begin(job, conn, outcome)


def announce(tell: Callable[[], object]) -> None:
    """Have a function called before each transaction in which a job may end, where this process makes any."""
    if _maker is not None:
        begin_by(_Announced(_maker, tell))


def begin(job: Job[Any], conn: Any, outcome: object) -> Transaction[Any, Any]:
    """Make the transaction of a job, or raise FastqError where there is no database that the job could end in."""
    return _known("job.transaction").begin(job, conn, outcome)


def note(job: Job[Any], conn: Any, record: Record) -> Transaction[Any, Any]:
    """Make the transaction of a step, or raise FastqError where there is no database for its record."""
    return _known(record.what).note(job, conn, record)


def _known(what: str) -> Maker:
    if _maker is None:
        raise FastqError(
            f"{what}: expected a worker process, in whose database it is written; here is none (in a test: "
            "fastq.testing.transactions)"
        )
    return _maker
