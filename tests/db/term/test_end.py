"""A term ends when its trust does, or when somebody says so; nothing runs after that, and each chore hears why."""

import pytest

from fastq.leases import lease
from fastq.leases.elector import Trust
from fastq.leases.lease import boottime
from tests.db.term.sweeps import LONG, NAME, SESSIONS, Gate, Sweep, expire
from tests.helpers import Stopwatch, execute, wait_for


@pytest.mark.lease("L10", "L33")
def test_a_fenced_statement_that_comes_too_late_does_nothing_is_counted_and_ends_the_term(make, connection, events):
    gate, answers = Gate(), []

    def run(site):
        gate.wait()
        try:
            site.write("domain_queues", "x", ["late"])
        finally:
            answers.append(connection.execute("select queues from fastq.lease where name = $1", NAME)[0][0])

    chore, neighbour = Sweep("late", run=run), Sweep("neighbour", every=0.01)
    one = make(lambda: [[chore], [neighbour]])
    one.start()
    assert gate.reached.wait(5)
    expire(connection)
    lease.acquire(connection, NAME, "other", LONG)
    gate.opened.set()
    wait_for(lambda: one.ended, 2.0)

    assert answers == [None]
    assert one.given_up
    assert set(one.given_up) == {one.fence}
    assert chore.said[-1] == neighbour.said[-1] == "lost"
    (told,) = [event for event in events if event.name == "chore.fenced"]
    assert told.fields == {"chore": "late", "lease": NAME, "term": one.fence.term}
    assert connection.execute("select name, fenced from fastq.chore where lease = $1 and fenced > 0", NAME) == [("late", 1)]


@pytest.mark.lease("L12", "L17")
def test_when_trust_is_over_no_chore_runs_any_more_though_nobody_said_so(make):
    trust = Trust(boottime() + 0.5)
    busy, idle = Sweep("busy", every=0.001), Sweep("idle")
    one = make(lambda: [[busy], [idle]], trust=trust)
    one.start()
    wait_for(lambda: one.ended, 5.0)
    late = boottime() - trust.until

    assert late < 0.5, "the idle one noticed as well"
    assert busy.said[-1] == idle.said[-1] == "lost"
    assert busy.said.count("run") > 5
    assert set(one.given_up) == {one.fence}, "else nobody would do the work if the elector thought better of it"


@pytest.mark.lease("L37")
@pytest.mark.parametrize("reason", ["lost", "resign", "stop"])
def test_each_chore_hears_the_first_reason(make, reason):
    chores = [Sweep(str(number)) for number in range(4)]
    one = make(lambda: [chores[:2], chores[2:]])
    one.start()
    wait_for(lambda: all("run" in chore.said for chore in chores))
    one.end(reason)
    one.end("stop")
    wait_for(lambda: one.ended)

    assert [chore.said[-1] for chore in chores] == [reason] * 4


@pytest.mark.lease("L39")
def test_a_chore_that_cannot_clean_up_does_not_keep_the_others_from_it(make, database, events):
    def fail(_):
        raise ZeroDivisionError

    chores = [Sweep("first", end=fail), Sweep("second")]
    one = make(lambda: [chores])
    one.start()
    wait_for(lambda: "run" in chores[1].said)
    one.end("stop")
    wait_for(lambda: one.ended)

    assert chores[1].said[-1] == "stop"
    assert "ZeroDivisionError" in str(events[-1])
    wait_for(lambda: execute(database, SESSIONS) == [])


@pytest.mark.lease("L44")
def test_ending_returns_at_once_whatever_a_chore_does(make):
    gate = Gate()
    one = make(lambda: [[Sweep(run=gate.wait)]])
    one.start()
    assert gate.reached.wait(5)
    watch = Stopwatch()
    one.end("stop")
    assert watch.idle() < 0.1
    gate.opened.set()


@pytest.mark.lease("L11")
def test_a_term_that_ended_by_itself_makes_the_elector_give_the_lease_up_and_lead_again(stand, connection):
    # Whatever the cause, nobody may go on renewing a lease under which nothing is done.
    chores = []

    def make_chores():
        chores.append(Sweep(every=0.02))
        return [[chores[-1]]]

    elector = stand(make_chores)
    wait_for(lambda: chores and "run" in chores[0].said)
    elector.terms[0]._ending.lost()

    wait_for(lambda: len(chores) == 2 and "run" in chores[1].said, 5.0)
    assert elector.terms[1].fence.term > elector.terms[0].fence.term
