"""Measure the charts: stacked bars of counts, as numbers for a template that draws them in SVG.

Pure functions, called in the threads that read the database for a page. Widths are shares of 100, so a chart is as wide as its
place; a part that is not nothing is wide enough to be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

THINNEST = 1.2
"""The width of the smallest part, of 100: two pixels of a narrow chart."""


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
