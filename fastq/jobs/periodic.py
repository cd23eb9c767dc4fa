"""Define periodic jobs: the arguments of `registry.periodic`, and which missed ticks are made up for.

A definition is made by the thread that imports the application, never changed, and read afterwards; `due_ticks` is pure, and run
by the leader's chore in its track's thread. A definition is written to the database by `fastq run` (lead/definitions.py); the
leader's chore (chores/periodic.py) reads it there and needs none of the application's code.

Invariants:
- A mistake in a definition (name, schedule, args, options) raises at the line that declares it.
- Its hash covers all of it, so that two programs that declare the same hash mean the same.

Options that the kind leaves open are settled late, since the worker that states them may be registered afterwards: `spec` runs in
the importing thread, as a check, and again in the main thread of `fastq run`, which writes the definitions when all workers are
registered. It deliberately has no clock: the database's time decides which ticks are due.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from fastq.args.faults import as_known
from fastq.args.kinds import Kind, kind_of
from fastq.args.meta import TIMES
from fastq.args.options import MAX_TAGS, Counting, Span, Tags, check_span
from fastq.errors import FastqError, OptionError, RegistryError
from fastq.jobs.declaration import Declaration
from fastq.jobs.schedule import Cron, Every, Schedule, latest
from fastq.jobs.spec import JobSpec, Options, gated, keyed, spec_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:\-]{0,126}")
"""The rule of a kind's name: it stands in tags, on command lines, and before '=' in a process's list of definitions."""

MAX_BYTES = 65_536
"""Of args: they are copied to a job at each tick. A guess; larger data belong in a table."""

MOST_BACKFILL = 1_000
"""Ticks: computing them takes a leader a tenth of a second at most."""

SKIP_GRACE = 60.0
"""Seconds that a tick may be late and is no missed one: more than a change of leaders (ten) or a restart of everything takes."""

OWN_TAGS = 2  # 'periodic:NAME' and 'tick:TIME'


@dataclass(frozen=True)
class Backfill:
    """Make up for the last `most` of the missed ticks, in their order: `missed=Backfill(10)`."""

    most: int

    def __post_init__(self) -> None:
        """Refuse a value that is no number of ticks."""
        if type(self.most) is not int or not 1 <= self.most <= MOST_BACKFILL:
            raise OptionError(f"Backfill({self.most!r}): expected a whole number from 1 to {MOST_BACKFILL:,}")


Missed = Literal["once", "skip"] | Backfill


class PeriodicOptions(TypedDict, total=False):
    """The arguments of `registry.periodic` besides name, schedule and args."""

    missed: Missed
    run_on_start: bool
    queue: str | None
    priority: int | None
    max_attempts: int | None
    tags: Tags
    expires: Span | None
    deadline: Span | None
    keep_trying_for: Span | None
    attempts: Counting | None


class PeriodicJob(Declaration):
    """One definition, checked."""

    noun, heading = "periodic job", "periodic"

    def __init__(
        self, name: str, schedule: Schedule, args: Any, kind: Kind[Any] | None, options: PeriodicOptions, place: str
    ) -> None:
        self.place = place  # where it is written, for messages
        try:
            self.name = check_name(name)
            if not isinstance(schedule, Cron | Every):
                raise OptionError(f"schedule {schedule!r}: expected Cron('0 9 * * *') or Every(30.0)")
            if unknown := options.keys() - PeriodicOptions.__annotations__.keys():
                known = ", ".join(PeriodicOptions.__annotations__)
                raise OptionError(f"unknown option {', '.join(sorted(unknown))}; expected one of {known}")
            self.schedule = schedule
            self.kind = kind_of(args, kind)
            self.args = self.kind.codec.encode(args, MAX_BYTES)
            self._given = args
            self._told = self.kind.codec.digest(args) if self.kind.hides else _in_order(args, self.args)
            self.missed, self.backfill = _policy(options.get("missed", "once"))
            self.run_on_start = _flag(options.get("run_on_start", False))
            self._options = _job_options(options)
            self.spec()
        except FastqError as error:
            raise RegistryError(f"{place}: periodic job {name!r}: {error}") from error

    def spec(self) -> JobSpec:
        """Return the options of its jobs: its own before the kind's, these before the defaults."""
        spec = spec_of(self.kind, self._options)
        spec = gated(spec, self.kind.gates_of(self._given, spec.queue))
        if self.kind.unique is not None:
            if self.kind.unique.held_until == "success":
                raise OptionError("unique, until='success': expected 'end', or one job that fails would end all further ticks")
            spec = keyed(spec, self.kind.key_of(self.kind.unique, self._given, self.args, spec.queue))
        if spec.tags and spec.tags.count("\x1f") >= MAX_TAGS - OWN_TAGS:
            raise OptionError(f"tags: expected {MAX_TAGS - OWN_TAGS} at most, for {OWN_TAGS} are added")
        return spec

    @property
    def hash(self) -> str:
        """Return a short digest of the whole definition."""
        when = (str(self.schedule), self.schedule.tz, self.missed, self.backfill, self.run_on_start)
        spec = self.spec()
        what = (spec.kind, spec.queue, spec.priority, spec.max_attempts, spec.tags, *([spec.meta] if spec.meta else []))
        return hashlib.sha256(msgspec.json.encode((*when, *what)) + self._told).hexdigest()[:16]

    def __repr__(self) -> str:
        """Show name and schedule."""
        return f"PeriodicJob({self.name!r}, {self.schedule}, {self.kind.name})"


def due_ticks(
    schedule: Schedule, policy: tuple[str, int], pending: datetime, now: datetime, *, first: bool = False
) -> list[datetime]:
    """Return which ticks to enqueue now, given the first that is pending and a policy for those that are late.

    `first` says that the pending one is no tick of the schedule, but the run at the start of a definition: never skipped.
    """
    missed, most = policy
    ticks = latest(schedule, pending, now, most if missed == "backfill" else 1)
    if first and ticks[:1] != [pending]:
        ticks = [pending, *ticks][-max(most, 1) :]
    if missed == "skip" and not first:
        ticks = [tick for tick in ticks if (now - tick).total_seconds() <= SKIP_GRACE]
    return ticks


def check_name(name: object) -> str:
    """Return the name, or raise OptionError with the rule."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise OptionError(f"name {name!r}: expected 1 to 127 of letters, digits, '_', '.', ':' and '-', none of '.:-' first")
    return name


def _in_order(args: Any, encoded: bytes) -> bytes:
    """Write args so that two programs write the same: a set has another order in each."""
    try:
        return msgspec.json.encode(args, enc_hook=as_known, order="deterministic")
    except Exception:  # noqa: BLE001 - a type that is not msgspec's: it writes itself
        return encoded


def _policy(missed: object) -> tuple[str, int]:
    if isinstance(missed, Backfill):
        return "backfill", missed.most
    if missed not in ("once", "skip"):
        raise OptionError(f"missed {missed!r}: expected 'once', 'skip' or Backfill(10)")
    return str(missed), 0


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise OptionError(f"run_on_start {value!r}: expected True or False")
    return value


def _job_options(options: Mapping[str, Any]) -> Options:
    spans: Any = {name: check_span(name, options[name]) for name in TIMES if options.get(name) is not None}
    given = Options(
        queue=options.get("queue"),
        priority=options.get("priority"),
        max_attempts=options.get("max_attempts"),
        attempts=options.get("attempts"),
        tags=options.get("tags", ()),
    )
    given.update(spans)
    return given
