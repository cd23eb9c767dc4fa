"""Ask what leases cost: to take one and free it, to renew one or a thousand in a statement, and to act on an item `once`.

A round is so many operations of one thread, each a commit of its own but for the thousand, which an elector renews together. The
figures printed are operations a second; a lease of those that are renewed together counts as one.
"""

import asyncio

import pytest

from fastq import AsyncLease, Lease
from fastq.leases import lease
from fastq.leases.elector import Trust
from fastq.leases.lease import Fence, boottime
from fastq.leases.singleton import Notice, Session, Singleton

OPERATIONS = 200
MANY = 1_000
TTL = 600.0  # s; nothing here takes as long


pytestmark = pytest.mark.usefixtures("connection")


@pytest.fixture
def named(config):
    """Give a lease of the name, on a connection of its own, and close it at the end."""
    made = []

    def make(name):
        made.append(Lease(name, config=config, ttl=TTL))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_acquire_and_release(measured, size, named):
    mine, times = named("bench-acquire"), size(OPERATIONS)

    def rounds():
        for _ in range(times):
            assert mine.try_acquire()
            mine.release()

    measured(times, rounds)


def test_renew(measured, size, named):
    mine, times = named("bench-renew"), size(OPERATIONS)
    assert mine.try_acquire()

    def rounds():
        for _ in range(times):
            assert mine.renew()

    measured(times, rounds)


@pytest.mark.parametrize("leases", [10, MANY])
def test_renew_many_in_a_statement(measured, size, connection, leases):
    names = [f"singleton:bench-{number}" for number in range(size(leases))]
    fences = [Fence(name, "bench", lease.acquire(connection, name, "bench", TTL).term) for name in names]

    measured(len(fences), lambda: lease.renew(connection, fences, TTL, 60.0))


def test_once(measured, size, config, named):
    held, times = named("bench-once"), size(OPERATIONS)
    assert held.try_acquire()
    session = Session(config, config.database_url)
    mine = Singleton("bench-once", held.fence, Notice(Trust(boottime() + TTL)), session)
    items = iter(range(1_000_000))

    def rounds():
        for _ in range(times):
            assert mine.once(f"item {next(items)}")

    measured(times, rounds)
    session.close()


def test_acquire_and_release_from_an_event_loop(measured, size, config):
    mine, times = AsyncLease("bench-async", config=config, ttl=TTL), size(OPERATIONS)

    async def rounds():
        for _ in range(times):
            assert await mine.try_acquire()
            await mine.release()

    measured(times, lambda: asyncio.run(rounds()))
    asyncio.run(mine.aclose())
