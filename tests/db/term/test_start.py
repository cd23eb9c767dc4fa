"""A term starts whole or not at all, three times at most, and delays nobody by it."""

import itertools
import threading
import time

import pytest

from fastq.lead.term import term
from fastq.leases import lease
from fastq.leases.elector import Trust
from fastq.leases.lease import RENEW_AT, boottime
from tests.db.term.sweeps import NAME, SESSIONS, Gate, Sweep, alive, expire, holder, min_left, names
from tests.helpers import Stopwatch, after_renewals, execute, wait_for
from tests.proxy import Proxy


@pytest.mark.slow
@pytest.mark.lease("L38")
def test_a_start_is_tried_three_times_one_and_two_seconds_apart_and_then_given_up_at_once(make):
    tried = []

    def cannot():
        tried.append(time.monotonic())
        raise RuntimeError("no")

    one = make(cannot)
    one.start()
    wait_for(lambda: one.ended, 20.0)
    tried.append(time.monotonic())

    assert [round(later - earlier) for earlier, later in itertools.pairwise(tried)] == [1, 2, 0]
    assert one.given_up == [one.fence]


@pytest.mark.lease("L38", "L39")
@pytest.mark.parametrize("failures", [1, 2])
def test_a_start_that_fails_is_torn_down_whole_and_begun_anew(make, database, events, hasty, failures):
    made, left = [], [failures]

    def fail(_):
        wait_for(lambda: len(execute(database, SESSIONS)) == 3, what="the end of the sessions of the attempt before")
        if left[0]:
            left[0] -= 1
            raise RuntimeError("not yet")

    def make_chores():
        made.append([Sweep("first"), Sweep("second"), Sweep("third", start=fail)])
        return [made[-1][:1], made[-1][1:2], made[-1][2:]]

    one = make(make_chores)
    one.start()
    wait_for(lambda: len(made) == failures + 1 and all("run" in chore.said for chore in made[-1]))

    assert [[chore.said for chore in chores] for chores in made[:-1]] == [[["start"]] * 3] * failures, "none of them ever ran"
    wait_for(lambda: names(events, "term.started"))
    assert names(events, "term.not_started", "term.started") == ["term.not_started"] * failures + ["term.started"]
    assert one.given_up == []
    wait_for(lambda: len(execute(database, SESSIONS)) == 3)


@pytest.mark.lease("L38")
def test_after_three_attempts_with_growing_pauses_the_lease_is_given_up_for_another_and_nothing_is_left(
    make, database, events, monkeypatch
):
    monkeypatch.setattr(term, "BACKOFF", (0.4, 0.8))
    made = []

    def fail(_):
        raise ZeroDivisionError

    def make_chores():
        made.append(time.monotonic())
        return [[Sweep()], [Sweep(start=fail)]]

    one = make(make_chores)
    one.start()
    wait_for(lambda: one.ended)

    first, second, third = made
    assert second - first >= 0.4
    assert third - second >= 0.8
    assert one.given_up == [one.fence]
    told = [event for event in events if event.name == "term.not_started"]
    assert [event.fields["attempt"] for event in told] == [1, 2, 3]
    assert "ZeroDivisionError" in str(told[0])
    assert alive(one) == []
    wait_for(lambda: execute(database, SESSIONS) == [])


@pytest.fixture
def no_second_thread(monkeypatch):
    """Let the threads of second tracks start only as often as the list that this gives has entries."""
    start, allowed = threading.Thread.start, []

    def refuse(thread):
        if thread.name == f"fastq {NAME} 2":
            if not allowed:
                raise RuntimeError("can't start new thread")
            allowed.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    return allowed


@pytest.mark.lease("L38", "L39")
def test_a_term_one_of_whose_threads_cannot_start_runs_no_chore_at_all_and_gives_the_lease_up(
    make, database, events, hasty, no_second_thread
):
    made = []

    def make_chores():
        made.extend((Sweep("promote", every=0.01), Sweep("rescue", every=0.01)))
        return [[made[-2]], [made[-1]]]

    one = make(make_chores)
    one.start()
    wait_for(lambda: one.ended, 5.0, "the end of the term")

    assert [chore.said for chore in made] == [["start"]] * 6
    assert one.given_up == [one.fence]
    assert names(events, "term.not_started", "term.started") == ["term.not_started"] * 3
    assert alive(one) == []
    wait_for(lambda: execute(database, SESSIONS) == [])


@pytest.mark.lease("L38", "L39")
def test_a_term_one_of_whose_threads_could_not_start_is_whole_when_it_can(make, database, hasty, no_second_thread):
    made = []

    def make_chores():
        made.append((Sweep("promote", every=0.01), Sweep("rescue", every=0.01)))
        no_second_thread.extend([True] * (len(made) == 3))
        return [made[-1][:1], made[-1][1:]]

    one = make(make_chores)
    one.start()
    wait_for(lambda: len(made) == 3 and all(chore.said.count("run") > 3 for chore in made[-1]))

    assert [chore.said for chores in made[:2] for chore in chores] == [["start"]] * 4
    assert one.given_up == []
    assert sorted(alive(one)) == [f"fastq {NAME} 1", f"fastq {NAME} 2"]
    wait_for(lambda: len(execute(database, SESSIONS)) == 2)


@pytest.mark.lease("L38")
def test_the_pauses_between_attempts_are_kept_although_trust_is_prolonged_bit_by_bit(make, monkeypatch):
    monkeypatch.setattr(term, "BACKOFF", (0.6,))
    tried, ended = [], threading.Event()
    trust = Trust(boottime() + 0.1)

    def prolong():
        while not ended.wait(0.02):
            trust.until = boottime() + 0.1

    prolonging = threading.Thread(target=prolong)
    prolonging.start()

    def make_chores():
        tried.append(time.monotonic())
        raise RuntimeError("no")

    one = make(make_chores, trust=trust)
    one.start()
    wait_for(lambda: one.ended)
    ended.set()
    prolonging.join()

    assert tried[1] - tried[0] >= 0.6


@pytest.mark.lease("L38")
def test_a_supervisor_that_cannot_start_hands_over_to_one_that_can_and_does_not_try_again_at_once(
    stand, connection, database, hasty
):
    attempts = []

    def cannot():
        attempts.append(time.monotonic())
        raise RuntimeError("no disk")

    able = Sweep(every=0.05)
    first = stand(cannot)
    wait_for(lambda: attempts)
    second = stand(lambda: [[able]])
    wait_for(lambda: holder(connection) == "" or "run" in able.said)
    second.hint(NAME)  # as the listener does

    wait_for(lambda: "run" in able.said, 5.0)
    tried = len(attempts)
    after_renewals(database, NAME, 3)  # more than the first one rests
    assert tried == 3
    assert len(attempts) == 3
    assert first.terms[0].ended
    assert second.terms


@pytest.mark.lease("L38")
def test_if_nobody_can_start_nobody_is_busy_with_it(stand, hasty):
    attempts = []

    def cannot():
        attempts.append(time.monotonic())
        raise RuntimeError("no disk")

    stand(cannot)
    stand(cannot)
    time.sleep(3.0)  # what is counted is how often in that time

    # Each term tries three times in 0.15 s, and who has resigned rests for 2 s.
    assert 6 <= len(attempts) <= 15


@pytest.mark.lease("L40")
@pytest.mark.parametrize("reason", ["lost", "stop", "resign"])
def test_a_term_that_ends_between_two_attempts_tries_no_more_and_gives_nothing_up(make, reason, monkeypatch):
    monkeypatch.setattr(term, "BACKOFF", (30.0, 30.0))
    tried = threading.Event()

    def make_chores():
        tried.set()
        raise RuntimeError("not yet")

    one = make(make_chores)
    one.start()
    assert tried.wait(5)
    watch = Stopwatch()
    one.end(reason)
    wait_for(lambda: one.ended, 2.0)

    assert watch.idle() < 1.0
    assert one.given_up == []


@pytest.mark.lease("L40")
def test_leadership_lost_between_two_attempts_does_not_cost_the_new_leader_anything(stand, connection, monkeypatch):
    monkeypatch.setattr(term, "BACKOFF", (0.8,))
    tried = threading.Event()

    def cannot():
        tried.set()
        raise RuntimeError("not yet")

    old = stand(cannot)
    assert tried.wait(5)
    connection.execute("update fastq.lease set holder = 'other', term = term + 1, expires_at = 'infinity' where name = $1", NAME)
    wait_for(lambda: old.terms[0].ended, what="the term to end")

    assert len(old.terms) == 1
    assert holder(connection) == "other"
    assert connection.execute("select resign_term from fastq.lease where name = $1", NAME) == [(None,)]


@pytest.mark.lease("L39")
def test_a_term_that_ends_while_it_starts_runs_nothing_and_leaves_no_session(make, database):
    gate, later = Gate(), Sweep("later")
    one = make(lambda: [[Sweep("blocked", start=gate.wait)], [later]])
    one.start()
    assert gate.reached.wait(5)
    one.end("lost")
    assert not one.ended, "it cannot be interrupted"
    gate.opened.set()
    wait_for(lambda: one.ended, 5.0)

    assert later.said == []
    assert one.given_up == []
    wait_for(lambda: execute(database, SESSIONS) == [])


@pytest.mark.lease("L34", "L35")
def test_a_blocked_start_of_an_old_term_touches_nothing_of_the_new_one(stand, connection):
    gate, chores = Gate(), []

    def make_chores():
        chores.append(Sweep(str(len(chores)), every=0.02, start=None if chores else gate.wait))
        return [[chores[-1]]]

    elector = stand(make_chores)
    assert gate.reached.wait(5)
    expire(connection)  # lost, and regained at once, while the first start is blocked
    wait_for(lambda: len(elector.terms) == 2, 5.0)
    wait_for(lambda: len(chores) == 2 and chores[1].said.count("run") > 3)

    gate.opened.set()
    old, new = elector.terms
    wait_for(lambda: old.ended)
    runs = chores[1].said.count("run")
    wait_for(lambda: chores[1].said.count("run") > runs + 3)

    assert chores[0].said == ["start", "lost"], "the old one never ran"
    assert chores[1].said.count("start") == 1
    assert not new.ended
    assert len(elector.terms) == 2
    assert holder(connection) == lease.identity()


@pytest.mark.lease("L36")
def test_a_start_that_blocks_delays_no_renewal(stand, connection):
    gate = Gate()
    elector = stand(lambda: [[Sweep(start=gate.wait)]], ttl=1.0)
    assert gate.reached.wait(5)
    try:
        assert min_left(connection, 2.0) > 1.0 * (1 - RENEW_AT) - 0.25
    finally:
        gate.opened.set()
    assert len(elector.terms) == 1


@pytest.mark.lease("L29", "L39")
def test_a_start_that_hears_nothing_from_the_server_can_be_cut_by_the_watchdog(make, database, hasty):
    with Proxy(database) as proxy:
        chore = Sweep(start=lambda site: (proxy.black_hole(), site.connection.execute("select 1")))
        one = make(lambda: [[chore]], url=proxy.url)
        one.start()
        wait_for(lambda: any(connection.deadline for connection in one.watched()), 5.0)
        one.end("lost")
        for connection in one.watched():
            connection.cut()
        wait_for(lambda: one.ended, 5.0)
        proxy.restore()
