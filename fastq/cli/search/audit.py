"""`fastq audit`: list the changes that operators have made, of single jobs and of many.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse

from fastq.admin.bulk import AuditRow, at_once
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import opened
from fastq.cli.terminal.parser import whole

EPILOG = """\
examples:
  fastq audit list              who changed which jobs, the newest first
  fastq audit list --limit 500 --json

Records are kept as FASTQ_AUDIT_DAYS says.
"""
COLUMNS = ("at", "by", "role", "verb", "jobs", "of", "change")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommand and its arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show changes, newest first")
    listing.add_argument("--limit", type=whole, default=50, metavar="N", help="how many at most [default 50]")
    listing.add_argument("--json", action="store_true", help="print JSON")
    settings.add_database(listing)


def main(options: argparse.Namespace) -> int:
    """List the changes."""
    with opened(settings.load(options)) as connection:
        rows = at_once.list_audit(connection, options.limit)
    if options.json:
        output.json(rows)
    elif rows:
        output.table(COLUMNS, [_cells(row) for row in rows])
    else:
        output.note("no changes")
    return 0


def _cells(row: AuditRow) -> tuple[object, ...]:
    of = f"job {row.job}" if row.operation is None else f"operation {row.operation}: {row.filter}"
    change = ", ".join(f"{name}={value}" for name, value in (row.change or {}).items())
    return (row.at, row.by, row.role, row.verb, row.jobs, of, change)
