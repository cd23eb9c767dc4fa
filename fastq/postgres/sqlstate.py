"""Tell the meaning of a server's error by its SQLSTATE; no other module compares these but hints.py, which knows one more.

Pure functions over any exception, called in each thread that runs statements; an exception that is none of the server's has no
code. It deliberately decides nothing: the code that ran the statement does.
"""

from __future__ import annotations

from fastq.postgres import hints

NO_ROWS_FAULT = {"08", "0A", "25", "26", "28", "3D", "3F", "40", "53", "57", "58", "F0", "XX"}
"""Classes of errors that say nothing about a row: connection, transaction, privileges of the session, resources, the server."""


def _state(error: BaseException) -> str:
    """Return the code that the server gave; '' for an error that is none of the server's."""
    return getattr(error, "sqlstate", None) or ""


def lock_not_available(error: BaseException) -> bool:
    """Tell whether a lock did not come within lock_timeout, or at once where it was not to be waited for."""
    return _state(error) == "55P03"


def too_slow(error: BaseException) -> bool:
    """Tell whether a statement ran into a time limit: statement_timeout (as a cancellation), or that of a lock."""
    return _state(error) == "57014" or lock_not_available(error)


def deadlocked(error: BaseException) -> bool:
    """Tell whether the statement was ended since it and others waited for one another."""
    return _state(error) == "40P01"


def serialization_failed(error: BaseException) -> bool:
    """Tell whether somebody else was first, where a session that we may not pin has a stricter isolation."""
    return _state(error) == "40001"


def taken_by_others(error: BaseException) -> bool:
    """Tell whether a statement met rows that somebody else was changing: it may pass if it steps over them."""
    return lock_not_available(error) or deadlocked(error) or serialization_failed(error)


def row_refused(error: BaseException) -> bool:
    """Return True if a single row may have caused this error, so that splitting the batch can help."""
    state = _state(error)
    if state == "42501" or undefined_schema(error):  # a privilege, a table: ours for any row, or a trigger's own for some
        return getattr(getattr(error, "diag", None), "context", None) is not None
    return bool(state) and state[:2] not in NO_ROWS_FAULT and not too_slow(error) and not hints.refused(error)


def answered(error: BaseException) -> bool:
    """Tell whether the server has said no; without an answer nobody knows whether the statement was committed."""
    return bool(_state(error))


def forbidden(error: BaseException) -> bool:
    """Tell whether the role lacks a privilege for the statement."""
    return _state(error) == "42501"


def number_to_come(error: BaseException) -> bool:
    """Tell whether the server was asked about a transaction with a number that it has not come to."""
    return _state(error) == "22023"


def passes(error: BaseException) -> bool:
    """Tell whether a statement may go through on another connection: this one was lost, or the server lacked something."""
    state = _state(error)
    return not state or state[:2] in {"08", "40", "53", "57"} or lock_not_available(error)


def undefined_schema(error: BaseException) -> bool:
    """Tell whether the statement failed because the schema is not there or not migrated."""
    return _state(error) in {"3F000", "42P01", "42703", "42883", "42704"}


def not_ours_alone(error: BaseException) -> bool:
    """Tell whether a prepared statement is missing, or somebody else's has its name: a pooler lets others use the session too."""
    return _state(error) in {"26000", "42P05"}
