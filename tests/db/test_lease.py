"""A user's lease: a block that holds it, and what makes two holders harmless."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fastq import Lease
from fastq.leases import lease
from fastq.leases.lease import Fence
from tests.db.jobs import session
from tests.db.lease_rows import row, take
from tests.helpers import Stopwatch


def test_a_with_block_holds_a_lease_and_frees_it(make, connection):
    with make() as mine:
        assert mine.trusted()
        assert row(connection, "user:report")[:2] == (lease.identity(), mine.term)
        assert mine.fence == Fence("user:report", lease.identity(), mine.term)
    assert not mine.trusted()
    assert row(connection, "user:report")[0] == ""


def test_acquiring_waits_until_the_lease_is_free_and_not_longer_than_told(make):
    mine, yours = make(ttl=5.0), make(ttl=5.0)
    assert mine.acquire()
    watch = Stopwatch()
    assert not yours.acquire(timeout=0.2)
    assert watch.clock() >= 0.2
    assert watch.idle() < 1.0

    threading.Timer(0.3, mine.release).start()
    assert yours.acquire(timeout=10.0)
    assert yours.term


def test_acquiring_takes_over_from_a_holder_that_died_when_its_ttl_is_over(make, connection):
    take(connection, "dead", ttl=0.5, name="user:report")
    watch = Stopwatch()

    assert make().acquire(timeout=5.0)

    assert watch.clock() > 0.4
    assert watch.idle() < 1.0


@pytest.mark.lease("L41")
def test_a_holder_that_was_asked_to_resign_gives_the_lease_up_at_its_next_renewal(make, connection):
    mine = make()
    assert mine.try_acquire()
    connection.run("lease_resign", "user:report", None, "fastq")

    assert not mine.renew()
    assert not mine.trusted()
    assert row(connection, "user:report")[0] == ""


def test_closing_while_the_database_is_away_does_not_hide_what_happened_in_the_block(proxy, database):
    def block():
        with Lease("report", url=proxy.url, ttl=1.0):
            proxy.close()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()


# Advisory locks, and the uniqueness that makes two holders harmless


@pytest.mark.lease("L54")
@pytest.mark.parametrize(
    "text",
    [
        "insert into fastq.periodic_tick values ('n', '2030-01-01', $1::int8) on conflict do nothing returning 1",
        "insert into fastq.once (name, item, term) values ('n', 'i', $1::int8) on conflict do nothing returning 1",
    ],
    ids=["tick", "once"],
)
def test_of_many_that_act_on_an_item_at_once_the_database_lets_one(database, text):
    sessions = [session(database) for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda one, number: one.execute(text, number), sessions, itertools.count()))
    for one in sessions:
        one.close()

    assert sum(map(len, answers)) == 1
