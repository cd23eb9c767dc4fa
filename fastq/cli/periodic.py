"""`fastq periodic`: list, pause and resume periodic jobs, and run one now."""

from __future__ import annotations

import argparse
from datetime import UTC

from fastq import admin_periodic
from fastq.admin_periodic import PeriodicRow
from fastq.cli import output, settings
from fastq.cli.database import opened

EPILOG = """\
examples:
  fastq periodic list
  fastq periodic pause report       its ticks are dropped until it is resumed
  fastq periodic resume report
  fastq periodic run report         enqueues its job now; the next tick comes as planned

state: on, paused, or undeclared: no living process has it in its code, so it does not tick
"""
COLUMNS = ("name", "schedule", "tz", "queue", "kind", "missed", "last tick", "next tick", "state", "error")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show the periodic jobs and when they tick")
    pausing = actions.add_parser("pause", help="drop the ticks of a periodic job")
    resuming = actions.add_parser("resume", help="go on with a paused periodic job")
    running = actions.add_parser("run", help="enqueue the job of a periodic job now")
    for action in (pausing, resuming, running):
        action.add_argument("name", metavar="NAME")
    for action in (listing, pausing, resuming, running):
        action.add_argument("--json", action="store_true", help="print JSON")
        settings.add_database(action)


def main(options: argparse.Namespace) -> int:
    """Do what was asked."""
    with opened(settings.load(options)) as connection:
        if options.action == "list":
            return _list(admin_periodic.list_periodic(connection), options)
        name = options.name
        if options.action == "run":
            job_id = admin_periodic.run_periodic(connection, name)
            told, result = f"enqueued job {job_id}", {"name": name, "id": job_id}
        elif options.action == "pause":
            admin_periodic.pause_periodic(connection, name)
            told, result = f"periodic job '{name}' is paused", {"name": name, "paused": True, "changed": True}
        else:
            next_tick = admin_periodic.resume_periodic(connection, name)
            told = f"periodic job '{name}' was not paused"
            if next_tick is not None:
                told = f"periodic job '{name}' is resumed; next tick {output.moment(next_tick)}"
            result = {"name": name, "paused": False, "changed": next_tick is not None}
    if options.json:
        output.json(result)
    else:
        output.out(told)
    return 0


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
