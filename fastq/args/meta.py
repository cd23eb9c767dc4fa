"""Declare the values that features keep with a job in its column `meta`: one `Key` each, with a name, a type, ways in and out.

A key is all that a new column of a job takes. The job's spec writes it, from the option of its name (`Options` in jobs/spec.py
says which options there are), and the statements that insert a job carry the whole of meta; it is read as an attribute, where
`Job` (jobs/job.py) or another class that has a `meta` names it: `source = SOURCE`. The claim, the archive and the codec know
none of the keys. `encoded` runs in the enqueuing thread, a key is read in the thread that has the job. Plain values, no I/O; the
lists of keys are written at import alone.

Invariants: a name stands for one type; where no key is set, meta is null and costs nothing; the text of meta is ASCII, so that it
reads the same in every encoding that a caller's connection may have.

It deliberately has no index and no default: a value that decides whether or when a job may run is no key (docs/adr/0022).
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, overload

import msgspec

from fastq.args.text import ArgsCodec
from fastq.errors import ArgsError, FastqError, OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

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

    def encode(self, value: V) -> str:
        """Write a value as JSON, or raise OptionError if it would not come back equal."""
        try:
            return self._codec.encode(value).decode()
        except ArgsError as error:
            at = f", field '{error.field}'" if error.field else ""
            raise OptionError(f"{self.name} {value!r}{at}: {error.reason}") from error


CAUSE = Key("cause", str)
"""Why a job ended that did not complete. The statements that move it to the archive write this key; job_rerun takes it off."""

WORKFLOW = Key("workflow", list[int])
"""The workflow that the job belongs to, and its step there; of a job that a workflow has called, the workflow alone. It is
written by the statements that enqueue such jobs, and read by those that end a step."""

REPLAY_OF = Key("replay_of", int)
"""The discarded job that this one does once more; dead_replay.sql writes it."""


CARRIED = Key("carried", dict[str, Any])
"""The values that hooks have given a job when it was enqueued, by name."""

CRASHED = Key("crashed", dict[str, Any])
"""How the process died that executed the job last. The statement that gives back the jobs of a dead process writes it; it counts
for the next attempt, whose number it holds."""


def encoded(given: Mapping[str, Any]) -> str | None:
    """Write those of a job's options that are keys as the JSON of its meta; None if none of them is given."""
    told = {name: given[name] for name in OPTIONS.keys() & given.keys() if given[name] is not None}
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
