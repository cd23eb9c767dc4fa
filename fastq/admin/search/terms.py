"""Read and write the parts of which the words of a filter are made: quoted texts, numbers, ranges, spans and times, paths.

Pure functions over texts, run in the thread that reads or writes a filter (job_filter.py). Each part that is read is bounded: a
text of any length or depth costs a time in proportion to its length.

Invariant: a part that is written is read as the same value. They deliberately know no word by name.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, cast

from fastq.args.faults import show
from fastq.args.options import MAX_DELAY
from fastq.errors import OptionError

LONGEST = 10_000
"""Characters of a filter: a person writes hundreds."""

MOST = 100
"""Words of a filter, and steps of a path: each is looked at for each job."""

LARGEST = 2**63 - 1
"""The largest number that a column of type bigint can hold."""

SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
"""Seconds by the unit of a span."""

_WORD = re.compile(r'\s*(?P<word>(?:[^\s"]|"(?:[^"\\]|\\.)*")+)', re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_STEP = re.compile(r'(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^."]+))(?P<end>\.|$)', re.DOTALL)
_BARE = re.compile(r'[^\s"\\]+')
_SPAN = re.compile(r"(?P<ahead>\+?)(?P<number>\d{1,10}(?:\.\d{1,6})?)(?P<unit>[smhdw])", re.ASCII)
_RANGE = re.compile(r"(?P<sign>>=|<=|>|<|)(?P<low>-?\d{1,19})(?:\.\.(?P<high>-?\d{1,19}))?", re.ASCII)

Moment = datetime | timedelta
"""A time, or how long ago it was: a span below zero lies ahead."""

Between = tuple[int | None, int | None]
"""The smallest and the largest number; None: no bound."""

Path = tuple[str, ...]
"""Names and places that lead to a value in JSON."""


class Word(NamedTuple):
    """A word of a filter: where it stands, and its parts; its value is without quotes."""

    at: int
    text: str
    without: bool
    name: str
    value: str


def split(text: str) -> list[Word]:
    """Split a text into words; OptionError for one that is none."""
    if not isinstance(text, str):
        raise OptionError(f"filter {show(text)}: expected a text such as 'kind:mail state:discarded', or a JobFilter")
    if len(text) > LONGEST:
        raise OptionError(f"filter: expected {LONGEST:,} characters at most, got {len(text):,}: leave words out")
    words: list[Word] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _WORD.match(text, at, end)
        if found is None or (found.end() < end and not text[found.end()].isspace()):
            place = text.find('"', at if found is None else found.end())
            raise OptionError(f"filter, character {place + 1}: expected a quote that ends the text, got none: add '\"'")
        words.append(_word(found["word"], found.start("word")))
        at = found.end()
    if len(words) > MOST:
        raise OptionError(f"filter: expected {MOST} words at most, got {len(words)}: leave some out")
    return words


def _word(text: str, at: int) -> Word:
    without = text.startswith("-")
    name, colon, value = _parted(text[without:])
    if not colon or not name or not value:
        raise OptionError(
            f"filter, character {at + 1}: expected NAME:VALUE such as kind:mail, got {show(text)}: "
            'put quotes around a value with blanks, as in error:"connection refused"'
        )
    return Word(at, text, without, name, unquoted(value))


def _parted(text: str) -> tuple[str, str, str]:
    """Part a word at the first colon that stands outside of quotes."""
    quoted = _QUOTED.sub(lambda found: "x" * len(found[0]), text)
    place = quoted.find(":")
    return (text, "", "") if place < 0 else (text[:place], ":", text[place + 1 :])


def unquoted(value: str) -> str:
    """Take the quotes off a value."""
    return _QUOTED.sub(lambda found: re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL), value)


def quoted(value: str) -> str:
    """Put quotes around a value that needs them."""
    if _BARE.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def path_of(text: str) -> Path:
    """Read a path: `account.id`, or with quotes around a name with dots in it."""
    steps, at = [], 0
    while True:
        found = _STEP.match(text, at)
        if found is None or (found["end"] and found.end() == len(text)):
            raise OptionError(f"path {show(text)}: expected names with a dot between, such as account.id")
        steps.append(unquoted(f'"{found["quoted"]}"') if found["quoted"] is not None else found["bare"])
        if not found["end"]:
            break
        at = found.end()
    if len(steps) > MOST:
        raise OptionError(f"path: expected {MOST} names at most, got {len(steps)}")
    return tuple(steps)


def path_written(path: Path) -> str:
    """Write a path."""
    return ".".join(step if re.fullmatch(r'[^\s."\\:]+', step) else _always_quoted(step) for step in path)


def _always_quoted(step: str) -> str:
    escaped = step.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def between_of(name: str, text: str) -> Between:
    """Read a number or a range: `3`, `>3`, `<=3`, `1..3`."""
    found = _RANGE.fullmatch(text)
    if found is None or (found["sign"] and found["high"]):
        raise OptionError(f"{name} {show(text)}: expected a number or a range, such as 3, >3, <=3 or 1..3")
    low, sign = int(found["low"]), found["sign"]
    if found["high"]:
        return (low, int(found["high"]))
    return {"": (low, low), ">": (low + 1, None), ">=": (low, None), "<": (None, low - 1), "<=": (None, low)}[sign]


def between_written(value: Between) -> str:
    """Write a number or a range."""
    low, high = value
    if low is None:
        return f"<={high}"
    if high is None:
        return f">={low}"
    return str(low) if low == high else f"{low}..{high}"


def moment_of(name: str, text: str) -> Moment:
    """Read a moment: `2h` ago, `+2h` from now, or a time; without a zone it is one of UTC."""
    found = _SPAN.fullmatch(text)
    if found:
        seconds = float(found["number"]) * SECONDS[found["unit"]]
        return check_ago(name, -seconds if found["ahead"] else seconds)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            f"{name} {show(text)}: expected how long ago, such as 90s, 30m, 2h, 1d or 1w, how long from now, such as +2h, or a "
            "time like 2026-12-24T18:00+01:00"
        ) from None
    return check_moment(name, when if when.tzinfo is not None else when.replace(tzinfo=UTC))


def moment_written(value: Moment) -> str:
    """Write a moment, a span in the largest unit of which it is a whole number."""
    if isinstance(value, datetime):
        return value.isoformat()
    seconds = abs(value.total_seconds())
    unit = next((unit for unit in "wdhm" if seconds and seconds % SECONDS[unit] == 0), "s")
    digits = f"{seconds / SECONDS[unit]:.6f}".rstrip("0").rstrip(".")
    return f"{'+' if value < timedelta(0) else ''}{digits}{unit}"


def check_moment(name: str, value: object) -> Moment:
    """Return a moment as a time in UTC or as a span, or raise OptionError with the rule."""
    if not isinstance(value, datetime):
        return check_ago(name, value)
    if value.utcoffset() is None:
        raise OptionError(f"{name} {value!r}: expected a time with a zone, such as datetime.now(UTC) - timedelta(hours=2)")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise OptionError(f"{name} {value!r}: expected a time that lies in the years from 1 to 9999 in UTC") from None


def check_ago(name: str, value: object) -> timedelta:
    """Return a span, or raise OptionError with the rule."""
    seconds: object = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not abs(seconds) <= MAX_DELAY:
        raise OptionError(
            f"{name} {show(value)}: expected a time with a zone, a timedelta, or seconds ago (below zero: from now), up to "
            f"{MAX_DELAY:.0f}"
        )
    return timedelta(seconds=seconds)


def check_between(name: str, value: object) -> Between:
    """Return a range, or raise OptionError with the rule."""
    ends = value if isinstance(value, tuple) and len(value) == 2 else (value, value)  # noqa: PLR2004 - the smallest, the largest
    for end in ends:
        if end is not None and (type(end) is not int or abs(end) > LARGEST):
            raise OptionError(f"{name} {show(value)}: expected a whole number, or a tuple of the smallest and the largest one")
    low, high = cast("Between", ends)
    if low is None and high is None:
        raise OptionError(f"{name} {show(value)}: expected one end of the range at least, got none")
    return low, high
