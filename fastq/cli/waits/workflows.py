"""`fastq workflows`: list workflows, draw one as text, retry and cancel it.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from fastq.admin.workflows import Progress
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import found
from fastq.cli.terminal.parser import whole
from fastq.enqueue.client import Client
from fastq.enqueue.flows import WHAT
from fastq.errors import WorkflowError
from fastq.schema.migrate import migrate
from fastq.workflows.drawing import IN_ASCII, WIDTH, drawn
from fastq.workflows.folding import DrawnStep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastq.admin.workflows import StepRow, WorkflowRow

EPILOG = """\
examples:
  fastq workflows list --state running
  fastq workflows show 7            draws it: a row for each step, and lines
                                    from a step to those that run after it
  fastq workflows retry 7           runs the jobs once more that were
                                    discarded, or cancelled by somebody
  fastq workflows retry 7 --downstream
                                    and those cancelled because of them
  fastq workflows cancel 7          its jobs that wait never run; the running
                                    ones are asked to end

state: running, until all jobs have ended; then the worst of their ends. A
row of a drawing that stands for several steps has their number behind it.
"""
COLUMNS = ("id", "name", "state", "steps", "completed", "cancelled", "discarded", "begun", "ended")

SHOWN_ENDS = 10
"""Failed steps that are named below a drawing: the first of them, for the others have the same reasons more often than not."""

PAGE = 10_000
"""Steps read by one statement."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show the newest workflows, and how far they are")
    listing.add_argument("--state", choices=[*Progress], help="only those in this state")
    listing.add_argument("--limit", type=whole, default=50, metavar="N", help="at most so many [default: 50]")
    showing = actions.add_parser("show", help="draw a workflow, with the states of its jobs")
    retrying = actions.add_parser("retry", help="run the failed jobs of a workflow once more")
    retrying.add_argument("--downstream", action="store_true", help="also those that were cancelled because of them")
    cancelling = actions.add_parser("cancel", help="end the jobs of a workflow")
    for action in (showing, retrying, cancelling):
        action.add_argument("id", metavar="ID", type=whole)
    for action in (listing, showing, retrying, cancelling):
        action.add_argument("--json", action="store_true", help="print JSON")
        settings.add_database(action)


def main(options: argparse.Namespace) -> int:
    """Run the action."""
    config = settings.load(options)
    with found(config) as database:
        if database.embedded is not None:
            migrate(database.url, config.schema)
        with Client(config=replace(config, database_url=database.url)) as client:
            if options.action == "list":
                _list(client, options)
            elif options.action == "show":
                _show(client, options)
            else:
                _act(client, options)
    return 0


def _list(client: Client, options: argparse.Namespace) -> None:
    rows = client.workflows(state=options.state, limit=options.limit)
    if options.json:
        output.json([_told(row) for row in rows])
    elif not rows:
        output.note("no workflows; client.enqueue_workflow(...) makes one")
    else:
        output.table(COLUMNS, [_cells(row) for row in rows])


def _show(client: Client, options: argparse.Namespace) -> None:
    row = client.workflow(options.id)
    if row is None:
        raise WorkflowError(f"there is no workflow {options.id}, or no longer")
    steps = [*_steps(client, row.id)]
    if options.json:
        output.json({**_told(row), "of": [asdict(step) for step in steps]})
        return
    for line in _drawing(row, steps):
        output.out(line if _has_signs() else line.translate(IN_ASCII))


def _act(client: Client, options: argparse.Namespace) -> None:
    number = options.id
    if options.action == "cancel":
        count = client.cancel_workflow(number)
        told = f"workflow {number}: {output.plural(count, 'job')} cancelled, or asked to end"
    else:
        count = client.retry_workflow(number, [*WHAT][options.downstream])
        told = f"workflow {number}: {output.plural(count, 'job')} to run once more"
    if options.json:
        output.json({"workflow": number, "jobs": count})
    else:
        output.out(told)


def _steps(client: Client, number: int) -> Iterator[StepRow]:
    start = 0
    while page := client.workflow_steps(number, start=start, limit=PAGE):
        yield from page
        start = page[-1].step + 1


def _drawing(row: WorkflowRow, steps: list[StepRow]) -> Iterator[str]:
    """Yield the lines about one workflow: how far it is, its drawing, and the first of its steps that have failed."""
    ended = f"ended {output.ago(row.ended_at)}" if row.ended_at else f"{row.ended:,} of {row.steps:,} ended"
    asked = f", cancellation asked for {output.ago(row.cancelled_at)}" if row.cancelled_at and not row.ended_at else ""
    yield f"workflow {row.id} '{row.name}': {row.state}, {ended}, begun {output.ago(row.created_at)}{asked}"
    yield ""
    place_of = {step.step: place for place, step in enumerate(steps)}
    yield from drawn(
        [
            DrawnStep(step.name, step.kind, step.job, step.state or "ending", [(place_of[one], run) for one, run in step.after])
            for step in steps
        ],
        WIDTH,
    )
    failed = [step for step in steps if step.state in ("cancelled", "discarded") and not step.because]
    if failed:
        yield ""
    for step in failed[:SHOWN_ENDS]:
        yield f"job {step.job} ({step.name or step.kind}) was {step.state}: fastq jobs show {step.job}"
    if len(failed) > SHOWN_ENDS:
        yield f"... and {output.plural(len(failed) - SHOWN_ENDS, 'more job')}"
    if after := sum(1 for step in steps if step.because):
        yield f"{output.plural(after, 'job')} cancelled because of {'it' if len(failed) == 1 else 'these'}"


def _told(row: WorkflowRow) -> dict[str, object]:
    return {**asdict(row), "state": row.state.value}


def _cells(row: WorkflowRow) -> tuple[object, ...]:
    counts = (row.steps, row.completed, row.cancelled, row.discarded)
    return (row.id, row.name, row.state.value, *counts, row.created_at, row.ended_at)


def _has_signs() -> bool:
    """Tell whether the signs of a drawing can be written in the encoding of the output."""
    try:
        "●│╭…".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
