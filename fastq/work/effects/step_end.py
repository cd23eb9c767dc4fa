"""The record of a step as a statement for a connection of the user's: the end of the block of `job.step_transaction`.

Used in the executors' threads and on the event loop, by the block around the user's statements (blocks.py, blocks_async.py). A
`StepEnd` is made for one block, and written by the thread or event loop that runs the block alone. The record itself is the
step's (steps/transacted.py); here is what a transaction has to know of it. The statement locks the job's row while it carries
our claim, up to the commit: a statement that takes the job away comes before the record, and all is rolled back, or waits for
the commit, and the next attempt sees the record.

Invariant: the record is committed with the user's statements, or neither is. It deliberately joins no transaction that was open
before: its commit would be the caller's, so the next line of the job would not know whether the step is done, and the record of
the next step would wait for the row that this one has locked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastq.errors import StepError
from fastq.sql.statements import qualified

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.jobs.job import Job
    from fastq.results.transacting import Record


class StepEnd:
    """The record of one step, in one transaction."""

    joined = False

    def __init__(self, job: Job[Any], record: Record) -> None:
        self.job = job
        self.what = record.what
        self.number = ""
        self._record = record

    def join(self) -> None:
        """Refuse, but for a job that a test has made by hand: the test may want to roll all back."""
        if self.job.batch.claim:
            raise StepError(
                f"{self.what}: expected a connection on which no transaction is open, for the step and its record are committed "
                "before the next line runs; commit first, or roll back (a session of SQLAlchemy begins a transaction with its "
                "first statement, be it only a select)"
            )

    def decide(self, value: object) -> None:
        """Take the value of the step; raise if it cannot be kept."""
        self._record.keep(value)

    def statement(self, schema: str, channel: str | None) -> tuple[str, tuple[object, ...]]:  # noqa: ARG002 - nobody waits for it
        """Return the statement that writes the record, and its parameters."""
        name, given = self._record.statement()
        return qualified(name, schema), given

    def written(self, number: str, answer: Sequence[Any]) -> None:
        """Note that the record is written in a transaction of this number, and not committed; or raise JobLost."""
        self._record.written(answer)
        self.number = number

    def question(self, wait: int) -> tuple[str, tuple[object, ...]]:
        """Ask by the number, and whether the record is there."""
        return "step_outcome", (self.number, self.job.id, self._record.name, wait)

    def committed(self) -> None:
        """Note that it has committed."""
        self._record.committed()

    def rolled_back(self) -> None:
        """Leave the attempt as it was: it fails by the error of the connection."""
