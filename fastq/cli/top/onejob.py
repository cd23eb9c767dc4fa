"""Show one job: why it is where it is, its facts, args, progress, stack and steps, and its errors, the newest first.

`read_job` runs in the watcher's thread, over its connection; `lines` is a pure function, run in the main thread. Facts, steps and
sentences are those of `fastq jobs show` and `fastq jobs why`. Parts of args that are hidden or encrypted are three dots before
they come here. The stack is asked for once, when the job is opened, and again with the key s: each time its process has work.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from fastq import admin
from fastq.admin.running.whereabouts import Stack
from fastq.cli.jobs import facts
from fastq.cli.terminal.output import moment
from fastq.cli.top.columns import folded, text_of
from fastq.cli.waits import signals
from fastq.enqueue.operate.directly import stack_of
from fastq.jobs.job import State
from fastq.postgres import db, sqlstate

if TYPE_CHECKING:
    from fastq.cli.top.columns import Line
    from fastq.postgres.db import Connection
    from fastq.steps.shown import StepRow

LONGEST = 4_000
"""Characters of a value that are shown: two screens. `fastq jobs show` has all of them."""

PATIENCE = 1.0
"""Seconds for which the answer to the question for a stack is waited for: all figures wait meanwhile."""

HEAD = 11
"""Cells of the names of facts: the longest is 'tried until'."""


class OneJob(NamedTuple):
    """A job, as it was read: `detail` is None if there is no such job, or no longer; `stack` if it does not run."""

    id: int
    detail: admin.JobDetail | None
    why: str | None
    steps: list[StepRow]
    stack: Stack | None = None


def read_job(connection: Connection, job_id: int, before: OneJob | None = None) -> OneJob:
    """Read a job, and ask its process for its stack, if it runs; not again while it is in the attempt that was read `before`."""
    detail = admin.show_job(connection, job_id)
    if detail is None:
        return OneJob(job_id, None, None, [])
    return OneJob(
        job_id,
        detail,
        admin.why_job(connection, job_id),
        signals.steps_of(connection, job_id),
        _stack(connection, detail, before),
    )


def _stack(connection: Connection, detail: admin.JobDetail, before: OneJob | None) -> Stack | None:
    if detail.state is not State.RUNNING:
        return None
    known = before.detail if before is not None and before.id == detail.id else None
    if before is not None and known is not None and before.stack and known.attempted_at == detail.attempted_at:
        return before.stack
    try:
        return stack_of(connection, job=detail.id, seconds=PATIENCE)
    except db.Error as error:
        if not sqlstate.forbidden(error):
            raise
        return Stack(detail.id, None, None, None, why="the role may not ask processes for stacks: docs/postgres.md, Roles")


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
    if job.stack is not None:
        at = f", {moment(job.stack.at)}; s: anew" if job.stack.at else "; s: ask again"
        found += [[], [("stack", "bold"), (at, "dim")], *([(line, "")] for line in folded(str(job.stack), width, "  "))]
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
