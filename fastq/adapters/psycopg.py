"""psycopg 3: its Connection for `Client`, its AsyncConnection for `AsyncClient`, and the clients' own connections.

Runs in the caller's thread or event loop, one that enqueues or executes a job, inside the caller's transaction. drivers.py,
drivers_async.py and the blocks of `job.transaction()` (work/effects/) call it, by way of the declarations; it keeps nothing.

Invariant: a transaction is begun by the caller's connection, as its autocommit says, and never ended here.

It deliberately does not import psycopg: the pool is its door for the programs that enqueue.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from fastq.adapters.library import AsyncLibrary, Library, Target
from fastq.errors import OptionError
from fastq.postgres.db import ENCODING
from fastq.postgres.pool import pool, pool_async

PORTION = 32
"""Blocks of rows that are made before they are sent on a caller's connection: 4 MB, some 40,000 jobs. A guess; not measured."""


def encoding(conn: Any) -> str:
    """Name the encoding of a connection; ours where it does not tell, as through some poolers."""
    return conn.info.parameter_status("client_encoding") or ENCODING


def begun(conn: Any) -> bool:
    """Tell whether a transaction is open."""
    return bool(conn.info.transaction_status.name != "IDLE")


def transaction(conn: Any) -> Any:
    """Return a transaction, or a savepoint in the one that is open; for connections of both kinds."""
    return conn.transaction()


def copy(conn: Any, target: Target, blocks: Iterator[bytes]) -> None:
    """COPY rows, on a caller's connection in portions.

    The caller may make the jobs from rows that this very connection reads, and during a COPY nothing can be read there. So on
    a caller's connection rows are made a portion at a time, and each portion is a COPY, all in a savepoint or a transaction.
    """
    if isinstance(conn, pool.TimedConnection):  # a connection of ours: nobody else reads on it
        pool.copy(conn, target.statement, blocks)
        return
    portion = list(islice(blocks, PORTION))
    if conn.info.transaction_status.name == "ACTIVE":
        raise OptionError(
            "conn: expected a connection that does nothing else; got one on which the jobs are read by psycopg's stream(), "
            "which leaves no room for another statement: read them with a cursor that has a name, or on another connection"
        )
    if not conn.autocommit and conn.info.transaction_status.name == "IDLE":
        with pool.cursor(conn) as cursor:  # else the transaction that begins now would be ours, and end with us
            cursor.execute("select 1")
    with conn.transaction():
        while portion:
            pool.copy(conn, target.statement, iter(portion))
            portion = list(islice(blocks, PORTION))


async def copy_async(conn: Any, target: Target, blocks: Iterator[bytes]) -> None:
    """COPY rows, in one go: jobs come from plain iterables, which cannot read on an asynchronous connection meanwhile."""
    await pool_async.copy(conn, target.statement, blocks)


LIBRARY = Library(
    package="psycopg",
    classes=frozenset({"Connection"}),
    run=pool.run,
    begun=begun,
    transaction=transaction,
    encoding=encoding,
    copy=copy,
)

ASYNC_LIBRARY = AsyncLibrary(
    package="psycopg",
    classes=frozenset({"AsyncConnection"}),
    run=pool_async.run,
    begun=begun,
    transaction=transaction,
    encoding=encoding,
    copy=copy_async,
)
