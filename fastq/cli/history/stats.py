"""`fastq stats`: show what jobs have done lately, by queue or by kind: how many, how many failed, how long they waited and ran.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import TYPE_CHECKING, Any

from fastq.admin import statistics
from fastq.admin.statistics.asked import HOUR
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import opened
from fastq.cli.terminal.parser import until
from fastq.events import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fastq.admin.statistics import Living, StatRow, Times

EPILOG = """\
examples:
  fastq stats                     the last hour, by queue
  fastq stats --by kind --since 2d
  fastq stats --queue mails --by kind
  fastq stats --kind report --step minute --json | jq '.[].run.p95'

jobs: those that have ended. failed: attempts. wait: from when a job was due
to its start; run: from there to the end of its work. Both show the 50th,
the 95th and the 99th percentile, off by 9 % at most. rate: the jobs by time,
from the beginning to now; the highest is the most in any eighth of it.

Worker processes count what they have ended, unless FASTQ_STATS is off.
"""

PIECES = 8
"""Pieces of the time that a rate shows: as many as fit on a line of 80 characters."""

BARS, PLAIN = "▁▂▃▄▅▆▇█", "_.:-=+*#"
"""The heights of a rate, from none to most; and where the terminal cannot show them."""

MINUTES, HOURS = 6 * 3_600.0, 14 * 86_400.0
"""Seconds up to which a rate is made of minutes, or of hours; they are kept for so long (lead/observed/statistics.py)."""

SHORT, SHORTEST = 0.0995, 0.0005
"""Seconds below which a time is written in milliseconds, and up to which it is none that a person looks for."""

UNITS = (("s", 1.0, 99.5), ("m", 60.0, 99.5), ("h", 3_600.0, 48.0), ("d", 86_400.0, math.inf))
"""Units of time, each with its seconds, and the number of them from which on the next one is used."""

ONE_FIGURE = 10
"""The number below which one figure stands before the point, and one behind it."""

HEADS = ("wait p50  p95  p99", "run p50  p95  p99")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--since", type=until, default=HOUR, metavar="TIME", help="2h, 1d, or a time [default 1h]")
    parser.add_argument("--by", choices=("queue", "kind"), default="queue", help="a line for each [default queue]")
    parser.add_argument("--queue", help="only this queue")
    parser.add_argument("--kind", help="only this kind")
    parser.add_argument("--step", choices=("minute", "hour", "day"), help="with --json: a row for each")
    parser.add_argument("--json", action="store_true", help="print JSON")
    settings.add_database(parser)


def main(options: argparse.Namespace) -> int:
    """Show the statistics."""
    which: dict[str, Any] = {"since": options.since, "by": options.by, "queue": options.queue, "kind": options.kind}
    if options.step and not options.json:
        output.note("fastq stats: --step goes with --json; a table has one line for the whole time")
        return 2
    with opened(settings.load(options)) as connection:
        rows = statistics.stats(connection, **which, step=options.step)
        if options.json:
            output.json(rows)
            return 0
        length = max((row.seconds for row in rows), default=0.0)
        step: Any = "minute" if length <= MINUTES else "hour" if length <= HOURS else "day"
        series = statistics.stats(connection, **which, step=step) if rows else []
        alive = statistics.living(connection)
    _table(rows, series, options.by)
    _tell_living(row for row in alive if options.queue in (None, row.queue))
    return 0


def _table(rows: Sequence[StatRow], series: Sequence[StatRow], by: str) -> None:
    if not rows:
        output.note("nothing was counted in this time: no job has ended, or FASTQ_STATS is off where it did")
        return
    bars = BARS if shows(BARS) else PLAIN
    shown = sorted(rows, key=lambda row: (-row.ended, _name(row)))
    waits, runs = map(len, HEADS)
    cells = [
        (_name(row), row.ended, row.failed, _times(row.wait, waits), _times(row.run, runs), _rate(row, series, bars))
        for row in shown
    ]
    output.table((by, "jobs", "failed", *HEADS, "rate"), cells)
    timed, attempts = (
        sum(numbers) for numbers in zip(*((row.run.timed, sum(row.outcomes.values())) for row in rows), strict=True)
    )
    output.note(f"{sum(row.rate for row in rows):,.1f} jobs/s; {timed:,} of {attempts:,} attempts were timed")


def _name(row: StatRow) -> str:
    return row.queue or row.kind or ""


def _times(times: Times, width: int) -> str:
    """Write the percentiles below their headings."""
    return " ".join(f"{span(seconds):>4s}" for seconds in (times.p50, times.p95, times.p99)).rjust(width)


def span(seconds: float | None) -> str:
    """Write a time in at most four characters, most often with two figures: `41ms`, `0.3s`, `1.2s`, `12m`, `<1ms`."""
    if seconds is None:
        return "-"
    if seconds < SHORT:
        return f"{seconds * 1000:.0f}ms" if seconds > SHORTEST else "<1ms"
    name, length = next((unit, length) for unit, length, end in UNITS if seconds < end * length)
    number = seconds / length
    return f"{number:.1f}{name}" if round(number, 1) < ONE_FIGURE else f"{number:.0f}{name}"


def _rate(row: StatRow, series: Iterable[StatRow], bars: str) -> str:
    """Draw how many jobs have ended in each piece of the time."""
    pieces = [0] * PIECES
    for part in series:
        if _name(part) == _name(row):
            passed = (part.at - row.at).total_seconds() / max(row.seconds, 1e-9)
            pieces[min(max(int(passed * PIECES), 0), PIECES - 1)] += part.ended
    return drawn(pieces, bars)


def drawn(numbers: Sequence[int], bars: str) -> str:
    """Draw numbers as bars beside each other; the highest has the whole height, and one that is not 0 is seen."""
    most = max(numbers, default=0) or 1
    return "".join(bars[-(-number * (len(bars) - 1) // most)] for number in numbers)


def shows(text: str) -> bool:
    """Tell whether the output can hold these characters."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True


def _tell_living(rows: Iterable[Living]) -> None:
    for row in rows:
        counts = {name: getattr(row, name) for name in ("available", "running", "scheduled", "retryable", "waiting")}
        told = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        if told:
            output.note(f"living in '{escaped(row.queue)}': {'at least ' if row.at_least else ''}{told}")
