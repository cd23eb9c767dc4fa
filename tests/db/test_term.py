"""One term: it starts whole or not at all, shares nothing with other terms, and ends when its trust does."""

import threading
import time

import pytest

from fastq import lease, term
from fastq.config import Config
from fastq.elector import Candidacy, Elector, Trust
from fastq.lease import RENEW_AT, Fence, boottime
from fastq.term import Term
from tests.helpers import after_renewals, execute, wait_for
from tests.proxy import Proxy

NAME = "leader:x"
LONG = 60.0  # s; longer than any test
FENCED = """with led as (
        select from fastq.lease
        where name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()
        for key share
    ), slept as (select pg_sleep($4::float8))
    select (select count(*) from led), (select count(*) from slept)"""
SESSIONS = "select pid from pg_stat_activity where application_name = 'fastq maintainer' and datname = current_database()"


class Sweep:
    """A chore that does nothing much, and says what is asked of it."""

    def __init__(self, name="sweep", *, every=LONG, start=None, run=None, end=None):
        self.name = name
        self.said = []
        self._every = every
        self._start, self._run, self._end = start, run, end

    def start(self, site):
        self.said.append("start")
        if self._start:
            self._start(site)

    def run(self, site):
        self.said.append("run")
        return (self._run(site) if self._run else None) or self._every

    def end(self, site, reason):
        self.said.append(reason)
        if self._end:
            self._end(site)


class Gate:
    """Where something waits until the test lets it pass."""

    def __init__(self):
        self.reached = threading.Event()
        self.opened = threading.Event()

    def wait(self, _=None):
        self.reached.set()
        assert self.opened.wait(20)


@pytest.fixture
def config(database):
    """Give a configuration with a short lease."""
    return Config(database_url=database, lease_ttl=2.0)


@pytest.fixture
def make(config, connection):
    """Give a function that makes a term in which the lease is really held, of chores made by a function."""
    made = []

    def term_of(make_chores, *, trust=None, fence=None, url=config.database_url):
        if fence is None:
            taken = lease.acquire(connection, NAME, "me", LONG)
            fence = Fence(NAME, "me", taken.term)
        given_up = []
        one = Term(config, url, fence, trust or Trust(boottime() + LONG), make_chores, given_up.append)
        one.given_up = given_up
        made.append(one)
        return one

    yield term_of
    for one in made:
        one.end("stop")
    for one in made:
        wait_for(lambda one=one: one.ended, 10, "the end of a term")


@pytest.fixture
def hasty(monkeypatch):
    """Make the pauses between attempts to start short."""
    monkeypatch.setattr(term, "BACKOFF", (0.05, 0.1, 0.2))


@pytest.fixture
def stand(database):
    """Give a function that makes an elector whose terms are of chores made by a function; the terms are its list."""
    standing = []

    def start(make_chores, url=database, ttl=2.0):
        config = Config(database_url=url, lease_ttl=ttl)
        terms = []

        def begin(fence, trust):
            one = Term(config, url, fence, trust, make_chores, elector.resign)
            terms.append(one)
            one.start()

        def end(fence, reason):
            for one in terms:
                if one.fence == fence:
                    one.end(reason)

        elector = Elector(config, url, [Candidacy(NAME, begin, end)])
        elector.terms = terms
        standing.append(elector)
        elector.start()
        return elector

    yield start
    for elector in standing:
        elector.stop()
    for elector in standing:
        wait_for(lambda elector=elector: elector.ended and all(one.ended for one in elector.terms), 15, "the end")


def names(events, *wanted):
    return [event.name for event in events if event.name in wanted]


def expire(connection):
    connection.execute("update fastq.lease set expires_at = clock_timestamp() - interval '1 ms' where name = $1", NAME)


def holder(connection):
    return connection.execute("select holder from fastq.lease where name = $1", NAME)[0][0]


def alive(one):
    """Tell the threads of the terms of our lease that live."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(f"fastq {NAME}")]


# Starting


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
    lazy, other = Sweep("lazy"), Sweep("other")
    one = make(lambda: [[lazy], [other]])
    one.start()
    wait_for(lambda: lazy.said.count("run") == 1 and other.said.count("run") == 1)
    for times in range(2, 6):
        one.wake("lazy")
        wait_for(lambda times=times: lazy.said.count("run") == times, 1.0)
    assert other.said.count("run") == 1


@pytest.mark.lease("L38")
def test_starting_is_tried_three_times_with_pauses_of_one_two_and_four_seconds():
    assert term.BACKOFF == (1.0, 2.0, 4.0)


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
def test_after_three_attempts_the_lease_is_given_up_for_another_and_nothing_is_left(make, database, events, hasty):
    made = []

    def fail(_):
        raise ZeroDivisionError

    def make_chores():
        made.append(Sweep(start=fail))
        return [[Sweep()], [made[-1]]]

    one = make(make_chores)
    began = time.monotonic()
    one.start()
    wait_for(lambda: one.ended)

    assert len(made) == 3
    assert time.monotonic() - began >= 0.35
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
    monkeypatch.setattr(term, "BACKOFF", (0.6, 0.0))
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

    # Each term tries three times in 0.35 s, and who has resigned rests for 2 s.
    assert 6 <= len(attempts) <= 15


@pytest.mark.lease("L40")
@pytest.mark.parametrize("reason", ["lost", "stop", "resign"])
def test_a_term_that_ends_between_two_attempts_tries_no_more_and_gives_nothing_up(make, reason, monkeypatch):
    monkeypatch.setattr(term, "BACKOFF", (30.0, 30.0, 30.0))
    tried = threading.Event()

    def make_chores():
        tried.set()
        raise RuntimeError("not yet")

    one = make(make_chores)
    one.start()
    assert tried.wait(5)
    began = time.monotonic()
    one.end(reason)
    wait_for(lambda: one.ended, 2.0)

    assert time.monotonic() - began < 1.0
    assert one.given_up == []


@pytest.mark.lease("L40")
def test_leadership_lost_between_two_attempts_does_not_cost_the_new_leader_anything(stand, connection, monkeypatch):
    monkeypatch.setattr(term, "BACKOFF", (0.8, 0.0))
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


def min_left(connection, seconds):
    """Watch the lease; return the fewest seconds that were left of it."""
    text = "select extract(epoch from expires_at - clock_timestamp())::float8 from fastq.lease where name = $1"
    give_up, least = time.monotonic() + seconds, LONG
    while time.monotonic() < give_up:
        least = min(least, connection.execute(text, NAME)[0][0])
        time.sleep(0.01)
    return least


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
        began = time.monotonic()
        try:
            site.connection.execute("select pg_sleep(30)")
        finally:
            took.append(time.monotonic() - began)

    one = make(lambda: [[Sweep(run=run)]])
    one.start()
    wait_for(lambda: took)

    assert 0.9 < took[0] < 1.4, "the ttl is 2 s"
    wait_for(lambda: names(events, "chore.failed"))
    assert one.watched()
    assert next(iter(one.watched())).usable, "the session goes on"


# Ending


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
    began = time.monotonic()
    one.end("stop")
    assert time.monotonic() - began < 0.1
    gate.opened.set()


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


NOTED = "select name, runs, changed, xmin::text from fastq.chore order by name"


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
