"""Bring a schema to the version that this program knows: forward only, from sql/migrations/NNNN_name.sql.

Run by `fastq migrate` and `fastq dev`, by commands on an embedded database, by the bench and by tests, in the caller's thread, on
a connection of its own. The operator's commands begin with `check` (admin/session.py), on the connection that they have.

Invariant: a migration and its row in `fastq.migration` are one transaction, under an advisory transaction lock that is
the schema's own. So any number of programs may migrate at once, one that is killed leaves nothing half done, and a pooler
that shares sessions between transactions does no harm. Locks on tables are waited for briefly and then asked for again: a
session that waits for an exclusive lock on a table lets no other session pass.

It keeps nothing but the texts of the migrations, read once. It deliberately knows no way back: a version that went wrong is
repaired by the next one.
"""

from __future__ import annotations

import functools
import random
import time
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from fastq.config import migrate_command
from fastq.errors import DatabaseUnavailable, MigrationError
from fastq.postgres import db, sqlstate
from fastq.postgres.advisory import lock_key
from fastq.sql.statements import in_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.postgres.db import Connection

LOCK_TIMEOUT = "2s"
"""How long others queue up behind a migration that waits for a table; a guess at what an application puts up with."""

PATIENCE = 60.0
"""Seconds to try for the locks, all attempts together; a deployment waits that long, a person too."""

PAUSE = 0.25
"""Seconds between two attempts, half to one and a half of it: ten programs that start together part company."""

OLDEST_POSTGRES = 14
"""The oldest major version that the project supported when this was written."""

BEGIN = "begin isolation level read committed"
"""Against any default: a migration that has waited for the lock must see the changes of the one before."""

HOUSEKEEPING = """\
create table if not exists fastq.migration (
    version    integer primary key,
    name       text not null,
    applied_at timestamptz not null default clock_timestamp()
);"""


class Migration(NamedTuple):
    """One file of sql/migrations, its text still in the schema `fastq`."""

    version: int
    name: str
    text: str


@functools.cache
def migrations() -> tuple[Migration, ...]:
    """Return all migrations that this program knows, in their order."""
    files = [file for file in resources.files("fastq").joinpath("sql", "migrations").iterdir() if file.name.endswith(".sql")]
    names = sorted(file.name.removesuffix(".sql") for file in files)
    texts = {file.name.removesuffix(".sql"): file.read_text(encoding="utf-8") for file in files}
    return tuple(Migration(int(name[:4]), name, texts[name]) for name in names)


def migrate(url: str, schema: str = "fastq", dry_run: bool = False, tell: Callable[[str], object] = lambda _: None) -> list[str]:
    """Apply the missing migrations and return their names; a dry run returns the same names and changes nothing.

    `tell` is called with a line before each one, and when one waits for its locks.
    """
    connection = db.connect(url, role="migrate", schema=schema, pinned=False, prepare=False)
    try:
        _check_server(connection)
        version = current_version(connection)
        _check_not_newer(schema, version)
        pending = [migration for migration in migrations() if migration.version > version]
        if dry_run:
            return [migration.name for migration in pending]
        return [migration.name for migration in pending if _apply_patiently(connection, migration, tell)]
    except db.Error as error:
        if not connection.usable:
            raise DatabaseUnavailable(f"the connection was lost while migrating ({db.first_line(error)}); try again") from error
        raise MigrationError(f"schema '{schema}' could not be migrated: {db.first_line(error)}") from error
    finally:
        connection.close()


def script(schema: str = "fastq", from_version: int = 0) -> str:
    """Return the SQL that takes a schema on from a version, to migrate by hand; a second run of it changes nothing."""
    parts = [_script_of(schema, migration) for migration in migrations() if migration.version > from_version]
    return "\n".join(parts)


def check(connection: Connection) -> None:
    """Raise MigrationError with the remedy unless the connection's schema has the version that this program knows."""
    version, known = current_version(connection), migrations()[-1].version
    if version == 0:
        raise MigrationError(f"the schema '{connection.schema}' has no fastq tables: run {_remedy(connection)}")
    if version < known:
        raise MigrationError(
            f"the schema '{connection.schema}' has version {version}, this program needs {known}: run {_remedy(connection)}"
        )
    _check_not_newer(connection.schema, version)


def _remedy(connection: Connection) -> str:
    """Return the command to type, with its --database: without it the command would migrate another one."""
    return f"{migrate_command(connection.schema)} on the database '{connection.raw.info.dbname}'"


def check_owner(connection: Connection) -> None:
    """Raise MigrationError unless the connection's role may make and drop the archive's partitions, as a leader does."""
    [(owner, role, may)] = connection.ask(
        "select pg_get_userbyid(relowner)::text, current_user::text, pg_has_role(relowner, 'usage') "
        "from pg_catalog.pg_class where oid = to_regclass($1::text)",
        f'"{connection.schema}".job',
    )
    if not may:
        raise MigrationError(
            f"the schema '{connection.schema}' belongs to the role '{owner}', and a leader makes and drops partitions in it, "
            f"but '{role}' is no member of '{owner}': run as '{owner}', grant it to '{role}', "
            "or set FASTQ_LEAD=off where another host leads (docs/postgres.md, Roles)"
        )


def current_version(connection: Connection) -> int:
    """Return the version of the connection's schema; 0 if it is missing or empty."""
    table = f'"{connection.schema}".migration'
    if connection.ask("select to_regclass($1::text)", table) == [(None,)]:
        return 0
    [(version,)] = connection.ask(f"select coalesce(max(version), 0) from {table}")  # noqa: S608 - Config checked the name
    return int(version)


def _check_server(connection: Connection) -> None:
    [(number,)] = connection.ask("select current_setting('server_version_num')::int")
    if number < OLDEST_POSTGRES * 10_000:
        raise MigrationError(f"expected Postgres {OLDEST_POSTGRES} or later, the server is {number // 10_000}")


def _check_not_newer(schema: str, version: int) -> None:
    known = migrations()[-1].version
    if version > known:
        raise MigrationError(f"the schema '{schema}' has version {version}, this program knows {known}: upgrade fastq-jobs")


def _apply_patiently(connection: Connection, migration: Migration, tell: Callable[[str], object]) -> bool:
    """Apply a migration unless somebody else has, however often its locks must be asked for."""
    give_up, waits = time.monotonic() + PATIENCE, False
    tell(f"applying {migration.name}")
    while True:
        try:
            return _apply(connection, migration)
        except db.Error as error:
            if not (sqlstate.lock_not_available(error) or sqlstate.deadlocked(error)):
                raise
            if time.monotonic() > give_up:
                raise MigrationError(
                    f"migration {migration.name} did not get its locks in {PATIENCE:g} s ({db.first_line(error)}); "
                    "end the transactions that pg_stat_activity shows as old, and run fastq migrate again"
                ) from error
            if not waits:
                waits = True
                tell(f"{migration.name} waits for its locks, for up to {PATIENCE:g} s ({db.first_line(error)})")
        time.sleep(PAUSE * random.uniform(0.5, 1.5))  # noqa: S311 - no secret


def _apply(connection: Connection, migration: Migration) -> bool:
    """Apply a migration in one transaction; False if it is there already."""
    schema = connection.schema
    connection.execute(BEGIN)
    try:
        for line in _preamble(schema):
            connection.execute(line)
        # Whether the schema exists is asked first: `create schema if not exists` wants a right that its owner may not have.
        if not connection.ask("select 1 from pg_catalog.pg_namespace where nspname = $1::text", schema):
            connection.execute(f'create schema "{schema}"')
        connection.execute(in_schema(HOUSEKEEPING, schema))
        missing = current_version(connection) < migration.version
        if missing:
            connection.execute(in_schema(migration.text, schema))
            connection.execute(_record(schema, migration))
        connection.execute("commit")
    except BaseException:
        if connection.usable:
            connection.execute("rollback")
        raise
    return missing


def _preamble(schema: str) -> list[str]:
    """Return the first statements of each migration's transaction."""
    return [
        "set local search_path = pg_catalog",  # first, so that the next statements find no function of another role
        f"set local lock_timeout = '{LOCK_TIMEOUT}'",
        "set local statement_timeout = 0",  # a limit meant for people must not cut a migration off; nor this, since Postgres 17:
        "select set_config(name, '0', true) from pg_catalog.pg_settings where name = 'transaction_timeout'",
        "set local standard_conforming_strings = on",  # else a backslash in our patterns is an escape
        "set local client_min_messages = warning",
        f"select pg_advisory_xact_lock({lock_key('migrate', schema)})",
    ]


def _record(schema: str, migration: Migration) -> str:
    values = f"({migration.version}, '{migration.name}')"
    return f'insert into "{schema}".migration (version, name) values {values}'  # noqa: S608 - a file's name, Config's name


def _script_of(schema: str, migration: Migration) -> str:
    preamble = ";\n".join(_preamble(schema))
    return (
        f"{BEGIN};\n{preamble};\n"
        f'create schema if not exists "{schema}";\n'
        f"{in_schema(HOUSEKEEPING, schema)}\n"
        f"{_record(schema, migration)};  -- fails, and with it all of this, if it has been applied\n\n"
        f"{in_schema(migration.text, schema).strip()}\n\n"
        "commit;\n"
    )
