"""Declare the values that features keep with a job in its column `meta`: one `Key` each, with a name, a type, ways in and out.

A key is all that a new column of a job takes. The job's spec writes it, from the option of its name (`Options` in jobs/spec.py
says which options there are), and the statements that insert a job carry the whole of meta; it is read as an attribute, where
`Job` (jobs/job.py) or another class that has a `meta` names it: `source = SOURCE`. The claim, the archive and the codec know
none of the keys. `encoded` runs in the enqueuing thread, a key is read in the thread that has the job. Plain values, no I/O; the
lists of keys are written at import alone.

A moment (`TimeKey`) is a time, or "+" and the seconds from when the job was enqueued or its tick was due: all that have the job
know both, and need no clock here. What a passed moment does to a job is said elsewhere (work/shared/in_time.py).

Invariants: a name stands for one type; where no key is set, meta is null and costs nothing; the text of meta is ASCII, so that it
reads the same in every encoding that a caller's connection may have.

It deliberately has no index and no default: a value that decides whether or when a job may run is no key (docs/adr/0022).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, overload

import msgspec

from fastq.args.options import MAX_ATTEMPTS, check_attempts, check_either, check_max_attempts, check_span
from fastq.args.text import ArgsCodec
from fastq.errors import ArgsError, FastqError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

V = TypeVar("V")

EMPTY: Mapping[str, Any] = MappingProxyType({})
"""The meta of a job that has none."""

KEYS: dict[str, Key[Any]] = {}
OPTIONS: dict[str, Key[Any]] = {}
"""The keys by name, all of them and those that are options of `enqueue`. A key puts itself here when the module that makes it is
imported."""


class Keeper(Protocol):
    """A `Job`, or an operator's view of one."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """Give the values that features keep with the job."""
        ...


class Key(Generic[V]):
    """A name in meta and the type of its value; as an attribute of a class that has a `meta`, it reads the value."""

    def __init__(self, name: str, type_: type[V], *, option: bool = False) -> None:
        if name in KEYS:
            raise ValueError(f"meta key {name!r}: expected a name of its own, got that of a key that is there already")
        self.name = name
        self.type = type_
        self._codec = ArgsCodec(name, type_)
        KEYS[name] = self
        if option:
            OPTIONS[name] = self

    @overload
    def __get__(self, job: None, owner: type) -> Self: ...
    @overload
    def __get__(self, job: Keeper, owner: type | None = None) -> V | None: ...
    def __get__(self, job: Keeper | None, owner: type | None = None) -> Self | V | None:
        """Read the value of a job, None if it has none; on the class itself, return the key."""
        if job is None:
            return self
        value = job.meta.get(self.name)
        try:
            return None if value is None else msgspec.convert(value, self.type)
        except msgspec.ValidationError as error:  # another version of the program wrote it
            raise FastqError(f"meta key '{self.name}': expected {self.type!r}, got {value!r} ({error})") from error

    def settle(self, value: Any, given: Mapping[str, Any]) -> V:  # noqa: ARG002 - for keys that depend on other options of the job
        """Return the value to keep for an option of this name; `given` has all options of the job."""
        kept: V = value
        return kept

    def encode(self, value: V) -> str:
        """Write a value as JSON, or raise OptionError if it would not come back equal."""
        try:
            return self._codec.encode(value).decode()
        except ArgsError as error:
            at = f", field '{error.field}'" if error.field else ""
            raise OptionError(f"{self.name} {value!r}{at}: {error.reason}") from error


CAUSE = Key("cause", str)
"""Why a job ended that did not complete. The statements that move it to the archive write this key; job_rerun takes it off."""

VERSION = Key("version", int, option=True)
"""The version of the job's args, where that is above 1: an option of its kind, which no enqueue states (args/versions/)."""

WORKFLOW = Key("workflow", list[int])
"""The workflow that the job belongs to, and its step there; of a job that a workflow has called, the workflow alone. It is
written by the statements that enqueue such jobs, and read by those that end a step."""

REPLAY_OF = Key("replay_of", int)
"""The discarded job that this one does once more; dead_replay.sql writes it."""


IMPORTED = Key("imported", list[Any])
"""The source from which the job was imported, and its id there (admin/exports/)."""


CARRIED = Key("carried", dict[str, Any])
"""The values that hooks have given a job when it was enqueued, by name."""

CRASHED = Key("crashed", dict[str, Any])
"""How the process died that executed the job last. The statements that give back the jobs of a dead process write it; it counts
for the next attempt, whose number it holds."""


TICK_TAG = "tick:"  # of a periodic job: its tick in ISO 8601, put there by sql/periodic_enqueue.sql


class Dated(Keeper, Protocol):
    """A `Job`, or an operator's view of one, which say when it was enqueued."""

    @property
    def created_at(self) -> datetime:
        """Say when the job was enqueued, by the database's clock."""
        ...

    @property
    def tags(self) -> Iterable[str]:
        """Give the job's tags."""
        ...


class TimeKey(Key[Any]):
    """A moment in the life of a job; as an attribute of a class that has the job's meta, it reads the moment."""

    def __init__(self, name: str, *, spans_alone: bool = False) -> None:
        super().__init__(name, str, option=True)
        self._spans_alone = spans_alone

    @overload
    def __get__(self, job: None, owner: type) -> Self: ...
    @overload
    def __get__(self, job: Keeper, owner: type | None = None) -> datetime | None: ...
    def __get__(self, job: Any, owner: type | None = None) -> Self | datetime | None:
        """Read the moment, None if the job has none; on the class itself, return the key."""
        return self if job is None else self.of(job)

    def of(self, job: Dated) -> datetime | None:
        """Read the moment of a job, None if it has none."""
        text = job.meta.get(self.name)
        if text is None:
            return None
        try:
            if text.startswith("+"):
                return _due(job) + timedelta(seconds=float(text))
            return datetime.fromisoformat(text)
        except (AttributeError, ValueError, OverflowError) as error:  # another version of the program wrote it
            raise FastqError(f"meta key '{self.name}': expected '+' and seconds, or a time; got {text!r}") from error

    def settle(self, value: Any, given: Mapping[str, Any]) -> str:
        """Return the moment as the job carries it, by the job's own delay or time; OptionError if the value is none."""
        if isinstance(value, datetime) and not self._spans_alone:
            return self._written(value, value)
        seconds = check_span(self.name, value, or_time=not self._spans_alone)
        at, delay = given.get("at"), given.get("delay")
        if at is not None:
            try:
                return self._written(value, at + timedelta(seconds=seconds))
            except OverflowError:
                raise self._beyond(value) from None
        return f"+{seconds + (delay.total_seconds() if isinstance(delay, timedelta) else delay or 0.0)!r}"

    def _written(self, value: object, when: datetime) -> str:
        if when.utcoffset() is None:
            raise OptionError(
                f"{self.name} {value!r}: expected seconds, a timedelta, or a datetime with a time zone, such as "
                "datetime.now(UTC) + timedelta(hours=1)"
            )
        try:
            return when.astimezone(UTC).isoformat()
        except OverflowError:
            raise self._beyond(value) from None

    def _beyond(self, value: object) -> OptionError:
        return OptionError(f"{self.name} {value!r}: expected a time that lies in the years from 1 to 9999 in UTC")


EXPIRES = TimeKey("expires")
"""The moment after which no attempt of the job starts."""

DEADLINE = TimeKey("deadline")
"""The moment by which the job is to have ended."""

KEEP_TRYING_FOR = TimeKey("keep_trying_for", spans_alone=True)
"""The moment after which a failed job is not tried again; it stands in place of a number of attempts."""

TIMES = (EXPIRES.name, DEADLINE.name, KEEP_TRYING_FOR.name)


class CountKey(Key[int]):
    """How many attempts a job has from its last progress on; the option says in a word that they are counted so."""

    def settle(self, value: Any, given: Mapping[str, Any]) -> int:
        """Return how many there are: the job's `max_attempts`."""
        check_attempts(value)
        return check_max_attempts(given["max_attempts"])


ATTEMPTS = CountKey("attempts", int, option=True)
"""How many attempts a job has from its last progress on, where they are counted so (work/shared/in_time.py)."""


STEPS = Key("steps", int)
"""Of a job with records of steps alone: how many signals it has been sent. The statements that write such records write it."""

PARKED = Key("parked", list[Any])
"""The signal that a job was parked for last, and up to when, as seconds since 1970; job_park.sql writes it."""


CHECKS: dict[str, Callable[[Any], Any]] = {**{name: partial(check_span, name) for name in TIMES}, ATTEMPTS.name: check_attempts}
"""The options of a kind that lie in the meta of its jobs -> what returns the value to keep, or raises OptionError."""


class Kept:
    """An option of a kind that lies in the meta of its jobs; the kind has all that are stated in `kept`."""

    def __set_name__(self, owner: type, name: str) -> None:
        """Learn the option's name."""
        self._name = name

    def __get__(self, kind: Any, owner: type) -> Any:
        """Return the option, None if the kind does not state it."""
        return self if kind is None else kind.kept.get(self._name)

    def __set__(self, kind: Any, value: Any) -> None:
        """State the option; raise OptionError if the value is none."""
        if value is not None:
            kind.kept[self._name] = CHECKS[self._name](value)


def encoded(given: Mapping[str, Any]) -> str | None:
    """Write those of a job's options that are keys as the JSON of its meta; None if none of them is given."""
    told = {name: OPTIONS[name].settle(given[name], given) for name in OPTIONS.keys() & given.keys() if given[name] is not None}
    if not told:
        return None
    text = "{" + ",".join(f'"{name}":{OPTIONS[name].encode(told[name])}' for name in sorted(told)) + "}"
    return in_ascii(text)


def quoted(text: str) -> str:
    """Return a text as a string of JSON in ASCII, which a statement takes apart again by `#>> '{}'`."""
    return json.dumps(text)


def in_ascii(text: str) -> str:
    """Return the JSON with escapes for characters that are not in ASCII: they read the same in each encoding of a connection."""
    return text if text.isascii() else json.dumps(json.loads(text))


def stated(kept: Mapping[str, Any], given: Mapping[str, Any], max_attempts: int) -> dict[str, Any]:
    """Put the options of a job over those that its kind keeps; one that is tried for a time may have the most attempts.

    `max_attempts` is that of the kind: where attempts are counted from the last progress on, the job keeps how many it has.
    """
    told = {name: value for name, value in given.items() if value is not None}
    check_either(told.get("max_attempts"), told.get(KEEP_TRYING_FOR.name))
    counted = "max_attempts" in told
    behind = {name: value for name, value in kept.items() if not (counted and name == KEEP_TRYING_FOR.name)}
    whole = {**behind, **told}
    if KEEP_TRYING_FOR.name in whole:
        return {**whole, "max_attempts": MAX_ATTEMPTS[-1]}
    return {"max_attempts": max_attempts, **whole} if ATTEMPTS.name in whole else whole


def tick_of(tags: Iterable[str]) -> datetime | None:
    """Return the time for which a periodic job was enqueued; None for any other job."""
    tick = next((tag.removeprefix(TICK_TAG) for tag in tags if tag.startswith(TICK_TAG)), None)
    try:
        return datetime.fromisoformat(tick) if tick is not None else None
    except ValueError:  # a tag of the user's own that begins like ours
        return None


def _due(job: Dated) -> datetime:
    tick = tick_of(job.tags)
    return tick if tick is not None and tick.utcoffset() is not None else job.created_at
