"""`fastq logs`: show the log of a job, follow it live, and tell how much job logs take.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import msgspec

from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import found
from fastq.cli.terminal.parser import whole
from fastq.enqueue.client import Client
from fastq.errors import JobNotFound
from fastq.events import escaped
from fastq.schema.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastq.joblogs.reading.log_lines import LogLine

EPILOG = """\
examples:
  fastq logs 42                 the records and the prints of job 42
  fastq logs 42 -f              and those from now on, until it ends
  fastq logs 42 --attempt 3     in its third attempt alone
  fastq logs 42 --json | jq -r '.[] | select(.level == "error").text'
  fastq logs --sizes            how much the logs take, by kind

Kept are the logs of kinds whose worker says logs = True, for
FASTQ_JOB_LOG_DAYS; of each attempt the beginning and the end, 64 kB.
"""
COLUMNS = ("kind", "attempts", "lines", "bytes", "since")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("id", type=whole, metavar="ID", nargs="?", help="the job")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job has ended")
    parser.add_argument("--attempt", type=whole, metavar="N", help="this attempt alone")
    parser.add_argument("--sizes", action="store_true", help="tell how much job logs take, by kind")
    parser.add_argument("--json", action="store_true", help="print JSON; with -f an object a line")
    settings.add_database(parser)


def main(options: argparse.Namespace) -> int:
    """Show the log of a job, or the sizes."""
    if (options.id is None) is not options.sizes:
        output.note("fastq logs: expected the ID of a job, or --sizes; see fastq logs --help")
        return 2
    config = settings.load(options)
    with found(config) as database:
        if database.embedded is not None:
            migrate(database.url, config.schema)
        with Client(config=replace(config, database_url=database.url)) as client:
            if options.sizes:
                return _sizes(client, options)
            return _follow(client, options) if options.follow else _show(client, options)


def _show(client: Client, options: argparse.Namespace) -> int:
    lines = client.logs(options.id, attempt=options.attempt)
    if options.json:
        output.json([asdict(line) for line in lines])
        return 0
    if not lines and client.get(options.id) is None:
        output.note(f"fastq: there is no job {options.id}; finished ones are kept as FASTQ_ARCHIVE_DAYS and FASTQ_KEEP say")
        return 1
    if not lines:
        output.note(f"no log of job {options.id}: it has told nothing yet, its kind keeps none, or FASTQ_JOB_LOG_DAYS are over")
    _print(lines)
    return 0


def _follow(client: Client, options: argparse.Namespace) -> int:
    lines = client.follow_logs(options.id, attempt=options.attempt)
    try:
        if not options.json:
            _print(lines)
            return 0
        for line in lines:
            output.out(msgspec.json.encode(asdict(line)).decode())
            sys.stdout.flush()
    except JobNotFound as error:
        output.note(f"fastq: {error}")
        return 1
    return 0


def _print(lines: Iterable[LogLine]) -> None:
    """Print log lines as they come, with a heading where another attempt than the first one begins."""
    attempt = 1
    for line in lines:
        if line.attempt != attempt:
            attempt = line.attempt
            output.out(f"attempt {attempt}:")
        first, *others = str(line).split("\n")
        output.out(escaped(first))
        for other in others:
            output.out(f"    {escaped(other)}")
        sys.stdout.flush()


def _sizes(client: Client, options: argparse.Namespace) -> int:
    sizes = client.log_sizes()
    if options.json:
        output.json([asdict(size) for size in sizes])
    elif sizes:
        output.table(COLUMNS, [(size.kind, size.attempts, size.lines, size.bytes, size.since) for size in sizes])
        more = "; older ones are not counted above" if sizes[0].more else ""
        output.note(f"on disk, with indexes: {sizes[0].disk:,} bytes{more}")
    else:
        output.note("no job logs")
    return 0
