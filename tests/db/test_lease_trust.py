"""A lease and time: trust ends before the lease does, whatever clocks do, and terms grow."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from fastq.leases import lease
from fastq.leases.lease import MARGIN, Watch, boottime
from tests.db.jobs import session
from tests.db.lease_rows import NAME, expire, renew, row, shift, take
from tests.helpers import Stopwatch, execute, wait_for

HOLDER = "select holder from fastq.lease where name = 'user:report'"


@pytest.mark.lease("L16")
@pytest.mark.parametrize("days", [1, -1])
def test_a_candidates_wall_clock_changes_nothing(connection, make, monkeypatch, days):
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + days * 86_400)
    fresh = take(connection, ttl=30.0)

    assert 29.0 < row(connection)[2] <= 30.0
    assert take(connection, "b") is None
    assert renew(connection, fresh, ttl=20.0)
    assert 19.0 < row(connection)[2] <= 20.0
    mine = make()
    assert mine.try_acquire()
    assert mine.trusted()


@pytest.mark.lease("L17")
def test_trust_begins_when_the_request_was_sent_not_when_its_answer_came(proxy, make):
    mine = make(url=proxy.url, ttl=2.0)
    assert mine.try_acquire()  # connects
    proxy.late = 0.5

    sent = boottime()
    assert mine.renew()
    assert boottime() - sent > 0.5
    wait_for(lambda: not mine.trusted(), 3.0)

    assert 2.0 * (1 - MARGIN) <= boottime() - sent < 2.0 * (1 - MARGIN) + 0.2


@pytest.mark.lease("L17")
def test_an_acquisition_whose_answer_came_too_late_is_none(proxy, database, make):
    with psycopg.connect(proxy.url, autocommit=True) as conn:
        mine = make(conn=conn, ttl=0.5)
        proxy.late = 0.6
        assert not mine.try_acquire()
        assert mine.term is None
        assert execute(database, HOLDER) == [("",)], "it was given back"


@pytest.mark.lease("L18")
def test_trust_is_kept_on_a_clock_that_goes_on_while_the_machine_is_suspended(make, monkeypatch):
    mine = make(ttl=10.0)
    assert mine.try_acquire()
    assert mine.trusted()

    assert (boottime.func, boottime.args) == (time.clock_gettime, (time.CLOCK_BOOTTIME,))
    monkeypatch.setattr(lease, "boottime", lambda: boottime() + 10.0)

    assert not mine.trusted()
    assert mine.term is None
    assert not mine.renew()


@pytest.mark.lease("L21")
def test_a_server_clock_that_was_set_back_does_not_keep_a_dead_holders_lease_alive(connection):
    dead = take(connection, ttl=0.3)
    shift(connection, "1 hour")  # it now expires an hour from now
    watch = Watch()

    stopwatch, taken = Stopwatch(), None
    while taken is None:
        answer = lease.acquire(connection, NAME, "b", 0.3, seen=watch.stale())
        taken = answer.term
        if taken is None:
            assert stopwatch.idle() < 2.0
            time.sleep(watch.note(answer))

    assert stopwatch.clock() >= 0.3, "the holder had its whole ttl to renew"
    assert stopwatch.idle() < 1.0, "and no hour more"
    assert taken > dead.term
    assert connection.run_one("lease_hold", *dead) == (0,)


@pytest.mark.lease("L21")
def test_a_server_clock_that_was_set_back_does_not_cost_a_living_holder_its_lease(connection, other):
    ttl = 1.0  # s; a statement may take two fifths of it
    mine = take(connection, ttl=ttl)
    shift(connection, "1 hour")
    watch = Watch()
    give_up = time.monotonic() + 3 * ttl

    while time.monotonic() < give_up:
        assert renew(connection, mine, ttl=ttl)
        answer = lease.acquire(other, NAME, "b", ttl, seen=watch.stale(), timeout=5.0)
        assert answer.term is None
        watch.note(answer)


@pytest.mark.lease("L21")
def test_a_server_clock_that_was_set_forward_ends_the_term_before_another_begins(connection, other):
    mine = take(connection)
    shift(connection, "-1 hour")

    assert connection.run_one("lease_hold", *mine) == (0,), "its fence is stale at once"
    assert not renew(connection, mine)
    yours = take(other, "b")
    assert yours.term > mine.term
    assert connection.run_one("lease_hold", *mine) == (0,)
    assert other.run_one("lease_hold", *yours) == (1,)


@pytest.mark.lease("L22")
def test_fifty_candidates_of_a_locked_stale_lease_do_not_queue_up(connection, other, database):
    take(connection)
    expire(connection)
    other.execute("begin")
    other.execute("select from fastq.lease for update")
    sessions = [session(database) for _ in range(50)]
    together = threading.Barrier(51)
    ended = threading.Event()
    waiters = []

    def attempt(one):
        together.wait(10)
        return [take(one, "b") for _ in range(5)]

    def count():
        text = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'fastq test'"
        while not ended.is_set():
            waiters.append(connection.execute(text)[0][0])

    with ThreadPoolExecutor(51) as threads:
        counting = threads.submit(count)
        attempts = [threads.submit(attempt, one) for one in sessions]
        together.wait(10)
        stopwatch = Stopwatch()
        answers = [attempt.result(40) for attempt in attempts]
        took = stopwatch.idle()
        ended.set()
        counting.result(10)
    for one in sessions:
        one.close()
    other.execute("rollback")

    assert answers == [[None] * 5] * 50
    assert max(waiters) == 0
    assert took < 5.0


@pytest.mark.lease("L32")
def test_the_term_grows_although_an_older_copy_of_the_row_came_back(connection):
    before = take(connection)
    copy = connection.execute("select holder, term from fastq.lease")[0]
    terms = [before.term]
    for number in range(5):
        expire(connection)
        terms.append(take(connection, f"holder {number}").term)
    connection.execute("update fastq.lease set holder = $1, term = $2, expires_at = '-infinity'", *copy)  # a restored backup
    terms.append(take(connection, "b").term)
    connection.execute("update fastq.lease set holder = '', term = 0, expires_at = '-infinity'")  # a failover that lost it all
    terms.append(take(connection, "c").term)
    connection.execute("update fastq.lease set term = term + 3600000000")  # a clock that was ahead
    ahead = row(connection)[1]
    expire(connection)
    terms += [ahead, take(connection, "d").term]

    assert terms == sorted(set(terms))
