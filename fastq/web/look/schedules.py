"""Say the schedules of periodic jobs in plain words: `0 9 * * mon-fri` is "at 09:00, Monday to Friday".

Pure functions, called in the threads that read the database for a page. An expression for which there are no short words is shown
as it is written: half a translation would be worse than none.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

from fastq.errors import FastqError
from fastq.jobs.schedule import schedule_of

if TYPE_CHECKING:
    from collections.abc import Sequence

DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
SPANS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
TIMES_OF_DAY = 4
"""Times of a day that are listed one by one."""

_NUMBER = re.compile(r"\d{1,2}")
_STEP = re.compile(r"\*/(\d{1,2})")


def in_words(schedule: str) -> str:
    """Say when a schedule ticks, given as the database keeps it."""
    sort, _, rest = schedule.partition(" ")
    if sort == "every":
        return _interval(rest)
    fields = rest.split()
    if sort != "cron" or len(fields) != 5:  # noqa: PLR2004 - the fields of cron
        return schedule
    minute, hour, day, month, weekday = fields
    clock, dates = _clock(minute, hour), _dates(day, month, weekday)
    if clock is None or dates is None:
        return rest
    return f"{clock}, {dates}" if dates else clock


def next_ticks(schedule: str, tz: str, after: datetime, many: int = 3) -> list[datetime]:
    """Return the ticks after a time; none of a schedule that this program cannot read."""
    try:
        known, found = schedule_of(schedule, tz), list[datetime]()
        for _ in range(many):
            after = known.next_after(after)
            found.append(after)
    except (FastqError, ValueError, OverflowError):
        return []
    return found


def _interval(seconds: str) -> str:
    try:
        number = float(seconds)
    except ValueError:
        return f"every {seconds}"
    for name, size in SPANS:
        if number >= size and number % size == 0:
            many = int(number // size)
            return f"every {name}" if many == 1 else f"every {many:,} {name}s"
    return f"every {number:g} seconds"


def _clock(minute: str, hour: str) -> str | None:
    """Say the times of a day; None if there are no short words for them."""
    if minute == "*" and hour == "*":
        return "every minute"
    if (step := _STEP.fullmatch(minute)) and hour == "*":
        return f"every {step[1]} minutes" if int(step[1]) and 60 % int(step[1]) == 0 else None
    minutes, hours = _numbers(minute), _numbers(hour)
    if minutes and hour == "*":
        return f"every hour at {_listed([f':{one:02d}' for one in minutes])}"
    if minutes and (step := _STEP.fullmatch(hour)):
        at = "" if minutes == [0] else f" at {_listed([f':{one:02d}' for one in minutes])}"
        return f"every {step[1]} hours{at}" if int(step[1]) and 24 % int(step[1]) == 0 else None
    if not minutes or not hours or len(minutes) * len(hours) > TIMES_OF_DAY:
        return None
    return f"at {_listed([f'{one:02d}:{other:02d}' for one in hours for other in minutes])}"


def _dates(day: str, month: str, weekday: str) -> str | None:
    """Say on which dates; an empty text for each, None if there are no short words for them."""
    if day != "*" and weekday != "*":
        return None
    parts = []
    if weekday != "*":
        parts.append(_named(weekday, DAYS, first=0))
    if day == "l":
        parts.append("on the last day of the month" if month == "*" else "on the last day")
    elif day != "*":
        days = _numbers(day)
        parts.append(None if not days else f"on the {_listed([_nth(one) for one in days])}")
    if month != "*":
        named = _named(month, MONTHS, first=1)
        parts.append(None if named is None else f"in {named}")
    return None if None in parts else " ".join(part for part in parts if part)


def _numbers(field: str) -> list[int]:
    """Return the numbers of a field that lists some; none if it is written in another way."""
    parts = field.split(",")
    return [int(part) for part in parts] if all(map(_NUMBER.fullmatch, parts)) else []


def _named(field: str, names: Sequence[str], first: int) -> str | None:
    """Say the days or months of a field, which has numbers, names of three letters, and ranges of them."""
    told = []
    for part in field.split(","):
        low, dash, high = part.partition("-")
        ends = [_name(one, names, first) for one in ([low, high] if dash else [low])]
        if None in ends:
            return None
        told.append(" to ".join(end for end in ends if end))
    return _listed(told)


def _name(text: str, names: Sequence[str], first: int) -> str | None:
    if _NUMBER.fullmatch(text):
        place = int(text) - first
        place = 0 if first == 0 and place == len(names) else place  # Sunday is 0 and 7
        return names[place] if 0 <= place < len(names) else None
    return next((name for name in names if name[:3].lower() == text), None)


def _nth(number: int) -> str:
    teens = 10 <= number % 100 <= 20  # noqa: PLR2004 - eleventh, twelfth ...
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
