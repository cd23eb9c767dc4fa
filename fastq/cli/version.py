"""`fastq version`: the versions of fastq and of all that it stands on here, for a bug report.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform

from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import found
from fastq.config import migrate_command
from fastq.errors import FastqError
from fastq.masked import masked
from fastq.postgres import db
from fastq.schema.migrate import current_version
from fastq.work.codec import codec

EPILOG = """\
examples:
  fastq version            what a bug report should hold
  fastq version --json
"""


def program_version() -> str:
    """Return the version of the installed distribution."""
    return importlib.metadata.version("fastq-jobs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    settings.add_database(parser)


def main(options: argparse.Namespace) -> int:
    """Print the versions; a missing database is shown as such, and is no failure."""
    config = settings.load(options)
    versions: dict[str, object] = {
        "fastq": program_version(),
        "python": f"{platform.python_version()} ({platform.python_implementation()}, {platform.machine()})",
        "system": f"{platform.system()} {platform.release()}",
        **db.driver(),
        "codec": codec.use(config.codec),
    }
    try:
        with found(config) as database:
            connection = db.operators_session(config, database.url, "version")
            try:
                versions |= {"database": database.describe(connection), "connect": database.psql}
                versions["schema"] = _schema(connection)
            finally:
                connection.close()
    except (FastqError, db.Error) as error:
        missing = "schema" if "database" in versions else "database"
        versions[missing] = f"none ({masked(db.first_line(error))})"
    if options.json:
        output.json(versions)
    else:
        output.fields(versions.items())
    return 0


def _schema(connection: db.Connection) -> str:
    version = current_version(connection)
    known = f"version {version}" if version else f"not migrated: run {migrate_command(connection.schema)}"
    return f"{connection.schema}, {known}"
