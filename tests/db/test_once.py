"""`Singleton.once`: an item gets a yes one time, whoever asks, in the caller's transaction or alone; an old term is refused."""

import asyncio
import threading
from urllib.parse import urlsplit

import asyncpg
import psycopg
import pytest
import sqlalchemy

from fastq.config import Config
from fastq.errors import DatabaseUnavailable, LeaseLost, OptionError
from fastq.leases import lease
from fastq.leases.elector import Trust
from fastq.leases.lease import Fence, boottime
from fastq.leases.singleton import Notice, Session, Singleton
from tests.db.jobs import session
from tests.helpers import execute

NAME = "singleton:orders"
TTL = 60.0
ITEMS = [f"order-{number}" for number in range(1_000)]


@pytest.fixture
def hold(database):
    """Give a function that acquires the lease and returns the handle of that term; `fence`: of a term that is held already."""
    config = Config.load(database_url=database, lease_ttl=TTL)
    elector, sessions = session(database), []

    def acquire(holder="me", fence=None):
        if fence is None:
            execute(database, "update fastq.lease set holder = '' where name = %s", NAME)
            fence = Fence(NAME, holder, lease.acquire(elector, NAME, holder, TTL).term)
        own = Session(config, database)
        sessions.append(own)
        return Singleton("orders", fence, Notice(Trust(boottime() + TTL)), own)

    yield acquire
    for own in sessions:
        own.close()
    elector.close()


def noted(database):
    return execute(database, "select count(*)::int, count(distinct item)::int from fastq.once")[0]


@pytest.mark.lease("L54")
def test_an_item_is_new_once(hold, database):
    mine = hold()

    assert [mine.once("a"), mine.once("a"), mine.once("b")] == [True, False, True]
    assert execute(database, "select name, item, term from fastq.once order by item") == [
        (NAME, "a", mine.term),
        (NAME, "b", mine.term),
    ]


@pytest.mark.lease("L54")
def test_an_item_stays_known_to_the_next_holder(hold):
    assert hold("me").once("a")
    assert not hold("you").once("a")


@pytest.mark.lease("L53", "L54")
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in transactions"])
def test_two_holders_at_once_get_each_item_once(hold, database, alone):
    first = hold()
    holders = [first, hold(fence=first.fence)]  # the lease as if it were no use
    start, yes = threading.Barrier(2), [[], []]

    def act(number):
        start.wait()
        with psycopg.connect(database) as conn:
            for item in ITEMS if number else ITEMS[500:] + ITEMS[:500]:
                if holders[number].once(item, None if alone else conn):
                    yes[number].append(item)
                conn.commit()

    threads = [threading.Thread(target=act, args=[number]) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(yes[0] + yes[1]) == sorted(ITEMS)
    assert yes[0]
    assert yes[1]
    assert noted(database) == (1_000, 1_000)


@pytest.mark.lease("L20", "L54")
def test_an_old_term_is_refused_though_it_trusts_itself(hold, database):
    old = hold("me")
    new = hold("you")

    with pytest.raises(LeaseLost, match="is over"):
        old.once("a")
    with psycopg.connect(database) as conn, pytest.raises(LeaseLost):
        old.once("a", conn)
    assert noted(database) == (0, 0)
    assert new.once("a")


def test_a_lease_that_ran_out_is_refused_though_nobody_took_it(hold, database):
    mine = hold()
    execute(database, "update fastq.lease set expires_at = clock_timestamp()")

    with pytest.raises(LeaseLost):
        mine.once("a")
    assert noted(database) == (0, 0)


def test_who_does_not_trust_itself_asks_nobody(hold, database):
    mine = hold()
    mine._notice.trust.until = 0.0

    with pytest.raises(LeaseLost):
        mine.once("a")
    assert mine._session.kept.connection is None
    assert mine.stopping


def test_a_note_is_part_of_the_callers_transaction(hold, database):
    mine = hold()
    with psycopg.connect(database) as conn:
        assert mine.once("a", conn)
        assert not mine.once("a", conn)
        conn.rollback()
        assert mine.once("a", conn)

    assert not mine.once("a")
    assert mine._session.kept.connection is not None, "only what is alone needs a connection"


def test_a_second_transaction_waits_for_the_first_and_acts_if_that_does_not(hold, database):
    mine, other = hold(), None
    with psycopg.connect(database) as conn:
        assert mine.once("a", conn)
        other = threading.Thread(target=lambda: answers.append(mine.once("a")))
        answers = []
        other.start()
        other.join(0.2)
        assert answers == []
        conn.rollback()
    other.join(5)

    assert answers == [True]


def test_nobody_who_takes_over_waits_for_a_transaction_of_the_old_holder(hold, database):
    mine = hold("me")
    with psycopg.connect(database) as conn:
        assert mine.once("a", conn)
        assert hold("you").once("b")


def test_a_sqlalchemy_connection_will_do(hold, database):
    engine = sqlalchemy.create_engine(urlsplit(database)._replace(scheme="postgresql+psycopg").geturl())
    with engine.begin() as conn:
        assert hold().once("a", conn)
    engine.dispose()

    assert noted(database) == (1, 1)


def test_a_coroutine_asks_on_asyncpg_or_alone(hold, database):
    mine = hold()

    async def act():
        conn = await asyncpg.connect(database)
        async with conn.transaction():
            assert await mine.once_async("a", conn)
        await conn.close()
        assert not await mine.once_async("a")
        assert await mine.once_async("b")

    asyncio.run(act())
    assert noted(database) == (2, 2)


@pytest.mark.parametrize("item", ["", "x" * 513, "a\0b", 7, None])
def test_an_item_is_a_short_text(hold, item):
    with pytest.raises(OptionError, match="expected an item"):
        hold().once(item)


def test_a_lost_connection_is_told_and_made_anew_for_the_next_item(hold, database):
    mine = hold()
    mine.once("a")
    execute(database, "select pg_terminate_backend(%s)", mine._session.kept.connection.backend_pid)

    with pytest.raises(DatabaseUnavailable, match="once"):
        mine.once("b")
    assert mine.once("b")
