"""Show one job: why it is where it is, its facts, args, progress and steps, and its errors, the newest first.

`read_job` runs in the watcher's thread, over its connection; `lines` is a pure function, run in the main thread. Facts, steps and
sentences are those of `fastq jobs show` and `fastq jobs why`. Parts of args that are hidden or encrypted are three dots before
they come here.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from fastq import admin
from fastq.cli.jobs import facts
from fastq.cli.terminal.output import moment
from fastq.cli.top.columns import folded, text_of
from fastq.cli.waits import signals

if TYPE_CHECKING:
    from fastq.cli.top.columns import Line
    from fastq.postgres.db import Connection
    from fastq.steps.shown import StepRow

LONGEST = 4_000
"""Characters of a value that are shown: two screens. `fastq jobs show` has all of them."""

HEAD = 11
"""Cells of the names of facts: the longest is 'tried until'."""


class OneJob(NamedTuple):
    """A job, as it was read: `detail` is None if there is no such job, or no longer."""

    id: int
    detail: admin.JobDetail | None
    why: str | None
    steps: list[StepRow]


def read_job(connection: Connection, job_id: int) -> OneJob:
    """Read a job."""
    detail = admin.show_job(connection, job_id)
    if detail is None:
        return OneJob(job_id, None, None, [])
    return OneJob(job_id, detail, admin.why_job(connection, job_id), signals.steps_of(connection, job_id))


def lines(job: OneJob, width: int) -> list[Line]:
    """Write a job over as many lines as it takes."""
    detail = job.detail
    if detail is None:
        text = f"there is no job {job.id}; finished ones are kept as FASTQ_ARCHIVE_DAYS and FASTQ_KEEP say"
        return [[(line, "yellow")] for line in folded(text, width)]
    found: list[Line] = [[(line, "bold")] for line in folded(job.why or f"job {job.id}", width)]
    found.append([])
    for name, value in facts(detail, None):
        if value not in (None, "", []):
            found += _fact(name, _short(text_of(value)), width)
    if job.steps:
        found += [[], [("steps", "bold")], *([(line, "")] for line in folded(signals.lines(job.steps), width, "  "))]
    for error in reversed(detail.errors):
        at = moment(datetime.fromisoformat(error["at"])) if error.get("at") else "at an unknown time"
        found += [[], [(text_of(f"attempt {error.get('attempt', '?')} failed, {at}"), "bold red")]]
        found += [[(line, "")] for line in folded(str(error.get("trace") or error.get("error", "")), width, "  ")]
        if error.get("left_out"):
            found += [[], [(f"{error['left_out']:,} errors before this one were not kept", "dim")]]
    return found


def _fact(name: str, text: str, width: int) -> list[Line]:
    first, *rest = folded(text, width - HEAD - 2)
    return [[(f"{name:{HEAD}s}  ", "dim"), (first, "")], *([(" " * (HEAD + 2) + line, "")] for line in rest)]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… and {len(text) - LONGEST:,} characters more"
