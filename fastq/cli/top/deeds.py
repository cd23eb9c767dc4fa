"""The changes that keys make: retry, cancel, replay, pause and resume, each with its question and its answer.

`deed_of` is pure, run in the main thread; a deed's `do` runs in the watcher's thread, over its connection, when the question was
answered with y. Nothing is kept. The changes and the words of their outcomes are those of the commands.

It deliberately deletes nothing: what is gone by a slip of a finger does not come back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from fastq import admin
from fastq.admin import dead
from fastq.admin.bulk import at_once
from fastq.cli.search.changing import REFUSED, SAID
from fastq.cli.terminal.output import plural
from fastq.cli.top.narrowed import LATELY
from fastq.postgres.db import Connection

if TYPE_CHECKING:
    from fastq.admin.pauses import Target

MOST = 5_000
"""Jobs of a group that one key replays at most, as on the dashboard: some seconds."""

KEYS = {"r": "retry", "c": "cancel", "p": "pause", "u": "resume"}

READ_ONLY = "only to look at: fastq top --operate also retries, cancels, pauses and resumes"


class Deed(NamedTuple):
    """A change that waits for its question to be answered."""

    question: str
    explained: str
    do: Callable[[Connection], str]  # returns what to tell


def deed_of(key: str, view: str, row: Any) -> Deed | str:
    """Return the deed of a key for the chosen row, or a sentence that says why there is none."""
    verb = KEYS[key]
    if view == "processes":
        return f"{verb}: nothing that can be done to a process here"
    if verb in ("pause", "resume"):
        return _pausing(verb, view, row)
    if view == "queues":
        return f"{verb}: choose a job, in Running or Jobs"
    if view == "failures":
        return _replaying(row) if verb == "retry" else "cancel: these jobs have ended"
    return retrying(row) if verb == "retry" else cancelling(row)


def retrying(row: Any) -> Deed:
    """Run a job now."""
    explained = "It becomes available at once; one that has ended runs once more."
    return Deed(f"retry job {row.id} ({row.kind})?", explained, _changing("retry", row.id))


def cancelling(row: Any) -> Deed:
    """End a job."""
    explained = "One that waits ends at once; one that runs is asked to end."
    return Deed(f"cancel job {row.id} ({row.kind})?", explained, _changing("cancel", row.id))


def _changing(verb: str, job_id: int) -> Callable[[Connection], str]:
    def do(connection: Connection) -> str:
        [told] = at_once.change_jobs(connection, verb, [job_id])  # with its record in the audit
        key = (verb, told.outcome)
        text = SAID.get(key) or REFUSED.get(key, "does not exist").format(was=told.was, holder=told.holder)
        return f"job {told.id} {text}"

    return do


def _replaying(row: dead.DeadGroup) -> Deed:
    jobs = plural(min(row.jobs, MOST), "job")

    def do(connection: Connection) -> str:
        told = dead.replay_dead(connection, row.id, limit=MOST, since=LATELY)
        skipped = f", {told.skipped:,} were left out: fastq dead replay {row.id} says why" if told.skipped else ""
        return f"{plural(told.jobs, 'job')} enqueued anew{skipped}"

    explained = "Each that was discarded in the last hour gets a new job with its args."
    return Deed(f"replay {jobs} of group {row.id} ({row.kind})?", explained, do)


def _pausing(verb: str, view: str, row: Any) -> Deed:
    """Pause or resume a queue; in a view of jobs, the kind of the chosen one."""
    target: Target = {"queue": row.queue.name} if view == "queues" else {"kind": row.kind}
    subject = admin.subject_of(target)

    def pause(connection: Connection) -> str:
        admin.pause(connection, target)
        return f"{subject} is paused"

    def resume(connection: Connection) -> str:
        return f"{subject} is resumed" if admin.resume(connection, target) else f"{subject} was not paused"

    if verb == "pause":
        return Deed(f"pause {subject}?", "Nothing more of it starts until somebody resumes it; jobs that run go on.", pause)
    return Deed(f"resume {subject}?", "Its jobs start again.", resume)
