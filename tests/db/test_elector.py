"""The elector: when terms begin and end, whatever the database, the network and others do. Real Postgres, real connections."""

import itertools
import threading
import time
from contextlib import contextmanager

import psycopg
import pytest

from fastq.admin import leaders
from fastq.config import Config
from fastq.leases import elector, lease
from fastq.leases.elector import Candidacy, Elector
from fastq.leases.lease import MARGIN, RENEW_AT, boottime
from fastq.postgres import db
from tests.helpers import after_renewals, execute, wait_for
from tests.proxy import Proxy

TTL = 1.0
NAME = "leader:x"
WHY = "a test wants it"
LATE = 0.25  # s; what a busy machine may add to a moment


class Stand:
    """An elector, and what it said: (what, name, term, reason) in order, with the time."""

    def __init__(self, url, names, begin=None, **settings):
        self.said = []
        self.at = []
        self.trust = {}
        self._begin = begin
        self.config = Config(database_url=url, **{"lease_ttl": TTL} | settings)
        self.candidacies = [Candidacy(name, self.begun, self.ended) for name in names]
        self.elector = Elector(self.config, url, self.candidacies)

    def begun(self, fence, trust):
        self.trust[fence] = trust
        self.say("begin", fence, "")
        if self._begin:
            self._begin(fence, trust)

    def ended(self, fence, reason):
        self.say("end", fence, reason)

    def say(self, what, fence, reason):
        self.at.append(boottime())
        self.said.append((what, fence.name, fence.term, reason))

    @property
    def reasons(self):
        return [reason for what, _, _, reason in self.said if what == "end"]

    @property
    def fences(self):
        """Return the fences that are held now."""
        return [candidacy.fence for candidacy in self.candidacies if candidacy.fence is not None]

    def leads(self, timeout=5.0):
        """Wait until it holds everything that it stands for; return the first fence."""
        wait_for(lambda: len(self.fences) == len(self.candidacies), timeout, f"all leases, not {self.said}")
        return self.fences[0]

    def wait_for_end(self, reason, timeout=5.0):
        """Wait until a term has ended for that reason; return when (boottime)."""
        wait_for(lambda: reason in self.reasons, timeout, f"the end by {reason!r} in {self.said}")
        return self.at[[said[3] for said in self.said].index(reason)]

    def stop(self, timeout=8.0):
        self.elector.stop()
        wait_for(lambda: self.elector.ended, timeout, "the elector's end")


@pytest.fixture
def stand(database):
    """Give a function that starts an elector for these leases; all end with the test."""
    standing = []

    def start(*names, url=database, **options):
        standing.append(Stand(url, names or [NAME], **options))
        standing[-1].elector.start()
        return standing[-1]

    yield start
    for one in standing:
        one.elector.stop()
    for one in standing:
        one.stop()


@contextmanager
def spied(monkeypatch, name):
    """Note when a function of fastq.lease is called and how long it takes; it does what it always does."""
    calls, real = [], getattr(lease, name)

    def call(*args, **options):
        began = boottime()
        try:
            return real(*args, **options)
        finally:
            calls.append((began, boottime() - began))

    monkeypatch.setattr(lease, name, call)
    yield calls
    monkeypatch.setattr(lease, name, real)


def row(url, name=NAME):
    """Return holder, term and seconds left."""
    left = "case when isfinite(expires_at) then extract(epoch from expires_at - clock_timestamp())::float8 end"
    text = f"select holder, term, {left} from fastq.lease where name = %s"
    return execute(url, text, name)[0]


def take_over(url, name=NAME):
    """Do what a candidate does with a lease that has run out."""
    execute(url, "update fastq.lease set expires_at = clock_timestamp() - interval '1 s' where name = %s", name)
    execute(url, "update fastq.lease set holder = 'other', term = term + 1, expires_at = 'infinity' where name = %s", name)


def test_one_elector_holds_several_leases_and_renews_them_in_one_statement(stand, database, monkeypatch):
    with spied(monkeypatch, "renew") as renewals:
        one = stand("a", "b", "c")
        one.leads()
        wait_for(lambda: len(renewals) >= 3)
        assert len(one.said) == 3
        left = [row(database, name)[2] for name in ("a", "b", "c")]

    assert min(left) > 0
    began = [at for at, _ in renewals]
    assert all(later - earlier > TTL * RENEW_AT * 0.9 for earlier, later in itertools.pairwise(began))


@pytest.mark.lease("L45")
def test_of_two_electors_one_leads_each_domain(stand, database):
    first = stand("leader:x")
    first.leads()
    second, third = stand("leader:x"), stand("leader:y")
    third.leads()

    after_renewals(database, "leader:x", 4)

    assert second.said == []
    assert [said[:2] for said in first.said + third.said] == [("begin", "leader:x"), ("begin", "leader:y")]


@pytest.mark.lease("L10")
def test_a_holder_whose_lease_was_taken_ends_its_term_as_lost_at_the_next_renewal_and_releases_nothing(stand, database, events):
    one = stand()
    one.leads()
    take_over(database)

    one.wait_for_end("lost", TTL)

    assert row(database)[0] == "other"
    assert not one.fences
    assert not [event for event in events if event.name == "lease.released"]


@pytest.mark.lease("L09", "L11")
def test_a_lease_that_ran_out_without_a_taker_is_lost_and_then_taken_again_as_a_new_term(stand, database):
    one = stand()
    old = one.leads()
    execute(database, "update fastq.lease set expires_at = clock_timestamp() - interval '1 ms' where name = %s", NAME)

    one.wait_for_end("lost", TTL)
    new = one.leads()

    assert [said[0] for said in one.said] == ["begin", "end", "begin"]
    assert new.term > old.term


@pytest.mark.lease("L05")
def test_a_row_that_vanished_ends_the_term_and_is_made_again(stand, database):
    one = stand()
    old = one.leads()
    execute(database, "truncate fastq.lease")

    one.wait_for_end("lost", TTL)

    assert one.leads().term > old.term


@pytest.mark.lease("L12", "L29", "L17")
@pytest.mark.parametrize("how", ["frozen", "frozen and unreachable"])
def test_a_holder_that_hears_nothing_ends_its_term_before_its_lease_ends(stand, proxy, database, how):
    one = stand(url=proxy.url, lease_ttl=2.0)
    one.leads()
    wait_for(lambda: row(database)[2] > 1.9)  # just now renewed
    proxy.black_hole()
    if how == "frozen and unreachable":  # so that it tries to connect, which would block for longer than the trust lasts
        for pid in elector_sessions(database):
            execute(database, "select pg_terminate_backend(%s)", pid)
        proxy.sever()
    left = row(database)[2]

    began = boottime()
    ended = one.wait_for_end("lost", 3.0)

    assert row(database)[2] > 0, "the lease was still its own when it stopped"
    assert ended - began <= left - 2.0 * MARGIN + LATE
    proxy.restore()
    assert one.leads().term


def elector_sessions(url):
    text = "select pid from pg_stat_activity where application_name = 'fastq elector' and datname = current_database()"
    return [pid for (pid,) in execute(url, text)]


@pytest.mark.lease("L26", "L12")
def test_a_holder_whose_session_is_ended_goes_on_in_the_same_term_on_a_new_one(stand, database, events):
    one = stand(lease_ttl=2.0)
    fence = one.leads()
    before = elector_sessions(database)
    for pid in before:
        execute(database, "select pg_terminate_backend(%s, 5000)", pid)

    wait_for(lambda: set(elector_sessions(database)) - set(before), 3.0)
    wait_for(lambda: row(database)[2] > 1.9, 3.0)

    assert one.fences == [fence]
    assert one.reasons == []
    (warning,) = [event for event in events if event.name == "elector.waits"]
    assert "postgresql://" not in str(warning)
    assert str(warning.fields["error"]).startswith(("AdminShutdown", "OperationalError"))


@pytest.mark.lease("L12", "L29")
def test_a_renewal_that_is_lost_on_the_way_is_sent_again_on_a_new_connection_while_the_trust_lasts(stand, database):
    with Proxy(database, {"renew": db.statement("lease_renew")}) as wire:
        one = stand(url=wire.url, lease_ttl=8.0)
        fence = one.leads()
        wire.hold("renew")
        wait_for(wire.held, 30)  # as by a way through which nothing comes any more, without a word; others are open

        wait_for(lambda: (wire.accepted > 1 and row(database)[2] > 7.0) or one.reasons, 30)

        assert one.reasons == []
        assert one.fences == [fence]


@pytest.mark.lease("L17")
def test_a_slow_answer_does_not_prolong_the_trust(stand, proxy, database):
    one = stand(url=proxy.url, lease_ttl=2.0)
    fence = one.leads()
    proxy.late = 0.5
    after_renewals(database, NAME, 2)

    assert one.reasons == []
    most = 0.0
    for _ in range(200):  # 2 s: at least one more renewal
        most = max(most, one.trust[fence].left())
        time.sleep(0.01)
    proxy.late = 0.0
    assert most <= 2.0 * (1 - MARGIN) - 0.5, "it counts from the moment of sending, and the answer took half a second"


@pytest.mark.lease("L17")
def test_a_slow_answer_to_the_first_request_does_not_lengthen_the_trust_either(stand, proxy):
    first = []
    proxy.late = 0.3
    stand(url=proxy.url, lease_ttl=2.0, begin=lambda _, trust: first.append(trust.left())).leads(10.0)
    proxy.late = 0.0

    assert first[0] <= 2.0 * (1 - MARGIN) - 0.3


def test_a_session_that_comes_late_serves_the_next_try_where_the_first_host_of_several_is_gone(stand, proxy, monkeypatch):
    monkeypatch.setattr(db, "CONNECT_TIMEOUT", 0.5)
    proxy.late = 0.3  # of each answer: a session takes two, as many as a silent host before it would cost

    stand(url=proxy.url, lease_ttl=2.0).leads(10.0)

    proxy.late = 0.0


@pytest.mark.lease("L11", "L17")
def test_a_term_whose_trust_was_over_for_a_moment_does_not_go_on(stand, database, monkeypatch):
    # The answer comes when the threads of the term may have seen that, and ended: somebody must begin anew.
    one = stand(lease_ttl=2.0)
    fence = one.leads()
    real = lease.renew

    def late(*args):
        answer = real(*args)
        monkeypatch.setattr(lease, "renew", real)
        one.trust[fence].until = boottime()  # the clock went on for longer than the trust while the process was frozen
        return answer

    monkeypatch.setattr(lease, "renew", late)
    one.wait_for_end("lost", 3.0)
    again = one.leads()

    assert again.term > fence.term
    assert one.at[2] - one.at[1] < 0.5, "it was released, and did not have to run out"


@pytest.mark.lease("L31", "L07")
def test_nobody_leads_on_a_server_that_only_reads_and_somebody_does_when_it_is_promoted(stand, database, server):
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    execute(database, f'alter database "{name}" set default_transaction_read_only = on')
    one = stand()
    wait_for(lambda: one.elector._session.pauses.coming > elector.FIRST_PAUSE, 5.0, "a first try that was refused")
    assert one.said == []

    execute(server, f'alter database "{name}" reset default_transaction_read_only')
    one.leads()


@pytest.mark.lease("L31")
def test_a_leader_whose_server_becomes_read_only_stops_within_its_trust(stand, database, server):
    one = stand()
    one.leads()
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    execute(database, f'alter database "{name}" set default_transaction_read_only = on')
    for pid in elector_sessions(database):
        execute(database, "select pg_terminate_backend(%s, 5000)", pid)

    one.wait_for_end("lost", TTL + LATE)
    execute(server, f'alter database "{name}" reset default_transaction_read_only')


@pytest.mark.lease("L22")
def test_a_crashed_holder_is_succeeded_within_its_ttl_and_half_a_second(stand, database):
    execute(
        database, "insert into fastq.lease (name, holder, term, ttl, expires_at) values (%s, 'dead', 1, 1, %s)", NAME, "infinity"
    )
    execute(database, "update fastq.lease set expires_at = clock_timestamp() + interval '1 s' where name = %s", NAME)
    began = boottime()
    candidates = [stand() for _ in range(10)]

    wait_for(lambda: any(one.fences for one in candidates), 5.0)

    assert TTL - 0.1 < boottime() - began < TTL + 0.5
    assert sum(len(one.fences) for one in candidates) == 1


# Resigning


@pytest.mark.lease("L13", "L44")
def test_stopping_ends_the_terms_and_frees_the_leases_at_once(stand, database, events):
    one = stand("a", "b")
    one.leads()
    began = boottime()
    one.stop()

    assert boottime() - began < 0.25 + LATE
    assert one.reasons == ["stop", "stop"]
    assert [row(database, name)[0] for name in ("a", "b")] == ["", ""]
    assert [event.fields["lease"] for event in events if event.name == "lease.released"] == ["a", "b"]
    assert not elector_sessions(database)


@pytest.mark.lease("L13")
def test_a_release_that_frees_nothing_is_not_told_as_one(stand, database, events):
    one = stand(lease_ttl=10.0)
    one.leads()
    take_over(database)
    one.stop()

    assert one.reasons == ["stop"]
    assert row(database)[0] == "other"
    assert not [event for event in events if event.name == "lease.released"]


@pytest.mark.lease("L15")
def test_releasing_at_a_stop_is_tried_three_times_and_then_left_to_the_ttl(stand, proxy, database, events, monkeypatch):
    monkeypatch.setattr(lease, "RELEASE_TIMEOUTS", (0.1, 0.2, 0.3))
    one = stand(url=proxy.url, lease_ttl=10.0)
    one.leads()
    proxy.black_hole()
    began = boottime()
    one.stop()

    assert 0.5 < boottime() - began < 0.6 + 2 * LATE
    assert len([event for event in events if event.name == "lease.not_released"]) == 3
    assert one.reasons == ["stop"]
    assert row(database)[0] == lease.identity()
    proxy.restore()


@pytest.mark.lease("L15")
def test_a_stop_releases_although_the_connection_was_just_lost(stand, proxy, database):
    one = stand(url=proxy.url, lease_ttl=10.0)
    one.leads()
    proxy.sever()
    one.stop()

    assert row(database)[0] == ""


@pytest.mark.lease("L41")
def test_a_request_to_resign_is_a_row_with_the_term_and_five_of_them_count_once(stand, connection, database, monkeypatch):
    monkeypatch.setattr(elector, "REST", 0.5)
    one = stand(lease_ttl=5.0)
    for candidacy in one.candidacies:
        candidacy.rest = 0.5
    fence = one.leads()  # at once after the election
    assert leaders.resign(connection, NAME, fence.term - 1) is None, "not meant for this term"
    asked = [leaders.resign(connection, NAME, fence.term) for _ in range(5)]
    for _ in range(5):
        one.elector.hint(NAME)
    assert all(row.term == fence.term for row in asked)

    ended = one.wait_for_end("resign", 1.0)
    again = one.leads()

    assert one.reasons == ["resign"]
    assert again.term > fence.term
    assert one.at[2] - ended >= 0.5, "it left the lease to others for a while before it stood again"
    one.elector.hint(NAME)  # so that it renews at once
    after_renewals(database, NAME, 1)
    assert one.fences == [again], "the request was for the term before"


@pytest.mark.lease("L41")
def test_a_lease_that_nobody_holds_cannot_be_resigned(connection, stand):
    assert leaders.resign(connection, NAME) is None
    one = stand()
    one.leads()
    one.stop()
    assert leaders.resign(connection, NAME) is None


@pytest.mark.lease("L41")
def test_a_request_without_a_hint_is_seen_at_the_next_renewal(stand, connection):
    one = stand()
    fence = one.leads()
    assert leaders.resign(connection, NAME).term == fence.term

    one.wait_for_end("resign", TTL * RENEW_AT + LATE)


@pytest.mark.lease("L41")
def test_after_a_request_the_other_candidate_leads(stand, connection):
    one = stand()
    one.leads()
    other = stand()
    wait_for(lambda: other.candidacies[0].due > boottime())
    leaders.resign(connection, NAME)
    one.elector.hint(NAME)
    one.wait_for_end("resign", 1.0)
    other.elector.hint(NAME)  # as the listener does

    other.leads(1.0)
    first = one.candidacies[0]
    wait_for(lambda: first.due > first.rests_until, what="the first one to have rested and looked again")
    assert [said[0] for said in one.said] == ["begin", "end"]


@pytest.mark.lease("L41")
def test_a_role_without_rights_can_notify_but_not_make_anybody_resign(stand, database, server):
    role = f"nosy_{time.time_ns()}"
    execute(database, f"create role {role}")
    one = stand()
    fence = one.leads()
    try:
        with psycopg.connect(database, autocommit=True) as conn:
            conn.execute(f"set role {role}")
            conn.execute("select pg_notify('fastq', '@lease leader:x')")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute("update fastq.lease set resign_term = term")
        one.elector.hint(NAME)
        after_renewals(database, NAME, 2)
        assert one.fences == [fence]
    finally:
        execute(database, f"drop role {role}")


@pytest.mark.lease("L41", "L43")
def test_hints_end_nothing_and_cost_twenty_statements_a_second_at_most(stand, monkeypatch):
    one = stand(lease_ttl=10.0)
    fence = one.leads()
    with spied(monkeypatch, "renew") as renewals:
        give_up = time.monotonic() + 1.0
        while time.monotonic() < give_up:
            for hint in (NAME, "", "leader:y", "{", "\0", "resign " + NAME, "x" * 7_000):
                one.elector.hint(hint)
            time.sleep(0.001)
        time.sleep(2 * elector.HINT_REST)

    assert one.fences == [fence]
    assert one.reasons == []
    assert 2 <= len(renewals) <= 22


@pytest.mark.lease("L43")
def test_who_has_resigned_ignores_the_news_that_it_released_the_lease(stand, connection):
    one = stand()
    fence = one.leads()
    one.elector.resign(fence, WHY)
    one.wait_for_end("resign", 1.0)
    give_up = time.monotonic() + 1.0  # half of its rest
    while time.monotonic() < give_up:
        one.elector.hint(NAME)
        time.sleep(0.01)

    assert [said[0] for said in one.said] == ["begin", "end"]


@pytest.mark.lease("L40", "L34")
def test_giving_up_an_old_term_does_not_end_the_new_one(stand, database):
    one = stand()
    old = one.leads()
    execute(database, "update fastq.lease set expires_at = clock_timestamp() - interval '1 ms' where name = %s", NAME)
    one.wait_for_end("lost", TTL)
    new = one.leads()

    one.elector.resign(old, WHY)
    one.elector.resign(old._replace(holder="somebody"), WHY)
    after_renewals(database, NAME, 1)

    assert one.fences == [new]
    assert one.reasons == ["lost"]


@pytest.mark.lease("L20", "L40")
def test_a_term_that_sees_before_the_elector_that_its_trust_is_over_is_lost_and_not_resigned(stand, events):
    one = stand()
    fence = one.leads()

    one.trust[fence].until = 0.0  # as after a freeze; the threads of the term and the elector wake up in any order
    one.elector.resign(fence, WHY)
    one.wait_for_end("lost")

    assert one.leads(TTL + 0.5 + LATE).term > fence.term, "it rested as if it had resigned"
    assert "lease.resigned" not in [event.name for event in events]


@pytest.mark.lease("L42")
def test_one_that_resigned_and_stops_is_never_elected_again(stand, database):
    one = stand(lease_ttl=10.0)
    one.elector.resign(one.leads(), WHY)
    one.stop()
    for _ in range(3):
        one.elector.hint(NAME)

    assert one.elector.ended, "its thread, which alone elects"
    assert [said[0] for said in one.said] == ["begin", "end"]
    assert row(database)[0] == ""


# What begins and ends


@pytest.mark.lease("L35", "L36")
def test_terms_begin_and_end_in_order_one_at_a_time_and_none_is_left_out(stand, database):
    threads = set()
    one = stand(begin=lambda *_: threads.add(threading.current_thread()))
    for number in range(1, 8):
        one.leads()
        execute(database, "update fastq.lease set expires_at = clock_timestamp() - interval '1 ms' where name = %s", NAME)
        one.elector.hint(NAME)
        wait_for(lambda number=number: len(one.reasons) == number)
    one.leads()
    one.stop()

    assert [said[0] for said in one.said] == ["begin", "end"] * 8
    terms = [said[2] for said in one.said]
    assert terms[::2] == terms[1::2]
    assert terms[::2] == sorted(set(terms))
    assert one.reasons == ["lost"] * 7 + ["stop"]
    assert len(threads) == 1


@pytest.mark.lease("L35")
def test_the_reason_of_an_end_is_told_before_the_trust_is_taken_away(stand):
    trusted = []
    one = stand()
    fence = one.leads()
    real = one.candidacies[0].end
    one.candidacies[0].end = lambda fence, reason: (trusted.append(one.trust[fence].holds()), real(fence, reason))
    one.stop()

    assert trusted == [True], "else whoever looks at the trust would think that the term was lost"
    assert not one.trust[fence].holds()


@pytest.mark.lease("L34", "L36")
def test_a_term_that_cannot_be_begun_leaves_no_holder_without_work(stand, database):
    failures = iter([RuntimeError("can't start new thread")])

    def begin(*_):
        for failure in failures:
            raise failure

    one = stand(begin=begin)

    one.wait_for_end("lost", 2.0)
    again = one.leads()
    assert [said[0] for said in one.said] == ["begin", "end", "begin"]
    assert row(database)[1] == again.term


@pytest.mark.lease("L16")
@pytest.mark.parametrize("days", [1, -1])
def test_wall_clocks_of_candidates_change_nothing(stand, database, monkeypatch, days):
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + days * 86_400)
    one, other = stand(), stand()
    wait_for(lambda: one.fences or other.fences)
    after_renewals(database, NAME, 4)

    assert len(one.said) + len(other.said) == 1
    assert 0 < row(database)[2] <= TTL


@pytest.mark.lease("L21")
@pytest.mark.parametrize("by", ["1 hour", "-1 hour"])
def test_when_the_servers_clock_jumps_no_two_terms_are_under_way_at_once(stand, database, by):
    one, other = stand(), stand()
    wait_for(lambda: one.fences or other.fences)
    execute(database, "update fastq.lease set expires_at = expires_at + %s::interval where name = %s", by, NAME)
    give_up = time.monotonic() + 2 * TTL
    while time.monotonic() < give_up:
        fences = [*one.fences, *other.fences]
        assert sum(execute(database, HOLDS, fence.holder, fence.term)[0][0] for fence in fences) <= 1
    wait_for(lambda: one.fences or other.fences)


HOLDS = """select count(*) from fastq.lease
    where name = 'leader:x' and holder = %s and term = %s and expires_at > clock_timestamp()"""


def test_hearing_nothing_does_not_make_a_candidate_busy(stand, database, monkeypatch):
    first = stand(lease_ttl=5.0)
    first.leads()
    with spied(monkeypatch, "acquire") as tries:
        other = stand(lease_ttl=5.0)
        time.sleep(1.0)

    assert len(tries) == 1
    assert other.said == []
