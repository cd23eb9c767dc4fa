"""The schema of a measurement and the jobs in it.

Run in the main thread of the program that measures, on one connection, which `fresh_schema` opens and closes. A session lock
keeps two measurements of one database apart: they would drop each other's schema, and each would measure the other.

The jobs are made by the server itself, the fastest way there is, and the table is vacuumed and analysed as autovacuum would
have done by and by. There is deliberately no checkpoint after that: the first change of each page after a checkpoint writes
the whole page to the WAL, which a queue that has been running pays once per checkpoint and not for each job.

A server that is young makes each file of its WAL anew, filled with zeros by the process that needs it: a sixth of Postgres' time
in a run. One that has worked for a while uses old files again. So before a measurement as much WAL is written as a round needs,
and a checkpoint before each filling recycles the files. A role that may not checkpoint measures the server as it is.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from fastq import admin
from fastq.args.kinds import kind_of_type
from fastq.args.options import DEFAULT_QUEUE
from fastq.bench.app import FlatArgs, NoopArgs
from fastq.errors import FastqError
from fastq.postgres import db, sqlstate
from fastq.schema.migrate import migrate
from fastq.sql import pins
from fastq.work.codec import codec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastq.config import Config
    from fastq.postgres.db import Connection

SCHEMA = "fastq_bench"

_LOCK = "select pg_try_advisory_lock(hashtext('fastq bench'))"
_DROP = "drop schema if exists fastq_bench cascade"
_EMPTY = "truncate fastq_bench.job, fastq_bench.job_archive"
_FILL = {
    "id": """
insert into fastq_bench.job (kind, args)
select 'bench.noop', ('{"number":' || number || '}')::json from generate_series(1, $1::bigint) as number
""",
    "flat": """
insert into fastq_bench.job (kind, args)
select 'bench.flat', format('{"user_id":%s,"template":"welcome-%s","weight":%s,"urgent":%s,"count":%s,"reply_to":null}',
    number, number % 7, number / 4.0::float8, (number % 3 = 0)::text, number % 10)::json
from generate_series(1, $1::bigint) as number
""",
}
"""By the args of the jobs; their classes are in app.py."""

ARGS = tuple(_FILL)
_KINDS = {"id": NoopArgs, "flat": FlatArgs}

_VACUUM = "vacuum (analyze) fastq_bench.job"
_CHECKPOINT = "checkpoint"
_SETTLING = 3
"""Fillings before the first round: each writes the WAL of a third of a round, which is a filling and the move of all its jobs."""

_COUNT = "select count(*) from fastq_bench.job"


@contextmanager
def fresh_schema(config: Config) -> Iterator[Connection]:
    """Give a connection to a new, migrated schema, and drop the schema at the end."""
    connection = db.connect(
        config.database_url,
        role="bench",
        schema=SCHEMA,
        pinned=not config.poll_only,
        pins=pins.OPERATORS_SETTINGS,
        prepare=False,
    )
    try:
        if not connection.ask(_LOCK)[0][0]:
            raise FastqError("another fastq bench measures in this database; wait for its end, or give --database another one")
        connection.execute("set client_min_messages = warning")  # a drop has a notice for every table that goes with it
        connection.execute(_DROP)
        migrate(config.database_url, SCHEMA)
        try:
            yield connection
        finally:
            if connection.usable:
                connection.execute(_DROP)
    finally:
        connection.close()


def decoder(args: str, config: Config) -> str:
    """Name what reads such args in a worker process that claims them by the batch."""
    return codec.decoder(kind_of_type(_KINDS[args]).codec, config.batch)


def settle(connection: Connection, jobs: int) -> None:
    """Write as much WAL as a round of so many jobs will, so that its files can be used again."""
    for _ in range(_SETTLING):
        connection.execute(_EMPTY)
        connection.ask(_FILL["id"], jobs)
    connection.execute(_EMPTY)


def fill(connection: Connection, jobs: int, *, paused: bool, args: str = "id") -> None:
    """Replace all jobs by so many available ones; a paused queue keeps them until `open_queue`."""
    connection.execute(_EMPTY)
    _checkpoint(connection)
    if jobs:
        connection.ask(_FILL[args], jobs)
    connection.execute(_VACUUM)
    if paused:
        admin.pause_queue(connection, DEFAULT_QUEUE)
    else:
        admin.resume_queue(connection, DEFAULT_QUEUE)


def _checkpoint(connection: Connection) -> None:
    try:
        connection.execute(_CHECKPOINT)
    except db.Error as error:
        if not sqlstate.forbidden(error):
            raise


def open_queue(connection: Connection) -> None:
    """Let the paused queue go on: this wakes the processes that work it."""
    admin.resume_queue(connection, DEFAULT_QUEUE)


def left(connection: Connection) -> int:
    """Count the jobs that have not been completed."""
    return int(connection.ask(_COUNT)[0][0])
