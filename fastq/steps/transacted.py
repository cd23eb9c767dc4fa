"""Do a step in a transaction, with its record: `job.step_transaction`, for a thread and for an event loop.

Called in the thread or on the event loop that executes the job, by stepping.py. The process makes the transaction
(results/transacting.py says how it is asked to): it gives a connection, on which the function of the step writes; at its end it
runs the statement of the record there, and commits. The first look for the record goes the way of all steps (through.py).
A `Record` belongs to one call of `step_transaction`: the thread or event loop that runs the call writes it, by way of the
transaction (`keep`, `written`, `committed`).

Invariants: the function is not called if there is a record, so it is a function and no block, which Python could not skip; the
record is committed with the function's writes, or neither is, and only while the job is ours.

It deliberately runs no statement itself, and repeats nothing: a transaction whose connection is lost fails the attempt, for its
statements are the user's.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from fastq.results import transacting
from fastq.steps import values
from fastq.steps.attempt import STEP, Noted, noted
from fastq.texts import in_ascii

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastq.steps.stepping import Run
    from fastq.steps.through import Saying


class Record:
    """The record of one step, which its transaction writes (`Record` in results/transacting.py)."""

    def __init__(self, run: Run, name: str) -> None:
        self.what = run.what
        self.name = name
        self.text = "null"  # the value as JSON
        self._run = run
        self._began = time.monotonic()
        self._took = 0.0
        self._noted = Noted(ours=True, left=None)

    def keep(self, value: object) -> None:
        """Take the value of the step."""
        self.text, self._took = values.written(self.what, value), time.monotonic() - self._began

    def statement(self) -> tuple[str, tuple[object, ...]]:
        """Write the record; its JSON reads the same in each encoding that a connection may have."""
        return self._run.attempt.noting(STEP, self.name, output=in_ascii(self.text), took=self._took)

    def written(self, answer: Sequence[Any]) -> None:
        """Take the answer; the number of attempts counts when the record is committed."""
        self._noted = noted(answer)
        self._run.ours(self._noted._replace(allowed=None))

    def committed(self) -> None:
        """Take the number of attempts that the job's row allows by now."""
        self._run.allow(self._noted)

    def by_hand(self) -> Saying[Noted]:
        """Remember the step in memory: the job was made by hand, and its transaction has written no record."""
        return self._run.attempt.note(STEP, self.name, output=self.text, took=self._took)


def done(run: Run, name: str, conn: Any, call: Callable[..., Any], type_: Any) -> Any:
    """Give the value of a step back, and run it first if it was not."""
    found = run.ways.run(run.attempt.recall(STEP, name))
    if found is not None:
        return values.read(run.what, found.output or "null", type_)
    run.check()
    record = Record(run, name)
    transaction = transacting.note(run.job, conn, record)
    with transaction as lent, run.attempt.within(name):
        transaction.outcome = call(lent)
    if not run.attempt.claim:
        run.ways.run(record.by_hand())
    return values.read(run.what, record.text, type_)


async def done_async(run: Run, name: str, conn: Any, call: Callable[..., Any], type_: Any) -> Any:
    """Do the same in an event loop."""
    found = await run.ways.run_async(run.attempt.recall(STEP, name))
    if found is not None:
        return values.read(run.what, found.output or "null", type_)
    run.check()
    record = Record(run, name)
    transaction = transacting.note(run.job, conn, record)
    async with transaction as lent:
        with run.attempt.within(name):
            value = call(lent)
            transaction.outcome = await value if isinstance(value, Awaitable) else value
    if not run.attempt.claim:
        await run.ways.run_async(record.by_hand())
    return values.read(run.what, record.text, type_)
