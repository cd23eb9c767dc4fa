"""`fastq migrate`: bring the schema to the version of this program.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse

from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import found
from fastq.errors import OptionError
from fastq.schema import migrate

EPILOG = """\
examples:
  fastq migrate --database postgresql://owner@db/app
  fastq migrate --dry-run         say what is missing, change nothing
  fastq migrate --sql             print the SQL, for those who migrate with a
                                  tool of their own
  fastq migrate --sql --from 1    the same for a schema that has version 1:
                                  only what came later
  fastq migrate --schema jobs     into a schema of another name

Safe to run by any number of programs at once, and again: it does what is
missing, each step in a transaction of its own.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    how.add_argument("--sql", action="store_true", help="print the SQL of all migrations; needs no database")
    parser.add_argument(
        "--from", dest="from_version", type=_version, metavar="N", help="with --sql: only what comes after version N"
    )
    parser.add_argument("--json", action="store_true", help="print JSON: the schema, and the names of the migrations")
    settings.add_database(parser)


def main(options: argparse.Namespace) -> int:
    """Migrate, or list the migrations that would run."""
    config = settings.load(options)
    if options.from_version is not None and not options.sql:
        raise OptionError("--from goes with --sql; without it the database itself says which version it has")
    if options.sql:
        output.out(migrate.script(config.schema, options.from_version or 0))
        return 0
    with found(config, create=True) as database:
        names = migrate.migrate(database.url, config.schema, options.dry_run, output.note)
    if options.json:
        output.json({"schema": config.schema, "applied" if not options.dry_run else "missing": names})
    elif names:
        output.out(f"schema '{config.schema}' {'lacks' if options.dry_run else 'has now'}: {', '.join(names)}")
    else:
        output.out(f"schema '{config.schema}' is up to date")
    return 0


def _version(text: str) -> int:
    known = migrate.migrations()[-1].version
    if not text.isdecimal() or int(text) > known:
        raise argparse.ArgumentTypeError(f"expected the version that the schema has, 0 to {known}; got {text!r}")
    return int(text)
