"""Lay tables and lines out in cells of a terminal: texts with styles, cut and padded to widths.

Pure functions, run in the main thread. A line is a list of spans, each a text and a style by rich's names ('' for none); one that
is painted is as wide as the screen at most. Wide characters count as two cells.

Invariant: `text_of` escapes each value, so nothing in a job can drive the terminal.
It deliberately folds no line of a table: columns shrink first, and those that may be missing go then.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from rich.cells import cell_len, set_cell_size

from fastq.cli.terminal.output import STYLES, ago
from fastq.events import escaped

Span: TypeAlias = tuple[str, str]
Line: TypeAlias = list[Span]

GAP, WIDE_GAP = 1, 2
"""Cells between two columns, and where there is room for it: with two, the queues would not fit a terminal of 80."""

MARK = "> "
"""The mark of the chosen row, which is seen without colours, too."""

STEPS = (("M", 1_000_000), ("k", 10_000))
SMALL = 10


class Column(NamedTuple):
    """A column of a table: `least` cells at least, if it may shrink; one that may be missing goes in the order of `spare`."""

    name: str
    group: str = ""  # written above it, and once above neighbours with the same
    right: bool = False
    least: int = 0
    spare: int = 0
    room: int = 0  # cells that it has even if all values are shorter, so that it keeps its place


def text_of(value: Any) -> str:
    """Write a value on a line: a time as how long ago it was, all else escaped."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return ago(value)
    if isinstance(value, list | tuple | set | frozenset):
        return escaped(",".join(map(str, value)))
    return escaped(str(value))


def span(value: Any, style: str = "") -> Span:
    """Make a span of a value; a word that tables show in a colour has it here, too."""
    text = text_of(value)
    return text, style or STYLES.get(text, "")


def short(number: float, more: bool = False) -> str:
    """Write a number in five characters at most: `1,234`, `12k`, `3.4M`; `more`: it stopped there."""
    for unit, size in STEPS:
        if number >= size:
            scaled = number / (1_000 if unit == "k" else size)
            return f"{scaled:.1f}{unit}" if unit == "M" and scaled < SMALL else f"{scaled:.0f}{unit}{'+' if more else ''}"
    return f"{number:,.0f}"


def by_time(number: float) -> str:
    """Write a rate in five characters at most: `0`, `0.3`, `12`, `34k`; one that is small and not nothing is seen."""
    return "0" if number <= 0 else "<0.1" if number < 1 / SMALL else f"{number:.1f}" if number < SMALL else short(number)


def fit(text: str, width: int, right: bool = False) -> str:
    """Cut a text to a width, with a sign that it was cut, or pad it."""
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, max(width - 1, 0)) + ("…" if width > 0 else "")
    return " " * (width - length) + text if right else text + " " * (width - length)


def cut(line: Sequence[Span], width: int) -> Line:
    """Cut a line to a width."""
    found: Line = []
    left = width
    for text, style in line:
        length = cell_len(text)
        if length > left:
            if left > 0:
                found.append((fit(text, left), style))
            break
        found.append((text, style))
        left -= length
    return found


def justified(left: Sequence[Span], right: Sequence[Span], width: int) -> Line:
    """Put one line at the left end of a row and another at its right end; the left one is cut."""
    taken = sum(cell_len(text) for text, _ in right)
    begun = cut(left, max(width - taken - GAP, 0))
    room = width - taken - sum(cell_len(text) for text, _ in begun)
    return cut([*begun, (" " * max(room, 0), ""), *right], width)


class Laid(NamedTuple):
    """The columns of a table with their widths, 0 for one that is missing, and the cells between two of them."""

    columns: Sequence[Column]
    widths: list[int]
    gap: int

    @property
    def shown(self) -> list[tuple[int, Column, int]]:
        """Return the columns that are there, each with its place and its width."""
        return [(at, column, self.widths[at]) for at, column in enumerate(self.columns) if self.widths[at]]

    def heads(self, width: int) -> list[Line]:
        """Return the heading: the names, and above these those of groups, if there are any."""
        between = " " * self.gap
        names = between.join(fit(column.name, one, column.right) for _, column, one in self.shown)
        lines: list[Line] = [cut([(" " * len(MARK) + names.rstrip(), "bold")], width)]
        if any(column.group for _, column, _ in self.shown):
            groups = [
                (group, sum(one + self.gap for _, _, one in columns))
                for group, columns in itertools.groupby(self.shown, lambda each: each[1].group)
            ]
            told = "".join(fit(group, one - self.gap) + between for group, one in groups)
            lines.insert(0, cut([(" " * len(MARK) + told.rstrip(), "dim")], width))
        return lines

    def row(self, cells: Sequence[Span], width: int, *, chosen: bool) -> Line:
        """Return a row; the chosen one is reversed from end to end, and marked."""
        line: Line = [(MARK if chosen else " " * len(MARK), "")]
        for number, (place, column, one) in enumerate(self.shown):
            text, style = cells[place]
            line.append((" " * (self.gap if number else 0) + fit(text, one, column.right), style))
        return [(fit("".join(text for text, _ in line), width), "reverse")] if chosen else cut(line, width)


def laid(columns: Sequence[Column], rows: Sequence[Sequence[Span]], width: int) -> Laid:
    """Lay out a table: columns shrink, the widest first, then some go, and those that are left get the room of these."""
    natural = [
        max([cell_len(column.name), column.room, *(cell_len(row[place][0]) for row in rows)])
        for place, column in enumerate(columns)
    ]
    room = width - len(MARK)
    for gap in (WIDE_GAP, GAP):
        if sum(natural) + gap * (len(natural) - 1) <= room:
            return Laid(columns, natural, gap)
    found = [*natural]
    for place in sorted(range(len(columns)), key=lambda place: -found[place]):
        if columns[place].least:
            found[place] -= min(max(_over(found, room), 0), max(found[place] - columns[place].least, 0))
    for place in sorted(range(len(columns)), key=lambda place: -columns[place].spare):
        if columns[place].spare and _over(found, room) > 0:
            found[place] = 0
    for place, one in enumerate(natural):
        if found[place]:
            found[place] = min(one, found[place] + max(-_over(found, room), 0))
    return Laid(columns, found, GAP)


def _over(found: Sequence[int], room: int) -> int:
    """Return the cells that these columns take beyond the room."""
    return sum(one + GAP for one in found if one) - GAP - room


def folded(text: str, width: int, indent: str = "") -> list[str]:
    """Fold a text of several lines to a width; an empty line stays one."""
    lines: list[str] = []
    for one in text.splitlines() or [""]:
        plain = escaped(one.expandtabs(4))
        lines += textwrap.wrap(plain, max(width - len(indent), SMALL), drop_whitespace=False) or [""]
    return [indent + line for line in lines]
