"""`fastq events`: show the events of all processes as they happen.

Runs in the main thread of the command, and keeps nothing. Events are shown one to a line as in the log, with the process that
tells of each; those that are missing are shown too, by their number.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import found
from fastq.cli.terminal.parser import whole
from fastq.enqueue.client import Client
from fastq.schema.migrate import migrate

if TYPE_CHECKING:
    import argparse

    from fastq.subscribing.event_reading import HeardEvent

EPILOG = """\
examples:
  fastq events -f                              all events, until Ctrl-C
  fastq events -f job.failed job.discarded     those of these names
  fastq events -f 'job.*' --kind mail --queue emails
  fastq events -f --job 42                     those about job 42
  fastq events -f --json | jq -r 'select(.event == "job.failed").error'

All worker processes and supervisors of the schema tell of them while this
runs, and of nothing that happened before. What comes faster than it can be
told is left out; events.dropped says how many events that were.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="names of events, such as job.failed or 'job.*' (default: all)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until Ctrl-C; without it, until one event has come")
    parser.add_argument(
        "--kind", action="append", default=[], metavar="KIND", help="about jobs of this kind (several times: of each)"
    )
    parser.add_argument("--queue", action="append", default=[], metavar="QUEUE", help="about jobs of this queue (the same)")
    parser.add_argument("--job", action="append", default=[], type=whole, metavar="ID", help="about this job (the same)")
    parser.add_argument("--json", action="store_true", help="print an object a line")
    settings.add_database(parser)


def main(options: argparse.Namespace) -> int:
    """Show events as they come."""
    config = settings.load(options)
    with found(config) as database:
        if database.embedded is not None:
            migrate(database.url, config.schema)
        with (
            Client(config=replace(config, database_url=database.url)) as client,
            client.events(*options.names, kinds=options.kind, queues=options.queue, jobs=options.job) as events,
        ):
            for event in events:
                output.out(_json(event) if options.json else _line(event))
                sys.stdout.flush()
                if not options.follow:
                    break
    return 0


def _line(event: HeardEvent) -> str:
    """Write an event for people."""
    clock = f"{event.at.astimezone():%H:%M:%S}.{event.at.microsecond // 1000:03d}"
    return f"{clock} {_level(event):7s} {event.host}:{event.pid} {event}"


def _json(event: HeardEvent) -> str:
    """Write it with the keys of the log for machines, and its host."""
    head = {"time": event.at, "level": _level(event), "host": event.host, "pid": event.pid, "event": event.name}
    return msgspec.json.encode({**head, **event.fields, **head}).decode()


def _level(event: HeardEvent) -> str:
    return logging.getLevelName(event.level).lower()
