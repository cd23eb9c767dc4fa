"""`fastq processes`: list the worker processes of all hosts with their memory, threads and jobs, and ask one for its stacks.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fastq.admin.running import list_processes
from fastq.admin.running.whereabouts import TIMEOUT
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import opened
from fastq.cli.terminal.parser import whole
from fastq.enqueue.operate.directly import stack_of
from fastq.events import escaped

if TYPE_CHECKING:
    from fastq.admin.running import ProcessRow
    from fastq.postgres.db import Connection

EPILOG = """\
examples:
  fastq processes                  by host: memory, threads, processor time,
                                   executors with a job, jobs held
  fastq processes stack 17         where its jobs and threads are now
  fastq processes --json | jq '.[] | select(.vitals.rss > 1e9).host'

memory is what the process has for itself, and its share of what it has with
others; measured by its host at the last beat. cpu is the share of one core
since the beat before. A stack has files, lines and names of functions, and no
value of a variable; jobs go on meanwhile. That of one job: fastq jobs stack.

Exit code 1 if a process has not told its stacks.
"""
COLUMNS = ("process", "host", "pid", "state", "started", "memory", "threads", "cpu", "busy", "held", "queues", "kinds")

MEBIBYTE = 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="[ACTION]")
    listing = actions.add_parser("list", help="show the processes (the same without ACTION)")
    asking = actions.add_parser("stack", help="show where the jobs and the threads of one process are")
    asking.add_argument("process", type=whole, metavar="PROCESS", help="its number, as the list has it")
    add_timeout(asking)
    for action in (parser, listing, asking):
        action.add_argument("--json", action="store_true", help="print JSON")
        settings.add_database(action)


def add_timeout(action: argparse.ArgumentParser) -> None:
    """Declare the argument that a question for a stack has."""
    action.add_argument("--timeout", type=float, default=TIMEOUT, metavar="S", help="seconds to wait [default: %(default)g]")


def main(options: argparse.Namespace) -> int:
    """Run the action."""
    config = settings.load(options)
    with opened(config) as connection:
        if options.action == "stack":
            return show_stack(connection, options, process=options.process)
        rows = list_processes(connection)
    if options.json:
        output.json(rows)
    elif rows:
        output.table(COLUMNS, [_cells(row) for row in rows])
    else:
        output.note("no worker process is announced: start fastq run")
    return 0


def show_stack(connection: Connection, options: argparse.Namespace, *, job: int | None = None, process: int | None = None) -> int:
    """Ask for a stack, and print it; exit code 1 if there is none."""
    stack = stack_of(connection, job=job, process=process, seconds=options.timeout)
    if options.json:
        output.json(stack)
    elif stack.text is None or stack.at is None:
        output.note(f"fastq: {stack.why}")
    else:
        output.note(f"process {stack.process}, pid {stack.pid} on {stack.host}, {output.moment(stack.at)}")
        for line in stack.text.rstrip("\n").split("\n"):
            output.out(escaped(line))
    return 0 if stack.text is not None else 1


def _cells(row: ProcessRow) -> tuple[object, ...]:
    state, kinds = "alive" if row.lives else "silent", "any" if row.kinds is None else len(row.kinds)
    measured: tuple[object, ...] = (None,) * 5
    if (told := row.vitals) is not None:
        load = None if told.load is None else f"{told.load:.0%}"
        measured = (memory(told.pss or told.rss), told.threads, load, f"{told.busy}/{told.executors}", told.held)
    return (row.id, row.host, row.pid, state, row.started_at, *measured, row.queues, kinds)


def memory(size: int | None) -> str | None:
    """Write a number of bytes as a person reads it."""
    return None if size is None else f"{size / MEBIBYTE:,.0f} MiB"
