"""A database for tests: its schema migrated, a clock that a test can move, and all rows gone after each test.

Used in the threads of tests and of the pytest plugin; each function has a session of its caller's.

The clock of a server cannot be set. So a database that `prepare` has made ready has a function, `test_clock`, which tells the
server's time, or the time that its one row in `test_time` says. While a test has moved the clock, all statements of fastq/sql
that this process sends ask that function instead of the server (`use_clock`, sql/statements.py). The defaults of columns
always do.

It needs no right but that to make tables in the schema, and touches no other: the statements of other processes, and those of
tables of the user's, have the server's time. Time on the machine is not moved either.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from fastq.errors import FastqError, OptionError
from fastq.postgres import db
from fastq.schema.migrate import migrate
from fastq.sql import statements
from fastq.sql.statements import in_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastq.postgres.db import Connection

CLOCK = "test_clock"

MAKE = """\
begin;
select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('fastq test_clock'));
create table if not exists fastq.test_time (still timestamptz, shift interval not null);
insert into fastq.test_time select null, '0' where not exists (select from fastq.test_time);
create or replace function fastq.test_clock() returns timestamptz language sql stable as $$
    select coalesce(still, pg_catalog.clock_timestamp() operator(pg_catalog.+) shift) from fastq.test_time
$$;
do $$
declare
    found record;
begin
    for found in
        select relation.relname, attribute.attname
        from pg_catalog.pg_attrdef as given
        join pg_catalog.pg_class as relation on relation.oid = given.adrelid
        join pg_catalog.pg_attribute as attribute on attribute.attrelid = given.adrelid and attribute.attnum = given.adnum
        where relation.relnamespace = '"{schema}"'::regnamespace and relation.relname <> 'migration'
          and pg_catalog.pg_get_expr(given.adbin, given.adrelid) = 'clock_timestamp()'
    loop
        execute pg_catalog.format(
            'alter table fastq.%I alter column %I set default fastq.test_clock()', found.relname, found.attname);
    end loop;
end
$$;
commit"""

USED = "select exists (select from fastq.job) or exists (select from fastq.job_archive)"

TABLES = """\
select relname from pg_catalog.pg_class
where relnamespace = $1::text::regnamespace and relkind = any ('{r,p}') and not relispartition
  and relname <> all ('{migration,test_time}')"""

LOCKED = "5s"
"""How long the rows of a test are waited for: longer than any statement of its own takes, if nothing hangs."""


def prepare(url: str, schema: str = "fastq") -> None:
    """Make a database of tests ready: migrate the schema, give it a clock that tests can move, and delete all of its rows.

    FastqError if it has jobs and was never prepared before: these may be real.
    """
    migrate(url, schema)
    connection = db.connect(url, role="test", schema=schema, prepare=False)
    try:
        _check_unused(connection)
        connection.execute(in_schema(MAKE.replace("{schema}", schema), schema))
        empty(connection)
    finally:
        connection.close()


def _check_unused(connection: Connection) -> None:
    """Refuse a schema that has jobs and was never one of tests: they would be gone."""
    schema = connection.schema
    if not _is_prepared(connection) and connection.execute(in_schema(USED, schema)) == [(True,)]:
        raise FastqError(
            f"the schema '{schema}' of the database '{connection.raw.info.dbname}' has jobs, and was never prepared for tests, "
            "which delete them all: expected a database of tests; to make one of this, delete its jobs first"
        )


def _is_prepared(connection: Connection) -> bool:
    found = connection.execute("select pg_catalog.to_regclass($1::text)", f'"{connection.schema}".test_time')
    return found != [(None,)]


def empty(connection: Connection) -> None:
    """Delete all rows of a schema of tests, and set the clock right."""
    schema = connection.schema
    tables = connection.execute(TABLES, f'"{schema}"')
    deletes = "".join(f'delete from "{schema}"."{name}"; ' for (name,) in tables)  # noqa: S608 - the names are our own
    try:
        connection.execute(
            f"begin; set local lock_timeout = '{LOCKED}'; {deletes}"  # noqa: S608 - names of our own tables
            f"update \"{schema}\".test_time set still = null, shift = '0' where still is not null or shift <> '0'; commit"
        )
    except db.Error as error:
        if not connection.usable:
            raise
        connection.execute("rollback")
        raise FastqError(
            f"the rows of a test could not be deleted ({db.first_line(error)}): a connection that the test has left open is in "
            "a transaction; close it, or roll it back, at the end of the test"
        ) from error


class Clock:
    """The clock of a database, while a test has moved it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def now(self) -> datetime:
        """Tell the time that fastq's statements have."""
        [(now,)] = self._connection.execute(in_schema("select fastq.test_clock()", self._connection.schema))
        moment: datetime = now
        return moment

    def forward(self, by: float | timedelta) -> None:
        """Move the clock on, by seconds or a timedelta."""
        self._set("update fastq.test_time set still = still + $1::interval, shift = shift + $1::interval", span_of(by))

    def stand(self, at: datetime) -> None:
        """Have the clock stand still at a time."""
        self._set("update fastq.test_time set still = $1::timestamptz", checked(at))

    def _set(self, text: str, value: Any) -> None:
        self._connection.execute(in_schema(text.replace(" + ", " operator(pg_catalog.+) "), self._connection.schema), value)


@contextmanager
def moved(connection: Connection) -> Iterator[Clock]:
    """Have fastq's statements go by a clock that can be moved, and set it right at the end. It is one clock for all of a test."""
    schema = connection.schema
    if not _is_prepared(connection):
        raise FastqError(
            f"the schema '{schema}' has no clock that a test can move: call fastq.testing.prepare(url) on the database of tests"
        )
    before = connection.execute(in_schema("select still, shift from fastq.test_time", schema))
    outermost = not statements.clock()
    statements.use_clock(CLOCK)
    try:
        yield Clock(connection)
    finally:
        connection.execute(
            in_schema("update fastq.test_time set still = $1::timestamptz, shift = $2::interval", schema), *before[0]
        )
        if outermost:
            statements.use_clock("")


def checked(at: Any) -> datetime:
    """Return a time that has a zone, or raise OptionError."""
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise OptionError(f"{at!r}: expected a datetime with a time zone, such as datetime.now(UTC)")
    return at


def span_of(by: float | timedelta) -> timedelta:
    """Return seconds or a timedelta as a timedelta."""
    if isinstance(by, bool) or not isinstance(by, int | float | timedelta):
        raise OptionError(f"{by!r}: expected seconds, or a timedelta")
    return by if isinstance(by, timedelta) else timedelta(seconds=by)
