"""`fastq unique`: list the keys of unique jobs that are held, and give one up by hand.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse

from fastq import admin
from fastq.admin.unique import SHORT
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import opened

EPILOG = """\
examples:
  fastq unique list               the keys that are held, longest first
  fastq unique release 3f9a0c     the next enqueue with this key makes a job,
                                  whatever becomes of the one that held it

A key is given up by its job, or with time: nobody has to do it by hand. Do it
where a key is held until success and its job will not succeed any more.

Exit code 1 if no such key is held.
"""
COLUMNS = ("key", "job", "state", "kind", "held until", "since", "ends", "args")
ARGS = 40
"""Characters of the args that the table shows: enough to see which of several jobs it is."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show the keys that are held, and the jobs that hold them")
    listing.add_argument("--limit", type=int, default=50, metavar="N", help="how many at most [default 50]")
    releasing = actions.add_parser("release", help="give a key up, so that another job can be enqueued with it")
    releasing.add_argument("key", metavar="KEY", help="its first digits, as the list shows them")
    for action in (listing, releasing):
        action.add_argument("--json", action="store_true", help="print JSON")
        settings.add_database(action)


def main(options: argparse.Namespace) -> int:
    """Run the action."""
    config = settings.load(options)
    with opened(config) as connection:
        if options.action == "list":
            return _list(admin.list_keys(connection, options.limit), options)
        row = admin.release_key(connection, options.key)
    if options.json:
        output.json({"key": options.key, "released": row is not None, "job": row and row.job_id})
    elif row is not None:
        output.out(f"key {row.key[:SHORT]} is given up; job {row.job_id} held it")
    else:
        output.note(f"fastq: no key that begins with {options.key} is held")
    return 0 if row is not None else 1


def _list(rows: list[admin.KeyRow], options: argparse.Namespace) -> int:
    if options.json:
        output.json(rows)
        return 0
    if not rows:
        output.note("no unique job holds a key")
        return 0
    output.table(COLUMNS, [_cells(row) for row in rows])
    return 0


def _cells(row: admin.KeyRow) -> tuple[object, ...]:
    args = row.args_json or ""
    shown = args if len(args) <= ARGS else f"{args[: ARGS - 1]}…"
    return (row.key[:SHORT], row.job_id, row.state or "not kept", row.kind, row.until, row.since, row.expires_at, shown)
