"""Renewing and releasing: only the holder in its term does either, and an error is no answer."""

import psycopg
import pytest

from fastq.errors import DatabaseUnavailable
from fastq.leases import lease
from fastq.leases.lease import boottime
from fastq.postgres import db
from tests.db.lease_rows import TTL, expire, release, renew, row, take
from tests.helpers import Stopwatch, execute, wait_for
from tests.proxy import Proxy

HOLDER = "select holder from fastq.lease where name = 'user:report'"


@pytest.mark.lease("L09")
def test_renewing_prolongs_by_the_ttl_from_now_and_keeps_the_term(connection):
    mine = take(connection, ttl=100.0)

    assert renew(connection, mine, ttl=300.0)

    holder, term, left = row(connection)
    assert (holder, term) == ("a", mine.term)
    assert 200.0 < left <= 300.0


@pytest.mark.lease("L09")
def test_nobody_else_and_no_other_term_can_renew(connection):
    mine = take(connection)
    expire(connection)
    again = take(connection)  # the same holder, in a new term

    before = row(connection)[2]
    assert not renew(connection, mine), "the old term"
    assert not renew(connection, again._replace(holder="b"))
    assert not renew(connection, again._replace(term=again.term + 1))
    assert not renew(connection, again._replace(name="leader:y"))
    assert row(connection)[2] <= before, "nothing was prolonged"
    assert renew(connection, again)


@pytest.mark.lease("L09")
def test_many_leases_are_renewed_at_once_each_for_itself(connection):
    fences = [take(connection, name=f"lease {number}") for number in range(5)]
    connection.execute("update fastq.lease set holder = 'b' where name = 'lease 1'")
    connection.execute("update fastq.lease set expires_at = clock_timestamp() where name = 'lease 2'")
    connection.execute("update fastq.lease set resign_term = term where name = 'lease 3'")

    assert lease.renew(connection, fences, TTL, 5.0) == {"lease 0": False, "lease 3": True, "lease 4": False}


@pytest.mark.lease("L10")
def test_after_a_takeover_renewing_fails_and_a_fenced_statement_does_nothing(connection, other):
    old = take(connection)
    expire(connection)
    new = take(other, "b")

    assert not renew(connection, old)
    assert connection.run_one("lease_hold", *old) == (0,)
    assert other.run_one("lease_hold", *new) == (1,)


@pytest.mark.lease("L11")
def test_a_lease_that_ran_out_cannot_be_renewed_although_nobody_took_it(connection, make):
    old = take(connection)
    expire(connection)
    assert not renew(connection, old)
    assert take(connection).term > old.term, "it can be taken again, as a new term"

    mine = make(ttl=0.3)
    assert mine.try_acquire()
    wait_for(lambda: not mine.trusted())
    assert not mine.renew()
    assert mine.term is None


@pytest.mark.lease("L11", "L17")
def test_a_renewal_that_is_answered_after_the_trust_was_over_gives_the_lease_back(proxy, database, make):
    # Handed in, so that no deadline cuts it: who asked `trusted` meanwhile was told to stop.
    with psycopg.connect(proxy.url, autocommit=True) as conn:
        mine = make(conn=conn, ttl=1.0)
        assert mine.try_acquire()
        wait_for(lambda: mine._trusted_until - boottime() < 0.3)
        proxy.late = 0.4

        assert not mine.renew()
        assert not mine.trusted()
        assert execute(database, HOLDER) == [("",)]


@pytest.mark.lease("L12")
def test_an_error_while_renewing_is_no_answer_and_trust_runs_out_by_itself(proxy, make):
    mine = make(url=proxy.url, ttl=1.0)
    watch = Stopwatch()
    assert mine.try_acquire()
    proxy.black_hole()

    with pytest.raises(DatabaseUnavailable):
        mine.renew()

    assert watch.idle() < 1.0, "the renewal was given up while the lease was still ours"
    wait_for(lambda: not mine.trusted(), 1.0)
    assert not mine.renew(), "and no statement is sent any more"
    proxy.restore()


@pytest.mark.lease("L12")
def test_after_an_error_a_renewal_in_time_goes_on_in_the_same_term(proxy, make):
    mine = make(url=proxy.url, ttl=2.0)
    assert mine.try_acquire()
    term = mine.term
    proxy.sever()
    with pytest.raises(DatabaseUnavailable):
        mine.renew()

    assert mine.trusted()
    assert mine.renew()
    assert mine.term == term


@pytest.mark.lease("L12", "L29")
def test_a_renewal_that_is_lost_without_a_word_leaves_time_for_another(database, make):
    with Proxy(database, {"renew": db.statement("lease_renew")}) as wire:
        mine = make(url=wire.url, ttl=6.0)
        assert mine.try_acquire()
        wire.hold("renew")
        with pytest.raises(DatabaseUnavailable):
            mine.renew()

        assert mine.trusted()
        assert mine.renew()
        mine.close()


@pytest.mark.lease("L13")
def test_releasing_frees_at_once_and_only_what_is_ours(connection, other):
    mine = take(connection)
    assert take(other, "b") is None
    assert release(connection, mine)
    assert not release(connection, mine), "a second time"
    yours = take(other, "b")
    assert yours.term > mine.term
    assert not release(connection, mine), "after a takeover"
    assert not release(connection, yours._replace(holder="a")), "by somebody else"
    assert row(connection)[0] == "b"


@pytest.mark.lease("L13")
def test_a_user_is_told_whether_releasing_freed_it(make, connection):
    mine = make()
    assert not mine.release(), "it was never ours"
    assert mine.try_acquire()
    assert mine.release()
    assert not mine.release()
    assert mine.try_acquire()
    expire(connection)
    take(connection, "b", name="user:report")
    assert not mine.release()


@pytest.mark.lease("L14")
def test_releasing_an_old_term_does_not_free_the_new_one_of_the_same_holder(connection):
    old = take(connection)
    expire(connection)
    new = take(connection)

    assert not release(connection, old)
    assert row(connection)[:2] == ("a", new.term)
