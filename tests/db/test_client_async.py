"""`AsyncClient` where it differs from `Client`: the event loop, its connections and its wake-ups.

What is stored and refused is the same code, tested in test_client.py; the callers' connections are in test_adapters.py.
"""

import asyncio
import multiprocessing
import os
import threading
from dataclasses import dataclass
from typing import TypedDict

import psycopg
import pytest

from fastq import Args, AsyncClient, Client, Enqueue, Kind
from fastq.errors import ArgsError, ConfigError, DatabaseUnavailable, MigrationError, OptionError
from fastq.postgres.pool.pool_async import MAX_SIZE
from tests.helpers import drop_database, execute, url_of, wait_for
from tests.proxy import Proxy


@dataclass
class SortArgs(Args, kind="sort"):
    strings: list[str]


class MailDict(TypedDict):
    to: str


MAIL = Kind("mail", MailDict)


@pytest.fixture
def listener(database):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("listen fastq")
        yield lambda count, timeout=5.0: [notify.payload for notify in connection.notifies(timeout=timeout, stop_after=count)]


def count(url):
    [(number,)] = execute(url, "select count(*) from fastq.job")
    return number


def test_the_three_ways_store_jobs_and_return_what_the_blocking_client_returns(database):
    async def run():
        async with AsyncClient(database) as client:
            first = await client.enqueue(SortArgs(["a"]), priority=2)
            ids = await client.enqueue_many([SortArgs(["b"]), Enqueue(MailDict(to="x"), kind=MAIL, delay=60)])
            copied = await client.enqueue_copy([MailDict(to="y")] * 3, kind=MAIL, queue="mails")
            return [first, *ids], copied

    ids, copied = asyncio.run(run())
    rows = execute(database, "select id, kind, queue, priority, state::text from fastq.job order by id")
    assert copied == 3
    assert [row[0] for row in rows[:3]] == ids
    assert [row[1:] for row in rows] == [
        ("sort", "default", 2, "available"),
        ("sort", "default", 1, "available"),
        ("mail", "default", 1, "scheduled"),
        *[("mail", "mails", 1, "available")] * 3,
    ]


def test_every_character_arrives_whatever_encoding_the_environment_names(database, monkeypatch):
    async def run():
        async with AsyncClient(database) as client:
            await client.enqueue(SortArgs(["日本"]))
            await client.enqueue_copy([SortArgs(["é日本"])])

    with monkeypatch.context() as environment:
        environment.setenv("PGCLIENTENCODING", "LATIN1")
        asyncio.run(run())
    assert execute(database, "select args->'strings'->>0 from fastq.job order by id") == [("日本",), ("é日本",)]


def test_what_is_refused_leaves_nothing(database):
    async def run():
        async with AsyncClient(database) as client:
            with pytest.raises(ArgsError, match="at position 1"):
                await client.enqueue_many([SortArgs(["a"]), SortArgs([1])])
            with pytest.raises(ArgsError, match="at position 1"):
                await client.enqueue_copy([SortArgs(["a"]), SortArgs([1])])
            await client.enqueue(SortArgs(["after"]))

    asyncio.run(run())
    assert count(database) == 1


def test_an_unknown_option_is_refused(database):
    async def run():
        async with AsyncClient(database) as client:
            enqueues = (
                client.enqueue(SortArgs([]), delays=60),
                client.enqueue_many([], delays=60),
                client.enqueue_copy([], delays=60),
            )
            for enqueue in enqueues:
                with pytest.raises(OptionError, match="unknown option delays"):
                    await enqueue

    asyncio.run(run())
    assert count(database) == 0


def test_many_tasks_share_a_client_and_few_wake_ups_are_sent(database, listener):
    async def run():
        async with AsyncClient(database) as client:
            loop = asyncio.get_running_loop()
            begun = loop.time()
            await asyncio.gather(*(client.enqueue(SortArgs([str(n)])) for n in range(300)))
            return loop.time() - begun

    took = asyncio.run(run())
    assert 1 <= len(listener(1_000, timeout=0.3)) <= took / 0.010 + 3
    assert count(database) == 300


def test_the_second_of_two_enqueues_is_followed_by_a_wake_up(database, listener):
    async def run():
        async with AsyncClient(database) as client:
            for n in range(10):
                await client.enqueue(SortArgs(["first"]), queue=f"q{n}")
                await client.enqueue(SortArgs(["second"]), queue=f"q{n}")
                assert await asyncio.to_thread(listener, 2) == [f"q{n}"] * 2

    asyncio.run(run())


def test_closing_sends_what_waits(database, listener):
    async def run():
        async with AsyncClient(database) as client:
            await client.enqueue(SortArgs([]))
            await client.enqueue(SortArgs([]))

    asyncio.run(run())
    execute(database, "select pg_notify('fastq', '<mark>')")
    assert listener(3) == ["default", "default", "<mark>"]


def test_a_call_returns_when_its_wake_up_has_been_sent(database, listener):
    async def run(wire):
        async with AsyncClient(wire.url) as client:
            await client.enqueue(SortArgs([]))
            wire.hold("wake")
            calling = asyncio.create_task(client.enqueue(SortArgs([])))
            await asyncio.to_thread(wait_for, wire.held)
            assert not calling.done()
            wire.release()
            await calling

    with Proxy(database, {"wake": Client(database)._settings.text("wake")}) as wire:
        asyncio.run(run(wire))

    execute(database, "select pg_notify('fastq', '<mark>')")
    assert listener(10_000, timeout=0.5)[-1] == "<mark>"


def test_a_second_event_loop_gets_connections_of_its_own(database):
    client = AsyncClient(database)

    async def run():
        async with client:
            await client.enqueue(SortArgs([]))

    asyncio.run(run())
    asyncio.run(run())
    assert count(database) == 2


def test_event_loops_in_several_threads_keep_their_own_connections(database):
    client = AsyncClient(database)
    turns = threading.Barrier(2)
    seen: dict[int, set[int]] = {0: set(), 1: set()}

    async def run(number):
        for _ in range(10):
            turns.wait(10)
            await client.enqueue(SortArgs([]))
            sessions = "select pid from pg_stat_activity where application_name = 'fastq client' and datname = current_database()"
            seen[number] |= {pid for (pid,) in execute(database, sessions)}
        turns.wait(10)
        await client.aclose()

    threads = [threading.Thread(target=lambda n=n: asyncio.run(run(n))) for n in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert count(database) == 20
    # Each has one, and maybe one for a wake-up; had each thrown away the other's there were 20.
    assert len(seen[0] | seen[1]) < 10


def test_connections_of_a_loop_that_has_ended_are_dropped(database):
    client = AsyncClient(database)
    for _ in range(5):
        asyncio.run(client.enqueue(SortArgs([])))
    assert count(database) == 5
    assert len(client._sessions) == 1


def test_a_client_works_in_a_forked_child(database):
    client = AsyncClient(database)

    async def run():
        async with client:
            await client.enqueue(SortArgs([]))

    asyncio.run(run())
    child = multiprocessing.get_context("fork").Process(target=lambda: asyncio.run(run()))
    child.start()
    child.join(20)
    assert child.exitcode == 0
    asyncio.run(run())
    assert count(database) == 3


def test_a_task_that_is_cancelled_gives_its_connection_back(database):
    waiting = "select count(*) from pg_locks where not granted and relation = 'fastq.job'::regclass"

    async def run():
        async with AsyncClient(database) as client:
            await client.enqueue(SortArgs([]))
            with psycopg.connect(database) as holder:
                holder.execute("lock table fastq.job in access exclusive mode")
                tasks = [asyncio.create_task(client.enqueue(SortArgs([]))) for _ in range(20)]
                await asyncio.to_thread(wait_for, lambda: execute(database, waiting) == [(MAX_SIZE,)])
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            await client.enqueue(SortArgs([]))

    asyncio.run(run())
    assert count(database) == 2


def test_a_connection_that_the_server_has_closed_is_replaced(database):
    ended = "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity where application_name = 'fastq client'"

    async def run():
        async with AsyncClient(database) as client:
            await client.enqueue(SortArgs([]))
            await asyncio.to_thread(execute, database, ended + " and datname = current_database()")
            await client.enqueue(SortArgs([]))

    asyncio.run(run())
    assert count(database) == 2


def test_what_is_missing_is_told_at_once_and_with_the_remedy(empty_database):
    async def run():
        async with AsyncClient(empty_database) as client:
            with pytest.raises(MigrationError, match="run fastq migrate"):
                await client.enqueue(SortArgs([]))
        with pytest.raises(DatabaseUnavailable):
            await AsyncClient("postgresql://nobody@127.0.0.1:1/nowhere").enqueue(SortArgs([]))
        with pytest.raises(ConfigError, match="the database's URL: expected postgresql://"):
            await AsyncClient("garbage").enqueue(SortArgs([]))

    asyncio.run(run())


def test_a_database_of_another_encoding_is_told_at_once(server):
    name = f"fastq_test_{os.getpid()}_ascii_async"
    execute(server, f"create database {name} encoding 'SQL_ASCII' locale 'C' template template0")

    async def run():
        async with AsyncClient(url_of(server, name)) as client:
            with pytest.raises(DatabaseUnavailable, match=r"encoded in SQL_ASCII.* expected UTF8: make another"):
                await client.enqueue(SortArgs([]))

    asyncio.run(run())
    drop_database(server, name)


def test_a_job_is_read_cancelled_and_retried(database):
    async def run():
        async with AsyncClient(database) as client:
            job_id = await client.enqueue(SortArgs([]))
            assert (await client.get(job_id)).kind == "sort"
            assert await client.cancel(job_id)
            assert not await client.cancel(job_id)
            assert await client.retry(job_id)
            assert (await client.get(job_id)).state == "available"

    asyncio.run(run())
