"""Who may create in a schema of the victim's search path has nothing run with the victim's rights.

A stranger who may create in `public` (everybody may, up to Postgres 14) makes functions and operators there that fit our
statements better than Postgres' own, and so are found although `pg_catalog` is searched first. Each counts its calls. Then
everything is called that runs in a session of the user's. That no statement leaves such a gap is test_qualified's to show.
"""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

import fastq
from fastq import Args, AsyncClient, Client, Enqueue, Every, Lease, Limit, Registry, admin
from fastq.admin import leaders, periodic, search
from fastq.config import Config
from fastq.lead import definitions
from fastq.leases.elector import Trust
from fastq.leases.lease import Fence, boottime
from fastq.leases.singleton import Notice, Session, Singleton
from fastq.schema import partitions
from fastq.schema.migrate import check, check_owner, migrate
from fastq.sql import statements
from tests.db.jobs import session
from tests.db.test_adapters import dialect, django_connection
from tests.helpers import create_database, drop_database, execute

FILES = sorted((Path(fastq.__file__).parent / "sql").glob("*.sql"))
NAMES = {name for file in FILES for name in re.findall(r"(?<![\w.])([a-z_0-9]+)\(", statements.statement(file.stem))}
SYNTAX = {"coalesce", "extract", "greatest", "least", "any", "array", "nullif"}
SIGNS = ["=", "<>", "<", ">", "<=", ">=", "+", "-", "*", "/", "||", "->", "->>", ">>", "<<", "|", "&", "~~", "^"]
TYPES = [
    *("bigint", "integer", "smallint", "boolean", "text", "json", "jsonb", "interval", "timestamptz", "float8", "numeric"),
    *("fastq.state", "fastq.kind", "fastq.queue_name", "fastq.priority", "fastq.max_attempts"),
    *("bigint[]", "text[]", "fastq.state[]"),
]

PLANT = """
do $$
declare name text; sort text; other text; answer text;
    body text := 'begin perform pg_catalog.nextval(''public.calls''); return null; end';
begin
    foreach sort in array :types loop
        foreach name in array :names loop
            select case when name = 'unnest' then rtrim(sort, '[]')
                        when typtype = 'p' then sort else format_type(pg_type.oid, null) end
            into answer from pg_proc join pg_type on pg_type.oid = prorettype where proname = name limit 1;
            execute format('create function public.%I(%s) returns %s language plpgsql as %L', name, sort, answer, body);
            execute format('create function public.%I(text, %s) returns %s language plpgsql as %L', name, sort, answer, body);
        end loop;
        foreach other in array :types loop
            execute format('create function public.hit(%s, %s) returns boolean language plpgsql as %L', sort, other, body);
            foreach name in array :signs loop
                execute format('create operator public.%s (leftarg = %s, rightarg = %s, function = hit)', name, sort, other);
            end loop;
        end loop;
    end loop;
    execute format('create function public.set_config(text, text, boolean) returns text language plpgsql as %L', body);
end $$
"""
"""An operator answers with a boolean, and a function with what Postgres' own of that name does, if that is one type."""


@dataclass
class SortArgs(Args, kind="sort"):
    strings: list[str]


@dataclass
class MailArgs(Args, kind="mail", gates=[Limit("mail-api", at_most=1, by="account")]):
    account: int


@pytest.fixture(scope="module")
def planted(server, migrated_template):
    """Give the name of a migrated database in which a stranger has planted what the statements might find."""
    name, stranger = f"{migrated_template}_planted", f"{migrated_template}_stranger"
    url = create_database(server, name, migrated_template)
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"create role {stranger}")
        owner.execute(f"grant usage, create on schema public to {stranger}; grant usage on schema fastq to public")
        owner.execute("create sequence public.calls; grant usage on sequence public.calls to public")
        text = PLANT
        for given, values in (("types", TYPES), ("names", sorted(NAMES - SYNTAX)), ("signs", SIGNS)):
            text = text.replace(f":{given}", "array[" + ", ".join(f"'{value}'" for value in values) + "]")
        owner.execute(f"set role {stranger}")
        owner.execute(text)
    yield name
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"drop owned by {stranger} cascade; drop role {stranger}")
    drop_database(server, name)


@pytest.fixture
def trap(server, planted):
    """Give the URL of a copy of it."""
    yield create_database(server, f"{planted}_copy", planted)
    drop_database(server, f"{planted}_copy")


@pytest.fixture
def victim(trap):
    """Give the URL of a copy of it; at the end, nothing that was planted has been called."""
    yield trap
    assert not called(trap), "what a stranger planted was run by the victim"


@pytest.fixture
def credulous(victim):
    """Give the same, where a role's search path names pg_catalog last: the stranger need not even find what fits better."""
    with psycopg.connect(victim, autocommit=True) as connection:
        connection.execute(f'alter database "{connection.info.dbname}" set search_path = public, pg_catalog')
    return victim


def called(url):
    return execute(url, "select is_called from public.calls") == [(True,)]


def use(client, conn=None):
    job = client.enqueue(SortArgs(["a"]), tags=["plain"], conn=conn)
    client.enqueue(SortArgs(["b"]), delay=60, conn=conn)
    client.enqueue_many([SortArgs(["c"]), Enqueue(SortArgs(["d"]), delay=60, tags=["plain"])], conn=conn)
    client.enqueue_copy([SortArgs(["e"])], delay=60, conn=conn)
    client.enqueue_copy([SortArgs(["f"])], conn=conn)
    client.enqueue_many([MailArgs(1), MailArgs(2)], conn=conn)
    client.enqueue_copy([MailArgs(1)], conn=conn)
    assert client.cancel(job, conn=conn)
    assert client.retry(job, conn=conn)
    assert client.cancel(job + 1, conn=conn)
    assert client.retry(job + 2, conn=conn)


async def use_async(client, conn=None):
    job = await client.enqueue(SortArgs(["a"]), tags=["plain"], conn=conn)
    await client.enqueue(SortArgs(["b"]), delay=60, conn=conn)
    await client.enqueue_many([SortArgs(["c"]), Enqueue(SortArgs(["d"]), delay=60, tags=["plain"])], conn=conn)
    await client.enqueue_copy([SortArgs(["e"])], delay=60, conn=conn)
    await client.enqueue_copy([SortArgs(["f"])], conn=conn)
    await client.enqueue_many([MailArgs(1), MailArgs(2)], conn=conn)
    await client.enqueue_copy([MailArgs(1)], conn=conn)
    assert await client.cancel(job, conn=conn)
    assert await client.retry(job, conn=conn)
    assert await client.cancel(job + 1, conn=conn)
    assert await client.retry(job + 2, conn=conn)


@pytest.mark.parametrize("name", ["job_rerun", "job_cancel", "job_delete"])
def test_what_was_planted_is_found_by_a_statement_that_is_not_qualified(name, trap):
    given = ([1],) if name == "job_delete" else ([1], "fastq")
    with psycopg.connect(trap, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        connection.execute(statements.statement(name), given)

    assert called(trap)


def test_a_client_runs_nothing_of_a_strangers(credulous):
    with Client(credulous) as client:
        use(client)
        assert client.get(1).kind == "sort"
        assert "waits at the gate 'mail-api' for key 1" in client.why(client.enqueue(MailArgs(1)))

    async def again():
        async with AsyncClient(credulous) as client:
            await use_async(client)
            assert (await client.get(1)).kind == "sort"
            assert "waits at the gate 'mail-api' for key 2" in await client.why(await client.enqueue(MailArgs(2)))

    asyncio.run(again())


def test_nothing_of_a_strangers_runs_on_a_connection_of_psycopgs(credulous):
    with Client(credulous) as client, psycopg.connect(credulous) as connection:
        use(client, connection)

    async def again():
        async with await psycopg.AsyncConnection.connect(credulous) as connection:
            await use_async(AsyncClient(credulous), connection)

    asyncio.run(again())


def test_nothing_of_a_strangers_runs_on_a_connection_of_sqlalchemys(victim):
    engine = sqlalchemy.create_engine(dialect(victim, "psycopg"))
    with Client(victim) as client, engine.begin() as connection:
        use(client, connection)
    engine.dispose()

    async def again():
        engine = sqlalchemy_asyncio.create_async_engine(dialect(victim, "asyncpg"))
        async with engine.begin() as connection:
            await use_async(AsyncClient(victim), connection)
        await engine.dispose()

    asyncio.run(again())


def test_nothing_of_a_strangers_runs_on_a_connection_of_djangos(victim):
    with Client(victim) as client, django_connection(victim) as (connection, commit, _):
        use(client, connection)
        commit()


def test_nothing_of_a_strangers_runs_on_a_connection_of_asyncpgs(victim):
    async def run():
        connection = await asyncpg.connect(victim)
        async with connection.transaction():
            await use_async(AsyncClient(victim), connection)
        await connection.close()

    asyncio.run(run())


@pytest.mark.parametrize("poll_only", [False, True])
def test_an_operator_runs_nothing_of_a_strangers(poll_only, credulous):
    with Client(credulous) as client:
        jobs = client.enqueue_many([SortArgs(["a"]), SortArgs(["b"]), Enqueue(SortArgs(["c"]), delay=60)])
    operator = admin.connect(Config(poll_only=poll_only), credulous)
    lead = Lease("report", url=credulous)
    assert lead.try_acquire()

    search.list_jobs(operator, "kind:sort queue:default tag:plain priority:>0 since:1h args.x:1 error:x gate:x")
    for words in ("id:<=10", "workflow:1", "unique:123456", "state:waiting", "due-until:+1h", "ended-since:1h"):
        search.count_jobs(operator, words)
    search.complete_words(operator, "kind:")
    assert admin.show_job(operator, jobs[0]) is not None
    admin.cancel_jobs(operator, jobs)
    admin.retry_jobs(operator, jobs)
    admin.delete_jobs(operator, jobs)
    admin.pause_queue(operator, "default")
    admin.list_queues(operator)
    admin.resume_queue(operator, "default")
    leaders.list_leases(operator)
    leaders.list_chores(operator)
    assert leaders.resign(operator, "user:report") is not None
    registry = Registry()
    registry.periodic("daily", Every(3600), SortArgs(["a"]))
    definitions.define(operator, registry)
    periodic.list_periodic(operator)
    periodic.pause_periodic(operator, "daily")
    periodic.resume_periodic(operator, "daily")
    periodic.run_periodic(operator, "daily")
    periodic.delete_periodic(operator, "daily")
    check(operator)
    check_owner(operator)
    lead.close()
    operator.close()


def test_a_lease_and_a_singletons_guard_run_nothing_of_a_strangers(credulous):
    with psycopg.connect(credulous, autocommit=True) as connection:
        lease = Lease("report", conn=connection, ttl=60.0)
        assert lease.try_acquire()
        assert lease.renew()
        own = Session(Config(poll_only=True), credulous)
        singleton = Singleton("report", Fence(*lease.fence), Notice(Trust(boottime() + 60.0)), own)
        assert [singleton.once("a"), singleton.once("a", connection), singleton.once("b", connection)] == [True, False, True]
        assert lease.release()
        own.close()


def test_whoever_migrates_and_makes_partitions_runs_nothing_of_a_strangers(credulous):
    migrate(credulous, "elsewhere")
    connection = session(credulous, pinned=False, prepare=False)

    assert partitions.ensure_partitions(connection, 2)
    execute(credulous, "insert into fastq.job_archive_default select from fastq.job_archive")
    assert partitions.pages_aside(connection) is None
    assert partitions.drop_old_partitions(connection, -2)
    connection.close()
