"""Show jobs to an operator: the row of a list, and all about a single one.

The functions run in the thread that calls them: the main thread of `fastq jobs`, or a thread of a program that uses
`fastq.admin`, over a connection that the caller opened (session.py). The clients run job_show.sql on their own connections and
take only `detail_of`. Nothing is kept here; a row is the caller's.

It changes nothing: changes.py does. It finds nothing either: admin/search does. `JobDetail` alone is public.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.args.gates import read_entries
from fastq.args.meta import ATTEMPTS, CAUSE, DEADLINE, EXPIRES, IMPORTED, KEEP_TRYING_FOR, REPLAY_OF
from fastq.args.secret.hidden import concealed
from fastq.args.unique import UNIQUE
from fastq.awaiting.finished import JobProgress
from fastq.jobs.job import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from fastq.postgres.db import Connection

ROW = 14
"""Fields of a JobRow, which a row of job_show.sql begins with, and one of job_search.sql behind what it says of its look."""

SIGNAL = "signal:"
"""How `waits_for` begins of a job that is parked for a signal without a timeout; its name follows."""

ATTEMPTS_TO_FIND = 2
"""A job that moved between the two tables while the statement ran is missed by it, and found by the next."""


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
    # The column of `job` that the statements write which enqueue a job, put it to rest, park it, admit it or lead it on:
    # 'worker:KIND', for a process that has a worker for its kind; 'workflow', for the steps before it; 'signal:NAME'; or its
    # gates, as JSON. None: it waits for none.
    waits_for: str | None

    @property
    def gates(self) -> str | None:
        """Name the gates at which it waits, with its keys: "the gate 'mail-api' for key 42"; None if it waits at none."""
        if not (self.waits_for or "").startswith("["):
            return None
        return " and at ".join(named(entry.name, entry.key) for entry in read_entries(self.waits_for or ""))


@dataclass(frozen=True, slots=True)
class JobDetail(JobRow):
    """Everything about one job.

    `args` and `output` are plain values; `args_json` and `output_json` the JSON as it is stored, with three dots for the
    parts that are encrypted.

    `errors` has one object for each failed attempt, the first 10 and the last 15 of them; where others were between these,
    the object behind the gap says in `left_out` how many. `cause` says why a job ended that did not complete: 'failed' (its last
    attempt failed), 'crashed' (its process died), 'lost' (its process showed no life any more), 'asked' (its cancellation was
    asked for), 'worker' (its worker cancelled it), 'expired' (its turn came after `expires`), 'deadline' (its turn, or its next
    attempt, came after its `deadline`), 'rate' (it could not start at once, and its rate drops such jobs) or 'parent'
    (a job before it in its workflow was cancelled or discarded: `because` in `meta` has these, the nearest first). `unique` is
    the key of a unique job: [its digest, until, within]. `replay_of` is the discarded job that this one does once more;
    `imported_from` says of an imported one: [its source, its id there].
    `attempts_since_progress` says of a job with `attempts="since_progress"` how many attempts it has from its last progress on;
    `max_attempts` is the number of the last one of these, and grows with each attempt that gets on.
    """

    args_json: str
    output_json: str | None
    errors: list[dict[str, Any]]
    crashes: int
    cancel_requested: bool
    host: str | None  # where it runs
    pid: int | None
    meta: Mapping[str, Any]  # fastq's own: the values that its features keep with the job
    progress: JobProgress | None = None  # what its `job.progress(...)` has told last; None also an hour after its end

    cause = CAUSE
    unique = UNIQUE
    replay_of = REPLAY_OF
    imported_from = IMPORTED
    expires, deadline, keep_trying_until = EXPIRES, DEADLINE, KEEP_TRYING_FOR
    attempts_since_progress = ATTEMPTS

    @property
    def args(self) -> Any:
        """Return the args as dicts, lists, texts and numbers: their type need not be known here."""
        return msgspec.json.decode(self.args_json)

    @property
    def output(self) -> Any:
        """Return the value that `work` returned, likewise; None also if it returned nothing, or nothing was kept."""
        return None if self.output_json is None else msgspec.json.decode(self.output_json)


def show_job(connection: Connection, job_id: int) -> JobDetail | None:
    """Return everything about a job, or None if there is none with this id."""
    for _ in range(ATTEMPTS_TO_FIND):
        if rows := connection.run("job_show", job_id):
            return detail_of(rows[0])
    return None


def named(gate: str, key: msgspec.Raw) -> str:
    """Write the name of a gate, and the key that a job has there; where all jobs have one it is an empty text."""
    text = bytes(key).decode()
    return f"the gate '{gate}'" + ("" if text == '""' else f" for key {text}")


def detail_of(row: Sequence[Any]) -> JobDetail:
    """Make a detail of a row of job_show.sql."""
    args, output, errors, *rest, meta, told = row[ROW:]
    progress = None if told is None else msgspec.json.decode(told, type=JobProgress)
    values = [*_values(row[:ROW]), concealed(args), output, _errors(errors or "[]"), *rest, _meta(meta or "{}"), progress]
    return JobDetail(*values)


_errors = msgspec.json.Decoder(list[Any]).decode
_meta = msgspec.json.Decoder(dict[str, Any]).decode


def row_of(row: Sequence[Any]) -> JobRow:
    """Make a row of those that job_search.sql and job_search_ids.sql answer with."""
    return JobRow(*_values(row))


def _values(row: Sequence[Any]) -> list[Any]:
    """Return the fields of a JobRow, in their order, of a row of job_search.sql or the beginning of one of job_show.sql."""
    job_id, state, kind, queue, priority, attempt, max_attempts, tags, *rest = row
    return [job_id, State(state), kind, queue, priority, attempt, max_attempts, tags or [], *rest]
