"""`fastq import`: enqueue the jobs of an export, once each.

Runs in the main thread of the command, which owns the file while it reads. The work is that of `client.jobs.import_lines`.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fastq import app
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import found, tell_app
from fastq.enqueue.client import Client
from fastq.errors import OptionError
from fastq.schema.migrate import migrate

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from fastq.admin.exports import Imported
    from fastq.config import Config

EPILOG = """\
examples:
  fastq import jobs.jsonl --app app.jobs:registry --dry-run
                                what is wrong, line by line; changes nothing
  fastq import jobs.jsonl --app app.jobs:registry
                                args are read as your workers will read them
  fastq import jobs.jsonl --raw         any args that are a JSON object
  fastq import dead.jsonl --raw --finished
                                finished jobs, too, as new ones
  zcat jobs.jsonl.gz | fastq import - --raw --map ids.tsv

Jobs that have not ended become new jobs with new ids: running ones available,
those that wait for a time with that time. Each job is imported once, however
often the command is given: what was interrupted goes on. Steps of workflows
are left out.

exit codes: 0 done, 1 some lines are no jobs that could be enqueued, 2 usage,
3 no database
"""

EVERY = 1_000
"""Lines between two signs of progress."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", help="the export; - reads it from stdin")
    parser.add_argument("--app", metavar="TARGET", help="your registry, as MODULE:ATTRIBUTE, which the args are checked by")
    parser.add_argument("--app-dir", type=Path, metavar="FOLDER", help="where to import it from [default: the current directory]")
    parser.add_argument("--raw", action="store_true", help="take any args that are a JSON object; wrong ones fail in the worker")
    parser.add_argument("--finished", action="store_true", help="jobs that have ended, too: they run once more, as new jobs")
    parser.add_argument("--dry-run", action="store_true", help="enqueue nothing, and say what is wrong")
    parser.add_argument("--map", type=Path, metavar="FILE", help="append the old and the new id of each job, with a tab between")
    parser.add_argument("--json", action="store_true", help="print JSON")
    settings.add_database(parser)


def main(options: argparse.Namespace) -> int:
    """Enqueue the jobs."""
    if bool(options.app) == options.raw:
        raise OptionError("expected --app TARGET, to check the args by your registry, or --raw, to take them as they are")
    config = settings.load(options)
    told = _imported(options, config)
    if options.json:
        output.json(told)
    else:
        _tell(told, options)
    return 1 if told.wrong else 0


def _imported(options: argparse.Namespace, config: Config) -> Imported:
    registry = None
    if options.app:
        tell_app(config)
        registry = app.load(options.app, options.app_dir)
    with found(config) as database:
        if database.embedded is not None:
            migrate(database.url, config.schema)
        with (
            Client(config=replace(config, database_url=database.url)) as client,
            _lines(options.file) as stream,
            _mapping(options.map) as told,
            output.counting("read", EVERY) as count,
        ):
            how: dict[str, Any] = {"finished": options.finished, "dry_run": options.dry_run, "told": told}
            return client.jobs.import_lines(_counted(stream, count), registry=registry, **how)


def _lines(name: str) -> Any:
    return nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb")


def _counted(stream: BinaryIO, count: Callable[[int], None]) -> Iterator[bytes]:
    for number, line in enumerate(stream, 1):
        count(number)
        yield line


@contextmanager
def _mapping(path: Path | None) -> Iterator[Callable[[int | str, int], object] | None]:
    """Give the function that writes the ids of a job."""
    if path is None:
        yield None
        return
    with path.open("a", encoding="utf-8") as stream:
        yield lambda old, new: stream.write(f"{old}\t{new}\n")


def _tell(told: Imported, options: argparse.Namespace) -> None:
    for line, reason in told.faults:
        output.note(f"line {line}: {reason}")
    if told.wrong > len(told.faults):
        output.note(f"and {told.wrong - len(told.faults):,} more lines")
    done = "would be" if options.dry_run else "was" if told.jobs == 1 else "were"
    output.out(f"{output.plural(told.jobs, 'job')} {done} imported")
    for count, why in (
        (told.before, "imported before"),
        (told.held, "unique, and another job holds the key: import them again when it has ended"),
        (told.finished, "that have ended: --finished runs them once more"),
        (told.cancelled, "that were asked to end"),
        (told.steps, "of workflows, which have no place outside of them"),
    ):
        if count:
            output.note(f"left out {output.plural(count, 'job')} {why}")
    if not told.whole:
        output.note("the file has no last line of an export: it was cut, or is still being written")
