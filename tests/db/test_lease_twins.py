"""What a lease does, described once for both twins: `Lease` on Postgres and `MemoryLease` in memory."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest

from fastq.config import Config
from fastq.errors import DatabaseUnavailable, LeaseError
from fastq.leases import lease as lease_module
from fastq.leases.lease import Lease
from fastq.testing import LeaseBoard, MemoryLease
from tests.helpers import execute, wait_for

TTL = 30.0


@dataclass
class World:
    """Where leases of one kind compete, and what moves their time."""

    make: Callable[..., Lease | MemoryLease]
    advance: Callable[[float], None]


@pytest.fixture(params=["Postgres", "memory"])
def world(request, monkeypatch):
    made = []

    def keep(lease):
        made.append(lease)
        return lease

    if request.param == "memory":
        board = LeaseBoard()
        yield World(lambda name="report", ttl=TTL: keep(MemoryLease(name, ttl=ttl, board=board)), board.advance)
    else:
        url = request.getfixturevalue("database")
        ahead = [0.0]
        monkeypatch.setattr(lease_module, "boottime", lambda: time.monotonic() + ahead[0])

        def advance(seconds):
            ahead[0] += seconds
            execute(url, "update fastq.lease set expires_at = expires_at - make_interval(secs => %s)", seconds)

        config = Config.load(database_url=url, poll_interval=0.05)
        yield World(lambda name="report", ttl=TTL: keep(Lease(name, ttl=ttl, config=config)), advance)
    for lease in made:
        lease.close()


def test_a_free_lease_is_had_at_once_and_by_one(world):
    mine, other = world.make(), world.make()

    assert mine.try_acquire()
    assert not other.try_acquire()
    assert mine.trusted()
    assert not other.trusted()
    assert mine.term == mine.fence.term
    assert other.term is None
    assert other.fence is None


def test_leases_of_other_names_do_not_compete(world):
    assert world.make("a").try_acquire()
    assert world.make("b").try_acquire()


@pytest.mark.lease("L04")
def test_acquiring_is_not_renewing(world):
    mine = world.make()

    assert mine.try_acquire()
    assert not mine.try_acquire()
    assert mine.trusted()


@pytest.mark.lease("L13")
def test_a_released_lease_is_free_and_released_once(world):
    mine, other = world.make(), world.make()
    mine.try_acquire()

    assert mine.release()
    assert not mine.release()
    assert not mine.trusted()
    assert other.try_acquire()
    assert not mine.renew()


def test_what_was_never_had_is_neither_renewed_nor_released(world):
    mine = world.make()

    assert not mine.renew()
    assert not mine.release()


def test_a_renewed_lease_lasts_a_whole_ttl_from_then(world):
    mine, other = world.make(), world.make()
    mine.try_acquire()
    for _ in range(3):
        world.advance(TTL * 0.8)
        assert mine.renew()

    world.advance(TTL * 0.8)
    assert mine.trusted()
    assert not other.try_acquire()


def test_trust_ends_before_the_lease_does(world):
    mine, other = world.make(), world.make()
    mine.try_acquire()

    world.advance(TTL * 0.95)
    assert not mine.trusted()
    assert mine.term is None
    assert not other.try_acquire()
    world.advance(TTL * 0.1)
    assert other.try_acquire()


@pytest.mark.lease("L11")
def test_a_lease_that_ran_out_is_not_renewed_though_nobody_took_it(world):
    mine = world.make()
    mine.try_acquire()
    world.advance(TTL * 1.1)

    assert not mine.renew()
    assert mine.fence is None
    assert mine.try_acquire()


@pytest.mark.lease("L10", "L14")
def test_an_old_term_neither_renews_nor_frees_a_new_one(world):
    mine, other = world.make(), world.make()
    mine.try_acquire()
    old = mine.fence
    world.advance(TTL * 1.1)
    assert other.try_acquire()

    assert other.fence.term > old.term
    assert not mine.release()
    assert other.renew()
    assert other.trusted()


def test_terms_grow(world):
    terms = []
    for _ in range(3):
        mine = world.make()
        mine.try_acquire()
        terms.append(mine.term)
        mine.release()

    assert terms == sorted(set(terms))


def test_waiting_ends_without_the_lease_after_the_timeout(world):
    mine, other = world.make(), world.make()
    mine.try_acquire()

    assert other.acquire(timeout=0.01) is False
    assert other.acquire(timeout=0) is False


def test_who_waits_has_it_when_it_is_released(world):
    mine, other = world.make(), world.make()
    mine.try_acquire()
    waiting = threading.Thread(target=other.acquire)
    waiting.start()

    mine.release()
    wait_for(other.trusted, 5, "the lease to be taken over")
    waiting.join(5)


def acquire_at_last(lease):
    """Acquire a lease, though the clock may jump in the middle of a look, which is then given up, as after a suspend."""
    while True:
        with suppress(DatabaseUnavailable):
            return lease.acquire()


def test_who_waits_has_it_when_it_runs_out(world):
    mine, other = world.make(), world.make()
    mine.try_acquire()
    waiting = threading.Thread(target=acquire_at_last, args=(other,))
    waiting.start()

    world.advance(TTL * 1.1)
    wait_for(other.trusted, 5, "the lease to be taken over")
    waiting.join(5)
    assert not mine.trusted()


def test_a_block_holds_it_and_frees_it_whatever_happens(world):
    mine, other = world.make(), world.make()
    with pytest.raises(KeyError), mine:
        raise KeyError(mine.trusted())

    assert not mine.trusted()
    assert other.try_acquire()


@pytest.mark.lease("L19")
@pytest.mark.parametrize("ttl", [0, -1, 0.01, 100_000, float("nan"), float("inf"), "10", True])
def test_a_ttl_is_seconds(world, ttl):
    with pytest.raises(LeaseError, match="ttl"):
        world.make(ttl=ttl)


@pytest.mark.lease("L06")
@pytest.mark.parametrize("name", ["", "  ", "x" * 181, None])
def test_a_name_is_text(world, name):
    with pytest.raises(LeaseError, match="lease name"):
        world.make(name)


def test_of_many_that_race_one_has_it(world):
    leases = [world.make() for _ in range(8)]
    for lease in leases:
        lease.try_acquire()
        lease.release()  # connected, and free again
    start, won = threading.Barrier(len(leases)), []

    def race(lease):
        start.wait()
        if lease.try_acquire():
            won.append(lease)

    threads = [threading.Thread(target=race, args=[lease]) for lease in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(won) == 1
