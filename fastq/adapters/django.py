"""Django: `django.db.connection` and its namesakes for `Client`.

Runs in the caller's thread, one that enqueues or executes a job, inside the caller's `atomic` block, or in Django's autocommit.
Below it is psycopg or psycopg2. drivers.py and the blocks of `job.transaction()` (work/effects/) call the functions, by way of
the declaration; they keep nothing.

It deliberately takes no asynchronous connection: Django has none.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fastq.adapters.library import Library, Parameters, Rows, named, unknown


def run(conn: Any, text: str, parameters: Parameters) -> Rows:
    """Run a statement."""
    if conn.vendor != "postgresql":
        raise unknown(conn, Library.expected)
    with conn.cursor() as cursor:
        cursor.execute(*named(text, parameters))
        return list(cursor.fetchall())


def begun(conn: Any) -> bool:
    """Tell whether an `atomic` block is open, or Django was told to commit nothing by itself."""
    return bool(conn.in_atomic_block or not conn.get_autocommit())


def transaction(conn: Any) -> Any:
    """Return an `atomic` block."""
    return import_module("django.db.transaction").atomic(using=conn.alias)


def driver(conn: Any) -> Any:
    """Return the driver's connection, which Django opens with the first statement only."""
    conn.ensure_connection()
    return conn.connection


LIBRARY = Library(
    package="django",
    classes=frozenset({"ConnectionProxy", "BaseDatabaseWrapper"}),
    run=run,
    begun=begun,
    transaction=transaction,
    driver=driver,
)
