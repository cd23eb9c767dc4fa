"""Run a statement on a connection that the caller owns, by the library that it comes from: the one way from `AsyncClient` to it.

Runs in the caller's event loop, inside the caller's transaction, which the library begins in its own way where none has begun and
which is never ended here: a job that is enqueued is there when that transaction commits, and gone when it does not.

The clients, singletons, blocks of `job.transaction()` and tests that work jobs call it. It keeps nothing: the connection is the
caller's. It deliberately knows no library by name; libraries.py has the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastq.adapters.libraries import known, library_of
from fastq.adapters.library import AsyncLibrary, Parameters, Rows, Target, unknown
from fastq.postgres.db import ENCODING


async def run(conn: Any, text: str, parameters: Parameters) -> Rows:
    """Run a statement in the transaction of a connection or session."""
    return await known(conn, AsyncLibrary).run(conn, text, parameters)


async def encoding(conn: Any) -> str:
    """Name the encoding of a connection as Postgres does; ours where its driver does not tell."""
    driver = await _driver(conn, known(conn, AsyncLibrary))
    library = library_of(driver)
    if library is None or library.encoding is None:
        return str(getattr(driver, "encoding", ENCODING))  # psycopg2 tells it so
    return library.encoding(driver)


async def copy(conn: Any, schema: str, columns: list[str], blocks: Iterator[bytes]) -> None:
    """COPY rows into `job`, in the transaction of a connection or session."""
    library = known(conn, AsyncLibrary, AsyncLibrary.expected_by_copy)
    if library.begin is not None:
        await library.begin(conn)
    driver = await _driver(conn, library)
    found = library_of(driver)
    if not isinstance(found, AsyncLibrary) or found.copy is None:
        raise unknown(driver, AsyncLibrary.expected_by_copy)
    await found.copy(driver, Target(schema, columns), blocks)


async def _driver(conn: Any, library: AsyncLibrary) -> Any:
    """Return the driver's connection below one of the library's."""
    return conn if library.driver is None else await library.driver(conn)
