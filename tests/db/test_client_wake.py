"""Enqueueing without a notification, by wish or since the server has no room for one; and in transactions of two phases."""

import asyncio

import psycopg
import pytest

from fastq import AsyncClient, Client, Config
from fastq.adapters.libraries import library_of
from fastq.events import Seldom
from fastq.postgres import hints
from tests.db.jobs import CHANNEL, session
from tests.db.test_adapters import AWAITED, BLOCKING, WAYS, SortArgs, await_copy, await_many, await_one, jobs
from tests.helpers import execute, wait_for

AWAITED_WAYS = [await_one, await_many, await_copy]


@pytest.fixture(autouse=True)
def _nothing_was_told_yet(monkeypatch):
    """Let what earlier tests have caused to be told be told again."""
    monkeypatch.setattr(hints, "_seldom", Seldom())


@pytest.fixture
def listening(database):
    """Give a session that hears what is notified."""
    opened = session(database)
    opened.listen(CHANNEL)
    yield opened
    opened.close()


def heard(listening):
    """Return what has been notified before now."""
    listening.execute("select pg_notify($1, 'now')", CHANNEL)
    return [hint for hint in list(listening.notifications(10)) if hint != "now"]


@pytest.fixture
def prepared(database):
    """Skip where the server takes no prepared transactions: that is its default."""
    if execute(database, "select current_setting('max_prepared_transactions')") == [("0",)]:
        pytest.skip("max_prepared_transactions is 0")


def say(connection, text):
    """Run a statement without an answer in the transaction of a connection of any library."""
    library = library_of(connection).package
    if library == "django":
        with connection.cursor() as cursor:
            cursor.execute(text)
    elif library == "sqlalchemy":
        (connection if hasattr(connection, "exec_driver_sql") else connection.connection()).exec_driver_sql(text)
    else:
        connection.execute(text)


async def say_async(connection, text):
    if library_of(connection).package == "sqlalchemy":
        raw = connection if hasattr(connection, "exec_driver_sql") else await connection.connection()
        await raw.exec_driver_sql(text)
    else:
        await connection.execute(text)


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("enqueue", WAYS)
@pytest.mark.parametrize("library", BLOCKING)
def test_a_transaction_of_two_phases_can_enqueue_without_a_wake_up(library, enqueue, database):
    with Client(database) as client, library(database) as (connection, _, rollback):
        enqueue(client, ["two"], conn=connection, wake=False)
        say(connection, "prepare transaction 'two'")
        rollback()
        assert jobs(database) == []
        execute(database, "commit prepared 'two'")
        assert jobs(database) == [("two", None, "available")]

        enqueue(client, ["woken"], conn=connection)
        with pytest.raises(Exception, match="cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY"):
            say(connection, "prepare transaction 'woken'")


@pytest.mark.usefixtures("prepared")
@pytest.mark.parametrize("enqueue", AWAITED_WAYS)
@pytest.mark.parametrize("library", AWAITED, ids=lambda library: library.__name__)
def test_an_awaited_transaction_of_two_phases_can_enqueue_without_a_wake_up(library, enqueue, database):
    async def run():
        async with AsyncClient(database) as client, library(database) as (connection, _, _rollback):
            await enqueue(client, ["two"], conn=connection, wake=False)
            await say_async(connection, "prepare transaction 'two'")
            execute(database, "commit prepared 'two'")

    asyncio.run(run())
    assert jobs(database) == [("two", None, "available")]


@pytest.mark.parametrize("enqueue", WAYS)
def test_without_a_wake_up_nothing_is_notified(enqueue, database, listening):
    with Client(database) as client, psycopg.connect(database) as connection:
        enqueue(client, ["own"], wake=False)
        enqueue(client, ["yours"], conn=connection, wake=False)
        connection.commit()
    assert heard(listening) == []

    with Client(database) as client:
        enqueue(client, ["woken"])
    assert heard(listening) == ["default"]
    assert len(jobs(database)) == 3


def test_with_poll_only_no_client_notifies(database, listening):
    with Client(config=Config(database_url=database, poll_only=True)) as client, psycopg.connect(database) as connection:
        for enqueue in WAYS:
            enqueue(client, ["own"])
            enqueue(client, ["yours"], conn=connection)
        connection.commit()
        client.cancel(1)
        client.retry(1)

    assert heard(listening) == []


@pytest.mark.parametrize("enqueue", WAYS)
def test_enqueueing_goes_on_while_the_queue_of_notifications_is_full_and_wakes_again_after_it(
    enqueue, database, listening, full_queue, events, monkeypatch
):
    with Client(database) as client:
        queue = full_queue()
        enqueue(client, ["one"])
        enqueue(client, ["two"])
        assert [event.name for event in events] == ["hints.refused"]
        assert f"pid {queue.pid} " in events[0].fields["held_by"]

        queue.empty()

        def has_room_again():
            """Enqueue as if the client had neither rested nor woken anybody: it finds the queue full, asks, and so makes room."""
            monkeypatch.setattr(client._here()._limiter, "_rests_until", 0.0)
            monkeypatch.setattr(client._here()._limiter, "_sent_at", {})
            enqueue(client, ["three"])
            return not client._here()._limiter.resting

        wait_for(has_room_again, what="the other sessions that listen to have read what filled the queue")
        enqueue(client, ["four"])
    wait_for(lambda: "default" in heard(listening), what="a wake-up")
    found = [job for job, *_ in jobs(database)]
    assert list(dict.fromkeys(found)) == ["one", "two", "three", "four"]
    assert [job for job in found if job != "three"] == ["one", "two", "four"]


@pytest.mark.parametrize("enqueue", AWAITED_WAYS)
def test_awaited_enqueueing_goes_on_while_the_queue_of_notifications_is_full(enqueue, database, full_queue, events):
    async def run():
        async with AsyncClient(database) as client:
            await enqueue(client, ["one"])
            full_queue()
            for text in ("two", "three"):
                await enqueue(client, [text])

    asyncio.run(run())
    assert len(jobs(database)) == 3
    assert "hints.refused" in [event.name for event in events]


def test_jobs_are_cancelled_and_retried_while_the_queue_is_full(database, full_queue):
    with Client(database) as client:
        waiting, running = client.enqueue_many([SortArgs(["a"]), SortArgs(["b"])])
        execute(database, "update fastq.job set state = 'running', claim = 1 where id = %s", running)
        full_queue()
        assert client.cancel(running)
        assert client.cancel(waiting)
        assert client.retry(waiting)

    async def run():
        async with AsyncClient(database) as client:
            assert await client.cancel(running)
            assert await client.retry(waiting)

    asyncio.run(run())


@pytest.mark.parametrize("enqueue", WAYS)
@pytest.mark.parametrize("library", BLOCKING)
def test_your_transaction_is_refused_at_its_commit_while_the_queue_is_full_unless_it_does_not_notify(
    library, enqueue, database, full_queue
):
    full_queue()
    with Client(database) as client, library(database) as (connection, commit, rollback):
        enqueue(client, ["lost"], conn=connection)
        with pytest.raises(Exception, match="too many notifications in the NOTIFY queue") as raised:
            commit()
        assert hints.refused(raised.value)
        rollback()
        assert jobs(database) == []

        enqueue(client, ["kept"], conn=connection, wake=False)
        commit()
    assert jobs(database) == [("kept", None, "available")]


@pytest.mark.parametrize("enqueue", WAYS)
def test_on_a_connection_in_autocommit_a_statement_is_run_once_more(enqueue, database, full_queue, events):
    full_queue()
    with Client(database) as client, psycopg.connect(database, autocommit=True) as connection:
        enqueue(client, ["one"], conn=connection)
        enqueue(client, ["two"], conn=connection)

    assert [job for job, *_ in jobs(database)] == ["one", "two"]
    assert [event.name for event in events] == ["hints.refused"]


@pytest.mark.parametrize("library", AWAITED, ids=lambda library: library.__name__)
def test_a_refusal_is_known_by_whatever_library_tells_it(library, database, full_queue):
    async def run():
        async with library(database) as (connection, commit, _):
            await say_async(connection, "select pg_notify('fastq', 'x')")
            with pytest.raises(Exception, match="too many notifications in the NOTIFY queue") as raised:
                await commit()
            return raised.value

    full_queue()
    assert hints.refused(asyncio.run(run()))
