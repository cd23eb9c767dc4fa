"""`fastq periodic`: list, pause, resume and delete periodic jobs, and run one now.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse
from datetime import UTC
from typing import TYPE_CHECKING

from fastq.admin import periodic
from fastq.admin.periodic import PeriodicRow
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import opened

if TYPE_CHECKING:
    from fastq.postgres.db import Connection

EPILOG = """\
examples:
  fastq periodic list
  fastq periodic pause report      its ticks are dropped until it is resumed
  fastq periodic resume report
  fastq periodic run report        enqueues its job now; the next tick comes
                                   as planned
  fastq periodic delete report     forgets one that is in no living process'
                                   code

state: on, or why it does not tick: paused; undeclared: no living process has
it in its code; no leader: nobody leads just now, or the domain of no fastq
run works its queue
"""
COLUMNS = ("name", "schedule", "tz", "queue", "kind", "missed", "last tick", "next tick", "state", "error")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show the periodic jobs and when they tick")
    pausing = actions.add_parser("pause", help="drop the ticks of a periodic job")
    resuming = actions.add_parser("resume", help="go on with a paused periodic job")
    running = actions.add_parser("run", help="enqueue the job of a periodic job now")
    deleting = actions.add_parser("delete", help="forget a periodic job that is in no living process' code")
    for action in (pausing, resuming, running, deleting):
        action.add_argument("name", metavar="NAME")
    for action in (listing, pausing, resuming, running, deleting):
        action.add_argument("--json", action="store_true", help="print JSON")
        settings.add_database(action)


def main(options: argparse.Namespace) -> int:
    """Run the action."""
    with opened(settings.load(options)) as connection:
        if options.action == "list":
            return _list(periodic.list_periodic(connection), options)
        told, result = _act(connection, options.action, options.name)
    if options.json:
        output.json(result)
    else:
        output.out(told)
    return 0


def _act(connection: Connection, action: str, name: str) -> tuple[str, dict[str, object]]:
    """Run an action on one periodic job; return its result as a sentence, and as values for a script."""
    if action == "run":
        job_id = periodic.run_periodic(connection, name)
        return f"enqueued job {job_id}", {"name": name, "id": job_id}
    if action == "pause":
        periodic.pause_periodic(connection, name)
        return f"periodic job '{name}' is paused", {"name": name, "paused": True, "changed": True}
    if action == "delete":
        ticks = periodic.delete_periodic(connection, name)
        return f"periodic job '{name}' is deleted; its jobs stay", {"name": name, "ticks": ticks}
    next_tick = periodic.resume_periodic(connection, name)
    told = f"periodic job '{name}' was not paused"
    if next_tick is not None:
        told = f"periodic job '{name}' is resumed; next tick {output.moment(next_tick)}"
    return told, {"name": name, "paused": False, "changed": next_tick is not None}


def _list(rows: list[PeriodicRow], options: argparse.Namespace) -> int:
    if options.json:
        output.json([{name: getattr(row, name) for name in (*row.__slots__, "state")} for row in rows])
        return 0
    if not rows:
        output.note("no periodic jobs: registry.periodic(...) defines one, and fastq run makes it known")
        return 0
    output.table(COLUMNS, [_cells(row) for row in rows])
    return 0


def _cells(row: PeriodicRow) -> tuple[object, ...]:
    missed = f"backfill {row.backfill}" if row.backfill else row.missed
    last = f"{row.last_tick.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z" if row.last_tick else None
    return (row.name, row.schedule, row.tz, row.queue, row.kind, missed, last, row.next_tick, row.state, row.error)
