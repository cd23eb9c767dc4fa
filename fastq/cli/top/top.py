"""`fastq top`: queues, running jobs, jobs, failures and processes, live in a terminal, or once as text or JSON.

Runs in the main thread of the command, with a thread of its own that looks at the database (watcher.py).
"""

from __future__ import annotations

import argparse
import functools
import shutil
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from fastq import admin
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import found
from fastq.cli.top import narrowed
from fastq.cli.top.figures import Figures, Looker, QueueFigures, Wanted
from fastq.cli.top.watcher import SLOWEST
from fastq.schema.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.admin.search import JobFilter
    from fastq.admin.statistics import Times
    from fastq.cli.top.columns import Line
    from fastq.postgres.db import Connection

EPILOG = """\
examples:
  fastq top                          look; ? shows the keys, q quits
  fastq top --operate                may retry, cancel, pause and resume, too
  fastq top --filter 'queue:mails kind:report'
  fastq top --once                   print the queues, and end
  fastq top --once --view failures
  fastq top --once --json | jq '.queues[] | select(.state == "unworked")'

Where the output is no terminal it prints one view, as --once does.
"""

VIEWS = ("queues", "running", "jobs", "failures", "processes")

UNBOUNDED = 10_000
"""Columns of a pipe: nothing is cut there."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--once", action="store_true", help="print one view as text, and end")
    parser.add_argument("--json", action="store_true", help="with --once: print all views as JSON")
    parser.add_argument("--view", choices=VIEWS, default=VIEWS[0], help="the view to begin with [default queues]")
    parser.add_argument("--filter", default="", metavar="WORDS", help="only these: queue:NAME, kind:NAME, state:NAME")
    parser.add_argument("--operate", action="store_true", help="allow the keys that change something")
    settings.add_some(parser, "which cluster", ("instance_name",))
    settings.add_database(parser)


def main(options: argparse.Namespace) -> int:
    """Show it."""
    from fastq.cli.top import display  # noqa: PLC0415 - 60 ms of rich, which help and completion need not pay

    narrow = narrowed.read(options.filter)
    if options.json and not options.once:
        output.note("fastq top: --json goes with --once")
        return 2
    config = settings.load(options)
    config = replace(config, statement_timeout=min(config.statement_timeout, SLOWEST))
    with found(config) as database:
        if database.embedded is not None:
            migrate(database.url, config.schema)
        connect = functools.partial(admin.connect, config, database.url)
        connection = connect()  # here, so that an error is told as each command tells it
        about = " ".join(part for part in (config.instance_name, database.describe(connection)) if part)
        if options.once or not display.is_terminal():
            try:
                return _once(connection, options, narrow, about)
            finally:
                connection.close()
        _live(connect, connection, options, about)
    return 0


def _live(connect: Any, connection: Connection, options: argparse.Namespace, about: str) -> None:
    from fastq.cli.top import live  # noqa: PLC0415 - as above
    from fastq.cli.top.pressing import Shown  # noqa: PLC0415 - the same

    connection.close()
    live.run(connect, Shown(operate=options.operate, view=options.view, filter=options.filter), about)


def _once(connection: Connection, options: argparse.Namespace, narrow: JobFilter, about: str) -> int:
    views = VIEWS if options.json else (options.view,)
    figures = Looker().look(connection, Wanted(views, narrow))
    if options.json:
        output.json(as_json(figures, about))
        return 0
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else UNBOUNDED
    _print(as_lines(figures, options.view, width))
    return 0


def as_lines(figures: Figures, view: str, width: int) -> list[Line]:
    """Return a view as it is printed: totals, notices, and all of its rows."""
    from fastq.cli.top.columns import text_of  # noqa: PLC0415 - as above
    from fastq.cli.top.composing import table  # noqa: PLC0415 - the same
    from fastq.cli.top.panes import summed  # noqa: PLC0415 - the same

    notices: list[Line] = [[(f"! {text_of(notice.text)}", "red" if notice.grave else "yellow")] for notice in figures.notices]
    return [summed(figures, width), *notices, [], *table(view, figures, width, None, None)[0]]


def as_json(figures: Figures, about: str) -> dict[str, Any]:
    """Return all views as JSON; a key that is here stays, and has this meaning."""
    lately = figures.failures
    groups = [asdict(group) for group in lately.groups] if lately else []
    return {
        "at": figures.at,
        "cluster": about,
        "notices": [notice._asdict() for notice in figures.notices],
        "queues": [_queue(row) for row in figures.queues],
        "processes": figures.processes,
        "running": figures.running,
        "jobs": figures.jobs.jobs if figures.jobs else [],
        "failures": {
            "seconds": narrowed.LATELY,
            "jobs": lately.jobs if lately else 0,
            "more": bool(lately and lately.more),
            "groups": groups,
        },
    }


def _queue(row: QueueFigures) -> dict[str, Any]:
    queue, rates = row
    counts = {
        "available": queue.available,
        "running": queue.claimed,
        "scheduled": queue.scheduled,
        "retryable": queue.retryable,
        "waiting": queue.waiting,
    }
    return {
        "name": queue.name,
        "state": queue.state,
        "paused_at": queue.paused_at,
        "paused_until": queue.paused_until,
        "pause_reason": queue.pause_reason,
        **counts,
        "at_least": bool(queue.more),
        "processes": queue.processes,
        "rate": rates.rate,
        "failed_per_minute": rates.failing,
        "failed_by_minute": rates.failures,
        "wait": _times(rates.wait),
        "run": _times(rates.run),
    }


def _times(times: Times | None) -> dict[str, float | None]:
    return {name: getattr(times, name, None) for name in ("p50", "p95", "p99")}


def _print(lines: Sequence[Line]) -> None:
    """Print lines: in colours on a terminal, plain elsewhere."""
    if not sys.stdout.isatty():
        for line in lines:
            output.out("".join(text for text, _ in line).rstrip())
        return
    from rich.console import Console  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - the same

    console = Console(highlight=False)
    for line in lines:
        console.print(Text.assemble(*line), soft_wrap=True)
