"""One job: its states and attempts in time, what it waits for, args and output, steps, log, and the actions on it.

The functions run in threads of the source, over its connection. Args and outputs go through the redaction, and the template
shows it to viewers with the permission jobs.args alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from fastq import admin
from fastq.admin.bulk import at_once
from fastq.admin.jobs import JobDetail
from fastq.enqueue.settings import MAX_ID
from fastq.errors import FastqError
from fastq.jobs.job import State
from fastq.web.routing.view import Action, Asked, Done, Missing, View

if TYPE_CHECKING:
    from fastq.web.routing.view import Visit

LINES, ALL_LINES = 60, 5_000
"""Lines of the log that are shown with the job, its last ones, and on a page of their own."""

TRACES = 3
"""Tracebacks that are shown with the job, the newest: each has up to 16 kB. `?full=1` shows all."""

ENDED = (State.COMPLETED, State.CANCELLED, State.DISCARDED)
HIDDEN_FIELDS = ("args_json", "output_json", "errors", "error", "progress", "meta")
"""Fields of a job that the raw row leaves out: they are shown in places of their own, redacted."""

KEPT = ("cause", "expires", "deadline", "keep_trying_until", "replay_of")
"""Values of the job's meta that are shown among its facts."""


class Moment(NamedTuple):
    """A time in the life of a job."""

    at: datetime
    state: str
    text: str
    x: float = 0.0  # its place in the drawing, of 100


def load(visit: Visit) -> Mapping[str, Any]:
    """Read everything about a job."""
    detail = admin.show_job(visit.connection, visit.id)
    if detail is None:
        raise Missing(f"there is no job {visit.id}: finished jobs are kept as FASTQ_ARCHIVE_DAYS and FASTQ_KEEP say")
    full, kind, shown, stored = visit.get("full") is not None, detail.kind, visit.redaction.shown, visit.redaction.stored
    conn = visit.connection.raw
    steps = visit.client().steps(detail.id, conn=conn)
    lines = visit.client().logs(detail.id)
    errors = [_error(visit, kind, one) for one in reversed(detail.errors)]
    return {
        "title": f"{kind} {detail.id}",
        "job": detail,
        "why": visit.redaction.text(kind, "error", admin.why_job(visit.connection, detail.id)),  # it may quote the last error
        "moments": _moments(detail),
        "ended": detail.state in ENDED,
        "args": stored(kind, "args", detail.args_json),
        "output": stored(kind, "output", detail.output_json),
        "progress": detail.progress and (detail.progress, visit.redaction.text(kind, "progress", detail.progress.text)),
        "errors": errors if full else errors[:TRACES],
        "more_errors": 0 if full else max(0, len(errors) - TRACES),
        "steps": [(step, shown(kind, "value", step.output)) for step in steps],
        "lines": [(line, visit.redaction.text(kind, "log", line.text)) for line in lines[-LINES:]],
        "more_lines": max(0, len(lines) - LINES),
        "kept": {name: _kept(detail, name) for name in KEPT},
        "key": _key(detail),
        "workflow": _workflow(detail.meta.get("workflow")),
        "raw": {**_raw(detail), "meta": shown(kind, "meta", dict(detail.meta))},  # values that hooks carry are among them
        "full": full,
    }


def load_log(visit: Visit) -> Mapping[str, Any]:
    """Read the log of a job."""
    detail = admin.show_job(visit.connection, visit.id)
    lines = visit.client().logs(visit.id)
    if detail is None and not lines:
        raise Missing(f"there is no job {visit.id}, and no log of it: logs are kept as FASTQ_JOB_LOG_DAYS says")
    kind = detail.kind if detail else ""
    told = [(line, visit.redaction.text(kind, "log", line.text)) for line in lines[-ALL_LINES:]]
    return {
        "title": f"Log of job {visit.id}",
        "id": visit.id,
        "kind": kind,
        "lines": told,
        "more": max(0, len(lines) - ALL_LINES),
        "lives": detail is not None and detail.state not in ENDED,
    }


def _kept(job: JobDetail, name: str) -> Any:
    """Return a value of the job's meta; None also for one that no version of ours has written: the raw row shows that."""
    try:
        return getattr(job, name)
    except FastqError:
        return None


def _key(job: JobDetail) -> tuple[str, str] | None:
    """Return the digest of a unique job's key, and until when the job holds it."""
    entry = _kept(job, "unique")
    return (entry[0], entry[1]) if entry and list(map(type, entry[:2])) == [str, str] else None


def _workflow(entry: object) -> int | None:
    """Return the id of the job's workflow."""
    number = entry[0] if isinstance(entry, list) and entry else None
    return number if type(number) is int and 0 < number <= MAX_ID else None


def _error(visit: Visit, kind: str, one: Mapping[str, Any]) -> dict[str, Any]:
    """Return a failed attempt: number, time, message, traceback, how many are left out before it."""
    text = visit.redaction.text
    return {
        "attempt": one.get("attempt"),
        "at": _time(one.get("at")),
        "message": text(kind, "error", str(one.get("error") or "")),
        "trace": text(kind, "error", str(one["trace"])) if one.get("trace") else None,
        "died": one.get("died"),
        "left_out": one.get("left_out"),
    }


def _time(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _moments(job: JobDetail) -> list[Moment]:
    """Return the times of a job that are known, each with its place between the first and the last."""
    moments = [Moment(job.created_at, "scheduled" if job.scheduled_at else "available", "enqueued")]
    failed = [(_time(one.get("at")), one.get("attempt", "?")) for one in job.errors]
    moments += [Moment(at, "retryable", f"attempt {number} failed") for at, number in failed if at]
    if job.attempted_at:
        running = job.state is State.RUNNING
        moments.append(Moment(job.attempted_at, "running", f"attempt {job.attempt} began{', and runs' if running else ''}"))
    if job.finalized_at:
        moments.append(Moment(job.finalized_at, job.state.value, job.state.value))
    elif job.scheduled_at:
        moments.append(Moment(job.scheduled_at, job.state.value, "next attempt" if job.attempted_at else "due"))
    moments.sort(key=lambda moment: moment.at)
    first, last = moments[0].at, max(moments[-1].at, moments[0].at if job.finalized_at else datetime.now(UTC))
    length = (last - first).total_seconds() or 1.0
    return [moment._replace(x=round(100 * (moment.at - first).total_seconds() / length, 2)) for moment in moments]


def _raw(job: JobDetail) -> dict[str, Any]:
    """Return the row, but for the fields that have places of their own."""
    row: dict[str, Any] = msgspec.to_builtins(
        {one.name: getattr(job, one.name) for one in fields(job) if one.name not in HIDDEN_FIELDS}
    )
    return row


TOLD = {
    "available": "is available now",
    "cancelled": "is cancelled",
    "asked": "runs, and was asked to end",
    "deleted": "is deleted",
    "running": "runs already, so it was left alone",
    "finished": "had ended already",
    "waiting": "waits for the steps of its workflow before it",
    "missing": "does not exist any more",
}
DONE = ("available", "cancelled", "asked", "deleted")


def _asking(question: str, explained: str) -> Any:
    """Make the function that asks before a change of one job."""

    def ask(visit: Visit) -> Asked:
        job = admin.show_job(visit.connection, visit.id)
        if job is None:
            raise Missing(f"there is no job {visit.id}, or no longer")
        facts = (
            ("kind", job.kind),
            ("queue", job.queue),
            ("state", job.state.value),
            ("attempt", f"{job.attempt} of {job.max_attempts}"),
        )
        return Asked(question.format(id=job.id), f"job {job.id}", f"/jobs/{job.id}", facts, explained)

    return ask


def _doing(verb: str, back: str = "") -> Any:
    """Make the function that changes one job, with a record in the audit."""

    def do(visit: Visit) -> Done:
        [told] = at_once.change_jobs(visit.connection, verb, [visit.id], visit.by)
        held = f"is unique, and job {told.holder} holds its key" if told.outcome == "held" else None
        return Done(f"job {told.id} {held or TOLD.get(told.outcome, told.outcome)}", told.outcome in DONE, back)

    return do


CONTENT = (
    View("/jobs/{id:int}", "Job", "jobs.read", "job.html", load, every=2.0),
    View("/jobs/{id:int}/log", "Log of a job", "jobs.args", "log.html", load_log, every=2.0),
    Action(
        "/jobs/{id:int}/retry",
        "Run it now",
        "jobs.retry",
        _asking(
            "Run job {id} now?",
            "It becomes available at once. A job that has ended runs once more, with its id and one more attempt.",
        ),
        _doing("retry"),
    ),
    Action(
        "/jobs/{id:int}/cancel",
        "Cancel it",
        "jobs.cancel",
        _asking("Cancel job {id}?", "A job that waits ends at once. One that runs is asked to end, and may complete first."),
        _doing("cancel"),
        severe=True,
    ),
    Action(
        "/jobs/{id:int}/delete",
        "Delete it",
        "jobs.delete",
        _asking("Delete job {id} for good?", "Its row, its errors and its output are gone then. A job that runs is not deleted."),
        _doing("delete", back="/jobs"),
        severe=True,
    ),
)
