"""Say how a job has ended: `Finished`, which a wait returns. And keep the findings of the callers that wait.

Made in the thread or event loop that waits; no I/O. `Finished` and `JobProgress` never change. A `Waiting` is made by the
caller that waits; `left`, `found` and `missing` are written by the caller that has the turn to look (ends.py, ends_async.py),
which may be another one, and `left` is replaced as a whole. Of a `Looks` its own text says the writer.

The output is read when it is asked for, so a wait for a thousand jobs converts none that nobody looks at, and an output that does
not fit its type does not take the results of the others along.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from fastq.args.meta import CAUSE
from fastq.errors import JobFailed, ResultError
from fastq.jobs.job import State
from fastq.results.encoding import typed
from fastq.texts import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

R = TypeVar("R")

SHORTEST, LONGEST = 0.002, 0.05
"""Seconds between two looks, at least and at most: docs/adr/0029 has the cost of a look."""

PART = 1 / 16
"""Of the time in which nothing has happened, until the next look: a wait may add so much to a long job. A guess."""

SHARE = 1.0
"""Times as long as a look took until the next one: a server that is slow is not asked all the time."""


@dataclass(frozen=True, slots=True)
class Finished(Generic[R]):
    """A job that has ended: its `state`, its `output`, and `ok`, whether it completed. `unwrap()` returns the output or raises.

    `output_json` is the JSON as it is stored. `errors` has one object for each failed attempt, `error` is the text of the last;
    `cause` says why a job ended that did not complete, as `JobDetail.cause` does.
    """

    id: int
    kind: str
    state: State
    attempt: int
    finalized_at: datetime
    errors: list[dict[str, Any]]
    output_json: str | None
    meta: Mapping[str, Any]  # fastq's own
    result: Any = field(default=None, repr=False)  # the type of the output; None: plain values

    cause = CAUSE

    @property
    def ok(self) -> bool:
        """Tell whether the job completed."""
        return self.state is State.COMPLETED

    @property
    def error(self) -> str | None:
        """Return the text of the last error; None if there was none."""
        return str(self.errors[-1].get("error")) if self.errors else None

    @property
    def output(self) -> R:
        """Return the value that `work` returned, as the type that is declared for it, or as plain values.

        None if it returned nothing, or nothing could be kept. ResultError if the value does not fit the type.
        """
        if self.output_json is None:
            return None  # type: ignore[return-value]  # a type checker cannot know which jobs return nothing
        if self.result is None:
            plain: R = msgspec.json.decode(self.output_json)
            return plain
        try:
            value: R = typed(self.result).read(self.output_json)
        except Exception as error:
            reason = text_of(error)
            raise ResultError(self.id, self.kind, self.result, reason[:1].lower() + reason[1:]) from error
        return value

    def unwrap(self) -> R:
        """Return the output of a job that completed; raise JobFailed for one that was cancelled or discarded."""
        if not self.ok:
            raise JobFailed(self.id, self.kind, self.state, self.error)
        return self.output


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job is: a `fraction` from 0 to 1, a `text`, the `attempt` that has told it, and the time of the database."""

    fraction: float
    text: str
    attempt: int
    noted_at: datetime


def finished_of(row: Sequence[Any], result: Any) -> Finished[Any]:
    """Make one of a row of job_ended.sql."""
    job_id, kind, state, attempt, finalized_at, errors, output, meta = row
    return Finished(
        job_id, kind, State(state), attempt, finalized_at, _errors(errors or "[]"), output, _meta(meta or "{}"), result
    )


_errors = msgspec.json.Decoder(list[Any]).decode
_meta = msgspec.json.Decoder(dict[str, Any]).decode


class Waiting:
    """One call of `wait`: the jobs that it waits for, and the rows of those that have ended."""

    def __init__(self, ids: Iterable[int], bell: Any) -> None:
        self.left = set(ids)  # changed by the caller that looks
        self.found: dict[int, Sequence[Any]] = {}
        self.missing: set[int] = set()
        self.bell = bell  # set when something has happened to this call

    @property
    def over(self) -> bool:
        """Tell whether there is nothing more to wait for."""
        return not self.left or bool(self.missing)

    def tell(self, rows: Mapping[int, Sequence[Any]], missing: Iterable[int]) -> None:
        """Take the findings of a look."""
        mine = self.left & rows.keys()
        self.found |= {job_id: rows[job_id] for job_id in mine}
        self.missing |= self.left.intersection(missing)
        self.left = self.left - mine
        if self.over:
            self.bell.set()


class Looks:
    """The looks of one client: what the last one has found, and when the next one is due.

    Changed by the caller that has the turn to look; `began` is called by any.
    """

    def __init__(self) -> None:
        self._absent: set[int] = set()  # found neither alive nor in the archive
        self._quiet_from = self._last = time.monotonic()

    @property
    def since(self) -> float:
        """Return the seconds that have passed since the last look."""
        return time.monotonic() - self._last

    def began(self) -> None:
        """Note that somebody has begun to wait."""
        self._quiet_from = time.monotonic()

    def took(self, gone: set[int], rows: Mapping[int, Sequence[Any]]) -> set[int]:
        """Note a look, and return the jobs that are missing: this look and the one before have found them nowhere."""
        now = time.monotonic()
        absent = gone - rows.keys()
        missing = absent & self._absent
        self._absent, self._last = absent, now
        if rows:
            self._quiet_from = now
        return missing

    def pause(self, began: float) -> float:
        """Return the seconds until the next look, after one that began at this monotonic time."""
        now = time.monotonic()
        if self._absent:
            return SHORTEST
        return max(SHARE * (now - began), min(LONGEST, max(SHORTEST, PART * (now - self._quiet_from))))
