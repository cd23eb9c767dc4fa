"""asyncpg: its connections, and those that its pool lends, for `AsyncClient`.

Runs in the caller's event loop, one that enqueues or executes a job, inside the caller's transaction if there is one; else each
statement is one. drivers_async.py and the blocks of `job.transaction()` (work/effects/) call the functions, by way of the
declaration; they keep nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from fastq.adapters.library import AsyncLibrary, Parameters, Rows, Target
from fastq.postgres.db import ENCODING


async def run(conn: Any, text: str, parameters: Parameters) -> Rows:
    """Run a statement."""
    rows: Rows = await conn.fetch(text, *parameters)
    return rows


def begun(conn: Any) -> bool:
    """Tell whether a transaction is open."""
    return bool(conn.is_in_transaction())


def transaction(conn: Any) -> Any:
    """Return a transaction, or a savepoint in the one that is open."""
    return conn.transaction()


def encoding(conn: Any) -> str:
    """Name the encoding of a connection; ours where it does not tell, as through some poolers."""
    return str(getattr(conn.get_settings(), "client_encoding", ENCODING))


async def copy(conn: Any, target: Target, blocks: Iterator[bytes]) -> None:
    """COPY rows."""
    await conn.copy_to_table("job", source=_each(blocks), columns=target.columns, schema_name=target.schema, encoding=ENCODING)


async def _each(blocks: Iterator[bytes]) -> AsyncIterator[bytes]:
    for block in blocks:
        yield block


ASYNC_LIBRARY = AsyncLibrary(
    package="asyncpg",
    classes=frozenset({"Connection", "PoolConnectionProxy"}),
    run=run,
    begun=begun,
    transaction=transaction,
    encoding=encoding,
    copy=copy,
)
