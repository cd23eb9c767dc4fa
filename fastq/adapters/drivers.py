"""Run a statement on a connection that the caller owns: psycopg, SQLAlchemy, Django, asyncpg.

Runs in the caller's thread or event loop, inside the caller's transaction, which it begins in the library's own way where
none has begun and never ends: what is enqueued is there when that transaction commits, and gone when it does not.

What a connection is, is told by the name of the package that its class, or a base of it, comes from; none of these
libraries is imported here. Each of them takes parameters in a notation of its own, so `$1` is rewritten where it must
be; a statement has no '%' of its own. (psycopg gets bytes: its types want the text of a statement to be a literal.)
"""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any

from fastq.adapters.call import Call
from fastq.errors import OptionError
from fastq.postgres import pool
from fastq.postgres.db import ENCODING

Rows = Sequence[Sequence[Any]]

PORTION = 32
"""Blocks of rows that are made before they are sent on a caller's connection: 4 MB, some 40,000 jobs. A guess; not measured."""

NO_CURSOR = MappingProxyType({"stream_results": False, "yield_per": None})
"""Execution options of SQLAlchemy: a statement of ours is not to be read through a cursor of the server's, whatever options the
connection has. The server declares none for a statement that writes."""

_ONE_BYTE = ("SQLASCII", "LATIN", "ISO8859", "WIN", "KOI8")
"""The encodings, by the beginnings of their names, in which Python and Postgres agree; drivers refuse other characters."""

SYNC = "a psycopg, SQLAlchemy or Django connection, or a SQLAlchemy session"
ASYNC = "a psycopg AsyncConnection, an asyncpg connection, or an AsyncConnection or AsyncSession of SQLAlchemy"


def run(conn: Any, text: str, parameters: tuple[object, ...]) -> Rows:
    """Run a statement in the transaction of a connection or session."""
    library = library_of(conn)
    if library == "psycopg":
        with pool.cursor(conn) as cursor:
            return cursor.execute(text.encode(), parameters or None).fetchall()
    if library == "sqlalchemy":
        connection = conn if hasattr(conn, "exec_driver_sql") else conn.connection()
        rows: Rows = connection.exec_driver_sql(*_for_dialect(connection.dialect, text, parameters), NO_CURSOR).fetchall()
        return rows
    if library == "django" and conn.vendor == "postgresql":
        with conn.cursor() as cursor:
            cursor.execute(*_named(text, parameters))
            return list(cursor.fetchall())
    raise _unknown(conn, SYNC, "AsyncClient" if library in _ASYNC_ONLY else "")


async def run_async(conn: Any, text: str, parameters: tuple[object, ...]) -> Rows:
    """Run a statement in the transaction of an asynchronous connection or session."""
    library = library_of(conn)
    if library == "psycopg async":
        async with pool.async_cursor(conn) as cursor:
            return await (await cursor.execute(text.encode(), parameters or None)).fetchall()
    if library == "asyncpg":
        fetched: Rows = await conn.fetch(text, *parameters)
        return fetched
    if library == "sqlalchemy async":
        connection = conn if hasattr(conn, "exec_driver_sql") else await conn.connection()
        executed = await connection.exec_driver_sql(*_for_dialect(connection.dialect, text, parameters), NO_CURSOR)
        rows: Rows = executed.fetchall()
        return rows
    raise _unknown(conn, ASYNC, "Client" if library else "")


def suited(conn: Any, call: Call) -> Call:
    """Return a call as a connection can carry it, whatever encoding that has.

    Drivers write text in the connection's encoding by Python's codecs, and the server reads it by tables of its own. In those of
    East Asia the two differ: a yen sign arrives as a backslash, and the JSON says something else. ASCII is the same in all.
    """
    return call if call.is_ascii else _in_encoding(_encoding(_raw(conn)), call)


async def suited_async(conn: Any, call: Call) -> Call:
    """Return a call as an asynchronous connection can carry it."""
    if call.is_ascii:
        return call
    raw = conn
    if library_of(conn) == "sqlalchemy async":
        connection = conn if hasattr(conn, "exec_driver_sql") else await conn.connection()
        raw = (await connection.get_raw_connection()).driver_connection
    return _in_encoding(_encoding(raw), call)


def _raw(conn: Any) -> Any:
    """Return the driver's own connection."""
    library = library_of(conn)
    if library == "sqlalchemy":
        connection = conn if hasattr(conn, "exec_driver_sql") else conn.connection()
        return connection.connection.driver_connection
    if library == "django":
        conn.ensure_connection()
        return conn.connection
    return conn


def _encoding(raw: Any) -> str:
    """Name the encoding of a driver's connection as Postgres does; ours where it does not tell, as through some poolers."""
    library = library_of(raw)
    if library in ("psycopg", "psycopg async"):
        return raw.info.parameter_status("client_encoding") or ENCODING
    if library == "asyncpg":
        return str(getattr(raw.get_settings(), "client_encoding", ENCODING))
    return str(getattr(raw, "encoding", ENCODING))  # psycopg2


def _in_encoding(encoding: str, call: Call) -> Call:
    name = re.sub(r"[^A-Z0-9]", "", encoding.upper())
    if name == ENCODING:
        return call
    tag = call.odd_tag()
    if tag is not None and not name.startswith(_ONE_BYTE):
        raise OptionError(
            f"tag {tag!r}: expected ASCII, since your connection's client_encoding is {encoding}, in which other characters may "
            f"arrive as something else; set it to {ENCODING}"
        )
    return call.in_ascii()


def copy(conn: Any, schema: str, columns: list[str], blocks: Iterator[bytes]) -> None:
    """COPY rows into `job`; of the libraries with a choice of drivers, psycopg 3 is the one that can.

    The caller may make the jobs from what he reads on this very connection, and during a COPY nothing can be read there. So on
    a connection of his, rows are made a portion at a time, and each portion is a COPY, all in a savepoint or a transaction.
    """
    library = library_of(conn)
    if library == "sqlalchemy":
        connection = conn if hasattr(conn, "exec_driver_sql") else conn.connection()
        connection.exec_driver_sql("select 1", None, NO_CURSOR)  # or it would not know of the transaction that COPY begins
    raw = _raw(conn)
    if library_of(raw) != "psycopg":
        raise _unknown(raw, "a psycopg 3 connection, which COPY needs,", "AsyncClient" if library in _ASYNC_ONLY else "")
    statement = copy_statement(schema, columns)
    if isinstance(raw, pool.TimedConnection):  # a connection of ours: nobody else reads on it
        _copy_once(raw, statement, blocks)
        return
    portion = list(islice(blocks, PORTION))
    if raw.info.transaction_status.name == "ACTIVE":
        raise OptionError(
            "conn: expected a connection that does nothing else; got one on which the jobs are read by psycopg's stream(), "
            "which leaves no room for another statement: read them with a cursor that has a name, or on another connection"
        )
    if not raw.autocommit and raw.info.transaction_status.name == "IDLE":
        with pool.cursor(raw) as cursor:  # else what begins now would be a transaction of ours, and end with us
            cursor.execute("select 1")
    with raw.transaction():
        while portion:
            _copy_once(raw, statement, iter(portion))
            portion = list(islice(blocks, PORTION))


def _copy_once(raw: Any, statement: bytes, blocks: Iterator[bytes]) -> None:
    with pool.cursor(raw) as cursor, cursor.copy(statement) as sink:
        for block in blocks:
            sink.write(block)


async def copy_async(conn: Any, schema: str, columns: list[str], blocks: Iterator[bytes]) -> None:
    """COPY rows into `job` on an asynchronous connection of psycopg or asyncpg, SQLAlchemy's too."""
    library, raw = library_of(conn), conn
    if library == "sqlalchemy async":
        connection = conn if hasattr(conn, "exec_driver_sql") else await conn.connection()
        await connection.exec_driver_sql("select 1", None, NO_CURSOR)
        raw = (await connection.get_raw_connection()).driver_connection
    driver = library_of(raw)
    if driver == "asyncpg":
        await raw.copy_to_table("job", source=_each(blocks), columns=columns, schema_name=schema, encoding=ENCODING)
    elif driver == "psycopg async":
        async with pool.async_cursor(raw) as cursor, cursor.copy(copy_statement(schema, columns)) as sink:
            for block in blocks:
                await sink.write(block)
    else:
        raise _unknown(conn, ASYNC, "Client" if driver else "")


def copy_statement(schema: str, columns: list[str]) -> bytes:
    """Return the COPY; the names are the configuration's, which has checked them, and our own.

    It tells the rows' encoding: the drivers pass the bytes on as they are, and the connection's may be another.
    """
    return f"copy \"{schema}\".job ({', '.join(columns)}) from stdin (encoding '{ENCODING}')".encode()


def library_of(conn: Any) -> str:
    """Name the library that a connection comes from, and whether it is asynchronous; "" if it is none of ours."""
    cls: Any = type(conn)  # a type is hashable; its type does not say so
    return _library_of_type(cls)


@functools.lru_cache(maxsize=128)  # programs have a handful of such types
def _library_of_type(cls: type) -> str:
    for base in cls.__mro__:
        module, name = base.__module__, base.__qualname__
        if module.partition(".")[0] == "psycopg" and name in ("Connection", "AsyncConnection"):
            return "psycopg" if name == "Connection" else "psycopg async"
        if module.startswith("sqlalchemy.ext.asyncio."):
            return "sqlalchemy async" if name in _SQLALCHEMY_ASYNC else ""
        if module.startswith("sqlalchemy."):
            return "sqlalchemy" if name in _SQLALCHEMY else ""
        if module.startswith("django.") and name in ("ConnectionProxy", "BaseDatabaseWrapper"):
            return "django"
        if module.startswith("asyncpg.") and name in ("Connection", "PoolConnectionProxy"):
            return "asyncpg"
    return ""


_SQLALCHEMY = {"Connection", "Session", "scoped_session"}
_SQLALCHEMY_ASYNC = {"AsyncConnection", "AsyncSession", "async_scoped_session"}
_ASYNC_ONLY = {"psycopg async", "sqlalchemy async", "asyncpg"}


def _unknown(conn: object, expected: str, other: str) -> OptionError:
    cls = type(conn)
    hint = f"; that one is for {other}" if other else ""
    return OptionError(f"conn: expected {expected} of Postgres; got a {cls.__module__}.{cls.__qualname__}{hint}")


def _for_dialect(dialect: Any, text: str, parameters: tuple[object, ...]) -> tuple[str, Any]:
    """Write a statement in the notation of a SQLAlchemy driver."""
    if dialect.name == "postgresql" and dialect.paramstyle == "numeric_dollar":  # asyncpg
        return text, parameters
    if dialect.name == "postgresql" and dialect.paramstyle == "pyformat":  # psycopg, psycopg2
        return _named(text, parameters)
    raise OptionError(
        f"conn: expected SQLAlchemy with psycopg, psycopg2 or asyncpg; got the driver {dialect.name}+{dialect.driver}"
    )


def _named(text: str, parameters: tuple[object, ...]) -> tuple[str, dict[str, object]]:
    """Write $1 as %(p1)s."""
    return _pyformat(text), {f"p{number}": value for number, value in enumerate(parameters, 1)}


@functools.lru_cache(maxsize=64)  # a handful of statements, in as many schemas as a program has clients
def _pyformat(text: str) -> str:
    return re.sub(r"\$(\d+)", r"%(p\1)s", text)


async def _each(blocks: Iterator[bytes]) -> AsyncIterator[bytes]:
    for block in blocks:
        yield block
