"""Say which jobs count as one and the same, so that there is only one of them at a time: `Unique`.

    class SyncArgs(Args, kind="sync", unique=Unique("account_id")): ...       on the kind, or as an attribute of its worker
    client.enqueue(SyncArgs(42), unique=Unique("account_id", within=3600))     on one call, or on one `Enqueue` of many

Declared at import, or for one call, and never changed. Checked and read in the thread that imports the application and in the
thread that enqueues; checked by the producer's thread of a worker process, too, when it first reads args of the kind. Each
process keeps nothing but the declarations that any of these threads has checked. The key of a job is a digest of its scope and of
the args that `by` names. While a job holds the key, an enqueue with the same key makes no second one. docs/unique-jobs.md has the
words of other job queues for this.

Invariant: equal parts have equal keys, and different parts have different ones, in any program and version that enqueues: each
part goes in with its length before it, and tests/unit/test_unique.py has keys that never change. It deliberately asks no
database: the statements do (sql/job_enqueue_unique.sql).
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from fastq.args.faults import as_plain, endless_number, show
from fastq.args.keyed import ABSENT, By, check_by, check_fields, found, name_in_json, names_of, types_at
from fastq.args.meta import Key
from fastq.args.options import MAX_DELAY
from fastq.errors import ArgsError, OptionError

Until = Literal["start", "success", "end"]
Scope = Literal["kind", "queue", "schema"]
Then = Literal["keep", "replace", "debounce", "collect", "raise", "cancel"]

UNIQUE = Key("unique", list)
"""The key of a job, for the day on which it is made to run once more: [the digest in hexadecimal, until, within]."""

TIME = "time"
"""The `until` of a key that is held for a time and not for a job: the word is the database's, nobody writes it."""

SEPARATE = ("debounce", "collect")
"""The values of `then` that would be lost on a job which has started: its key is given up at the start."""

VERSION = b"fastq unique 1"
"""The first part of each key: another encoding begins with another one."""

MOST, MOST_BYTES = 1_000, 100_000
"""Elements that are collected in one job, and bytes of its args: a guess; such a job takes some seconds."""

LISTS = msgspec.inspect.ListType | msgspec.inspect.VarTupleType | msgspec.inspect.SetType | msgspec.inspect.FrozenSetType
"""The types of a field in which jobs may be collected: JSON has a list for each, of any length."""

CHECKED = 1_000
"""Declarations that are known to fit their kinds: a guess at more than a program has. A call may make one of its own each time,
with a function or a time that differs, so without a bound a program that runs for long would keep them all."""

_sorted = msgspec.json.Encoder(enc_hook=as_plain, order="sorted").encode
_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(frozen=True)
class Unique:
    """There is one job of a key at a time; `then` says how an enqueue treats another job with its key.

    `by`: the fields that make the key (`"account_id"`, `"owner.id"`, or several), a function of the args, `()` for none of them;
    None: all args. `scope`: jobs of one kind, of one queue, or of the whole schema.

    The key is given up once: at the job's first start (`until="start"`), when it has succeeded (`"success"`), or when it has
    ended in any way (`"end"`, the default). With `within` it is given up so many seconds after the job was due at the latest;
    without an `until` beside it, then and not before.

    `then`: `"keep"` leaves the other job as it is; `"raise"` raises DuplicateJob; `"replace"` gives a job that has not started
    the new args, time, priority, max_attempts and tags; `"debounce"` does so and puts the job off by the new `delay`, for
    `longest` seconds in all; `"collect"` appends the list field `into` to that of the job, up to `most` elements and
    `most_bytes` of args; `"cancel"` cancels the other job and enqueues the new one.
    """

    by: By = None
    within: float | None = None
    until: Until | None = None
    scope: Scope = "kind"
    then: Then = "keep"
    longest: float | None = None
    into: str | None = None
    most: int = MOST
    most_bytes: int = MOST_BYTES

    def __post_init__(self) -> None:
        """Refuse values that say nothing, or that would lose jobs."""
        if self.by != ():
            object.__setattr__(self, "by", check_by(self.by, "Unique"))
        for name, value, expected in (("scope", self.scope, get_args(Scope)), ("then", self.then, get_args(Then))):
            if value not in expected:
                raise OptionError(f"Unique: {name}={show(value)}: expected one of {', '.join(map(repr, expected))}")
        if self.until not in (None, *get_args(Until)):
            raise OptionError(f"Unique: until={show(self.until)}: expected one of {', '.join(map(repr, get_args(Until)))}")
        if self.then in SEPARATE and self.until not in (None, "start"):
            raise OptionError(
                f"Unique: then={self.then!r} with until={self.until!r}: expected until='start', since a job "
                "that has started sees no more of what is enqueued"
            )
        for name in ("within", "longest"):
            _check_seconds(name, getattr(self, name))
        if self.longest is not None and self.then != "debounce":
            raise OptionError(f"Unique: longest={self.longest!r}: only then='debounce' puts a job off, not {self.then!r}")
        self._check_collecting()

    def _check_collecting(self) -> None:
        collects = self.then == "collect"
        if collects != (self.into is not None) or (self.into is not None and not _is_name(self.into)):
            raise OptionError(f"Unique: then={self.then!r}, into={show(self.into)}: expected then='collect' and into='a_field'")
        if collects and self.by is None:
            raise OptionError("Unique: then='collect': expected by=..., with all args the list is part of the key; () for none")
        for name, value in (("most", self.most), ("most_bytes", self.most_bytes)):
            if type(value) is not int or value < 1:
                raise OptionError(f"Unique: {name}={show(value)}: expected a whole number from 1 on")

    @property
    def held_until(self) -> str:
        """Say when the key is given up, in the word of the database."""
        if self.then in SEPARATE:
            return "start"
        return self.until or (TIME if self.within is not None else "end")

    def check(self, type_: Any, kind: str) -> None:
        """Raise OptionError if the args of the kind have not the fields that this names."""
        _checked(self, type_, kind)

    def asked(self, args: Any, text: bytes, kind: str, queue: str, version: int = 1) -> Asked:
        """Return the key of these args with this declaration; `text` is their JSON. Args of one version alone are collected."""
        into = None if self.into is None else name_in_json(self.into, type(args))
        if into is not None and not bytes(_read_fields(text).get(into, b"")).startswith(b"["):
            raise ArgsError(kind, "expected a list, since unique jobs collect it", field=self.into or "")
        digest = hashlib.sha256()
        named = {"kind": kind, "queue": queue, "schema": ""}[self.scope]
        of = [b"version", b"+", b"%d" % version] if self.then == "collect" and version > 1 else []
        for part in (VERSION, self.scope.encode(), named.encode(), *self._parts(args, text, kind), *of):
            digest.update(b"%d:" % len(part) + part)
        return Asked(digest.digest(), self, into)

    def _parts(self, args: Any, text: bytes, kind: str) -> list[bytes]:
        """Return the parts of the key: for each field its name, whether it is there, and its value."""
        if self.by is None:
            return [b"*", b"+", _sorted(msgspec.json.decode(text))]
        if callable(self.by):
            return [b"()", b"+", _canonical(self.by(args), kind, "")]
        parts = []
        for name in sorted((self.by,) if isinstance(self.by, str) else self.by):
            value = found(args, name)
            there = value is not ABSENT and value is not msgspec.UNSET
            parts += [name.encode(), b"+" if there else b"-", _canonical(value, kind, name) if there else b""]
        return parts


class Asked(NamedTuple):
    """The key of one job that is to be enqueued, and its declaration."""

    key: bytes
    unique: Unique
    into: str | None = None  # the field in which jobs are collected, by its name in JSON

    def entry(self) -> str:
        """Return the value that the job carries in its meta, as JSON."""
        return msgspec.json.encode([self.key.hex(), self.unique.held_until, self.unique.within]).decode()


@functools.lru_cache(CHECKED)
def _checked(unique: Unique, type_: Any, kind: str) -> None:
    told = f"kind '{kind}': unique"
    check_fields(None if unique.by == () else unique.by, type_, told)
    if unique.into is not None:
        types = types_at(unique.into, type_, f"{told}: into={unique.into!r}")
        if types is not None and not any(isinstance(one, LISTS) for one in types):
            raise OptionError(f"{told}: into={unique.into!r}: expected a field that is a list, got {names_of(types)}")


def _canonical(value: Any, kind: str, field: str) -> bytes:
    """Write a value so that equal ones are written in the same way."""
    if endless_number(value) is not None:
        raise ArgsError(kind, f"the key {show(value)} is no finite number", field=field)
    try:
        return _sorted(value)
    except TypeError as error:
        raise ArgsError(kind, f"the key {show(value)} has no JSON form: {error}", field=field) from error


def _check_seconds(name: str, value: object) -> None:
    if value is not None and not (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_DELAY):
        raise OptionError(f"Unique: {name}={show(value)}: expected seconds above 0, {MAX_DELAY:.0f} at most")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()


def check_unique(unique: object) -> Unique:
    """Return the declaration of a kind or of an enqueue, or raise OptionError with the rule."""
    if not isinstance(unique, Unique):
        raise OptionError(f"unique {show(unique)}: expected a Unique, such as unique=Unique('account_id')")
    return unique
