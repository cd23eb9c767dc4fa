"""The callers' connections: psycopg, SQLAlchemy, Django and asyncpg, one behaviour.

Each way below is a transaction begun in the library's own manner: `enqueue` in it, then commit or roll back.
"""

import asyncio
import sqlite3
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import asyncpg
import django
import psycopg
import pytest
import sqlalchemy
from django.db import utils as django_errors
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

from fastq import Args, AsyncClient, Client
from fastq.adapters import psycopg as psycopg_adapter
from fastq.enqueue import copies
from fastq.errors import ArgsError, OptionError
from tests.helpers import execute

TAGS = ["plain", 'q"uote', "100%s"]
NASTY = "back\\slash %s %(p1)s $1 :name é"


@dataclass
class SortArgs(Args, kind="sort"):
    strings: list[str]


@pytest.fixture
def client(database):
    with Client(database) as client:
        yield client


def dialect(url, driver):
    return url.replace("postgresql://", f"postgresql+{driver}://")


def jobs(url):
    return execute(url, "select args->'strings'->>0, tags, state::text from fastq.job order by id")


# Blocking


@contextmanager
def psycopg_connection(url):
    with psycopg.connect(url) as connection:
        yield connection, connection.commit, connection.rollback


@contextmanager
def sqlalchemy_connection(url):
    engine = sqlalchemy.create_engine(dialect(url, "psycopg"))
    with engine.connect() as connection:
        yield connection, connection.commit, connection.rollback
    engine.dispose()


@contextmanager
def sqlalchemy_session(url):
    engine = sqlalchemy.create_engine(dialect(url, "psycopg"))
    with orm.Session(engine) as session:
        yield session, session.commit, session.rollback
    engine.dispose()


@contextmanager
def sqlalchemy_scoped_session(url):
    engine = sqlalchemy.create_engine(dialect(url, "psycopg"))
    session = orm.scoped_session(orm.sessionmaker(engine))
    yield session, session.commit, session.rollback
    session.remove()
    engine.dispose()


@contextmanager
def django_connection(url):
    from django.conf import settings
    from django.db import connections

    if not settings.configured:
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql"}}, USE_TZ=True)
        django.setup()
    info = psycopg.conninfo.conninfo_to_dict(url)
    connections.databases["default"].update(
        NAME=info["dbname"], HOST=info.get("host", ""), PORT=str(info.get("port", "")), USER=info.get("user", ""),
        PASSWORD=info.get("password", ""),
    )  # fmt: skip
    if hasattr(connections._connections, "default"):
        del connections["default"]
    from django.db import connection

    connection.set_autocommit(False)
    yield connection, connection.commit, connection.rollback
    connection.close()


@contextmanager
def psycopg_in_german(url):
    with psycopg.connect(url, options="-c datestyle=German") as connection:
        yield connection, connection.commit, connection.rollback


@contextmanager
def sqlalchemy_in_german(url):
    engine = sqlalchemy.create_engine(dialect(url, "psycopg"), connect_args={"options": "-c datestyle=German"})
    with engine.connect() as connection:
        yield connection, connection.commit, connection.rollback
    engine.dispose()


BLOCKING = [psycopg_connection, sqlalchemy_connection, sqlalchemy_session, sqlalchemy_scoped_session, django_connection]


def enqueue_one(client, strings, **options):
    client.enqueue(SortArgs(strings), **options)


def enqueue_many(client, strings, **options):
    client.enqueue_many([SortArgs(strings)], **options)


def enqueue_copy(client, strings, **options):
    client.enqueue_copy([SortArgs(strings)], **options)


WAYS = [enqueue_one, enqueue_many, enqueue_copy]


@pytest.mark.parametrize("enqueue", WAYS)
@pytest.mark.parametrize("library", BLOCKING)
def test_a_job_is_there_after_the_commit_not_before_and_never_after_a_rollback(library, enqueue, client, database):
    with library(database) as (connection, commit, rollback):
        enqueue(client, ["gone"], conn=connection)
        rollback()
        assert jobs(database) == []

        enqueue(client, [NASTY], conn=connection, tags=TAGS)
        assert jobs(database) == []
        commit()
        assert jobs(database) == [(NASTY, TAGS, "available")]


@pytest.mark.parametrize("enqueue", WAYS)
@pytest.mark.parametrize("library", [*BLOCKING, psycopg_in_german, sqlalchemy_in_german])
def test_a_time_and_a_delay_arrive_through_every_library(library, enqueue, client, database):
    at = datetime.now(UTC).replace(microsecond=1) + timedelta(days=1)
    with library(database) as (connection, commit, _):
        enqueue(client, ["at"], conn=connection, at=at)
        enqueue(client, ["delay"], conn=connection, delay=86_400)
        commit()

    times = "select scheduled_at = %s, scheduled_at - now() between '23 h' and '24 h' from fastq.job order by id"
    assert execute(database, times, at) == [(True, True), (False, True)]


@pytest.mark.parametrize("library", BLOCKING)
def test_a_job_is_cancelled_and_retried_through_every_library(library, client, database):
    job_id = client.enqueue(SortArgs(["x"]))
    with library(database) as (connection, commit, _):
        assert client.cancel(job_id, conn=connection)
        commit()
        assert jobs(database) == []
        assert client.retry(job_id, conn=connection)
        commit()
    assert jobs(database) == [("x", None, "available")]


def test_an_atomic_block_of_django_takes_its_jobs_back(client, database):
    from django.db import transaction

    with django_connection(database) as (connection, _, _):
        connection.set_autocommit(True)
        with transaction.atomic():
            client.enqueue(SortArgs(["kept"]), conn=connection)
            with suppress(LookupError), transaction.atomic():
                client.enqueue(SortArgs(["taken back"]), conn=connection)
                raise LookupError
            assert jobs(database) == []

    assert jobs(database) == [("kept", None, "available")]


def test_a_session_that_nobody_commits_leaves_nothing(client, database):
    with sqlalchemy_session(database) as (session, _, _):
        client.enqueue(SortArgs(["gone"]), conn=session)

    assert jobs(database) == []


def test_a_begin_block_of_sqlalchemy_commits_its_jobs(client, database):
    engine = sqlalchemy.create_engine(dialect(database, "psycopg"))
    with engine.begin() as connection:
        client.enqueue(SortArgs(["there"]), conn=connection)
        client.enqueue_copy([SortArgs(["too"])], conn=connection)
    engine.dispose()

    assert [strings for strings, *_ in jobs(database)] == ["there", "too"]


# Without our tables

WITHOUT_TABLES = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.InvalidSchemaName,
    asyncpg.UndefinedTableError,
    asyncpg.InvalidSchemaNameError,
    sqlalchemy.exc.ProgrammingError,
    django_errors.ProgrammingError,
)


@pytest.mark.parametrize("enqueue", WAYS)
@pytest.mark.parametrize("library", BLOCKING)
def test_an_error_for_want_of_our_tables_stays_what_it_is_and_says_what_to_run(library, enqueue, empty_database):
    with library(empty_database) as (connection, _, rollback), Client(empty_database, schema="jobs") as client:
        with pytest.raises(WITHOUT_TABLES) as caught:
            enqueue(client, ["x"], conn=connection)
        rollback()

    assert caught.value.__notes__ == ["the schema 'jobs' has no fastq tables, or old ones: run fastq migrate --schema jobs"]


def test_a_table_that_a_trigger_of_the_callers_misses_is_none_of_ours(client, database):
    execute(
        database, "create function wanting() returns trigger language plpgsql as 'begin perform from missing; return new; end'"
    )
    execute(database, "create trigger wanting before insert on fastq.job for each row execute function wanting()")

    with psycopg.connect(database) as connection, pytest.raises(psycopg.errors.UndefinedTable) as caught:
        client.enqueue(SortArgs(["x"]), conn=connection)

    assert not hasattr(caught.value, "__notes__")


# What jobs are made from, and how


def read_by_psycopg(connection):
    with connection.cursor("sorting") as cursor:
        cursor.itersize = 100
        yield from cursor.execute("select generate_series(1, 1000)")


def read_by_sqlalchemy(connection):
    yield from connection.execution_options(yield_per=100).exec_driver_sql("select generate_series(1, 1000)")


def read_by_session(session):
    yield from session.execute(sqlalchemy.text("select generate_series(1, 1000)"), execution_options={"yield_per": 100})


def read_by_django(connection):
    with connection.chunked_cursor() as cursor:
        cursor.execute("select generate_series(1, 1000)")
        yield from iter(cursor.fetchone, None)


@pytest.mark.parametrize(
    ("library", "read"),
    [
        (psycopg_connection, read_by_psycopg),
        (sqlalchemy_connection, read_by_sqlalchemy),
        (sqlalchemy_session, read_by_session),
        (django_connection, read_by_django),
    ],
)
def test_a_copy_takes_jobs_that_are_made_from_what_its_own_connection_reads(library, read, client, database, monkeypatch):
    monkeypatch.setattr(psycopg_adapter, "PORTION", 1)
    monkeypatch.setattr(copies, "BLOCK", 1000)
    with library(database) as (connection, commit, _):
        made = (SortArgs([str(number)]) for (number,) in read(connection))

        assert client.enqueue_copy(made, conn=connection) == 1000
        assert jobs(database) == []
        commit()

    assert [int(text) for text, *_ in jobs(database)] == list(range(1, 1001))


def test_a_copy_takes_what_django_iterates_over_in_its_autocommit(client, database, monkeypatch):
    monkeypatch.setattr(psycopg_adapter, "PORTION", 1)
    monkeypatch.setattr(copies, "BLOCK", 1000)
    with django_connection(database) as (connection, _, _):
        connection.set_autocommit(True)
        made = (SortArgs([str(number)]) for (number,) in read_by_django(connection))

        assert client.enqueue_copy(made, conn=connection) == 1000
        assert connection.get_autocommit()

    assert len(jobs(database)) == 1000


def test_a_copy_on_an_autocommit_connection_is_there_whole_or_not_at_all(client, database, monkeypatch):
    monkeypatch.setattr(psycopg_adapter, "PORTION", 1)
    monkeypatch.setattr(copies, "BLOCK", 1)
    with psycopg.connect(database, autocommit=True) as connection:
        made = (SortArgs(["there"]) if number < 5 else SortArgs([0]) for number in range(9))
        with pytest.raises(ArgsError, match="at position 5"):
            client.enqueue_copy(made, conn=connection)
        assert jobs(database) == []

        client.enqueue_copy([SortArgs(["there"])] * 3, conn=connection)
    assert len(jobs(database)) == 3


@pytest.mark.parametrize("library", BLOCKING)
def test_a_copy_that_is_refused_is_taken_back_though_others_commit(library, client, database, monkeypatch):
    monkeypatch.setattr(psycopg_adapter, "PORTION", 1)
    monkeypatch.setattr(copies, "BLOCK", 1)
    with library(database) as (connection, commit, _):
        client.enqueue(SortArgs(["kept"]), conn=connection)
        with pytest.raises(ArgsError):
            client.enqueue_copy([SortArgs(["a"]), SortArgs(["b"]), SortArgs([0])], conn=connection)
        commit()

    assert jobs(database) == [("kept", None, "available")]


def test_a_copy_whose_jobs_are_streamed_over_its_connection_is_refused(client, database):
    with psycopg.connect(database) as connection:
        made = (SortArgs(["x" * 1000]) for _ in connection.cursor().stream("select generate_series(1, 10000)"))

        with pytest.raises(OptionError, match=r"jobs are read by psycopg's stream\(\)"):
            client.enqueue_copy(made, conn=connection)
        made.close()

    assert jobs(database) == []


@pytest.mark.parametrize("options", [{"stream_results": True}, {"yield_per": 10}])
@pytest.mark.parametrize("enqueue", WAYS)
def test_the_options_of_a_sqlalchemy_connection_are_not_those_of_our_statements(enqueue, options, client, database):
    engine = sqlalchemy.create_engine(dialect(database, "psycopg"), execution_options=options)
    with engine.begin() as connection, orm.Session(engine) as session:
        enqueue(client, ["connection"], conn=connection)
        enqueue(client, ["session"], conn=session)
        assert client.cancel(client.enqueue(SortArgs(["cancelled"])), conn=connection)
        session.commit()
    engine.dispose()

    assert sorted(text for text, *_ in jobs(database)) == ["connection", "session"]


ENCODINGS = ["SJIS", "EUC_JP", "BIG5", "GBK", "UHC", "LATIN1"]
EVERY = "¥\\n ‾ ‖ \uff5e 表 é 🦉 \n \x7f"


@contextmanager
def django_in(url, encoding):
    with django_connection(url) as (connection, commit, rollback), connection.cursor() as cursor:
        cursor.execute(f"set client_encoding to '{encoding}'")
        yield connection, commit, rollback


@contextmanager
def psycopg_in(url, encoding):
    with psycopg.connect(url, client_encoding=encoding) as connection:
        yield connection, connection.commit, connection.rollback


@contextmanager
def sqlalchemy_in(url, encoding):
    engine = sqlalchemy.create_engine(dialect(url, "psycopg"), client_encoding=encoding)
    with orm.Session(engine) as session:
        yield session, session.commit, session.rollback
    engine.dispose()


@pytest.mark.parametrize("enqueue", WAYS)
@pytest.mark.parametrize("library", [psycopg_in, sqlalchemy_in, django_in])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_character_of_args_arrives_whatever_the_connections_encoding_is(encoding, library, enqueue, client, database):
    with library(database, encoding) as (connection, commit, _):
        enqueue(client, [EVERY], conn=connection, tags=["plain"])
        commit()

    assert jobs(database) == [(EVERY, ["plain"], "available")]


@pytest.mark.parametrize("enqueue", WAYS[:2])
def test_a_tag_that_would_arrive_as_another_is_refused(enqueue, client, database):
    with psycopg_in(database, "SJIS") as (connection, commit, _):
        with pytest.raises(OptionError, match=r"tag '¥': expected ASCII, .* client_encoding is SJIS.*; set it to UTF8"):
            enqueue(client, ["x"], conn=connection, tags=["plain", "¥"])
        commit()

    assert jobs(database) == []


@contextmanager
def psycopg_in_latin(url):
    with psycopg.connect(url, client_encoding="latin1") as connection:
        yield connection, connection.commit, connection.rollback


@contextmanager
def sqlalchemy_in_latin(url):
    engine = sqlalchemy.create_engine(dialect(url, "psycopg"), client_encoding="latin1")
    with engine.connect() as connection:
        yield connection, connection.commit, connection.rollback
    engine.dispose()


@pytest.mark.parametrize("enqueue", WAYS)
@pytest.mark.parametrize("library", [psycopg_in_latin, sqlalchemy_in_latin])
def test_a_job_reads_the_same_whatever_the_connections_encoding_is(library, enqueue, client, database):
    with library(database) as (connection, commit, _):
        enqueue(client, [NASTY], conn=connection, tags=["é"])
        commit()

    assert jobs(database) == [(NASTY, ["é"], "available")]


# asyncio


@asynccontextmanager
async def psycopg_async(url):
    connection = await psycopg.AsyncConnection.connect(url)
    async with connection:
        yield connection, connection.commit, connection.rollback


@asynccontextmanager
async def asyncpg_connection(url):
    connection = await asyncpg.connect(url)
    state = [connection.transaction()]
    await state[0].start()

    async def rollback():
        await state[0].rollback()
        state[0] = connection.transaction()
        await state[0].start()

    async def commit():
        await state[0].commit()

    yield connection, commit, rollback
    await connection.close()


@asynccontextmanager
async def asyncpg_pooled(url):
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        await connection.execute("begin")

        async def rollback():
            await connection.execute("rollback")
            await connection.execute("begin")

        yield connection, lambda: connection.execute("commit"), rollback


def sqlalchemy_async(driver, session):
    @asynccontextmanager
    async def opened(url):
        engine = sqlalchemy_asyncio.create_async_engine(dialect(url, driver))
        made = sqlalchemy_asyncio.AsyncSession(engine) if session else engine.connect()
        async with made as connection:
            yield connection, connection.commit, connection.rollback
        await engine.dispose()

    opened.__name__ = f"sqlalchemy_{driver}_{'session' if session else 'connection'}"
    return opened


AWAITED = [
    psycopg_async,
    asyncpg_connection,
    asyncpg_pooled,
    sqlalchemy_async("psycopg", session=False),
    sqlalchemy_async("psycopg", session=True),
    sqlalchemy_async("asyncpg", session=False),
    sqlalchemy_async("asyncpg", session=True),
]


async def await_one(client, strings, **options):
    await client.enqueue(SortArgs(strings), **options)


async def await_many(client, strings, **options):
    await client.enqueue_many([SortArgs(strings)], **options)


async def await_copy(client, strings, **options):
    await client.enqueue_copy([SortArgs(strings)], **options)


@pytest.mark.parametrize("enqueue", [await_one, await_many, await_copy])
@pytest.mark.parametrize("library", AWAITED, ids=lambda library: library.__name__)
def test_an_awaited_job_is_there_after_the_commit_not_before_and_never_after_a_rollback(library, enqueue, database):
    at = datetime.now(UTC).replace(microsecond=1) + timedelta(days=1)

    async def run():
        async with AsyncClient(database) as client, library(database) as (connection, commit, rollback):
            await enqueue(client, ["gone"], conn=connection)
            await rollback()
            assert jobs(database) == []

            await enqueue(client, [NASTY], conn=connection, tags=TAGS)
            await enqueue(client, ["at"], conn=connection, at=at)
            await enqueue(client, ["delay"], conn=connection, delay=86_400.5)
            assert jobs(database) == []
            await commit()
            assert not await client.cancel(2**40, conn=connection)

    asyncio.run(run())
    assert jobs(database) == [(NASTY, TAGS, "available"), ("at", None, "scheduled"), ("delay", None, "scheduled")]
    assert execute(database, "select scheduled_at = %s from fastq.job order by id", at) == [(None,), (True,), (False,)]


@pytest.mark.parametrize("enqueue", [await_one, await_many, await_copy])
@pytest.mark.parametrize("library", AWAITED, ids=lambda library: library.__name__)
def test_an_awaited_error_for_want_of_our_tables_stays_what_it_is_and_says_what_to_run(library, enqueue, empty_database):
    async def run():
        async with AsyncClient(empty_database) as client, library(empty_database) as (connection, _, rollback):
            with pytest.raises(WITHOUT_TABLES) as caught:
                await enqueue(client, ["x"], conn=connection)
            await rollback()
        return caught.value

    error = asyncio.run(run())
    assert error.__notes__ == ["the schema 'fastq' has no fastq tables, or old ones: run fastq migrate"]


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
@pytest.mark.parametrize("enqueue", [await_one, await_many, await_copy])
def test_the_options_of_an_awaited_sqlalchemy_connection_are_not_those_of_our_statements(enqueue, driver, database):
    async def run():
        engine = sqlalchemy_asyncio.create_async_engine(dialect(database, driver), execution_options={"stream_results": True})
        async with AsyncClient(database) as client, engine.begin() as connection:
            await enqueue(client, ["there"], conn=connection)
        await engine.dispose()

    asyncio.run(run())
    assert jobs(database) == [("there", None, "available")]


@asynccontextmanager
async def psycopg_async_in_latin(url):
    connection = await psycopg.AsyncConnection.connect(url, client_encoding="latin1")
    async with connection:
        yield connection


@asynccontextmanager
async def asyncpg_in_latin(url):
    connection = await asyncpg.connect(url, server_settings={"client_encoding": "latin1"})
    yield connection
    await connection.close()


@asynccontextmanager
async def psycopg_async_in_sjis(url):
    async with await psycopg.AsyncConnection.connect(url, client_encoding="SJIS") as connection:
        yield connection


@asynccontextmanager
async def asyncpg_in_sjis(url):
    connection = await asyncpg.connect(url, server_settings={"client_encoding": "SJIS"})
    yield connection
    await connection.close()


def sqlalchemy_async_in_sjis(driver, arguments):
    @asynccontextmanager
    async def opened(url):
        engine = sqlalchemy_asyncio.create_async_engine(dialect(url, driver), connect_args=arguments)
        async with sqlalchemy_asyncio.AsyncSession(engine) as session, session.begin():
            yield session
        await engine.dispose()

    return opened


@pytest.mark.parametrize("enqueue", [await_one, await_many, await_copy])
@pytest.mark.parametrize(
    "library",
    [
        psycopg_async_in_sjis,
        asyncpg_in_sjis,
        sqlalchemy_async_in_sjis("psycopg", {"client_encoding": "SJIS"}),
        sqlalchemy_async_in_sjis("asyncpg", {"server_settings": {"client_encoding": "SJIS"}}),
    ],
)
def test_every_character_of_awaited_args_arrives_whatever_the_connections_encoding_is(library, enqueue, database):
    async def run():
        async with AsyncClient(database) as client, library(database) as connection:
            await enqueue(client, [EVERY], conn=connection)

    asyncio.run(run())
    assert jobs(database) == [(EVERY, None, "available")]


@pytest.mark.parametrize("enqueue", [await_one, await_many, await_copy])
@pytest.mark.parametrize("library", [psycopg_async_in_latin, asyncpg_in_latin])
def test_an_awaited_job_reads_the_same_whatever_the_connections_encoding_is(library, enqueue, database):
    async def run():
        async with AsyncClient(database) as client, library(database) as connection:
            await enqueue(client, [NASTY], conn=connection, tags=["é"])

    asyncio.run(run())
    assert jobs(database) == [(NASTY, ["é"], "available")]


# What is none of these


@pytest.mark.parametrize("enqueue", WAYS)
@pytest.mark.parametrize("conn", [object(), sqlite3.connect(":memory:"), "postgresql://x", sqlalchemy.create_engine("sqlite://")])
def test_what_is_no_connection_is_refused_with_what_would_do(enqueue, conn, database):
    client = Client(database)
    with pytest.raises(OptionError, match=r"conn: expected a psycopg.*; got a \w"):
        enqueue(client, ["x"], conn=conn)


def test_a_database_that_is_not_postgres_is_refused(database):
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(OptionError, match=r"got the driver sqlite\+pysqlite"):
        Client(database).enqueue(SortArgs(["x"]), conn=connection)


def test_a_connection_for_the_other_client_is_refused_and_that_one_named(database):
    async def run():
        async with await psycopg.AsyncConnection.connect(database) as connection:
            with pytest.raises(OptionError, match="that one is for AsyncClient"):
                Client(database).enqueue(SortArgs(["x"]), conn=connection)
        with psycopg.connect(database) as connection, pytest.raises(OptionError, match="that one is for Client"):
            await AsyncClient(database).enqueue(SortArgs(["x"]), conn=connection)

    asyncio.run(run())


def test_a_connection_of_the_callers_own_class_is_known_by_its_parent(client, database):
    class Mine(psycopg.Connection):
        pass

    with Mine.connect(database) as connection:
        client.enqueue(SortArgs(["there"]), conn=connection)

    assert jobs(database) == [("there", None, "available")]
