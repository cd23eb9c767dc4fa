"""A lease held from an event loop: what it does as `Lease` does, and what becomes of calls that are cancelled."""

import asyncio
from contextlib import suppress

import pytest

from fastq import AsyncLease
from fastq.errors import DatabaseUnavailable
from fastq.leases import lease
from fastq.leases.lease import Fence
from tests.db.lease_rows import row
from tests.helpers import execute, wait_for
from tests.proxy import Proxy

LOCK = "lock table fastq.lease in access exclusive mode"


def holder(connection):
    return row(connection, "user:report")[0]


def test_an_async_with_block_holds_a_lease_and_frees_it(database, connection):
    async def hold():
        async with AsyncLease("report", url=database) as mine:
            assert mine.trusted()
            assert row(connection, "user:report")[:2] == (lease.identity(), mine.term)
            assert mine.fence == Fence("user:report", lease.identity(), mine.term)
            assert await mine.renew()
            assert not await mine.try_acquire(), "it is ours already"
        assert not mine.trusted()

    asyncio.run(hold())
    assert holder(connection) == ""


def test_one_of_many_coroutines_has_it_at_a_time_and_each_gets_it(database):
    terms = []

    async def hold():
        async with AsyncLease("report", url=database, ttl=5.0) as mine:
            terms.append(mine.term)
            assert await asyncio.gather(asyncio.to_thread(mine.trusted), mine.renew()) == [True, True]

    async def many():
        await asyncio.gather(*(hold() for _ in range(5)))

    asyncio.run(many())
    assert sorted(terms) == terms
    assert len(set(terms)) == 5


def test_waiting_for_a_lease_lets_the_event_loop_go_on_and_ends_in_time(database):
    async def wait():
        async with AsyncLease("report", url=database, ttl=5.0):
            other = AsyncLease("report", url=database, ttl=5.0)
            waiting = asyncio.create_task(other.acquire(timeout=0.3))
            turns = 0
            while not waiting.done():
                turns += 1
                await asyncio.sleep(0.01)
            assert not await waiting
            assert turns > 3
            await other.aclose()

    asyncio.run(wait())


def test_an_acquisition_that_is_cancelled_while_it_waits_holds_nothing_and_can_be_tried_again(database, connection):
    async def cancelled():
        async with AsyncLease("report", url=database, ttl=5.0):
            other = AsyncLease("report", url=database, ttl=5.0)
            waiting = asyncio.create_task(other.acquire())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert not other.trusted()
        assert await other.acquire(timeout=10)
        await other.aclose()

    asyncio.run(cancelled())
    assert holder(connection) == ""


@pytest.mark.parametrize("take", [AsyncLease.try_acquire, AsyncLease.acquire], ids=["try_acquire", "acquire"])
def test_a_lease_that_is_taken_for_a_call_that_was_cancelled_is_freed(database, connection, other, take):
    async def cancelled():
        mine = AsyncLease("report", url=database, ttl=60.0)
        other.execute("begin")
        other.execute(LOCK)
        taking = asyncio.create_task(take(mine))
        await asyncio.to_thread(wait_for, lambda: connection.execute("select 1 from pg_locks where not granted"))
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        other.execute("commit")  # now the statement takes the lease, for nobody
        await asyncio.to_thread(wait_for, lambda: row(connection, "user:report")[1] and holder(connection) == "")
        assert not mine.trusted()
        await mine.aclose()

    execute(database, "insert into fastq.lease (name, holder, term, expires_at, ttl) values ('user:report', '', 0, now(), 1)")
    asyncio.run(cancelled())


def test_a_lease_that_was_ours_stays_ours_when_a_further_attempt_is_cancelled(database, connection, other):
    async def cancelled():
        async with AsyncLease("report", url=database, ttl=60.0) as mine:
            other.execute("begin")
            other.execute(LOCK)
            taking = asyncio.create_task(mine.try_acquire())
            await asyncio.to_thread(wait_for, lambda: connection.execute("select 1 from pg_locks where not granted"))
            taking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await taking
            other.execute("commit")
            assert await mine.renew()
            assert mine.trusted()

    asyncio.run(cancelled())


def test_a_database_that_is_away_says_nothing_about_the_lease(database):
    async def away():
        with Proxy(database) as wire:
            mine = AsyncLease("report", url=wire.url, ttl=30.0)
            assert await mine.try_acquire()
            wire.sever()
            wire.close()
            with pytest.raises(DatabaseUnavailable):
                await mine.renew()
            assert mine.trusted()
            with suppress(DatabaseUnavailable):
                await mine.aclose()

    asyncio.run(away())
