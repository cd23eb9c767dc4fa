"""`fastq export`: write the jobs that the words of a filter mean as lines of JSON.

Runs in the main thread of the command, which owns the file while it writes. The lines are those of `client.jobs.export`. A file
is written beside its name and gets the name when it is whole, so none that was cut is taken for an export.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from fastq.cli.search import listing
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import found
from fastq.enqueue.client import Client
from fastq.schema.migrate import migrate

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

EPILOG = f"""\
examples:
  fastq export state:discarded since:7d --output dead.jsonl
  fastq export > jobs.jsonl           all jobs, living and finished
  fastq export -state:completed | fastq import - --raw --database URL

A line is a job: kind, queue, args, options, state, errors, output, times.
Args that are encrypted stay so. It reads some jobs at a time, in no
transaction: one that changes meanwhile is written as it is when its turn
comes. The last line says how many there were.

{listing.WORDS}"""

EVERY = 1_000
"""Jobs between two signs of progress."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    listing.add_filter(parser)
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="write this file [default: stdout]")
    parser.add_argument("--force", action="store_true", help="replace the file if there is one")
    settings.add_database(parser)


def main(options: argparse.Namespace) -> int:
    """Write the jobs."""
    wanted, config = listing.filter_of(options), settings.load(options)
    if options.output is not None and options.output.exists() and not options.force:
        output.note(f"fastq: {options.output} is there already: --force replaces it")
        return 2
    with found(config) as database:
        if database.embedded is not None:
            migrate(database.url, config.schema)
        with (
            Client(config=replace(config, database_url=database.url)) as client,
            _opened(options.output) as stream,
            output.counting("exported", EVERY) as count,
        ):
            jobs = -2  # the head and the end are lines, too
            for line in client.jobs.export(wanted):
                stream.write(line + "\n")
                jobs += 1
                count(max(jobs, 0))
    output.note(f"exported {output.plural(jobs, 'job')}")
    return 0


@contextmanager
def _opened(path: Path | None) -> Iterator[TextIO]:
    """Give the stream to write to; a file has its name when all is written, and is gone if it is not."""
    if path is None:
        yield sys.stdout
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("x", encoding="utf-8", newline="\n") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
