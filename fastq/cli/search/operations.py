"""`fastq operations`: list the changes of many jobs that the leader works through, show one, end one.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fastq.admin.bulk import OperationRow, at_once
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import opened
from fastq.cli.terminal.parser import whole

if TYPE_CHECKING:
    from fastq.postgres.db import Connection

EPILOG = """\
examples:
  fastq jobs retry state:discarded kind:mail --yes      makes one
  fastq operations list
  fastq operations show 7
  fastq operations cancel 7     before its next chunk; what is done stays done
"""
COLUMNS = ("id", "verb", "state", "done", "of", "skipped", "by", "asked", "ended", "filter")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show operations, newest first")
    listing.add_argument("--limit", type=whole, default=50, metavar="N", help="how many at most [default 50]")
    showing = actions.add_parser("show", help="show one, and why it has skipped jobs")
    ending = actions.add_parser("cancel", help="end one before its next chunk")
    for action in (showing, ending):
        action.add_argument("id", type=whole, metavar="ID")
    for action in (listing, showing, ending):
        action.add_argument("--json", action="store_true", help="print JSON")
        settings.add_database(action)


def main(options: argparse.Namespace) -> int:
    """Run the action."""
    with opened(settings.load(options)) as connection:
        if options.action == "list":
            return _list(connection, options)
        if options.action == "show":
            return _show(connection, options)
        return _cancel(connection, options)


def _list(connection: Connection, options: argparse.Namespace) -> int:
    rows = at_once.list_operations(connection, options.limit)
    if options.json:
        output.json(rows)
    elif rows:
        output.table(COLUMNS, [_cells(row) for row in rows])
    else:
        output.note("no operations")
    return 0


def _cells(row: OperationRow) -> tuple[object, ...]:
    skipped = sum(row.skipped.values())
    return (row.id, row.verb, row.state, row.done, _expected(row), skipped, row.by, row.created_at, row.ended_at, row.filter)


def _expected(row: OperationRow) -> str:
    return f"{row.expected:,}{'+' if row.at_least else ''}"


def _show(connection: Connection, options: argparse.Namespace) -> int:
    rows = at_once.list_operations(connection, 1, options.id)
    if not rows:
        return _unknown(options.id)
    [row] = rows
    if options.json:
        output.json(row)
        return 0
    output.fields(
        [
            ("id", row.id),
            ("verb", row.verb),
            ("filter", row.filter),
            ("change", ", ".join(f"{name}={value}" for name, value in row.change.items()) or None),
            ("state", row.state + (", asked to end" if row.cancel_requested and row.ended_at is None else "")),
            ("done", f"{row.done:,} of {_expected(row)}"),
            *((f"skipped, {reason}", f"{jobs:,}") for reason, jobs in row.skipped.items()),
            ("by", row.by),
            *((name, output.moment(at)) for name, at in (("asked", row.created_at), ("ended", row.ended_at)) if at),
            ("error", row.error),
        ]
    )
    return 0


def _cancel(connection: Connection, options: argparse.Namespace) -> int:
    asked = at_once.cancel_operation(connection, options.id)
    if options.json:
        output.json({"id": options.id, "asked": asked})
    elif asked:
        output.out(f"operation {options.id} is asked to end")
    else:
        output.note(f"fastq: there is no operation {options.id} that has not ended")
    return 0 if asked else 1


def _unknown(number: int) -> int:
    output.note(f"fastq: there is no operation {number}; they are kept as FASTQ_AUDIT_DAYS says")
    return 1


def told(row: OperationRow) -> str:
    """Say in a line what an operation is."""
    return f"operation {row.id}: {row.verb} {_expected(row)} jobs that fit {row.filter}"
