"""Change jobs at once, over a connection of the caller's, for an operator: the functions of the modules beside this one.

They run in the thread that calls them: the main thread of `fastq jobs`, `operations` and `audit`, or a thread of a program that
uses `fastq.admin.bulk`. They keep nothing; the connection is the caller's (admin/session.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastq.admin.bulk import audits, operations, single
from fastq.admin.bulk.edits import Edit
from fastq.admin.changes import DEADLOCK_TRIES
from fastq.admin.session import answered
from fastq.postgres import db, hints, sqlstate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fastq.admin.bulk.audits import AuditRow
    from fastq.admin.bulk.operations import OperationRow, Preview
    from fastq.admin.changes import Change
    from fastq.admin.search import JobFilter
    from fastq.admin.session import Asking
    from fastq.postgres.db import Connection


def change_jobs(connection: Connection, verb: str, ids: Iterable[int], by: str | None = None) -> list[Change]:
    """Cancel, retry or delete jobs, with a record in the audit."""
    given = [*ids]
    return _whole(connection, lambda hinting: single.changing(verb, given, by, hints=hinting))


def edit_jobs(
    connection: Connection, verb: str, ids: Iterable[int], changes: Mapping[str, Any], by: str | None = None
) -> list[Change]:
    """Change values of jobs that do not run, with a record in the audit."""
    given, edit = [*ids], Edit.of(changes, many=False)
    return _whole(connection, lambda hinting: single.editing(verb, given, edit, by, hints=hinting))


def _whole(connection: Connection, asking: Callable[[bool], Asking[list[Change]]]) -> list[Change]:
    """Run a change as one transaction: again where it was ended for others, and without hints where there is no room for them."""
    hinting, tries = True, DEADLOCK_TRIES
    while True:
        tries -= 1
        try:
            return answered(connection, asking(hinting), whole=True)
        except db.Error as error:
            if hints.refused(error):
                hinting = False
            elif not (tries and (sqlstate.deadlocked(error) or sqlstate.serialization_failed(error))):
                raise


def preview_operation(connection: Connection, verb: str, given: JobFilter | str) -> Preview:
    """Say which jobs an operation would be about."""
    return answered(connection, operations.previewing(verb, given))


def make_operation(
    connection: Connection, verb: str, given: JobFilter | str, changes: Mapping[str, Any] | None = None, by: str | None = None
) -> OperationRow:
    """Make an operation, which the schema's leader works through."""
    text = Edit.of(changes, many=True).json() if changes else "{}"
    return answered(connection, operations.making(verb, given, text, by))


def list_operations(connection: Connection, limit: int = 50, number: int | None = None) -> list[OperationRow]:
    """Return the newest operations, or one."""
    return answered(connection, operations.listing(limit, number))


def cancel_operation(connection: Connection, number: int) -> bool:
    """Ask for the end of an operation; False if there is none that has not ended."""
    return answered(connection, operations.cancelling(number))


def list_audit(connection: Connection, limit: int = 50) -> list[AuditRow]:
    """Return the newest changes by operators."""
    return answered(connection, audits.audited(limit))
