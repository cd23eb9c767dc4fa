"""`fastq queues`: list, pause and resume queues.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse

from fastq import admin
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import opened
from fastq.cli.terminal.parser import until
from fastq.events import escaped

EPILOG = """\
examples:
  fastq queues list
  fastq queues pause emails       nothing is claimed from it any more; what
                                  runs goes on
  fastq queues pause emails --until 30m --reason "the provider is down"
                                  resumed by itself, by the cluster's leader
  fastq queues resume emails

Kinds, gates, keys and everything are paused by `fastq pauses`.

claimed: jobs in state running. Some execute, the others wait in their
process for an executor; `ps` shows how many execute in each process.
"""
COLUMNS = ("queue", "state", "available", "claimed", "scheduled", "retryable", "waiting", "processes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show the queues and what is in them")
    pausing = actions.add_parser("pause", help="claim nothing more from a queue")
    resuming = actions.add_parser("resume", help="go on with a paused queue")
    for action in (pausing, resuming):
        action.add_argument("queue", metavar="QUEUE")
    add_end(pausing)
    for action in (listing, pausing, resuming):
        action.add_argument("--json", action="store_true", help="print JSON")
        settings.add_database(action)


def add_end(action: argparse.ArgumentParser) -> None:
    """Declare the arguments that a pause has."""
    action.add_argument("--until", type=until, metavar="TIME", help="end by itself: in 90s, 30m, 2h, 1d, or at 2026-12-24T18:00Z")
    action.add_argument("--reason", default="", metavar="TEXT", help="shown wherever somebody asks why a job waits")


def main(options: argparse.Namespace) -> int:
    """Run the action."""
    config = settings.load(options)
    with opened(config) as connection:
        rows = admin.list_queues(connection)
        if options.action == "list":
            return _list(rows, admin.list_waiting(connection), admin.list_pauses(connection), options)
        known = any(row.name == options.queue for row in rows)
        if options.action == "pause":
            admin.pause_queue(connection, options.queue, options.until, options.reason)
            changed = True
        else:
            changed = admin.resume_queue(connection, options.queue)
    if options.json:
        output.json({"queue": options.queue, "paused": options.action == "pause", "changed": changed})
    elif changed:
        output.out(f"queue '{options.queue}' is {'paused' if options.action == 'pause' else 'resumed'}")
    else:
        output.out(f"queue '{options.queue}' was not paused")
    if not known:
        output.note(f"note: queue '{options.queue}' has no jobs and no process works it; is that its name? (fastq queues list)")
    return 0


def _list(
    rows: list[admin.QueueRow], waiting: list[admin.WaitingRow], pauses: list[admin.PauseRow], options: argparse.Namespace
) -> int:
    if options.json:
        output.json(rows)
        return 0
    if not rows:
        output.note("no queues: no jobs wait and no process works")
        return 0
    output.table(COLUMNS, [_cells(row) for row in rows])
    for pause in pauses:
        if pause.sort == "queue":
            output.note(escaped(str(pause)))
    for row in waiting:
        more = "+" if row.jobs >= row.counted_to else ""
        output.note(f"waiting in '{row.queue}': {row.jobs:,}{more} of kind '{row.kind}': {escaped(row.why)}")
    return 0


def _cells(row: admin.QueueRow) -> tuple[object, ...]:
    counts = ((name, getattr(row, name)) for name in ("available", "claimed", "scheduled", "retryable", "waiting"))
    shown = (f"{count:,}+" if count and name in row.more else count for name, count in counts)
    return (row.name, row.state, *shown, row.processes)
