"""Print for people and for scripts: tables and colours on a terminal, plain aligned text in a pipe, JSON on demand.

Results go to stdout, notes and errors to stderr, so that a pipe carries results alone.

Invariant: no value of a job reaches a terminal unescaped (an error text may hold escape sequences), and no password of a
database URL is ever printed. Colour ends with NO_COLOR and where stdout is no terminal; rich knows the rules. Runs in the main
thread of the command, and keeps nothing.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from fastq.masked import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

STYLES = {
    "running": "cyan",
    "retryable": "yellow",
    "waiting": "yellow",
    "completed": "green",
    "cancelled": "dim",
    "discarded": "red",
    "paused": "yellow",
    "unworked": "yellow",
}
"""The words that a table shows in colour, wherever they stand alone."""

LONG = {"error"}
"""Columns that are cut where the terminal ends; the others are never cut."""

GAP, SHORTEST = 2, 16
"""Characters between columns, and characters that are always shown of a long one."""


def out(text: str = "") -> None:
    """Print a line of the result."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """Print a remark that is no result. It may quote an argument of the command, so a password in it is masked."""
    sys.stderr.write(masked(text) + "\n")


def folded(text: str, indent: int, stream: TextIO) -> str:
    """Break a line at blanks where a terminal would break it within a word; in a pipe, and in a log, it stays whole."""
    if not stream.isatty():
        return text
    import shutil  # noqa: PLC0415 - as msgspec below
    import textwrap  # noqa: PLC0415 - the same

    width, later = shutil.get_terminal_size().columns, " " * indent
    return textwrap.fill(text, width, subsequent_indent=later, break_long_words=False, break_on_hyphens=False)


def json(value: object) -> None:
    """Print a result as JSON: indented on a terminal, one line in a pipe."""
    import msgspec  # noqa: PLC0415 - a command pays for what it prints: a probe asks every few seconds (checkup/health.py)

    encoded = msgspec.json.encode(value)
    out((msgspec.json.format(encoded, indent=2) if sys.stdout.isatty() else encoded).decode())


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, err: bool = False) -> None:
    """Print a table; numbers stand to the right."""
    stream = sys.stderr if err else sys.stdout
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = (
        [all(isinstance(row[place], int) for row in rows) for place in range(len(columns))] if isinstance(rows, list) else []
    )
    right = [bool(numeric) and numeric[place] for place in range(len(columns))]
    if stream.isatty():
        _rich_table(columns, cells, right, err=err)
        return
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for row in (list(columns), *cells):
        padded = (
            text.rjust(width) if to_right else text.ljust(width) for text, width, to_right in zip(row, widths, right, strict=True)
        )
        stream.write((" " * GAP).join(padded).rstrip() + "\n")


def _rich_table(columns: Sequence[str], cells: list[list[str]], right: list[bool], *, err: bool) -> None:
    from rich.console import Console  # noqa: PLC0415 - 60 ms that a pipe need not pay
    from rich.table import Table  # noqa: PLC0415 - the same
    from rich.text import Text  # noqa: PLC0415 - the same

    console = Console(stderr=err, highlight=False)
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    fixed = sum(width + GAP for name, width in zip(columns, widths, strict=True) if name not in LONG)
    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="" if console.no_color else "bold")
    for name, width, to_right in zip(columns, widths, right, strict=True):
        shown = min(width, max(SHORTEST, console.width - fixed)) if name in LONG else width
        made.add_column(name, justify="right" if to_right else "left", no_wrap=True, overflow="ellipsis", width=shown)
    for row in cells:
        made.add_row(*(Text(text, style="" if console.no_color else STYLES.get(text, "")) for text in row))
    # Rather lines that the terminal folds than columns that nobody can read: print(width=) would not go beyond the terminal.
    console.width = max(console.width, fixed + SHORTEST + GAP)
    console.print(made, crop=False, soft_wrap=False)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return ago(value)
    if isinstance(value, list | tuple):
        return _escaped(",".join(map(str, value)))
    return _escaped(str(value))


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """Write how long ago a moment was, or in how long it will be, in one unit: `3m ago`, `in 16s`."""
    if moment is None:
        return ""
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    size = abs(seconds)
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if size >= 2 * length:
            return f"{size / length:.0f}{unit} ago" if seconds > 0 else f"in {size / length:.0f}{unit}"
    return f"{size:.0f}s ago" if seconds >= 0 else f"in {size:.0f}s"


def moment(when: datetime) -> str:
    """Write a time for people: `2026-11-18 08:04:11 UTC (43s ago)`."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC ({ago(when)})"


def plural(number: int, thing: str) -> str:
    """Write `1 job`, `2 jobs`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def fields(pairs: Iterable[tuple[str, Any]]) -> None:
    """Print names and values, one pair a line; a value of None is left out."""
    shown = [(name, value) for name, value in pairs if value not in (None, "", [])]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        out(f"{name:{width}s}  {_cell(value)}")


@contextmanager
def counting(verb: str, every: int) -> Iterator[Callable[[int], None]]:
    """Give a function that shows on a terminal how many there are so far, in one line that is gone at the end."""
    shown = False

    def show(count: int) -> None:
        nonlocal shown
        if count and count % every == 0:
            sys.stderr.write(f"\r{verb} {count:,}")
            sys.stderr.flush()
            shown = True

    try:
        yield show if sys.stderr.isatty() else lambda _: None
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")


def block(title: str, text: str) -> None:
    """Print a text of several lines below its title."""
    out(f"\n{_escaped(title)}")
    for line in text.splitlines():
        out(f"    {_escaped(line)}")


def _escaped(text: str) -> str:
    from fastq.events import escaped  # noqa: PLC0415 - it brings logging; as msgspec above

    return escaped(text)
