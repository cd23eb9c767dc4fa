"""The end of one job as a statement for a connection of the user's, and the outcomes that the job has because of it.

Used in the executors' threads and on the event loop, by the block around the user's statements (blocks.py, blocks_async.py). An
`End` is made for one block, and written by the thread or event loop that runs the block alone. The statement is the one that
the completer would write this outcome with, by the list of its writes, for one job. So the gatekeeper, the steward and the
archive hear of the end here as they do from the completer.

`job.outcome` follows the transaction; each of its values leaves the row alone, or writes to it by its claim only:
    Pending   from the end's statement on: it may commit or not, so the attempt fails unless the row is gone by then
    Ended     it has committed
    Lost      the row no longer carried our claim: all was rolled back
    None      it was rolled back, and the attempt goes on as any other

Whether the job has ended is its row's to say; these outcomes decide how the process reports it. It deliberately runs no
statement.
"""

from __future__ import annotations

import functools
import logging
import re
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from msgspec.structs import replace

from fastq import texts
from fastq.errors import FastqError
from fastq.events import UNLOGGED, asked, emit
from fastq.hooks.timing import facts_of
from fastq.jobs import outcome
from fastq.jobs.job import JobLost
from fastq.jobs.outcome import SUCCESS, Fate, Standing, Verdict, fate_of
from fastq.sql.statements import qualified
from fastq.work.complete.writes import WRITES, Ending, place_of
from fastq.work.execute.settle import settle
from fastq.work.shared.called import unrun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.jobs.job import Job

NOBODYS = Fate(elsewhere=True, unsure=True)
"""The fate of a job that was taken away: it is no matter of this process any more."""

AUTOCOMMIT = (
    "expected a connection on which statements share a transaction, got one in autocommit, where each is "
    "committed by itself; use one of another isolation level"
)

UNCOMMITTED = (
    "the transaction in which the job was to end has not committed: it was open when the block of job.transaction began, so its "
    "commit is not the block's"
)

UNKNOWN = (
    "the transaction in which the job was to end may have committed or not: its COMMIT got no answer, and neither did the "
    "questions about it"
)


class BlockEnd(Protocol):
    """What a block writes behind the user's statements: the end of a job, or the record of a step (step_end.py)."""

    job: Job[Any]
    joined: bool  # the transaction was open before: the caller commits it
    number: str  # of the transaction, once the end is written in it
    what: str  # its name in errors

    def join(self) -> None:
        """Note that the transaction was open before; raise if that cannot be."""
        ...

    def decide(self, value: object) -> None:
        """Take the value that is to be written; raise if it cannot be kept."""
        ...

    def statement(self, schema: str, channel: str | None) -> tuple[str, tuple[object, ...]]:
        """Return the statement that writes the end, and its parameters. It answers with a row, which begins with how many."""
        ...

    def written(self, number: str, answer: Sequence[Any]) -> None:
        """Note that the end is written in a transaction of this number, and not committed; raise JobLost if it is not."""
        ...

    def question(self, wait: int) -> tuple[str, tuple[object, ...]]:
        """Return the name of the statement that asks whether the transaction has committed, and its parameters."""
        ...

    def committed(self) -> None:
        """Note that it has committed."""
        ...

    def rolled_back(self) -> None:
        """Note that it has not, and will not."""
        ...


class Ended(Standing):
    """The job has ended in its transaction, with that outcome."""

    def __init__(self, result: object) -> None:
        self._result = result
        self.fate = replace(fate_of(result), elsewhere=True)

    def after(self, job: Job[Any], value: object, error: BaseException | None, *, leaving: bool) -> object:  # noqa: ARG002 - Standing's
        """Tell of a value or an error that comes too late."""
        if error is None or isinstance(error, Verdict):
            late, problem = outcome.of_value(value if error is None else error)
            if problem or late != self._result:
                told = problem or texts.text_of(value if error is None else error)
                emit("outcome.ignored", level=logging.WARNING, id=job.id, kind=job.kind, attempt=job.attempt, outcome=told)
        else:
            fields = {"error": texts.told(error), "traceback": texts.trace_of(error)}
            emit("job.failed_after_end", level=logging.WARNING, id=job.id, kind=job.kind, attempt=job.attempt, **fields)
        return self


class Lost(Standing):
    """The job was taken away: no value and no error of this attempt counts any more."""

    fate = NOBODYS

    def after(self, job: Job[Any], value: object, error: BaseException | None, *, leaving: bool) -> object:  # noqa: ARG002 - Standing's
        """Stay."""
        return self


class Pending(Standing):
    """The job's end is written and may commit yet: by now the attempt has failed, unless its row is no longer ours."""

    def __init__(self, job: Job[Any], text: str) -> None:
        self.fate = replace(outcome.failed(job, text).fate, unsure=True)

    def after(self, job: Job[Any], value: object, error: BaseException | None, *, leaving: bool) -> object:
        """Keep to it after a value; an error says better why the transaction has not committed, if it has not."""
        if error is None:
            return self
        job.outcome = None
        return replace(fate_of(settle(job, value, error, leaving=leaving)), unsure=True)


class End:
    """The end of one job, in one transaction."""

    what = "job.transaction"

    def __init__(self, job: Job[Any], *, archive: bool) -> None:
        self.job = job
        self.joined = False  # the transaction was open before: the caller commits it
        self.number = ""  # of the transaction, once the end is written in it
        self._archive = archive
        self._result: object = None
        self._fate = Fate()

    def join(self) -> None:
        """Note that the caller commits."""
        self.joined = True

    def decide(self, value: object) -> None:
        """Take a value as `work` might have returned it; raise if it is no outcome, or if the job has ended already."""
        if self.job.outcome is not None:
            raise FastqError(f"job.transaction: job {self.job.id} has ended in another transaction of this attempt, expected one")
        self._result, problem = outcome.of_value(value)
        if problem:
            raise unrun(value) or ValueError(f"the outcome of job.transaction: {problem}")
        self._fate = fate_of(self._result)

    def statement(self, schema: str, channel: str | None) -> tuple[str, tuple[object, ...]]:
        """Return the statement that ends the job, and its parameters."""
        job, fate = self.job, self._fate
        kept = fate.state is not SUCCESS or (self._archive and job.batch.worker.archive)
        tells = fate.error is not None or fate.output is not None
        # As if somebody waited for its end: these statements look whether somebody does, and answer with a row for any driver.
        barred, limited, caused = fate.gates is not None, fate.limited is not None, fate.cause is not None
        write = WRITES[place_of(Ending(fate.state, tells, kept, True, barred, limited, caused=caused))]
        columns = [_plain(column.value(fate)) for column in write.columns]
        return _for_one(qualified(write.statement, schema)), (job.id, job.batch.claim, *columns, channel)

    def written(self, number: str, answer: Sequence[Any]) -> None:
        """Note that the end is written in a transaction of this number, and not committed."""
        if not answer[0]:
            self._lose()
        self.number = number
        self.job.outcome = Pending(self.job, UNCOMMITTED if self.joined else UNKNOWN)

    def question(self, wait: int) -> tuple[str, tuple[object, ...]]:
        """Ask by the number, and whether the job's row still carries our claim."""
        return "transaction_outcome", (self.number, self.job.id, self.job.batch.claim, wait)

    def committed(self) -> None:
        """Note that it has committed."""
        job, state = self.job, self._fate.state
        job.outcome = Ended(self._result)
        if state is not None and (state is not SUCCESS or asked("job.completed")):
            level = UNLOGGED if state is SUCCESS else logging.WARNING
            emit(f"job.{state}", level=level, id=job.id, kind=job.kind, attempt=job.attempt, **facts_of(job, f"job.{state}"))

    def rolled_back(self) -> None:
        """Note that it has not, and will not."""
        self.job.outcome = None

    def _lose(self) -> NoReturn:
        """Raise JobLost: the row is no longer ours."""
        job = self.job
        job.outcome = Lost()
        emit("job.lost", level=logging.WARNING, id=job.id, kind=job.kind, attempt=job.attempt)
        raise JobLost(
            f"job {job.id} was taken away from this process before its transaction could end it (given back, or ended by "
            "somebody else), so nothing of that transaction is written"
        )


def has_committed(status: str | None, before: str | None, *, ours: bool) -> bool | None:
    """Tell whether a transaction has committed by two answers about it, the last and the one before; None: ask again.

    `ours` says whether the row still carries our claim, or whether the record of a step is still missing. The last answer may
    have looked that up a moment before the commit. So a commit that left it alone is asked about once more; then it is that of
    another transaction, which has the number since a failover or a restore.
    """
    if status == "committed":
        return True if not ours else (False if before == "committed" else None)
    return False if status == "aborted" or (status is None and ours) else None


@functools.cache
def _for_one(text: str) -> str:
    """Return a statement over arrays for a single job: asyncpg asks the server about arrays, in a statement of its own."""
    return re.sub(r"\$(\d+)::([\w.]+)\[\]", r"array[$\1::\2]", text)


def _plain(value: object) -> object:
    """Return a value as any driver carries it: no enum, and texts, which are JSON, in ASCII."""
    return texts.in_ascii(str(value)) if isinstance(value, str) else value
