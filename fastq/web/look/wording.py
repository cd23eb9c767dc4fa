"""Write times, spans, numbers, rates and JSON for people.

Pure functions, called while a page is rendered, in the event loop that serves. A time is written as its distance from now, with
the time itself beside it; the browser keeps the distance true.

It deliberately returns plain text: the templates escape it, and make the elements.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

UNITS = (("d", 86_400.0), ("h", 3_600.0), ("m", 60.0))

LONGEST = 8_000
"""Characters of a value that are shown at first: args may have a megabyte, and a page is to come within 60 kB."""

FEW = 10.0
"""Below this a span is written with a decimal."""

SHORTEST = 0.0005
"""Seconds below which a time is none that a person looks for."""

RATES = (("s", 1.0), ("min", 60.0), ("h", 3_600.0))

STEPS = (("M", 1_000_000), ("k", 10_000))


def ago(moment: datetime, now: datetime | None = None) -> str:
    """Write how long ago a moment was, or in how long it will be, in one unit: `3m ago`, `in 16s`."""
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    told = span(abs(seconds), whole=True)
    return f"{told} ago" if seconds >= 0 else f"in {told}"


def span(seconds: float, *, whole: bool = False) -> str:
    """Write a span of time in one unit: `1.5s`, `12s`, `3m`."""
    for unit, length in UNITS:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f}{unit}"
    if whole or seconds >= FEW:
        return f"{seconds:.0f}s"
    return f"{seconds:.1f}s" if seconds >= 1 else f"{seconds * 1000:.0f}ms"


def took(seconds: float | None) -> str:
    """Write how long something takes: `12ms`, `<1ms`; a dash where nobody has measured it."""
    if seconds is None:
        return "-"
    return span(seconds) if seconds >= SHORTEST else "<1ms"


def rate(per_second: float) -> str:
    """Write a rate in the unit in which it is one at least: `12/s`, `3.5/min`, `2/h`."""
    unit, length = next((one for one in RATES if per_second * one[1] >= 1), RATES[-1])
    number = per_second * length
    return (count(round(number)) if number >= FEW else f"{number:.1f}".removesuffix(".0")) + f"/{unit}"


def memory(size: int | None) -> str:
    """Write a number of bytes: `38 MiB`; a dash where nobody has measured it."""
    return "-" if size is None else f"{size / 2**20:,.0f} MiB"


def absolute(moment: datetime) -> str:
    """Write a time: `2026-11-18 08:04:11 UTC`."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def machine(moment: datetime) -> str:
    """Write a time for the browser's script."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def count(number: int) -> str:
    """Write a number: `1,234`, `12k`, `3.4M`."""
    for unit, size in STEPS:
        if number >= size:
            scaled = number / (1000 if unit == "k" else size)
            return f"{scaled:.1f}{unit}" if scaled < FEW else f"{scaled:,.0f}{unit}"
    return f"{number:,}"


def plural(number: int, thing: str, several: str = "") -> str:
    """Write `1 job`, `2 jobs`."""
    return f"{number:,} {thing if number == 1 else several or thing + 's'}"


def pretty(value: Any) -> str:
    """Write a value as JSON over several lines; one that is no JSON as its text."""
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode(errors="replace")
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        return str(value)


def brief(value: Any, length: int = 120) -> str:
    """Write a value as JSON in one line, cut to so many characters."""
    try:
        text = msgspec.json.encode(value).decode(errors="replace")
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):
        text = str(value)
    return cut(text, length)


def cut(text: str, length: int = LONGEST) -> str:
    """Cut a text."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
