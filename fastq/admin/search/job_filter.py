"""Say which jobs are meant: a `JobFilter`, made of words (`kind:mail state:discarded since:2h -queue:slow`) or of arguments.

A plain value, made and read in any thread. It is checked when it is made, so the statements take every filter. `stored` writes it
as the JSON that job_search.sql and job_search_ids.sql read, with times in place of spans.

Invariant: the words of a filter make an equal filter. It deliberately says nothing of how jobs are found: walks.py does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Self

import msgspec

from fastq.admin.search import terms
from fastq.admin.search.terms import Between, Moment, Path, Word
from fastq.args.faults import show
from fastq.args.options import check_kind_name, check_queue
from fastq.errors import OptionError
from fastq.jobs.job import State
from fastq.texts import in_ascii

LISTS = {"state": "states", "kind": "kinds", "queue": "queues", "tag": "tags", "error": "errors"}
"""The fields of a filter by the words that may come several times, and with '-' before them."""

FIELDS = ("args", "meta")
"""The words before a path: `args.account.id:42`."""

RANGES = ("id", "priority", "attempt")
MOMENTS = {
    f"{of}{end}": f"{of}{end}".replace("-", "_") for of in ("", "created-", "due-", "ended-") for end in ("since", "until")
}
"""Words with a moment, and their fields."""

NAMES = ("workflow", "unique", "gate")
WORDS = (*LISTS, *RANGES, *MOMENTS, *NAMES, *(f"{name}.PATH" for name in FIELDS))
"""All words."""

DIGEST = 6
"""Bytes of a filter's digest: enough to tell a cursor of another filter."""

FEWEST, MOST_DIGITS = 6, 64
"""Digits of a unique key: as `fastq unique list` takes them."""

Fields = Mapping[str, object] | Iterable[tuple[Path, str]]
"""Values by their paths, such as {"account.id": 42}."""

Ago = datetime | timedelta | float | None


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """The jobs that are meant: those that fit all that is said here; a filter without anything means all jobs.

    Of several `states`, `kinds` and `queues` one is enough; a job has to have each of several `tags`, and its last error each of
    several texts in `errors` (upper and lower case are the same). Those in `not_...` are left out. `since` and `until` compare
    the time at which a job ended; of one that lives, the time at which it was enqueued. A moment is a time with a zone, a
    timedelta, or seconds ago; below zero it lies ahead. `args` and `meta` have values by their paths: `{"account.id": 42}`.
    `unique` has the first digits of a key: the job that holds it. `JobFilter.parse("kind:mail since:2h")` reads words, and
    `str(...)` writes them.
    """

    states: Iterable[State | str] = ()
    kinds: Iterable[str] = ()
    queues: Iterable[str] = ()
    tags: Iterable[str] = ()
    errors: Iterable[str] = ()
    not_states: Iterable[State | str] = ()
    not_kinds: Iterable[str] = ()
    not_queues: Iterable[str] = ()
    not_tags: Iterable[str] = ()
    not_errors: Iterable[str] = ()
    id: int | Between | None = None
    priority: int | Between | None = None
    attempt: int | Between | None = None
    since: Ago = None
    until: Ago = None
    created_since: Ago = None
    created_until: Ago = None
    due_since: Ago = None
    due_until: Ago = None
    ended_since: Ago = None
    ended_until: Ago = None
    args: Fields = ()
    not_args: Fields = ()
    meta: Fields = ()
    not_meta: Fields = ()
    workflow: int | None = None
    unique: str | None = None
    gate: str | None = None

    def __post_init__(self) -> None:
        """Check each field, and write it in its one form."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                object.__setattr__(self, field.name, _checked(field.name, value))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the words of a filter; OptionError says which word is wrong, where it stands, and what was expected."""
        found: dict[str, Any] = {}
        for word in terms.split(text):
            try:
                _take(found, word)
            except OptionError as error:
                if str(error).startswith("filter"):
                    raise
                raise OptionError(f"filter, character {word.at + 1}: {error}") from None
        return cls(**found)

    @classmethod
    def of(cls, given: JobFilter | str) -> JobFilter:
        """Return a filter as it is, or read its words."""
        return given if isinstance(given, JobFilter) else cls.parse(given)

    def __str__(self) -> str:
        """Write the words."""
        said = []
        for word, name in LISTS.items():
            said += [f"{word}:{terms.quoted(value)}" for value in getattr(self, name)]
            said += [f"-{word}:{terms.quoted(value)}" for value in getattr(self, f"not_{name}")]
        said += [f"{name}:{terms.between_written(getattr(self, name))}" for name in RANGES if getattr(self, name) is not None]
        said += [
            f"{word}:{terms.moment_written(getattr(self, name))}"
            for word, name in MOMENTS.items()
            if getattr(self, name) is not None
        ]
        said += [f"{name}:{terms.quoted(str(getattr(self, name)))}" for name in NAMES if getattr(self, name) is not None]
        for word in FIELDS:
            for sign, name in (("", word), ("-", f"not_{word}")):
                said += [f"{sign}{word}.{terms.path_written(path)}:{terms.quoted(text)}" for path, text in getattr(self, name)]
        return " ".join(said)

    @property
    def digest(self) -> str:
        """Return a short text that is the same for equal filters."""
        return hashlib.blake2b(str(self).encode(errors="surrogatepass"), digest_size=DIGEST).hexdigest()

    def between(self, name: str, now: datetime) -> tuple[str | None, str | None]:
        """Return the two ends of a pair of moments, as times: `since` and `until` by the name '', or those of 'ended', say."""
        ends = (getattr(self, f"{name}_{end}" if name else end) for end in ("since", "until"))
        low, high = (None if end is None else time_of(end, now).isoformat() for end in ends)
        return low, high

    def stored(self, now: datetime) -> str:
        """Write it as JSON for the statements, with times in place of spans; in ASCII, whatever encoding carries it."""
        lists = {name: getattr(self, name) for plural in LISTS.values() for name in (plural, f"not_{plural}")}
        for name in ("errors", "not_errors"):
            lists[name] = tuple(text.lower() for text in lists[name])
        told: dict[str, Any] = {name: values for name, values in lists.items() if values}
        told |= {name: getattr(self, name) for name in ("priority", "attempt") if getattr(self, name) is not None}
        for name, stored in (("", "moment"), ("created", "created"), ("due", "due"), ("ended", "ended")):
            if any(ends := self.between(name, now)):
                told[stored] = ends
        told |= {name: str(getattr(self, name)) for name in ("workflow", "gate") if getattr(self, name) is not None}
        told["fields"] = [
            (word, path, text, name != word)
            for word in FIELDS
            for name in (word, f"not_{word}")
            for path, text in getattr(self, name)
        ]
        return in_ascii(msgspec.json.encode(told).decode())


def time_of(moment: Moment | float, now: datetime) -> datetime:
    """Return the time of a moment."""
    if isinstance(moment, datetime):
        return moment
    return now - (moment if isinstance(moment, timedelta) else timedelta(seconds=moment))


def _take(found: dict[str, Any], word: Word) -> None:
    """Add a word to the arguments of a filter."""
    sign = "not_" if word.without else ""
    head, dot, path = word.name.partition(".")
    if head in FIELDS and dot:
        found.setdefault(sign + head, []).append((terms.path_of(path), word.value))
        return
    if word.name in LISTS:
        found.setdefault(sign + LISTS[word.name], []).append(word.value)
        return
    name = MOMENTS.get(word.name, word.name)
    if word.name not in (*RANGES, *MOMENTS, *NAMES):
        raise OptionError(f"expected one of {', '.join(WORDS)}, got {show(word.name)}")
    if sign:
        raise OptionError(
            f"{word.name}: expected no '-' before it, got {show(word.text)}: say the other values, as in priority:>2"
        )
    if name in found:
        raise OptionError(f"{word.name}: expected once, got it again: {show(word.text)}")
    if word.name in RANGES:
        found[name] = terms.between_of(word.name, word.value)
    elif word.name in MOMENTS:
        found[name] = terms.moment_of(word.name, word.value)
    else:
        found[name] = _number(word) if word.name == "workflow" else word.value


def _number(word: Word) -> int:
    if not (word.value.isascii() and word.value.isdecimal()) or len(word.value) > len(str(terms.LARGEST)):
        raise OptionError(f"{word.name} {show(word.value)}: expected the id of a workflow, a whole number")
    return int(word.value)


def _checked(name: str, value: Any) -> Any:
    """Return the value of a field in its one form, or raise OptionError with the rule."""
    plain = name.removeprefix("not_")
    if plain in LISTS.values():
        return _list(plain, value)
    if plain in FIELDS:
        return _fields(plain, value)
    if name in RANGES:
        return terms.check_between(name, value)
    if name in MOMENTS.values():
        return terms.check_moment(name.replace("_", "-"), value)
    if name == "workflow" and (type(value) is not int or not 0 < value <= terms.LARGEST):
        raise OptionError(f"workflow {show(value)}: expected the id of a workflow, a whole number")
    if name == "gate" and (not isinstance(value, str) or not value):
        raise OptionError(f"gate {show(value)}: expected the name of a gate, as `fastq gates list` shows it")
    if name == "unique":
        return _digits(value)
    return value


def _list(name: str, values: Any) -> tuple[Any, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise OptionError(f"{name} {show(values)}: expected a list, such as {name}=[...]")
    read = {"states": _state, "kinds": check_kind_name, "queues": check_queue}.get(name, _text(name))
    return tuple(dict.fromkeys(read(value) for value in values))


def _state(value: object) -> State:
    try:
        return State(value)  # type: ignore[arg-type]
    except ValueError:
        raise OptionError(f"state {show(value)}: expected one of {', '.join(State)}") from None


def _text(name: str) -> Any:
    def check(value: object) -> str:
        if not isinstance(value, str) or not value or not storable(value):
            raise OptionError(f"{name.removesuffix('s')} {show(value)}: expected a text without NUL, of one character at least")
        return value

    return check


def storable(text: str) -> bool:
    """Tell whether Postgres can hold a text."""
    return "\0" not in text and not any("\ud800" <= mark <= "\udfff" for mark in text)


def _fields(name: str, values: Any) -> tuple[tuple[Path, str], ...]:
    pairs = values.items() if isinstance(values, Mapping) else values
    return tuple(dict.fromkeys((_path(name, path), _value(name, path, value)) for path, value in pairs))


def _path(name: str, path: Any) -> Path:
    steps: tuple[Any, ...] = terms.path_of(path) if isinstance(path, str) else tuple(path)
    if not steps or not all(isinstance(step, str) and step and storable(step) for step in steps):
        raise OptionError(f"{name} {show(path)}: expected a path such as account.id")
    return steps


def _value(name: str, path: Any, value: object) -> str:
    """Write a value as Postgres tells a scalar of JSON."""
    if isinstance(value, str):
        text = value
    elif value is None or isinstance(value, bool | int | float):
        text = json.dumps(value)
    else:
        raise OptionError(f"{name} {show(path)}: expected a text, a number, true, false or None, got {show(value)}")
    if not storable(text):
        raise OptionError(f"{name} {show(path)}: expected a text without NUL, got {show(value)}")
    return text


def _digits(value: object) -> str:
    if not isinstance(value, str) or not FEWEST <= len(value) <= MOST_DIGITS or not set(value.lower()) <= set("0123456789abcdef"):
        raise OptionError(
            f"unique {show(value)}: expected {FEWEST} to {MOST_DIGITS} hexadecimal digits, as `fastq unique list` shows them"
        )
    return value.lower()
