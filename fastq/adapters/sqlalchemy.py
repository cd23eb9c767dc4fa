"""SQLAlchemy: connections and sessions for `Client`, and their asynchronous namesakes for `AsyncClient`.

Runs in the caller's thread or event loop, one that enqueues or executes a job, inside the caller's transaction, which
SQLAlchemy begins with the first statement and the caller ends. drivers.py, drivers_async.py and the blocks of
`job.transaction()` (work/effects/) call it, by way of the declarations; it keeps nothing. Below it is a driver: psycopg or
psycopg2, or asyncpg for `AsyncClient`.

It deliberately has no asynchronous functions of its own: SQLAlchemy runs the others within its asynchronous connections.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import Any

from fastq.adapters.library import AsyncLibrary, Library, Parameters, Rows, named
from fastq.errors import OptionError

NO_CURSOR = MappingProxyType({"stream_results": False, "yield_per": None})
"""Execution options of SQLAlchemy: a statement of ours is not to be read through a cursor of the server's, even if the
connection asks for one. The server declares none for a statement that writes."""


def run(conn: Any, text: str, parameters: Parameters) -> Rows:
    """Run a statement."""
    connection = _connection(conn)
    rows: Rows = connection.exec_driver_sql(*_for_dialect(connection.dialect, text, parameters), NO_CURSOR).fetchall()
    return rows


def driver(conn: Any) -> Any:
    """Return the driver's connection."""
    return _connection(conn).connection.driver_connection


def begin(conn: Any) -> None:
    """Let SQLAlchemy begin a transaction, or it would not know of the transaction that a COPY of the driver's begins."""
    _connection(conn).exec_driver_sql("select 1", None, NO_CURSOR)


def begun(conn: Any) -> bool:
    """Tell whether a transaction is open: a session begins one with its first statement, be it only to read."""
    return bool(_unscoped(conn).in_transaction())


def transaction(conn: Any) -> Any:
    """Return a transaction, or a savepoint in the one that is open; on both sides they are begun by the same names."""
    session = _unscoped(conn)
    return session.begin_nested() if session.in_transaction() else session.begin()


def awaited(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """Return a function that runs this one within an asynchronous connection or session."""

    async def run_within(conn: Any, *given: Any) -> Any:
        connection = conn if hasattr(conn, "exec_driver_sql") else await conn.connection()
        return await connection.run_sync(function, *given)

    return run_within


def _unscoped(conn: Any) -> Any:
    """Return the session of a `scoped_session`, which does not tell of its transaction, and anything else itself."""
    return conn if hasattr(conn, "in_transaction") else conn()


def _connection(conn: Any) -> Any:
    """Return the connection of a session, and a connection itself."""
    return conn if hasattr(conn, "exec_driver_sql") else conn.connection()


def _for_dialect(dialect: Any, text: str, parameters: Parameters) -> tuple[str, Any]:
    """Write a statement in the notation of a driver of SQLAlchemy's."""
    if dialect.name == "postgresql" and dialect.paramstyle == "numeric_dollar":  # asyncpg
        return text, parameters
    if dialect.name == "postgresql" and dialect.paramstyle == "pyformat":  # psycopg, psycopg2
        return named(text, parameters)
    raise OptionError(
        f"conn: expected SQLAlchemy with psycopg, psycopg2 or asyncpg; got the driver {dialect.name}+{dialect.driver}"
    )


LIBRARY = Library(
    package="sqlalchemy",
    classes=frozenset({"Connection", "Session", "scoped_session"}),
    run=run,
    begun=begun,
    transaction=transaction,
    driver=driver,
    begin=begin,
)

ASYNC_LIBRARY = AsyncLibrary(
    package="sqlalchemy",
    classes=frozenset({"AsyncConnection", "AsyncSession", "async_scoped_session"}),
    run=awaited(run),
    begun=begun,
    transaction=transaction,
    driver=awaited(driver),
    begin=awaited(begin),
)
