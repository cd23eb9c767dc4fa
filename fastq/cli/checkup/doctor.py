"""`fastq doctor`: examine the database and this environment, and say what to type.

Runs in the main thread of the command, and keeps nothing. It prints; the judgement is fastq/admin/doctor's.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections import Counter
from typing import TYPE_CHECKING

from fastq.admin import doctor
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import found
from fastq.events import escaped
from fastq.masked import masked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastq.admin.doctor import Examination, Finding

EPILOG = f"""\
examples:
  fastq doctor
  fastq doctor --only horizon --only pooler
  fastq doctor --json             for a program that watches

It only reads, in short transactions with limits of time; it changes
nothing. Each finding has its level, what was found, what that means, and
behind '>' the line to type: SQL, or a command.

levels: ok; note, worth knowing; warn, will hurt one day; bad, hurts now

exit codes: 0 nothing worse than a note, 1 a warning, 2 usage or setting,
3 no database or not migrated, 4 something is bad

checks:
{"".join(f"  {check.name:13s}  {check.asks}{chr(10)}" for check in doctor.CHECKS.values())}"""

WARNED, NO_DATABASE, BAD = 1, 3, 4
"""Exit codes; 2 is that of wrong usage, as everywhere."""

FIRST = ("connection", "schema")
"""The checks without which there is no database to work on: a bad finding of theirs has the exit code for that."""

STYLES = {"ok": "green", "note": "cyan", "warn": "yellow", "bad": "bold red"}

INDENT = 6
"""Columns before the name of a check, and before a line to type, which is never broken: it is to be copied."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="ask this check alone; may be given more than once"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    settings.add_database(parser)


def main(options: argparse.Namespace) -> int:
    """Examine, and show the findings."""
    config = settings.load(options)
    with found(config) as database:
        examination = doctor.examine(config, database.url, options.only)
    if options.json:
        output.json(examination)
    else:
        _show(examination)
    return code_of(examination)


def code_of(examination: Examination) -> int:
    """Return the exit code."""
    if any(finding.level == "bad" and finding.check in FIRST for finding in examination.findings):
        return NO_DATABASE
    return {"warn": WARNED, "bad": BAD}.get(examination.level, 0)


def _show(examination: Examination) -> None:
    if sys.stdout.isatty():
        _show_in_colour(examination)
    else:
        for finding in examination.findings:
            for line in _lines(finding, 0):
                output.out(line)
    counts = Counter(finding.level for finding in examination.findings)
    output.note(", ".join(f"{counts[level]} {level}" for level in reversed(doctor.LEVELS) if counts[level]))


def _show_in_colour(examination: Examination) -> None:
    from rich.console import Console  # noqa: PLC0415 - 60 ms that a pipe need not pay
    from rich.text import Text  # noqa: PLC0415 - the same

    console = Console(highlight=False)
    for finding in examination.findings:
        first, *others = _lines(finding, shutil.get_terminal_size().columns)
        shown = Text(first)
        if not console.no_color:
            shown.stylize(STYLES[finding.level], 0, INDENT)
        console.print(shown, soft_wrap=True)
        for line in others:
            remedy = line.startswith(" " * INDENT + "> ")
            console.print(Text(line, style="bold" if remedy and not console.no_color else ""), soft_wrap=True)


def _lines(finding: Finding, width: int) -> Iterator[str]:
    """Write a finding; without a width no line is broken."""
    indent = INDENT + max(map(len, doctor.CHECKS)) + 2
    head = f"{finding.level:{INDENT}s}{finding.check:{indent - INDENT}s}"
    for text in filter(None, (finding.found, finding.means)):
        whole = escaped(masked(text))
        for line in textwrap.wrap(whole, max(width - indent, 20), break_on_hyphens=False) if width else [whole]:
            yield head + line
            head = " " * indent
    for line in finding.remedy.splitlines():
        yield f"{'':{INDENT}s}> {escaped(line)}"
