# Made by tools/twins.py from adapters/drivers_async.py: change that file, then run `make twins`.
"""Run a statement on a connection that the caller owns, by the library that it comes from: the one way from `Client` to it.

Runs in the caller's thread, inside the caller's transaction, which the library begins in its own way where none has begun and
which is never ended here: a job that is enqueued is there when that transaction commits, and gone when it does not.

The clients, singletons, blocks of `job.transaction()` and tests that work jobs call it. It keeps nothing: the connection is the
caller's. It deliberately knows no library by name; libraries.py has the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastq.adapters.libraries import known, library_of
from fastq.adapters.library import Library, Parameters, Rows, Target, unknown
from fastq.postgres.db import ENCODING


def run(conn: Any, text: str, parameters: Parameters) -> Rows:
    """Run a statement in the transaction of a connection or session."""
    return known(conn, Library).run(conn, text, parameters)


def encoding(conn: Any) -> str:
    """Name the encoding of a connection as Postgres does; ours where its driver does not tell."""
    driver = _driver(conn, known(conn, Library))
    library = library_of(driver)
    if library is None or library.encoding is None:
        return str(getattr(driver, "encoding", ENCODING))  # psycopg2 tells it so
    return library.encoding(driver)


def copy(conn: Any, schema: str, columns: list[str], blocks: Iterator[bytes]) -> None:
    """COPY rows into `job`, in the transaction of a connection or session."""
    library = known(conn, Library, Library.expected_by_copy)
    if library.begin is not None:
        library.begin(conn)
    driver = _driver(conn, library)
    found = library_of(driver)
    if not isinstance(found, Library) or found.copy is None:
        raise unknown(driver, Library.expected_by_copy)
    found.copy(driver, Target(schema, columns), blocks)


def _driver(conn: Any, library: Library) -> Any:
    """Return the driver's connection below one of the library's."""
    return conn if library.driver is None else library.driver(conn)
