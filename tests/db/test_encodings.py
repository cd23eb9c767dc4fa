"""Keys, reasons and names on connections of callers, whatever the library and the encoding: they arrive as the jobs' own."""

import asyncio
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from fastq import Args, AsyncClient, Client, Limit, Rate, Workflow, admin
from fastq.admin import pauses
from fastq.config import Config

KEY = "é€表¥"
REASON = "größer als 1 €"
API = Rate("api", at_most=1, per=3_600, by="account")


@dataclass
class CallArgs(Args, kind="call", gates=[API]):
    account: str = KEY


@dataclass
class MailArgs(Args, kind="mail", gates=[Limit("mail-api", at_most=1, by="account")]):
    account: str = KEY


@contextmanager
def psycopg_in(url, encoding):
    with psycopg.connect(url, client_encoding=encoding) as own:
        yield own


@contextmanager
def sqlalchemy_in(url, encoding):
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"), client_encoding=encoding)
    with engine.begin() as own:
        yield own
    engine.dispose()


@asynccontextmanager
async def psycopg_async_in(url, encoding):
    async with await psycopg.AsyncConnection.connect(url, client_encoding=encoding) as own:
        yield own


@asynccontextmanager
async def asyncpg_in(url, encoding):
    own = await asyncpg.connect(url, server_settings={"client_encoding": encoding})
    yield own
    await own.close()


@asynccontextmanager
async def sqlalchemy_async_in(url, encoding):
    engine = create_async_engine(
        url.replace("postgresql://", "postgresql+asyncpg://"), connect_args={"server_settings": {"client_encoding": encoding}}
    )
    async with engine.begin() as own:
        yield own
    await engine.dispose()


BLOCKING = {"psycopg": psycopg_in, "SQLAlchemy": sqlalchemy_in}
AWAITING = {"async psycopg": psycopg_async_in, "asyncpg": asyncpg_in, "async SQLAlchemy": sqlalchemy_async_in}


@pytest.fixture(params=["UTF8", "LATIN1", "SJIS"])
def encoding(request):
    return request.param


@pytest.fixture(params=[*BLOCKING, *AWAITING])
def call(request, database, encoding):
    """Give a call of a method of a client with a connection of the caller's, committed."""
    if request.param in BLOCKING:

        def run(name, *args, **options):
            with Client(database) as client, BLOCKING[request.param](database, encoding) as own:
                return getattr(client, name)(*args, conn=own, **options)

        return run

    def run_async(name, *args, **options):
        async def awaited():
            async with AsyncClient(database) as client, AWAITING[request.param](database, encoding) as own:
                return await getattr(client, name)(*args, conn=own, **options)

        return asyncio.run(awaited())

    return run_async


def test_a_spend_counts_at_the_key_that_jobs_have(call, connection):
    call("enqueue", CallArgs())
    call("spend", API, KEY)

    [(waits_for,)] = connection.execute("select waits_for from fastq.job")
    spent = connection.execute("select gates from fastq.gate_event where until is not null")
    assert spent == [(waits_for,)] == [(f'[["rate","api","{KEY}",1,1,[3600,0]]]',)]


def test_jobs_that_come_by_copy_are_told_of_at_the_gate_where_they_wait(call, connection):
    call("enqueue_copy", [MailArgs()])

    [(waits_for,)] = connection.execute("select waits_for from fastq.job")
    assert (
        connection.execute("select gates from fastq.gate_event") == [(waits_for,)] == [(f'[["limit","mail-api","{KEY}",1,1]]',)]
    )


def test_a_pause_and_its_end_find_the_key_that_jobs_have(call, connection):
    call("pause", gate="mail-api", key=KEY, reason=REASON)

    assert connection.execute("select key, reason from fastq.pause") == [(f'"{KEY}"', REASON)]
    assert call("resume", gate="mail-api", key=KEY)
    assert connection.execute("select key from fastq.pause") == []


def test_an_operators_pause_and_its_end_find_the_key_that_jobs_have(database, connection):
    operator = admin.connect(Config(), database)

    pauses.pause(operator, {"gate": "mail-api", "key": KEY}, reason=REASON)

    assert [(row.key, row.reason) for row in pauses.list_pauses(operator)] == [(f'"{KEY}"', REASON)]
    assert pauses.resume(operator, {"gate": "mail-api", "key": KEY})
    operator.close()


def test_a_queue_says_the_reason_of_its_pause(call, connection):
    call("pause", queue="mails", reason=REASON)

    assert connection.execute("select name, pause_reason from fastq.queue") == [("mails", REASON)]


def test_the_steps_of_a_workflow_have_the_keys_and_args_that_were_given(call, connection):
    workflow = Workflow("import")
    workflow.add(CallArgs(), after=[workflow.add(MailArgs())])

    call("enqueue_workflow", workflow)

    waiting = connection.execute("select waits_for, meta ->> 'gates' from fastq.job order by id")
    assert [gates for _, gates in waiting] == [f'[["limit","mail-api","{KEY}",1,1]]', f'[["rate","api","{KEY}",1,1,[3600,0]]]']
    assert connection.execute("select args ->> 'account' from fastq.job") == [(KEY,)] * 2
