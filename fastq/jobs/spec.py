"""Make the spec with which a job is enqueued, beside its args: its queue, priority, attempts, tags, and a delay or a time.

Runs in the enqueuing thread, and where the application is imported (periodic jobs), on plain values. An option counts in this
order: the job's own (`Enqueue`), the call's, the kind's, the default (args/options.py).

Invariant: a `JobSpec` has been checked, so the database takes every row that is made of it. It deliberately compares no time
with the local clock: whether a job is due is the database's to say.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypedDict

from fastq.args import meta
from fastq.args.faults import show
from fastq.args.kinds import Kind
from fastq.args.options import (
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    MAX_DELAY,
    Tags,
    check_max_attempts,
    check_priority,
    check_queue,
    check_tags,
)
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


def check_names(options: Options) -> None:
    """Refuse an unknown option, once per call: with a misspelt `delay` the job would run at once."""
    if not options.keys() <= OPTIONS:
        unknown = ", ".join(sorted(options.keys() - OPTIONS))
        raise OptionError(f"unknown option {unknown}; expected one of {', '.join(Options.__annotations__)}")


def spec_of(kind: Kind[Any], options: Options, own: Options | None = None) -> JobSpec:
    """Settle and check a job's options, its own first; a job is given a delay or a time, in one place or the other."""
    given = options if own is None else _merged(options, own)
    get = given.get
    queue = get("queue")
    priority = get("priority")
    max_attempts = get("max_attempts")
    tags = get("tags")
    return JobSpec(
        kind.name,
        check_queue(queue) if queue is not None else kind.queue or DEFAULT_QUEUE,
        check_priority(priority) if priority is not None else kind.priority or DEFAULT_PRIORITY,
        check_max_attempts(max_attempts) if max_attempts is not None else kind.max_attempts or DEFAULT_MAX_ATTEMPTS,
        UNIT.join(kind.tags if tags is None else check_tags(tags)) or None,
        *when(get("delay"), get("at")),
        meta.encoded(given) if meta.OPTIONS else None,
    )


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


def _merged(options: Options, own: Options) -> Options:
    """Put a job's own options over the call's; its own delay or time replaces either."""
    told = {name: value for name, value in own.items() if value is not None}
    left = {name: value for name, value in options.items() if name not in ("delay", "at") or not told.keys() & {"delay", "at"}}
    return Options(**{**left, **told})  # type: ignore[typeddict-item]
