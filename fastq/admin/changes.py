"""Cancel, retry and delete jobs by their ids, for an operator.

The functions run in the thread that calls them: the main thread of `fastq jobs`, or a thread of a program that uses
`fastq.admin`, over a connection that the caller opened (session.py). They keep nothing. Each change is one statement: done, or
not done.

Invariants:
- The statements lock jobs in one order: the living by their ids, then the finished by theirs. So no two of them deadlock. A
  statement may still deadlock with a transaction of the user's: if Postgres ends it for that, it is run again.
- A running job is never taken from the process that runs it: its cancellation is asked for, everything else is refused.

It deliberately changes nothing by filter: with ids from a list the operator knows which jobs the change will end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastq.errors import FastqError
from fastq.jobs.job import State
from fastq.postgres import db, hints, sqlstate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.postgres.db import Connection

ATTEMPTS_TO_FIND = 2
"""A job that moved between the two tables while the statement ran is missed by it, and found by the next."""

DEADLOCK_TRIES = 3
"""Times that a statement is run if it deadlocks with a transaction of the user's, which locks jobs in an order of its own.
Postgres takes a second (deadlock_timeout) to find each deadlock; a guess at how long a person is willing to wait."""


class CutShort(FastqError):
    """A change of several jobs failed when it was done for some of them: `changes` lists these, `error` says why it failed."""

    def __init__(self, changes: list[Change], left: int, error: db.Error) -> None:
        super().__init__(f"{left} jobs were not found, and could not be looked for once more: {db.first_line(error)}")
        self.changes = changes
        self.error = error


@dataclass(frozen=True, slots=True)
class Change:
    """The result of a change for one id: `was` is None for a job that does not exist."""

    id: int
    was: State | None
    outcome: str
    holder: int | None = None  # of 'held': the job that holds its key


def cancel_jobs(connection: Connection, ids: Sequence[int]) -> list[Change]:
    """End jobs that wait, and ask the processes of running ones to end them.

    Outcomes: 'cancelled', 'asked' (it runs; it ends cancelled unless it completes first), 'finished' (it had ended), 'missing'.
    """
    return _change(connection, "job_cancel", ids, hint=True)


def retry_jobs(connection: Connection, ids: Sequence[int]) -> list[Change]:
    """Make jobs available now: those that wait, for their time or a worker, and finished ones, with at least one more attempt.

    Outcomes: 'available', 'running' (refused), 'held' (it has ended, is unique, and another job holds its key),
    'waiting' (refused: a step that waits for those before it in its workflow), 'missing'.
    """
    return _change(connection, "job_rerun", ids, hint=True)


def delete_jobs(connection: Connection, ids: Sequence[int]) -> list[Change]:
    """Remove jobs for good. Outcomes: 'deleted', 'running' (refused), 'missing'."""
    return _change(connection, "job_delete", ids)


def _change(connection: Connection, name: str, ids: Sequence[int], *, hint: bool = False) -> list[Change]:
    """Run a statement over ids, once more over those that it did not find; the order of the ids stays."""
    changes: dict[int, Change] = {}
    left = list(dict.fromkeys(ids))
    for _ in range(ATTEMPTS_TO_FIND):
        try:
            rows = _run(connection, name, left, hint=hint) if left else []
        except db.Error as error:
            if not changes:
                raise  # nothing was changed
            found = [changes[job_id] for job_id in dict.fromkeys(ids) if job_id not in left]
            raise CutShort(found, len(left), error) from error
        changes |= {job_id: Change(job_id, State(was) if was else None, *rest) for job_id, was, *rest in rows}
        left = [job_id for job_id in left if changes[job_id].outcome == "missing"]
    return [changes[job_id] for job_id in dict.fromkeys(ids)]


def _run(connection: Connection, name: str, ids: Sequence[int], *, hint: bool) -> list[tuple[Any, ...]]:
    """Run a statement, again if it was ended to let others go on: nothing of it has happened then."""
    tries = DEADLOCK_TRIES
    while True:
        tries -= 1
        try:
            if hint:
                return hints.sending(connection, lambda channel: connection.run(name, ids, channel))
            return connection.run(name, ids)
        except db.Error as error:
            if not (tries and (sqlstate.deadlocked(error) or sqlstate.serialization_failed(error))):
                raise
