"""Jobs that a test enqueues in a transaction of its own, and never commits: seen and worked on the test's connection."""

import asyncio
import unittest
from dataclasses import dataclass

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

from fastq import Args, AsyncClient, Client, Job, Limit, Registry, Worker, Workflow
from fastq.errors import FastqError, OptionError
from fastq.testing import AsyncJobs, Jobs, prepare
from tests.db.test_adapters import django_connection as in_django
from tests.helpers import execute
from tests.plugin.app import MailArgs, PollArgs, RowArgs, registry

COUNT = "select (select count(*) from fastq.job) + (select count(*) from fastq.job_archive)"


@pytest.fixture(scope="module")
def url(module_database):
    prepare(module_database)
    execute(module_database, "create table effect (name text)")
    return module_database


@pytest.fixture
def conn(url):
    """Give a connection of the test, which rolls back."""
    with psycopg.connect(url) as opened:
        yield opened
        opened.rollback()
    assert execute(url, COUNT) == [(0,)], "nothing of the test was committed"


@pytest.fixture
def jobs(url):
    made = Jobs(registry, url)
    yield made
    made.close()


@pytest.fixture
def client(url):
    with Client(url) as made:
        yield made


def test_a_job_of_an_open_transaction_is_seen_and_worked_there_alone(jobs, client, conn):
    number = client.enqueue(MailArgs("ada"), conn=conn)

    jobs.assert_not_enqueued(MailArgs)
    jobs.assert_enqueued(MailArgs, to="ada", conn=conn)
    assert [ran.state for ran in jobs.drain(conn=conn)] == ["completed"]
    assert client.get(number, conn=conn).output == {"sent": "ada"}
    assert client.get(number) is None


def test_a_test_without_a_url_gives_its_connection_once(conn, client):
    jobs = Jobs(registry, conn=conn)
    client.enqueue_many([MailArgs("ada"), PollArgs("busy"), RowArgs(1), MailArgs("bob")], conn=conn)

    jobs.assert_enqueued(MailArgs, to="bob")
    assert sorted(ran.state for ran in jobs.drain()) == ["completed", "completed", "completed", "scheduled"]
    jobs.close()


def test_the_transaction_is_usable_and_its_own_after_all_of_it(jobs, client, conn):
    conn.execute("set local lock_timeout = '7s'")
    conn.execute("insert into effect values ('before')")
    client.enqueue(MailArgs("nobody"), conn=conn)
    with pytest.raises(LookupError):
        jobs.drain(conn=conn)

    assert conn.execute("select name from effect").fetchall() == [("before",)]
    assert conn.execute("show lock_timeout").fetchone() == ("7s",)
    assert conn.info.transaction_status.name == "INTRANS"


def test_no_transaction_is_begun_or_ended_on_a_connection_in_autocommit(jobs, client, url):
    with psycopg.connect(url, autocommit=True) as conn:
        client.enqueue(MailArgs("ada"), conn=conn)
        assert [ran.state for ran in jobs.drain(conn=conn)] == ["completed"]
        assert conn.info.transaction_status.name == "IDLE"
        conn.execute("delete from fastq.job_archive")


@dataclass
class EffectArgs(Args, kind="effect", gates=[Limit("one", at_most=1)]):
    name: str


def with_effects():
    own = Registry()

    @own.register
    class EffectWorker(Worker[EffectArgs]):
        def work(self, job: Job[EffectArgs]) -> object:
            number = job.step("number", lambda: 42)
            with job.transaction(outcome=number) as conn:
                conn.execute("insert into effect values (%s)", [f"{job.args.name} after {list(job.deps)}"])

    return own


def test_gates_workflows_steps_and_blocks_go_over_the_connection_of_the_test(jobs, client, conn):
    flow = Workflow("effects")
    first = flow.add(EffectArgs("a"), name="first")
    flow.add(EffectArgs("b"), after=[first])
    client.enqueue_workflow(flow, conn=conn)

    results = jobs.drain(registry=with_effects(), conn=conn)

    assert [ran.state for ran in results] == ["completed", "completed"]
    assert conn.execute("select name from effect order by 1").fetchall() == [("a after []",), ("b after ['first']",)]


def test_jobs_come_due_in_an_open_transaction(jobs, client, conn):
    client.enqueue(MailArgs("ada"), delay=3600, conn=conn)

    assert jobs.drain(conn=conn) == []
    assert [ran.state for ran in jobs.drain(conn=conn, until=7200)] == ["completed"]


def test_a_connection_with_a_failed_transaction_is_refused(jobs, conn):
    with pytest.raises(psycopg.errors.DivisionByZero):
        conn.execute("select 1 / 0")

    with pytest.raises(OptionError, match="roll it back"):
        jobs.drain(conn=conn)


def test_a_session_of_sqlalchemy_in_an_outer_transaction_that_is_rolled_back(jobs, client, url):
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
    with engine.connect() as outer:
        transaction = outer.begin()
        session = orm.Session(bind=outer, join_transaction_mode="create_savepoint")
        client.enqueue(MailArgs("ada"), conn=session)
        session.commit()  # of the application: a savepoint here
        jobs.assert_enqueued(MailArgs, to="ada", conn=session)
        assert [ran.state for ran in jobs.drain(conn=session)] == ["completed"]
        assert session.execute(sqlalchemy.text("select count(*) from fastq.job_archive")).scalar() == 1
        transaction.rollback()
    engine.dispose()
    assert execute(url, COUNT) == [(0,)]


def test_psycopg2_below_sqlalchemy_is_refused_with_the_reason(jobs):
    class Connection:
        pass

    Connection.__module__ = "sqlalchemy.engine"
    with pytest.raises(OptionError, match="conn: expected"):
        jobs.drain(conn=object())


@pytest.mark.further
def test_the_connection_of_django_within_an_atomic_block(jobs, client, url):
    with in_django(url) as (connection, _, rollback):
        from django.db import transaction

        with transaction.atomic(using=connection.alias):
            client.enqueue(MailArgs("ada"), conn=connection)
            jobs.assert_enqueued(MailArgs, to="ada", conn=connection)
            jobs.assert_not_enqueued(MailArgs)
            assert [ran.state for ran in jobs.drain(conn=connection)] == ["completed"]
            transaction.set_rollback(True, using=connection.alias)
        rollback()
    assert execute(url, COUNT) == [(0,)]


@pytest.mark.further
def test_a_test_case_of_django_with_a_worker_that_uses_the_orm(client, url):
    own = Registry()

    @own.register
    class MailAsks(Worker[MailArgs]):
        def work(self, job: Job[MailArgs]) -> object:
            from django.db import connection

            with connection.cursor() as cursor:
                cursor.execute("insert into effect values (%s) returning name", [job.args.to])
                return cursor.fetchone()

    with in_django(url) as (connection, _, rollback):
        rollback()
        connection.set_autocommit(True)
        from django.test import TestCase

        class SignUp(TestCase):
            def test_it(self):
                jobs = Jobs(own, conn=connection)
                client.enqueue(MailArgs("ada"), conn=connection)
                jobs.assert_enqueued(MailArgs, to="ada")
                self.assertEqual([ran.output for ran in jobs.drain()], [["ada"]])  # noqa: PT009 - of unittest
                jobs.close()

        result = unittest.TestResult()
        unittest.TestSuite([SignUp("test_it")]).run(result)

    assert (result.testsRun, result.errors, result.failures) == (1, [], [])
    assert execute(url, "select count(*) from effect") == [(0,)]
    assert execute(url, COUNT) == [(0,)]


@pytest.mark.parametrize("library", ["psycopg", "sqlalchemy"])
def test_a_test_that_awaits_works_the_jobs_of_its_own_transaction(url, library):
    async def test():
        jobs = AsyncJobs(registry, url)
        engine = sqlalchemy_asyncio.create_async_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
        async with AsyncClient(url) as client:
            if library == "psycopg":
                conn = await psycopg.AsyncConnection.connect(url)
            else:
                conn = sqlalchemy_asyncio.AsyncSession(engine)
            await client.enqueue_many([PollArgs("x"), MailArgs("ada")], conn=conn)
            await jobs.assert_enqueued(PollArgs, conn=conn)
            await jobs.assert_not_enqueued(PollArgs)
            results = await jobs.drain(conn=conn)
            await conn.rollback()
            await conn.close()
        await engine.dispose()
        jobs.close()
        return [ran.state for ran in results]

    assert asyncio.run(test()) == ["completed", "completed"]
    assert execute(url, COUNT) == [(0,)]


def test_on_asyncpg_a_test_may_ask_but_not_have_jobs_worked(url):
    async def test():
        jobs = AsyncJobs(registry, url)
        conn = await asyncpg.connect(url)
        transaction = conn.transaction()
        await transaction.start()
        async with AsyncClient(url) as client:
            await client.enqueue(MailArgs("ada"), conn=conn)
        await jobs.assert_enqueued(MailArgs, to="ada", conn=conn)
        with pytest.raises(OptionError, match=r"expected a connection of psycopg 3.*got a asyncpg"):
            await jobs.drain(conn=conn)
        await transaction.rollback()
        await conn.close()
        jobs.close()

    asyncio.run(test())


def test_a_clock_without_a_url_is_refused_with_the_remedy(conn, monkeypatch):
    from datetime import UTC, datetime

    jobs = Jobs(registry, conn=conn)
    with pytest.raises(FastqError, match="give url="), jobs.frozen(datetime.now(UTC)):
        pass
