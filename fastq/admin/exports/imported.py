"""Make rows of the lines of an export, checked, and count what became of each.

Plain values; the thread or event loop that imports makes them. With a registry the args of each job are read as its worker will
read them, upgraded where they are of an older version; without one, JSON's rules alone hold.

Invariant: a row that is made here is taken by the database, so one bad line takes no others with it. The job begins anew: no
attempt, no error, no output, no record of a step comes along, nor its place in a workflow. The values of meta that say how it is
to run do, and IMPORTED says from where it is. It deliberately asks no hook: hooks were asked when the job was enqueued, and the
values that they gave travel with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from fastq.args.faults import show
from fastq.args.gates import GATES, read_entries
from fastq.args.meta import ATTEMPTS, CARRIED, IMPORTED, TIMES, VERSION, WORKFLOW
from fastq.args.meta import KEYS as META
from fastq.args.options import (
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    check_kind_name,
    check_max_attempts,
    check_priority,
    check_queue,
    check_tags,
)
from fastq.args.unique import UNIQUE
from fastq.args.versions.upgrades import check_version
from fastq.errors import FastqError, OptionError
from fastq.jobs.job import State
from fastq.jobs.spec import UNIT, when
from fastq.texts import in_ascii

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from fastq.admin.exports.exported import Line
    from fastq.args.kinds import Kind
    from fastq.jobs.worker import Worker

FINISHED = (State.COMPLETED, State.CANCELLED, State.DISCARDED)
TIMED = (State.SCHEDULED, State.RETRYABLE)
"""States of jobs that wait for a time."""

FAULTS = 100
"""Faulty lines that are told one by one; the others are counted."""

DIGEST = re.compile(r"[0-9a-f]{64}")
HELD_UNTIL = ("start", "success", "end", "time")
STEP = 2
"""Numbers in the meta of a job that is a step of a workflow."""


@dataclass(slots=True)
class Imported:
    """The result of an import; of a dry run, what an import would do."""

    jobs: int = 0
    """How many new jobs there are."""
    before: int = 0
    """How many were imported before, and were not once more."""
    held: int = 0
    """How many are unique, and another job holds their key: they are imported by the same call, once that has ended."""
    finished: int = 0
    """How many have ended, and were left out."""
    cancelled: int = 0
    """How many were asked to end when they were exported."""
    steps: int = 0
    """How many are steps of workflows, which have no place outside of these."""
    wrong: int = 0
    """How many lines are no job that could be enqueued."""
    faults: list[tuple[int, str]] = field(default_factory=list)
    """The first 100 of these: the number of the line, and the reason."""
    whole: bool = True
    """The last line says that the export came to its end; without it the file was cut, perhaps."""

    @property
    def skipped(self) -> int:
        """Return how many jobs were left out."""
        return self.before + self.held + self.finished + self.cancelled + self.steps


class Row(NamedTuple):
    """A job as job_enqueue_unique.sql takes it: texts, empty where there is nothing."""

    kind: str
    queue: str
    priority: str
    max_attempts: str
    args: str
    tags: str
    delay: str
    at: str
    meta: str


class Dated(NamedTuple):
    """What a moment of a job is read from."""

    meta: Mapping[str, Any]
    created_at: datetime
    tags: tuple[str, ...]


def left_out(line: Line, *, finished: bool) -> str | None:
    """Return the field of `Imported` that counts a job which is not to be enqueued."""
    workflow = line.meta.get(WORKFLOW.name)
    if isinstance(workflow, list) and len(workflow) >= STEP:
        return "steps"
    if line.state in FINISHED and not finished:
        return "finished"
    return "cancelled" if line.cancel_requested and line.state not in FINISHED else None


def key_of(line: Line) -> str:
    """Return the digest of a unique job's key; an empty text for any other."""
    entry = line.meta.get(UNIQUE.name)
    return "" if entry is None else str(_key(entry)[0])


def row_of(line: Line, source: str, workers: Mapping[str, Worker[Any]] | None) -> Row:
    """Make the row of a job; FastqError with the rule that it breaks."""
    given, queue = line.meta, check_queue(DEFAULT_QUEUE if line.queue is None else line.queue)
    kind, text, meta = _unchecked(line) if workers is None else _checked(line, queue, workers)
    meta |= {name: _moment(line, name) for name in TIMES if given.get(name) is not None}
    max_attempts = DEFAULT_MAX_ATTEMPTS if line.max_attempts is None else line.max_attempts
    if given.get(ATTEMPTS.name) is not None:  # their number may have grown with the progress of the old job
        max_attempts = meta[ATTEMPTS.name] = check_max_attempts(given[ATTEMPTS.name])
    if isinstance(carried := given.get(CARRIED.name), dict):
        meta[CARRIED.name] = carried
    if given.get(UNIQUE.name) is not None:
        meta[UNIQUE.name] = _key(given[UNIQUE.name])
    meta[IMPORTED.name] = [source, line.id]
    _, at = when(None, line.scheduled_at if line.state in TIMED else None)
    written = msgspec.json.encode(meta).decode()
    if "\\u0000" in written or "\\u0000" in text:
        raise OptionError("a text has a NUL, which no text of the database can have")
    return Row(
        kind,
        queue,
        str(check_priority(DEFAULT_PRIORITY if line.priority is None else line.priority)),
        str(check_max_attempts(max_attempts)),
        text,
        UNIT.join(check_tags(line.tags)),
        "",
        at.isoformat() if at is not None else "",
        in_ascii(written),
    )


def _unchecked(line: Line) -> tuple[str, str, dict[str, Any]]:
    """Return kind, args and the first values of meta by the rules of JSON alone."""
    _object(line.args)
    meta: dict[str, Any] = {}
    if (version := line.meta.get(VERSION.name)) is not None:
        meta[VERSION.name] = check_version(version)
    if (gates := line.meta.get(GATES.name)) is not None:
        meta[GATES.name] = _gates(gates)
    return check_kind_name(line.kind), bytes(line.args).decode(), meta


def _object(args: msgspec.Raw) -> None:
    try:
        msgspec.json.decode(bytes(args), type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise OptionError(f"args: expected an object of JSON: {error}") from None


def _gates(text: Any) -> str:
    """Return the gates of a job, which the gatekeeper is to be able to read."""
    try:
        entries = read_entries(text)
    except (msgspec.MsgspecError, TypeError) as error:
        raise OptionError(f"meta.{GATES.name} {show(text)}: expected the gates of a job as their text: {error}") from None
    if not entries:
        raise OptionError(f"meta.{GATES.name} {show(text)}: expected a gate at least")
    return str(text)


def _checked(line: Line, queue: str, workers: Mapping[str, Worker[Any]]) -> tuple[str, str, dict[str, Any]]:
    """Return the same as the worker of the kind wants it."""
    if line.kind not in workers:
        raise OptionError(f"the registry has no worker for kind {show(line.kind)}; it has {', '.join(sorted(workers))}")
    kind: Kind[Any] = workers[line.kind].kind
    stated = line.meta.get(VERSION.name)
    version = "" if stated is None else str(stated)
    if not kind.reads(version):
        raise OptionError(f"args of version {version}: the registry knows kind '{kind.name}' up to version {kind.version}")
    stored = bytes(line.args)
    args = kind.reading(version).decode(stored)
    text = stored if int(version or 1) == kind.version else kind.codec.encode(args)
    meta: dict[str, Any] = {VERSION.name: kind.version} if kind.version > 1 else {}
    if (gates := kind.gates_of(args, queue)) is not None:
        meta[GATES.name] = gates
    return kind.name, text.decode(), meta


def _moment(line: Line, name: str) -> str:
    """Return a moment in the life of a job as a time; one that counts from the enqueue, of a job without that time, as it is."""
    if line.created_at is None or line.created_at.utcoffset() is None:
        return str(line.meta[name])
    at = META[name].of(Dated(line.meta, line.created_at, tuple(line.tags)))  # type: ignore[attr-defined]
    told: str = at.isoformat()
    return told


def _key(entry: Any) -> list[Any]:
    """Return the entry of a unique key: its digest, until when it is held, and for how long."""
    digest, until, within = entry if isinstance(entry, list) and len(entry) == 3 else (None, None, None)  # noqa: PLR2004 - those
    fits = isinstance(digest, str) and DIGEST.fullmatch(digest) and until in HELD_UNTIL
    if not fits or not (within is None or type(within) in (int, float)):
        raise OptionError(f"meta.{UNIQUE.name} {show(entry)}: expected the digest of a key, until when, and how long")
    return [digest, until, within]


def reason(error: Exception) -> str:
    """Say in a line why a job cannot be enqueued."""
    return (
        str(error).partition("\n")[0] if isinstance(error, FastqError) else f"{type(error).__name__}: {error}".partition("\n")[0]
    )
