"""Explain an error of the database to a program that calls a client, or to a job in `job.transaction()`, with the remedy.

Runs where the error is met, and keeps nothing: in the thread or event loop that calls a client, or in the one that executes a
job, in a block of `job.transaction()`. On a client's own connection the error becomes one of the project's. On a caller's
connection, and in such a block, it stays the error of the library, which the caller's code expects, and is given a note.
"""

from __future__ import annotations

from fastq.config import migrate_command
from fastq.errors import ConfigError, DatabaseUnavailable, FastqError, MigrationError
from fastq.postgres.db import Lost, first_line
from fastq.postgres.sqlstate import not_ours_alone, too_slow, undefined_schema
from fastq.postgres.urls import POOLER_ADVICE


def without_tables(schema: str) -> str:
    """Make the message for a schema without the tables that the statements expect."""
    return f"the schema '{schema}' has no fastq tables, or old ones: run {migrate_command(schema)}"


def explained(error: Exception, schema: str) -> Exception:
    """Turn an error of a connection of ours into the project's, where that says more."""
    if isinstance(error, FastqError):
        return error
    if undefined_schema(error):
        return MigrationError(without_tables(schema))
    if not_ours_alone(error):
        return ConfigError(f"sessions of the database are shared by a pooler ({first_line(error)}): {POOLER_ADVICE}")
    if too_slow(error):
        return DatabaseUnavailable(
            f"the server ended the statement ({first_line(error)}), and nothing was stored: it was slow, or waited for a lock, "
            "for nearly as long as FASTQ_STATEMENT_TIMEOUT allows"
        )
    if isinstance(error, Lost):
        return DatabaseUnavailable(first_line(error))
    return error


class Remedy:
    """Add the remedy as a note to an error of a caller's connection, if the schema lacks our tables.

    Used as `with`, by any number of threads: it has no state that changes.
    """

    def __init__(self, schema: str) -> None:
        self._schema = schema

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Look at the error, and at the driver's own below that of SQLAlchemy or Django."""
        if error is None:
            return
        for found in (error, getattr(error, "orig", None), error.__cause__):
            if found is not None and undefined_schema(found) and not _of_a_trigger(found):
                error.add_note(without_tables(self._schema))
                return


def _of_a_trigger(error: BaseException) -> bool:
    """Tell whether an error comes from within a function, and so from tables of others; asyncpg tells it of the error itself."""
    return bool(getattr(getattr(error, "diag", error), "context", None))
