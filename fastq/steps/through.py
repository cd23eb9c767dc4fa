"""Say by which way the jobs of this process reach the records of their steps.

A worker process says so at its start (`use`, called by its main thread before any other thread runs): work/steps/reaching.py. A
test says so for a while (`using`). A job that was made by hand (`Job.of`) and has neither keeps its records in memory, so that a
worker can be tested without a word.

Invariant: one way per process, and no other state. It deliberately knows nothing of connections: the ways do.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar

from fastq.errors import StepError

if TYPE_CHECKING:
    from fastq.jobs.job import Job

T = TypeVar("T")


class Said(NamedTuple):
    """A statement of fastq/sql with its parameters."""

    statement: str
    parameters: tuple[object, ...]


Saying: TypeAlias = Generator[Said, Sequence[Sequence[Any]], T]
"""Statements that follow one another, each of which may be run twice, and a result."""


class Ways(Protocol):
    """How jobs reach the records of their steps, and how they leave."""

    def run(self, saying: Saying[T], /) -> T:
        """Run the statements in a thread."""
        ...

    async def run_async(self, saying: Saying[T], /) -> T:
        """Run the statements in an event loop."""
        ...

    def parked(
        self, job: Job[Any], what: str, seconds: float, signal: str | None = None, seen: int = 0, /
    ) -> BaseException | None:
        """Have the job run again after so many seconds or upon the signal; return what ends this run, None if it goes on."""
        ...

    def handed_back(self, job: Job[Any], what: str, /) -> BaseException | None:
        """Have the job go on in another process, since this one stops; return what ends this run, None if it goes on."""
        ...

    def lost(self, job: Job[Any], what: str, /) -> BaseException:
        """Note that the row is no longer ours, and return what ends this run."""
        ...


_ways: Ways | None = None  # by the main thread, before any other runs


def use(ways: Ways | None) -> None:
    """Say by which way the jobs of this process reach the records of their steps."""
    global _ways  # noqa: PLW0603 - one way per process, as that to its transactions
    _ways = ways


@contextmanager
def using(ways: Ways) -> Iterator[None]:
    """Have them go this way for a while: in a test."""
    before = _ways
    use(ways)
    try:
        yield
    finally:
        use(before)


def ways() -> Ways | None:
    """Return the way of this process, None if it has none."""
    return _ways


def refuse() -> NoReturn:
    """Raise StepError: this job has records in a database, and nobody has said how to reach it."""
    raise StepError("steps: expected a worker process, in whose database they are remembered; here is none")
