"""Make the spec with which a job is enqueued, beside its args: its queue, priority, attempts, tags, and a delay or a time.

Pure functions, run in the enqueuing thread or event loop, and in the thread that imports the application (periodic jobs), on
plain values; a spec belongs to the call that is made of it. An option counts in this order: the job's own (`Enqueue`), the
call's, the kind's, the default (args/options.py).

Invariant: a `JobSpec` has been checked, so the database takes every row that is made of it. It deliberately compares no time
with the local clock: whether a job is due is the database's to say.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypedDict

import msgspec

from fastq.args import meta
from fastq.args.faults import show
from fastq.args.gates import GATES, Ordered
from fastq.args.kinds import Kind
from fastq.args.meta import stated
from fastq.args.options import (
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    MAX_DELAY,
    Counting,
    Span,
    Tags,
    check_max_attempts,
    check_priority,
    check_queue,
    check_tags,
)
from fastq.args.unique import UNIQUE, Asked, Unique, check_unique
from fastq.errors import OptionError
from fastq.jobs.job import EARLIEST, LATEST

UNIT = "\x1f"
"""The character that joins the tags of one job in a statement's parameters; no tag has it."""


class Options(TypedDict, total=False):
    """How a job is enqueued; None stands for "not given"."""

    queue: str | None
    priority: int | None
    max_attempts: int | None
    delay: float | timedelta | None
    at: datetime | None
    tags: Tags | None
    unique: Unique | None
    expires: Span | datetime | None
    deadline: Span | datetime | None
    keep_trying_for: Span | None
    attempts: Counting | None


OPTIONS = Options.__optional_keys__


class JobSpec(NamedTuple):
    """All that a job is enqueued with but its args."""

    kind: str
    queue: str
    priority: int
    max_attempts: int
    tags: str | None
    delay: float | None
    at: datetime | None
    meta: str | None = None  # JSON, see args/meta.py
    asked: Asked | None = None  # the key of a unique job
    gates: str | None = None  # JSON: those that the job goes through; its meta has them, too


def check_names(options: Options) -> None:
    """Refuse an unknown option, once per call: with a misspelt `delay` the job would run at once."""
    if not options.keys() <= OPTIONS:
        unknown = ", ".join(sorted(options.keys() - OPTIONS))
        raise OptionError(f"unknown option {unknown}; expected one of {', '.join(Options.__annotations__)}")


def spec_of(kind: Kind[Any], options: Options, own: Options | None = None) -> JobSpec:
    """Settle and check a job's options, its own first; a job is given a delay or a time, in one place or the other."""
    given = options if own is None else merged(options, own)
    delay, at = when(given.get("delay"), given.get("at"))
    kept = None
    if kind.kept or not meta.OPTIONS.keys().isdisjoint(given):
        given = Options(**stated(kind.kept, given, kind.max_attempts or DEFAULT_MAX_ATTEMPTS))  # type: ignore[typeddict-item]
        kept = meta.encoded(given)
    get = given.get
    queue = get("queue")
    priority = get("priority")
    if priority not in (None, kind.priority or DEFAULT_PRIORITY):
        _check_order(kind, priority)
    max_attempts = get("max_attempts")
    tags = get("tags")
    return JobSpec(
        kind.name,
        check_queue(queue) if queue is not None else kind.queue or DEFAULT_QUEUE,
        check_priority(priority) if priority is not None else kind.priority or DEFAULT_PRIORITY,
        check_max_attempts(max_attempts) if max_attempts is not None else kind.max_attempts or DEFAULT_MAX_ATTEMPTS,
        UNIT.join(kind.tags if tags is None else check_tags(tags)) or None,
        delay,
        at,
        kept,
    )


def gated(spec: JobSpec, gates: str | None) -> JobSpec:
    """Have a job go through gates; its args say which keys it has there, so jobs of one call may differ."""
    if gates is None:
        return spec
    rest = f",{spec.meta[1:]}" if spec.meta else "}"
    text = meta.in_ascii(msgspec.json.encode(gates).decode())
    return spec._replace(meta=f'{{"{GATES.name}":{text}{rest}', gates=gates)


def _check_order(kind: Kind[Any], priority: object) -> None:
    ordered = next((gate for gate in kind.gates if isinstance(gate, Ordered)), None)
    if ordered is not None:
        raise OptionError(
            f"priority {priority!r}: the jobs of kind '{kind.name}' are in order ({ordered}), so all have its priority, "
            f"{kind.priority or DEFAULT_PRIORITY}"
        )


def unique_of(kind: Kind[Any], options: Options, own: Options | None = None) -> Unique | None:
    """Settle whether a job is unique, and how: by its own option, the call's, or its kind's."""
    given = (own.get("unique") if own is not None else None) or options.get("unique")
    if given is None:
        return kind.unique
    kind.check_unique(check_unique(given))
    return given


def keyed(spec: JobSpec, asked: Asked) -> JobSpec:
    """Have a job ask for its key, and carry it."""
    rest = f"{spec.meta[:-1]}," if spec.meta else "{"
    return spec._replace(meta=f'{rest}"{UNIQUE.name}":{asked.entry()}}}', asked=asked)


def carrying(spec: JobSpec, carried: str | None) -> JobSpec:
    """Have values travel with a job, given as JSON."""
    if carried is None:
        return spec
    rest = f"{spec.meta[:-1]}," if spec.meta else "{"
    return spec._replace(meta=f'{rest}"{meta.CARRIED.name}":{meta.in_ascii(carried)}}}')


def when(delay: object, at: object) -> tuple[float | None, datetime | None]:
    """Check a delay and a time, of which one may be given; no delay at all is None."""
    if delay is not None and at is not None:
        raise OptionError(f"expected a delay or a time, got both: delay={delay!r}, at={at!r}")
    if at is not None and (not isinstance(at, datetime) or at.utcoffset() is None):
        raise OptionError(f"at {at!r}: expected a datetime with a time zone, such as datetime.now(UTC) + timedelta(hours=1)")
    if at is not None and not EARLIEST <= at <= LATEST:
        raise OptionError(f"at {at!r}: expected a time from {EARLIEST.date()} to {LATEST.date()}: others cannot be read back")
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if seconds is not None and not (
        isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds <= MAX_DELAY
    ):
        raise OptionError(f"delay {show(delay)}: expected seconds from 0 to {MAX_DELAY:.0f}, or a timedelta")
    return (float(seconds) if seconds else None), at


INSTEAD = {"delay": "at", "at": "delay", "max_attempts": "keep_trying_for", "keep_trying_for": "max_attempts"}
"""Options of which a job has one or the other -> the other."""


def merged(options: Options, own: Options) -> Options:
    """Put a job's own options over the call's; its own delay or time replaces either, and so does what limits its attempts."""
    told = {name: value for name, value in own.items() if value is not None}
    left = {name: value for name, value in options.items() if INSTEAD.get(name) not in told}
    return Options(**{**left, **told})  # type: ignore[typeddict-item]
