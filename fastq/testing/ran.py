"""The result of an attempt that a test has had executed: what ran, how it ended, and by which exception.

Made by workplace.py in the thread of the test, once the outcome is written; never changed. The state is read from the database,
so it is that of the row, and not what an outcome says of itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.jobs.job import JobInterrupt
from fastq.jobs.outcome import Failed, Verdict, fate_of
from fastq.sql.statements import in_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastq.jobs.job import Job
    from fastq.postgres.db import Connection

STATES = "select id, state::text from fastq.job where id = any($1::bigint[]) union all \
select id, state::text from fastq.job_archive where id = any($1::bigint[])"


@dataclass(frozen=True)
class Ran:
    """One attempt at a job, as it has ended.

    `state` is the job's after it: "completed", "cancelled", "discarded"; "retryable" (it failed, and is tried again), "scheduled"
    (it was snoozed), "available" (the same, at once) or "waiting" (for a worker, at its gates, or for a signal). `output` is the
    value that `work` returned, as a program reads it; `error` the text that the database keeps, and `exception` what was raised.
    """

    id: int
    kind: str
    args: Any
    queue: str
    attempt: int
    state: str
    output: Any = None
    error: str | None = None
    exception: BaseException | None = None

    def __str__(self) -> str:
        """Say it in a line."""
        said = f"job {self.id}  {self.kind}  attempt {self.attempt}  {self.state}"
        return f"{said}  {self.error}" if self.error else said


def read_states(connection: Connection, ids: Sequence[int]) -> dict[int, str]:
    """Return the states of jobs, living or finished; one that leaves no row is missing."""
    found: list[tuple[Any, ...]] = connection.ask(in_schema(STATES, connection.schema), list(ids))
    return {int(id_): str(state) for id_, state in found}


def ran(job: Job[Any], states: Mapping[int, str], exception: BaseException | None) -> Ran:
    """Make the result of an attempt whose outcome is written."""
    fate = fate_of(job.outcome)
    error = None if fate.error is None else str(msgspec.json.decode(fate.error)["error"])
    output = None if fate.output is None else msgspec.json.decode(fate.output)
    decided = isinstance(exception, Verdict | JobInterrupt)
    return Ran(
        job.id,
        job.kind,
        job.args,
        job.queue,
        job.attempt,
        states.get(job.id, "completed"),
        output,
        error,
        None if decided else exception,
    )


def failure_of(job: Job[Any], result: Ran) -> BaseException | None:
    """Return the exception to raise in the test: of an attempt that failed, or of one that the test or a person has ended."""
    exception = result.exception
    if exception is not None and not isinstance(exception, Exception):
        return exception  # pytest.fail, KeyboardInterrupt: never a matter of the job alone
    if not isinstance(job.outcome, Failed):
        return None
    return exception or AssertionError(str(result))
