"""Keep the archive's partitions: one per day (UTC), made before the day begins, dropped when it is old enough.

Run by the leader of the schema (chores/partitions.py), on its own autocommit connection; any number of supervisors may
run it at once. One transaction per partition, under an advisory lock of the schema's own and a short `lock_timeout`. Each
begins with `hold`: what the caller gives to make sure, until the end of the transaction, that it may do this.

Invariant: who completes jobs never waits for this module longer than LOCK_TIMEOUT and the work of one transaction. So a
partition is made beside the archive and then attached (that takes a weak lock on the archive; `create table ... partition
of` a strong one), and what cannot be locked in time is left for the next run: a day without a partition is stored in the
default one, a day too old is merely kept longer. Rows of a day that the default partition holds move to the new partition.

It deliberately does not detach concurrently: Postgres refuses that as long as there is a default partition.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import contextmanager
from datetime import date, timedelta
from typing import TYPE_CHECKING

from fastq import db

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastq.db import Connection

LOCK_TIMEOUT = "200ms"
"""How long completions may queue up behind a lock that this module waits for; a fifth of the time between two polls."""

LOCK_NOT_AVAILABLE = "55P03"
NAME = re.compile(r"job_archive_(\d{4})(\d\d)(\d\d)")

SETTINGS = "fillfactor = 100, autovacuum_vacuum_insert_scale_factor = 1, autovacuum_analyze_scale_factor = 1"
"""Rows are only added and the whole is dropped: pages filled to the brim, and vacuum only when it has doubled."""


def ensure_partitions(connection: Connection, days_ahead: int = 3, hold: Callable[[], None] = lambda: None) -> list[str]:
    """Make the partitions of today and the days to come that are missing; return the names of the new ones."""
    [(today,)] = connection.execute("select (clock_timestamp() at time zone 'UTC')::date")
    days = [today + timedelta(days=number) for number in range(days_ahead + 1)]
    missing = [day for day in days if name_of(day) not in set(partitions(connection))]
    return [name_of(day) for day in missing if _ensure(connection, day, hold)]


def drop_old_partitions(connection: Connection, keep_days: int, hold: Callable[[], None] = lambda: None) -> list[str]:
    """Drop the partitions of days that ended more than `keep_days` whole days ago; return their names."""
    [(today,)] = connection.execute("select (clock_timestamp() at time zone 'UTC')::date")
    oldest = name_of(today - timedelta(days=keep_days))  # names sort as the days do
    return [name for name in partitions(connection) if name < oldest and _drop(connection, name, hold)]


def partitions(connection: Connection) -> list[str]:
    """Return the names of the archive's partitions that hold one day each, oldest first."""
    rows = connection.execute(
        "select relname from pg_catalog.pg_inherits join pg_catalog.pg_class on pg_class.oid = inhrelid "
        "where inhparent = to_regclass($1::text)",
        f'"{connection.schema}".job_archive',
    )
    return sorted(name for (name,) in rows if NAME.fullmatch(name))


def name_of(day: date) -> str:
    """Return the name of a day's partition."""
    return f"job_archive_{day:%Y%m%d}"


def _ensure(connection: Connection, day: date, hold: Callable[[], None]) -> bool:
    """Make and attach a day's partition; False if it is there already or a lock did not come in time."""
    name = name_of(day)
    low, high = f"'{day} 00:00:00+00'", f"'{day + timedelta(days=1)} 00:00:00+00'"
    taken = f"delete from fastq.job_archive_default where finalized_at >= {low} and finalized_at < {high} returning *"  # noqa: S608
    with _transaction(connection, hold) as succeeded:
        if name not in partitions(connection):
            for text in (
                # The order of the locks is that of an insert: the archive, then its default partition.
                "lock table only fastq.job_archive in share update exclusive mode",
                f"create table if not exists fastq.{name} (like fastq.job_archive including all) with ({SETTINGS})",
                "lock table fastq.job_archive_default in access exclusive mode",
                f"with moved as ({taken}) insert into fastq.{name} select * from moved",  # noqa: S608
                f"alter table fastq.job_archive attach partition fastq.{name} for values from ({low}) to ({high})",
            ):
                connection.execute(db.in_schema(text, connection.schema))
            succeeded.append(name)
    return bool(succeeded)


def _drop(connection: Connection, name: str, hold: Callable[[], None]) -> bool:
    """Detach and drop a partition; False if it is gone already or a lock did not come in time."""
    with _transaction(connection, hold) as succeeded:
        if name in partitions(connection):
            connection.execute(db.in_schema(f"alter table fastq.job_archive detach partition fastq.{name}", connection.schema))
            connection.execute(db.in_schema(f"drop table fastq.{name}", connection.schema))
            succeeded.append(name)
    return bool(succeeded)


@contextmanager
def _transaction(connection: Connection, hold: Callable[[], None]) -> Iterator[list[str]]:
    """Run statements as one; the list comes out empty, with everything undone, if a lock did not come in time."""
    succeeded: list[str] = []
    connection.execute("begin")
    try:
        connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
        connection.execute(f"select pg_advisory_xact_lock({lock_key(connection.schema)})")
        hold()
        yield succeeded
        connection.execute("commit")
    except BaseException as error:
        if connection.usable:
            connection.execute("rollback")
        if getattr(error, "sqlstate", None) != LOCK_NOT_AVAILABLE:
            raise
        succeeded.clear()


def lock_key(schema: str) -> int:
    """Return the key of the advisory lock under which this schema's partitions change."""
    return int.from_bytes(hashlib.blake2b(f"fastq partitions {schema}".encode(), digest_size=8).digest(), signed=True)
