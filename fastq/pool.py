"""Open the clients' own connections, and the cursors that read what our statements answer on anybody's.

Runs in the enqueuing process, in its threads or its event loop. What db.py is to fastq's processes this is to the
applications that enqueue: a pool instead of one session, the role's own settings but for DateStyle, and no watchdog.

Invariant: a pooled connection is in autocommit mode, so nothing of ours is open between two calls, and a connection that the
server has closed is not handed out: an idle connection has nothing to read, so one that has is looked at.
"""

from __future__ import annotations

import select
from typing import Any

import psycopg
import psycopg_pool
from psycopg.rows import TupleRow, tuple_row

from fastq.config import POOLER_ADVICE, migrate_command
from fastq.db import (
    CONNECT_TIMEOUT,
    ENCODING,
    ISO_DATES,
    first_line,
    refused_encoding,
    undefined_schema,
    writes_odd_dates,
)
from fastq.errors import ConfigError, DatabaseUnavailable, FastqError, MigrationError
from fastq.urls import check_url

Pool = psycopg_pool.ConnectionPool[psycopg.Connection[TupleRow]]
AsyncPool = psycopg_pool.AsyncConnectionPool[psycopg.AsyncConnection[TupleRow]]
Failed = (psycopg.Error, psycopg_pool.PoolTimeout, psycopg_pool.PoolClosed)

NOT_OURS_ALONE = (psycopg.errors.InvalidSqlStatementName, psycopg.errors.DuplicatePreparedStatement)
"""A prepared statement is missing, or somebody else's has its name: a pooler lets others use the session too."""

MAX_SIZE = 8
"""Connections per process: an enqueue takes about a millisecond, so these carry some thousands a second."""

WAIT = 10.0
"""Seconds to wait for one of them; as long as for a new one."""


def open_pool(url: str, *, prepare: bool) -> Pool:
    """Open a pool, after a first connection that tells at once what is wrong with the URL."""
    check_url(url)
    settings = _settings(prepare)
    with psycopg.Connection.connect(url, **settings) as first:
        _check_encoding(first)
    return psycopg_pool.ConnectionPool(
        url,
        kwargs=settings,
        min_size=0,
        max_size=MAX_SIZE,
        timeout=WAIT,
        configure=_configure,
        check=_check,
        open=True,
        name="fastq client",
    )


async def open_async_pool(url: str, *, prepare: bool) -> AsyncPool:
    """Open a pool for the running event loop, as `open_pool` does."""
    check_url(url)
    settings = _settings(prepare)
    async with await psycopg.AsyncConnection.connect(url, **settings) as first:
        _check_encoding(first)
    pool: AsyncPool = psycopg_pool.AsyncConnectionPool(
        url,
        kwargs=settings,
        min_size=0,
        max_size=MAX_SIZE,
        timeout=WAIT,
        configure=_configure_async,
        check=_check_async,
        open=False,
        name="fastq client",
    )
    await pool.open()
    return pool


def cursor(connection: psycopg.Connection[Any]) -> psycopg.Cursor[TupleRow]:
    """Make a cursor that takes $1 and answers with tuples, whatever its connection was told to make."""
    return psycopg.RawCursor(connection, row_factory=tuple_row)


def async_cursor(connection: psycopg.AsyncConnection[Any]) -> psycopg.AsyncCursor[TupleRow]:
    """Make an asynchronous cursor of the same sort."""
    return psycopg.AsyncRawCursor(connection, row_factory=tuple_row)


def explained(error: Exception, schema: str) -> Exception:
    """Turn an error of a connection of ours into the project's, where that says more."""
    if isinstance(error, FastqError):
        return error
    if undefined_schema(error):
        return MigrationError(f"the schema '{schema}' has no fastq tables, or old ones: run {migrate_command(schema)}")
    if isinstance(error, NOT_OURS_ALONE):
        return ConfigError(f"sessions of the database are shared by a pooler ({first_line(error)}): {POOLER_ADVICE}")
    if isinstance(error, psycopg_pool.PoolTimeout):
        return DatabaseUnavailable(
            f"no connection within {WAIT:g} s: all {MAX_SIZE} of this client are in use, or the database takes no new ones"
        )
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return DatabaseUnavailable(first_line(error))
    return error


def _settings(prepare: bool) -> dict[str, Any]:
    return {
        "autocommit": True,
        "client_encoding": ENCODING,
        "application_name": "fastq client",
        "connect_timeout": CONNECT_TIMEOUT,
        "prepare_threshold": 0 if prepare else None,
    }


def _check_encoding(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    if refusal := refused_encoding(connection.info):
        raise refusal


def _configure(connection: psycopg.Connection[Any]) -> None:
    if writes_odd_dates(connection.info):
        connection.execute(ISO_DATES)


async def _configure_async(connection: psycopg.AsyncConnection[Any]) -> None:
    if writes_odd_dates(connection.info):
        await connection.execute(ISO_DATES)


def _check(connection: psycopg.Connection[Any]) -> None:
    if _has_something_to_read(connection.fileno()):
        Pool.check_connection(connection)


async def _check_async(connection: psycopg.AsyncConnection[Any]) -> None:
    if _has_something_to_read(connection.fileno()):
        await AsyncPool.check_connection(connection)


def _has_something_to_read(descriptor: int) -> bool:
    """Tell whether the server has closed an idle connection, or sent something: a microsecond instead of a round trip."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
