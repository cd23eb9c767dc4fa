"""Keep the archive's partitions: one per day (UTC), made before the day begins, dropped when it is old enough.

Run in the track's thread of the leader's chore (lead/chores/partitions.py), in the supervisor that leads, on that track's
autocommit connection; any number of supervisors may run it at once. One transaction per partition, under an advisory lock of the
schema's own and a short `lock_timeout`. Each first calls `hold`, passed in by the caller: it keeps the caller's right to make the
change until the transaction ends.

Invariant: a completion never waits for this module longer than LOCK_TIMEOUT and the work of one transaction. So a partition is
made beside the archive and then attached. (To attach takes a weak lock on the archive unless jobs may end on that day now;
`create table ... partition of` takes a strong one.) If a lock does not come in time, the change is left for a later run: jobs
of a day without a partition go to the default one, a day too old is merely kept longer. Rows of a day that the default
partition holds move to the new partition.

To attach a day locks the default partition and reads all of it. So a default partition that has grown large (for days nobody
led, or the leader had no right to) is first set aside whole as job_archive_rest, with an empty one in its place; that takes as
long as a drop. Its rows come back by the block, each to its day and not before that day has its partition, and are not in the
archive until then; it is dropped when it holds no row that is to be kept. We could add a check constraint so that attaching
need not read. But if its maker died before dropping it, completions would be refused once the day began.

The functions keep nothing: the chore remembers how far it has come. They deliberately do not detach concurrently: Postgres
refuses that as long as there is a default partition.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from fastq.postgres import db, sqlstate
from fastq.postgres.advisory import lock_key
from fastq.sql.statements import in_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastq.postgres.db import Connection

    Address = tuple[int, int]  # a page, and a row's number on it

LOCK_TIMEOUT = "200ms"
"""How long completions may queue up behind a lock that this module waits for; a fifth of the time between two polls."""

STALL = "1s"
"""How long a statement may keep the default partition locked at most; ten times what LARGE asks for."""

LARGE = 8 * 2**20
"""Bytes, with everything, up to which the default partition may be read and a day's rows be moved at once: some 0.1 s."""

BLOCKS = 128
"""Pages of job_archive_rest that come back at once, a megabyte: some 7,000 small rows, 50 ms."""

NAME = re.compile(r"job_archive_(\d{4})(\d\d)(\d\d)")

SETTINGS = """fillfactor = 100, autovacuum_analyze_scale_factor = 1,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000"""
"""Rows are only added and the whole is dropped: pages filled to the brim. Vacuum reads each page once however often it comes, and
summarises the block ranges of new rows; before it has, to find one job among 200,000 takes 14 ms (docs/adr/0007)."""


def ensure_partitions(connection: Connection, days_ahead: int = 3, hold: Callable[[], None] = lambda: None) -> list[str]:
    """Make the partitions of today and the days to come that are missing; return the names of the new ones."""
    today = _today(connection)
    days = [today + timedelta(days=number) for number in range(days_ahead + 1)]
    missing = [day for day in days if name_of(day) not in set(partitions(connection))]
    if missing and _size(connection, "job_archive_default") > LARGE:
        _set_default_aside(connection, hold)
    return _each(connection, [name_of(day) for day in missing], lambda name: _ensure(connection, name, hold))


def drop_old_partitions(connection: Connection, keep_days: int, hold: Callable[[], None] = lambda: None) -> list[str]:
    """Drop the partitions of days that ended more than `keep_days` whole days ago; return their names."""
    today = _today(connection)
    oldest = name_of(today - timedelta(days=keep_days))  # names sort as the days do
    names = [name for name in partitions(connection) if name < oldest]
    return _each(connection, names, lambda name: _drop(connection, name, hold))


def pages_aside(connection: Connection) -> int | None:
    """Return how many pages are set aside, read or not; None if nothing is."""
    pages = "select pg_relation_size(to_regclass($1::text)) / current_setting('block_size')::bigint"
    [(pages,)] = connection.ask(pages, f'"{connection.schema}".job_archive_rest')
    return None if pages is None else int(pages)


def rows_aside(connection: Connection, page: int) -> list[tuple[int, int]]:
    """Return the rows of a page that was set aside: their numbers on it, and their ids."""
    found = f"select (ctid::text::point)[1]::int, id from fastq.job_archive_rest where {_between((page, 0), (page + 1, 0))}"  # noqa: S608
    return [(int(number), int(row)) for number, row in connection.ask(in_schema(found, connection.schema))]


def bring_back(
    connection: Connection, keep_days: int, low: Address, high: Address, hold: Callable[[], None] = lambda: None
) -> bool:
    """Move the rows of job_archive_rest between two addresses to their days; False, with none moved, if a lock did not come."""
    within, kept = _between(low, high), _kept(connection, keep_days)
    found = f"select distinct (finalized_at at time zone 'UTC')::date from fastq.job_archive_rest where {within} and {kept}"  # noqa: S608
    days = connection.ask(in_schema(found, connection.schema))
    for name in sorted({name_of(day) for (day,) in days} - set(partitions(connection))):
        if not _ensure(connection, name, hold) and name not in partitions(connection):
            return False  # the lock would be missing for the next day too
    moved = (
        f"with moved as (delete from fastq.job_archive_rest where {within} returning *) "  # noqa: S608
        f"insert into fastq.job_archive select * from moved where {kept}"
    )
    with _transaction(connection, hold) as succeeded:
        connection.ask(in_schema(moved, connection.schema))
        succeeded.append("moved")
    return bool(succeeded)


def drop_aside(connection: Connection, keep_days: int, hold: Callable[[], None] = lambda: None) -> bool | None:
    """Drop job_archive_rest; False if it holds rows that are to be kept, None if a lock did not come in time."""
    left = f"select exists (select from fastq.job_archive_rest where {_kept(connection, keep_days)})"  # noqa: S608
    gone = False
    with _transaction(connection, hold) as succeeded:
        connection.execute(in_schema("lock table fastq.job_archive_rest in access exclusive mode", connection.schema))
        [(kept,)] = connection.ask(in_schema(left, connection.schema))
        if not kept:
            connection.execute(in_schema("drop table fastq.job_archive_rest", connection.schema))
            gone = True
        succeeded.append("looked")
    return gone if succeeded else None


def _between(low: Address, high: Address) -> str:
    return f"ctid >= '({low[0]},{low[1]})' and ctid < '({high[0]},{high[1]})'"


def _kept(connection: Connection, keep_days: int) -> str:
    return f"finalized_at >= '{_today(connection) - timedelta(days=keep_days)} 00:00:00+00'"


def _each(connection: Connection, names: list[str], change: Callable[[str], bool]) -> list[str]:
    """Change one after the other, though one fails; return the names of those that changed, or raise the first failure."""
    changed, failures = [], []
    for name in names:
        try:
            if change(name):
                changed.append(name)
        except db.Error as error:
            if not connection.usable:
                raise
            failures.append(error)
    if failures:
        raise failures[0]
    return changed


def _size(connection: Connection, table: str) -> int:
    """Return the bytes of a table with all that belongs to it; 0 if there is none."""
    named = f'"{connection.schema}".{table}'
    [(size,)] = connection.ask("select coalesce(pg_total_relation_size(to_regclass($1::text)), 0)", named)
    return int(size)


def _set_default_aside(connection: Connection, hold: Callable[[], None]) -> None:
    """Put an empty default partition in the place of the present one, unless there is one aside already."""
    with _transaction(connection, hold):
        if pages_aside(connection) is None:
            for text in (
                "lock table only fastq.job_archive in access exclusive mode",
                "alter table fastq.job_archive detach partition fastq.job_archive_default",
                "alter table fastq.job_archive_default rename to job_archive_rest",
                "create table fastq.job_archive_default (like fastq.job_archive including all)",
                f"alter table fastq.job_archive_default owner to {_owner(connection)}",
                "alter table fastq.job_archive attach partition fastq.job_archive_default default",
            ):
                connection.execute(in_schema(text, connection.schema))


def _owner(connection: Connection) -> str:
    """Return the owner of the archive: its new partitions must be his too, since another member of that role may lead next."""
    owner = "select quote_ident(pg_get_userbyid(relowner)) from pg_catalog.pg_class where oid = $1::text::regclass"
    [(owner,)] = connection.ask(owner, f'"{connection.schema}".job_archive')
    return str(owner)


def partitions(connection: Connection) -> list[str]:
    """Return the names of the archive's partitions that hold one day each, oldest first."""
    rows = connection.ask(
        "select relname from pg_catalog.pg_inherits join pg_catalog.pg_class on pg_class.oid = inhrelid "
        "where inhparent = to_regclass($1::text)",
        f'"{connection.schema}".job_archive',
    )
    return sorted(name for (name,) in rows if NAME.fullmatch(name))


def _today(connection: Connection) -> date:
    [(today,)] = connection.ask("select (clock_timestamp() at time zone 'UTC')::date")
    assert isinstance(today, date)
    return today


def name_of(day: date) -> str:
    """Return the name of a day's partition."""
    return f"job_archive_{day:%Y%m%d}"


def _ensure(connection: Connection, name: str, hold: Callable[[], None]) -> bool:
    """Make and attach a day's partition; False if it is there already or a lock did not come in time."""
    day = datetime.strptime(name, "job_archive_%Y%m%d").date()  # noqa: DTZ007 - a day of UTC
    low, high = f"'{day} 00:00:00+00'", f"'{day + timedelta(days=1)} 00:00:00+00'"
    today = _today(connection)
    mode = "share row exclusive" if today - timedelta(days=1) <= day <= today else "share update exclusive"
    taken = f"delete from fastq.job_archive_default where finalized_at >= {low} and finalized_at < {high} returning *"  # noqa: S608
    with _transaction(connection, hold) as succeeded:
        if name not in partitions(connection):
            for text in (
                # Locks in the order of an insert: the archive, then its default partition. An insert into this day must wait
                # for the archive's lock: if it waited for the default partition's, Postgres would have routed its row there
                # already, and would refuse it. Inserts are into today, or into yesterday by a transaction that began before
                # midnight; for any other day no insert need wait.
                f"lock table only fastq.job_archive in {mode} mode",
                f"create table if not exists fastq.{name} (like fastq.job_archive including all) with ({SETTINGS})",
                f"alter table fastq.{name} owner to {_owner(connection)}",
                "lock table fastq.job_archive_default in access exclusive mode",
                f"set local statement_timeout = '{STALL}'",
                f"with moved as ({taken}) insert into fastq.{name} select * from moved",  # noqa: S608
                f"alter table fastq.job_archive attach partition fastq.{name} for values from ({low}) to ({high})",
            ):
                connection.execute(in_schema(text, connection.schema))
            succeeded.append(name)
    return bool(succeeded)


def _drop(connection: Connection, name: str, hold: Callable[[], None]) -> bool:
    """Detach and drop a partition; False if it is gone already or a lock did not come in time."""
    with _transaction(connection, hold) as succeeded:
        if name in partitions(connection):
            connection.execute(in_schema(f"alter table fastq.job_archive detach partition fastq.{name}", connection.schema))
            connection.execute(in_schema(f"drop table fastq.{name}", connection.schema))
            succeeded.append(name)
    return bool(succeeded)


@contextmanager
def _transaction(connection: Connection, hold: Callable[[], None]) -> Iterator[list[str]]:
    """Run statements as one; the list comes out empty, with everything undone, if a lock did not come in time."""
    succeeded: list[str] = []
    connection.execute("begin")
    try:
        connection.execute(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
        connection.execute("set local search_path = pg_catalog")  # a session that a pooler shares has its role's
        connection.execute(f"select pg_advisory_xact_lock({lock_key('partitions', connection.schema)})")
        hold()
        yield succeeded
        connection.execute("commit")
    except BaseException as error:
        if connection.usable:
            connection.execute("rollback")
        if not sqlstate.lock_not_available(error):
            raise
        succeeded.clear()
