"""Measure the charts: stacked bars of counts and columns by the minute, as numbers for a template that draws them in SVG.

Pure functions, called in the threads that read the database for a page. Widths are shares of 100, so a chart is as wide as its
place; a part that is not nothing is wide enough to be seen. The columns are one path for each colour, since sixty elements for
each queue would make a page large.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fastq.admin.statistics import StatRow

THINNEST = 1.2
"""The width of the smallest part, of 100: two pixels of a narrow chart."""

MINUTES, HEIGHT, WIDTH = 60, 100, ".8"
"""Columns of a chart of an hour, the height of the highest one, and the width of each: the rest is the gap to the next.
Heights are whole numbers: each digit more is 120 bytes of a chart."""

LOWEST = 6
"""The height of the smallest part of a column, of HEIGHT: two pixels of a low chart."""


class Part(NamedTuple):
    """A part of a bar."""

    name: str
    jobs: int
    x: float
    width: float


def stacked(counts: Sequence[tuple[str, int]], most: int) -> list[Part]:
    """Return the parts of a bar beside each other; `most` is the sum that takes the whole width."""
    parts: list[Part] = []
    x = 0.0
    shown = [(name, jobs) for name, jobs in counts if jobs > 0]
    room = 100.0 - THINNEST * len(shown)
    for name, jobs in shown:
        width = THINNEST + room * jobs / max(most, 1)
        parts.append(Part(name, jobs, round(x, 2), round(width, 2)))
        x += width
    return parts


class Columns(NamedTuple):
    """A column for each minute of an hour: a path of the jobs that ended, one of the attempts that failed, and their numbers."""

    ended: str
    failed: str
    most: int  # of one minute, both together
    ends: int
    failures: int


def columns(rows: Iterable[StatRow], now: datetime) -> Columns:
    """Draw rows of statistics by the minute; a minute after now, by clocks that differ, is the last one."""
    ends, failures = [0] * MINUTES, [0] * MINUTES
    for row in rows:
        minute = MINUTES - 1 - max(0, int((now - row.at).total_seconds() // 60))
        if minute >= 0:
            ends[minute] += row.ended - row.outcomes.get("discarded", 0)  # a discarded job is a failed attempt
            failures[minute] += row.failed
    most = max(map(sum, zip(ends, failures, strict=True)))
    feet = [_height(failed, most) for failed in failures]
    return Columns(_path(ends, feet, most), _path(failures, [0] * MINUTES, most), most, sum(ends), sum(failures))


def _height(number: int, most: int) -> int:
    return round(LOWEST + (HEIGHT - 2 * LOWEST) * number / most) if number else 0


def _path(numbers: Sequence[int], feet: Sequence[int], most: int) -> str:
    """Return the path of all columns of a colour, each of which stands on its foot."""
    shown = [(x, foot, _height(number, most)) for x, (number, foot) in enumerate(zip(numbers, feet, strict=True)) if number]
    return "".join(f"M{x} {HEIGHT - foot}v-{height}h{WIDTH}v{height}" for x, foot, height in shown)
