"""The chores of a term run when they are due or woken, hold up nothing and nobody, and what they did is noted."""

import threading

import pytest

from fastq.lead.term import term
from fastq.leases.lease import RENEW_AT
from tests.db.term.sweeps import FENCED, NAME, SESSIONS, Sweep, min_left, names
from tests.helpers import Stopwatch, execute, wait_for

NOTED = "select name, runs, changed, xmin::text from fastq.chore order by name"


def test_chores_are_started_run_when_they_are_due_and_told_why_they_end(make):
    quick, slow = Sweep("quick", every=0.01), Sweep("slow")
    one = make(lambda: [[quick, slow]])
    one.start()
    wait_for(lambda: quick.said.count("run") > 5 and "run" in slow.said)
    one.end("resign")
    wait_for(lambda: one.ended)

    assert quick.said[0] == slow.said[0] == "start"
    assert quick.said[-1] == "resign"
    assert slow.said == ["start", "run", "resign"]


def test_a_chore_that_is_woken_runs_at_once(make):
    woken = []
    lazy, other = Sweep("lazy", run=lambda site: woken.append(site.woken)), Sweep("other")
    one = make(lambda: [[lazy], [other]])
    one.start()
    wait_for(lambda: lazy.said.count("run") == 1 and other.said.count("run") == 1)
    for times in range(2, 6):
        one.wake("lazy")
        wait_for(lambda times=times: lazy.said.count("run") == times, 1.0)
    assert other.said.count("run") == 1
    assert woken == [False, True, True, True, True]


@pytest.mark.lease("L28", "L35")
def test_a_statement_of_a_chore_that_takes_seconds_and_holds_the_fence_delays_no_renewal(stand, connection):
    held = []
    running = threading.Event()

    def run(site):
        running.set()
        held.append(site.connection.execute(FENCED, *site.fence, 0.45)[0][0])  # half the ttl is what a statement may take
        return 0.001

    elector = stand(lambda: [[Sweep(run=run)], [Sweep(run=run)]], ttl=1.0)
    assert running.wait(5)
    assert min_left(connection, 3.0) > 1.0 * (1 - RENEW_AT) - 0.25, "a renewal was late by a quarter of the ttl"
    assert held
    assert set(held) == {1}
    assert len(elector.terms) == 1


@pytest.mark.lease("L28")
def test_a_statement_that_a_chore_cannot_finish_is_cut_off_by_the_server_within_half_of_the_lease(make, events, connection):
    took = []

    def run(site):
        watch = Stopwatch()
        try:
            site.connection.execute("select pg_sleep(30)")
        finally:
            took.append((watch.clock(), watch.idle()))

    one = make(lambda: [[Sweep(run=run)]])
    one.start()
    wait_for(lambda: took)

    clock, idle = took[0]
    assert clock > 0.9, "the ttl is 2 s"
    assert idle < 1.4
    wait_for(lambda: names(events, "chore.failed"))
    assert one.watched()
    assert next(iter(one.watched())).usable, "the session goes on"


@pytest.mark.lease("L33")
def test_statements_that_came_too_late_are_counted_over_all_terms_also_when_a_later_one_has_noted_first(connection):
    def note(term_, runs, fenced, error=None):
        connection.run("chore_note", NAME, term_, ["prune"], [0.0], [0.1], [runs], [7 * runs], [fenced], [error])

    note(1, 10, 0)
    note(1, 20, 1, "too late")
    note(3, 1, 0)
    note(2, 30, 2, "too late as well")
    note(3, 2, 0)

    columns = "select term, runs, changed, fenced, error from fastq.chore"
    assert connection.execute(columns) == [(3, 2, 14, 3, None)]
    note(2, 31, 0)
    assert connection.execute(columns) == [(3, 2, 14, 3, None)]


def test_a_chore_that_fails_holds_up_no_other_and_is_tried_again(make, monkeypatch, events, connection):
    monkeypatch.setattr(term, "FAILED_PAUSE", 0.05)

    def fail(site):
        site.connection.execute("select 1 / 0")

    def broken(_):
        raise KeyError("x")

    failing, wrong, good = Sweep("failing", run=fail), Sweep("wrong", run=broken), Sweep("good", every=0.01)
    one = make(lambda: [[failing, wrong, good]])
    one.start()
    wait_for(lambda: min(chore.said.count("run") for chore in (failing, wrong, good)) >= 3)

    assert names(events, "chore.failed", "chore.broken").count("chore.broken") >= 2
    said = dict(connection.execute("select name, error from fastq.chore"))
    assert said["failing"] == "division by zero"
    assert said["wrong"] == "KeyError: 'x'"
    assert one.given_up == []


def noted(connection):
    """Return runs and rows changed by chore, as they are noted."""
    return {name: (runs, changed) for name, runs, changed, _ in connection.execute(NOTED)}


def test_what_changed_is_noted_within_seconds_though_nothing_else_is_due(make, connection, monkeypatch):
    monkeypatch.setattr(term, "NOTE_CHANGED", 0.3)

    def change(site):
        site.changed += 7 * bool(promote.said.count("run") - 1)

    promote, idle = Sweep("promote", run=change), Sweep("idle")
    one = make(lambda: [[promote, idle]])
    one.start()
    wait_for(lambda: noted(connection) == {"idle": (1, 0), "promote": (1, 0)}, 5.0, "the first runs, at once")
    one.wake("promote")

    wait_for(lambda: noted(connection)["promote"] == (2, 7), 1.5, "what was changed")


def test_a_leader_with_nothing_to_do_writes_down_that_it_ran_once_a_minute_and_not_more_often(make, connection, monkeypatch):
    assert (term.NOTE_CHANGED, term.NOTE_IDLE) == (5.0, 60.0)
    monkeypatch.setattr(term, "NOTE_CHANGED", 0.01)
    monkeypatch.setattr(term, "NOTE_IDLE", 0.6)
    busy, rare = Sweep("busy", every=0.01), Sweep("rare")
    one = make(lambda: [[busy], [rare]])
    one.start()
    wait_for(lambda: len(noted(connection)) == 2)
    before = connection.execute(NOTED)
    wait_for(lambda: busy.said.count("run") > before[0][1] + 10)

    assert connection.execute(NOTED) == before, "it has run, but changed nothing"
    wait_for(lambda: noted(connection)["busy"][0] > before[0][1], 2.0, "the minute")
    assert connection.execute(NOTED)[1] == before[1], "the other did not run"


def test_a_run_that_found_nothing_is_noted_within_the_minute_though_nothing_is_due_then(make, connection, monkeypatch):
    monkeypatch.setattr(term, "NOTE_IDLE", 0.3)
    chore = Sweep()
    one = make(lambda: [[chore]])
    one.start()
    wait_for(lambda: noted(connection) == {"sweep": (1, 0)})
    one.wake("sweep")

    wait_for(lambda: noted(connection) == {"sweep": (2, 0)}, 1.5, "the second run")


@pytest.mark.lease("L26")
def test_a_chores_session_that_was_ended_is_replaced(make, database, monkeypatch):
    monkeypatch.setattr(term, "FAILED_PAUSE", 0.05)
    chore = Sweep(every=0.01, run=lambda site: site.connection.execute("select 1") and None)
    one = make(lambda: [[chore]])
    one.start()
    wait_for(lambda: chore.said.count("run") > 3)
    (before,) = execute(database, SESSIONS)
    execute(database, "select pg_terminate_backend(%s, 5000)", *before)

    wait_for(lambda: execute(database, SESSIONS) not in ([], [before]))
    runs = chore.said.count("run")
    wait_for(lambda: chore.said.count("run") > runs + 3)
    assert one.given_up == []
