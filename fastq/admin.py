"""What an operator does: look at jobs and queues, cancel, retry and delete jobs, pause and resume queues.

Plain functions over a connection of the caller's (`connect` makes one that is right for them), values in and values
out; the CLI prints them. Each change is one statement, so it is done or not done. Of all this `JobDetail` alone is public.

Invariants:
- The statements lock jobs in one order: the living by their ids, then the finished by theirs. So no two of them deadlock. One
  that Postgres ends because a transaction of the user's and it wait for each other is run again.
- A running job is never taken from the process that runs it: its cancellation is asked for, everything else is refused.
- What one call reads is bounded: a list walks down from the newest id in growing windows and stops when it has enough
  or when its time is over, and then says how far it came; counts stop at COUNT.

It deliberately changes nothing by filter: an operator who sees the ids of a list knows what he is about to end.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from fastq import db, hints, sqlstate
from fastq.args import check_queue
from fastq.errors import FastqError
from fastq.job import State
from fastq.migrate import check

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fastq.config import Config
    from fastq.db import Connection

FIRST_WINDOW, GROWTH = 10_000, 10
"""Ids in the first window, and how much larger each next one is: a rare state is found in few steps, a common one in one."""

PATIENCE = 3.0
"""Seconds after which a list stops looking further back: what a person waits for without wondering."""

COUNT = 100_000
"""Where counting stops, for each queue: about 50 ms of reading an index. A count that has reached it means 'or more'."""

KINDS = 1_000
"""Kinds that are listed at most of those whose jobs wait for a worker: more than an app has, and some milliseconds."""

ROW = 14
"""Fields of a JobRow, which a row of job_show.sql begins with."""

ATTEMPTS_TO_FIND = 2
"""A job that moved between the two tables while the statement ran is missed by it, and found by the next."""

DEADLOCK_TRIES = 3
"""Times that a statement is run which Postgres ends for a deadlock: with a transaction of the user's, which locks jobs in an
order of its own. Each takes a second (deadlock_timeout) until it is found; a guess at what a person bears."""


class CutShort(FastqError):
    """A change of several jobs failed when a part of them was done: `changes` says what became of those, `error` why."""

    def __init__(self, changes: list[Change], left: int, error: db.Error) -> None:
        super().__init__(f"{left} jobs were not found, and could not be looked for once more: {db.first_line(error)}")
        self.changes = changes
        self.error = error


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job in a list; `error` is the last one."""

    id: int
    state: State
    kind: str
    queue: str
    priority: int
    attempt: int
    max_attempts: int
    tags: list[str]
    created_at: datetime
    scheduled_at: datetime | None
    attempted_at: datetime | None
    finalized_at: datetime | None
    error: str | None
    waits_for: str | None  # where it is waiting: 'worker:KIND', for a process that has one for its kind


@dataclass(frozen=True, slots=True)
class JobList:
    """Jobs, newest first; all jobs with an id above `searched_to` were looked at."""

    jobs: list[JobRow]
    searched_to: int
    complete: bool  # False: time was over before the limit was reached


@dataclass(frozen=True, slots=True)
class JobDetail(JobRow):
    """Everything about one job. `args` and `output` are plain values; `args_json` and `output_json` the JSON as it is stored.

    `errors` has one object for each failed attempt, the first 10 and the last 15 of them; where others were between these,
    the object behind the gap says in `left_out` how many.
    """

    args_json: str
    output_json: str | None
    errors: list[dict[str, Any]]
    crashes: int
    cancel_requested: bool
    host: str | None  # where it runs
    pid: int | None

    @property
    def args(self) -> Any:
        """Return the args as dicts, lists, texts and numbers: their type need not be known here."""
        return msgspec.json.decode(self.args_json)

    @property
    def output(self) -> Any:
        """Return what `work` returned, likewise; None also where it returned nothing, or nothing was kept."""
        return None if self.output_json is None else msgspec.json.decode(self.output_json)


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one id: `was` is None for a job that does not exist."""

    id: int
    was: State | None
    outcome: str


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue; the counts stop at COUNT."""

    name: str
    paused_at: datetime | None
    available: int
    claimed: int  # in state running: they execute, or wait in their process for an executor; the table does not tell which
    scheduled: int
    retryable: int
    waiting: int
    processes: int  # that work it and live

    @property
    def unworked(self) -> bool:
        """Tell whether there is something to do and nobody who does it."""
        return not self.processes and bool(self.available or self.scheduled or self.retryable or self.waiting)


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A kind of a queue whose jobs wait for a worker; the count stops at COUNT."""

    queue: str
    kind: str
    jobs: int
    known: bool  # a living process works the queue and has a worker for the kind

    @property
    def why(self) -> str:
        """Say what they wait for."""
        if self.known:
            return f"a living process has a worker for kind '{self.kind}', and takes it when it has room"
        return f"no living process of queue '{self.queue}' has a worker for kind '{self.kind}'"


def connect(config: Config, url: str) -> Connection:
    """Open a connection for these functions, and make sure that the schema is what they expect.

    Its plans are not pinned: the archive is read by block-range indexes, which need those that the hot statements must not take.
    """
    connection = db.operators_session(config, url, "admin")
    try:
        check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def list_jobs(
    connection: Connection,
    *,
    states: Sequence[State] = (),
    kind: str | None = None,
    queue: str | None = None,
    tag: str | None = None,
    limit: int = 50,
) -> JobList:
    """Return the newest jobs that fit, living and finished."""
    give_up = time.monotonic() + PATIENCE
    high = int(connection.run_one("job_newest_id")[0])
    wanted = [state.value for state in states] or None
    found: list[JobRow] = []
    window = FIRST_WINDOW
    while high > 0 and len(found) < limit:
        if time.monotonic() > give_up:
            return JobList(found, high, complete=False)
        low = max(high - window, 0)
        try:
            rows = connection.run("job_list", low, high, wanted, kind, queue, tag, limit - len(found))
        except db.Error as error:
            if not sqlstate.too_slow(error):
                raise
            return JobList(found, high, complete=False)
        found += map(_job_row, rows)
        high, window = low, window * GROWTH
    return JobList(found, high, complete=True)


def show_job(connection: Connection, job_id: int) -> JobDetail | None:
    """Return everything about a job, or None if there is none with this id."""
    for _ in range(ATTEMPTS_TO_FIND):
        if rows := connection.run("job_show", job_id):
            return detail_of(rows[0])
    return None


def detail_of(row: Sequence[Any]) -> JobDetail:
    """Make a detail of a row of job_show.sql."""
    args, output, errors, crashes, cancel_requested, host, pid = row[ROW:]
    values = [*_values(row[:ROW]), args, output, errors or [], crashes, cancel_requested, host, pid]
    return JobDetail(*values)


def cancel_jobs(connection: Connection, ids: Sequence[int]) -> list[Change]:
    """End jobs that wait, and ask the processes of running ones to end them.

    Outcomes: 'cancelled', 'asked' (it runs; it ends cancelled unless it completes first), 'finished' (it had ended), 'missing'.
    """
    return _change(connection, "job_cancel", ids, hint=True)


def retry_jobs(connection: Connection, ids: Sequence[int]) -> list[Change]:
    """Make jobs available now: those that wait, for their time or a worker, and finished ones, with at least one more attempt.

    Outcomes: 'available', 'running' (refused), 'missing'.
    """
    return _change(connection, "job_rerun", ids, hint=True)


def delete_jobs(connection: Connection, ids: Sequence[int]) -> list[Change]:
    """Remove jobs for good. Outcomes: 'deleted', 'running' (refused), 'missing'."""
    return _change(connection, "job_delete", ids)


def list_queues(connection: Connection) -> list[QueueRow]:
    """Return the queues by name: those with living jobs, with a process that works them, or that were ever paused."""
    return [QueueRow(*row) for row in connection.run("queue_list", COUNT)]


def list_waiting(connection: Connection, count: int = COUNT) -> list[WaitingRow]:
    """Return the kinds whose jobs wait for a worker, by queue; counts stop at `count`, the list at KINDS."""
    return [WaitingRow(*row) for row in connection.run("kind_waiting", count, KINDS)]


def pause_queue(connection: Connection, queue: str) -> datetime:
    """Stop claims from a queue, on all hosts at their next claim; return since when it is paused."""
    paused_at: datetime = connection.run_one("queue_pause", check_queue(queue))[0]
    return paused_at


def resume_queue(connection: Connection, queue: str) -> bool:
    """Let a queue go on; False if it was not paused."""
    check_queue(queue)
    return bool(hints.sending(connection, lambda channel: connection.run("queue_resume", queue, channel)))


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
        changes |= {job_id: Change(job_id, State(was) if was else None, outcome) for job_id, was, outcome in rows}
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


def _job_row(row: Sequence[Any]) -> JobRow:
    return JobRow(*_values(row))


def _values(row: Sequence[Any]) -> list[Any]:
    """Return the fields of a JobRow, in their order, of a row of job_list.sql or the beginning of one of job_show.sql."""
    job_id, state, kind, queue, priority, attempt, max_attempts, tags, *rest = row
    return [job_id, State(state), kind, queue, priority, attempt, max_attempts, tags or [], *rest]
