"""The lease: one holder at a time whoever races for it, a term that grows, and trust that ends before the lease does."""

import itertools
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import dict_row

from fastq import Config, Lease, lease
from fastq.errors import ConfigError, DatabaseUnavailable, LeaseError
from fastq.lease import MARGIN, Fence, Watch, boottime
from fastq.migrate import migrate
from tests.db.jobs import session
from tests.helpers import execute, wait_for
from tests.proxy import Proxy

RACERS, ROUNDS = 8, 200
KINDS = ("free", "stale", "missing", "fresh")
NAME = "leader:x"
TTL = 10.0
HOLDER = "select holder from fastq.lease where name = 'user:report'"
ROOT = Path(__file__).parent.parent.parent
SQL = ROOT / "fastq" / "sql"
INSERT = "insert into fastq.lease (name, holder, term, expires_at) select name, %s, 1, {} from unnest(%s::text[]) as given (name)"


@pytest.fixture
def proxy(database):
    """Give a wire to the database that can be cut."""
    with Proxy(database) as wire:
        yield wire


@pytest.fixture
def make(database):
    """Give a function that makes a user's lease, with a connection of its own unless told otherwise."""
    made = []

    def lease_of(name="report", **options):
        options = {"ttl": 1.0} | ({} if "conn" in options else {"url": database}) | options
        made.append(Lease(name, **options))
        return made[-1]

    yield lease_of
    for one in made:
        with suppress(DatabaseUnavailable):  # its connection was the test's, and is closed
            one.close()


def take(connection, holder="a", ttl=TTL, name=NAME, **options):
    """Try once; return the fence, or None."""
    term = lease.acquire(connection, name, holder, ttl, **options).term
    return None if term is None else Fence(name, holder, term)


def renew(connection, fence, ttl=TTL):
    """Renew one lease; tell whether it is still held."""
    return fence.name in lease.renew(connection, [fence], ttl, 5.0)


def release(connection, fence):
    return lease.release(connection, fence, "fastq")


def expire(connection, by="1 ms"):
    connection.execute(f"update fastq.lease set expires_at = clock_timestamp() - interval '{by}'")


def shift(connection, by):
    """Do what a jump of the server's clock does: the times that were written are elsewhere."""
    connection.execute(f"update fastq.lease set expires_at = expires_at + interval '{by}'")


def row(connection, name=NAME):
    """Return holder, term and seconds left."""
    left = "case when isfinite(expires_at) then extract(epoch from expires_at - clock_timestamp())::float8 end"
    text = f"select holder, term, {left} from fastq.lease where name = $1"
    return connection.execute(text, name)[0]


# Races


@contextmanager
def racing(url, *how):
    """Start racers; give a function that sends them all a name at once and returns the terms that were won."""
    command = [sys.executable, str(ROOT / "tests" / "db" / "racer.py"), url, *how]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    racers = [subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, **pipes) for _ in range(RACERS)]

    def race(name):
        for racer in racers:
            racer.stdin.write(f"{name}\n")
        answers = [racer.stdout.readline().strip() for racer in racers]
        return [int(answer) for answer in answers if answer != "-"]

    try:
        assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * RACERS
        yield race
    finally:
        for racer in racers:
            racer.stdin.close()
            racer.wait(10)
            racer.stdout.close()


def prepare(url, kind, rounds):
    """Make leases of a kind; return their names."""
    names = [f"{kind} {number}" for number in range(rounds)]
    expiry = {
        "free": "'-infinity'",
        "stale": "clock_timestamp() - interval '1 ms'",
        "fresh": "clock_timestamp() + interval '1 h'",
    }
    if kind != "missing":
        execute(url, INSERT.format(expiry[kind]), "" if kind == "free" else "somebody", names)
    return names


@pytest.mark.lease("L01", "L02", "L05")
def test_of_racing_processes_one_wins_a_free_a_stale_and_a_missing_lease_and_none_a_fresh_one(database):
    with racing(database) as race:
        won = {
            kind: [len(race(name)) for name in prepare(database, kind, ROUNDS)] for kind in ("free", "stale", "missing", "fresh")
        }

    assert won == {"free": [1] * ROUNDS, "stale": [1] * ROUNDS, "missing": [1] * ROUNDS, "fresh": [0] * ROUNDS}
    assert execute(database, "select count(*) from fastq.lease where holder <> ''") == [(4 * ROUNDS,)]


@pytest.mark.lease("L02", "L32")
def test_of_racing_processes_the_next_winner_of_the_same_lease_has_a_higher_term(database):
    terms = []
    with racing(database) as race:
        for _ in range(50):
            (term,) = race(NAME)
            terms.append(term)
            execute(database, "update fastq.lease set expires_at = clock_timestamp() - interval '1 ms'")

    assert terms == sorted(set(terms))


@pytest.mark.lease("L01", "L07")
@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_of_racing_processes_one_wins_where_neither_isolation_nor_plans_can_be_pinned(database, isolation):
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    execute(database, f"alter database \"{name}\" set default_transaction_isolation = '{isolation}'")
    with racing(database, "unpinned") as race:
        won = [len(race(name)) for kind in ("free", "stale", "missing") for name in prepare(database, kind, 20)]

    # The losers of a race are told so by an error there, and now and then so is the one that would have won.
    assert set(won) <= {0, 1}
    assert won.count(1) >= 50


# Acquiring


@pytest.mark.lease("L03")
@pytest.mark.parametrize("lock", ["update", "no key update", "share", "key share"])
def test_a_candidate_does_not_wait_for_a_lease_that_somebody_has_locked(connection, other, lock):
    old = take(other)
    expire(connection)
    other.execute("begin")
    other.execute(f"select from fastq.lease for {lock}")

    began = time.monotonic()
    assert take(connection, "b") is None
    assert time.monotonic() - began < 0.5, "it did not wait"
    other.execute("rollback")
    assert take(connection, "b").term > old.term


@pytest.mark.lease("L03")
def test_a_candidate_that_sees_a_stale_row_which_is_being_renewed_loses(connection, other, database):
    take(other)
    expire(connection)
    other.execute("begin")
    other.execute(
        "update fastq.lease set expires_at = clock_timestamp() + interval '1 h'"
    )  # the candidate's snapshot has the old one

    assert take(connection, "b") is None
    other.execute("commit")
    assert take(connection, "b") is None
    assert row(connection)[0] == "a"


@pytest.mark.lease("L04")
def test_acquiring_is_not_renewing(connection, make):
    assert take(connection)
    assert take(connection) is None, "not even for the holder"

    mine = make()
    assert mine.try_acquire()
    assert not mine.try_acquire()
    assert mine.trusted(), "asking has not cost it"


@pytest.mark.lease("L05", "L32")
@pytest.mark.parametrize("how", ["delete from fastq.lease", "truncate fastq.lease"])
def test_a_row_that_vanished_makes_the_holder_lose_and_is_made_again_with_a_higher_term(connection, how):
    old = take(connection)
    connection.execute(how)

    assert not renew(connection, old)
    assert take(connection, "b").term > old.term


@pytest.mark.lease("L06")
@pytest.mark.parametrize(
    ("columns", "constraint"),
    [
        ({"name": "a"}, "lease_pkey"),
        ({"name": ""}, "name_is_short"),
        ({"name": " \n"}, "name_is_short"),
        ({"name": "x" * 201}, "name_is_short"),
        ({"name": "b", "holder": " "}, "holder_is_short"),
        ({"name": "b", "holder": "\t\n"}, "holder_is_short"),
        ({"name": "b", "holder": "h" * 128}, "holder_is_short"),
    ],
)
def test_the_table_refuses_a_second_row_blank_names_and_holders_and_long_ones(connection, columns, constraint):
    connection.execute("insert into fastq.lease (name, holder) values ('a', 'a')")
    with pytest.raises(psycopg.IntegrityError) as caught:
        connection.execute("insert into fastq.lease (name, holder) values ($1, $2)", columns["name"], columns.get("holder", "a"))

    assert caught.value.diag.constraint_name == constraint


@pytest.mark.lease("L06")
@pytest.mark.parametrize("name", ["", " ", "\n", "a\0b", "a\nb", "\ud800", "x" * 181, "ä" * 91, None, 7])
def test_a_name_that_cannot_be_one_is_refused_before_anything_is_sent(name):
    with pytest.raises(LeaseError, match="lease name: expected 1 to 180 bytes"):
        Lease(name, url="postgresql://nowhere")


@pytest.mark.lease("L07")
@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
@pytest.mark.parametrize("pinned", [True, False])
def test_a_stricter_isolation_by_default_changes_nothing(database, isolation, pinned):
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    execute(database, f"alter database \"{name}\" set default_transaction_isolation = '{isolation}'")
    connection, other = session(database, pinned=pinned, prepare=pinned), session(database, pinned=pinned, prepare=pinned)

    level = connection.execute("select current_setting('transaction_isolation')")
    assert level == [("read committed" if pinned else isolation,)]
    mine = take(connection)
    assert take(other, "b") is None
    assert renew(connection, mine)
    expire(other)
    assert not renew(connection, mine)
    yours = take(other, "b")
    assert yours.term > mine.term
    assert not release(connection, mine)
    assert release(other, yours)
    connection.close()
    other.close()


@pytest.mark.lease("L07", "L31")
@pytest.mark.parametrize("pinned", [True, False])
def test_a_database_that_only_reads_refuses_loudly(database, pinned):
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    execute(database, f'alter database "{name}" set default_transaction_read_only = on')
    connection = session(database, pinned=pinned, prepare=pinned)

    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        take(connection)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        renew(connection, Fence(NAME, "a", 1))
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        release(connection, Fence(NAME, "a", 1))
    connection.close()
    with pytest.raises(DatabaseUnavailable, match="read-only"):
        Lease("report", url=database).try_acquire()


@pytest.mark.lease("L08")
@pytest.mark.parametrize("path", sorted(SQL.glob("lease_*.sql")), ids=lambda path: path.stem)
def test_no_statement_about_a_lease_takes_the_time_at_which_a_transaction_began(path):
    frozen = r"\b(now\s*\(|current_timestamp|transaction_timestamp|statement_timestamp|localtimestamp|current_time\b)"
    body = "\n".join(line for line in path.read_text().splitlines() if not line.strip().startswith("--"))

    assert not re.findall(frozen, body, re.IGNORECASE)


@pytest.mark.lease("L08")
def test_a_connection_that_is_handed_in_with_a_transaction_under_way_is_refused(database, make):
    with psycopg.connect(database, autocommit=True) as conn:
        mine = make(conn=conn)
        with conn.transaction(), pytest.raises(LeaseError, match="expected no transaction in progress"):
            mine.try_acquire()
        assert mine.try_acquire()
        with conn.transaction(), pytest.raises(LeaseError, match="expected no transaction in progress"):
            mine.renew()
        assert mine.renew()
    with psycopg.connect(database) as conn, pytest.raises(LeaseError, match="expected a connection in autocommit"):
        make(conn=conn)
    with pytest.raises(LeaseError, match=r"expected a psycopg\.Connection, got str"):
        make(conn=database)


# Renewing and releasing


@pytest.mark.lease("L09")
def test_renewing_prolongs_by_the_ttl_from_now_and_keeps_the_term(connection):
    mine = take(connection, ttl=1.0)

    assert renew(connection, mine, ttl=20.0)

    holder, term, left = row(connection)
    assert (holder, term) == ("a", mine.term)
    assert 19.0 < left <= 20.0


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
        time.sleep(0.6)
        proxy.late = 0.4

        assert not mine.renew()
        assert not mine.trusted()
        assert execute(database, HOLDER) == [("",)]


@pytest.mark.lease("L12")
def test_an_error_while_renewing_is_no_answer_and_trust_runs_out_by_itself(proxy, make):
    mine = make(url=proxy.url, ttl=1.0)
    sent = boottime()
    assert mine.try_acquire()
    proxy.black_hole()

    with pytest.raises(DatabaseUnavailable):
        mine.renew()

    assert boottime() - sent < 1.0, "the renewal was given up while the lease was still ours"
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


# Time


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

    real = time.clock_gettime
    asleep = {time.CLOCK_BOOTTIME: 10.0}
    monkeypatch.setattr(time, "clock_gettime", lambda clock: real(clock) + asleep.get(clock, 0.0))

    assert not mine.trusted()
    assert mine.term is None
    assert not mine.renew()


@pytest.mark.lease("L21")
def test_a_server_clock_that_was_set_back_does_not_keep_a_dead_holders_lease_alive(connection):
    dead = take(connection, ttl=0.3)
    shift(connection, "1 hour")  # it now expires an hour from now
    watch = Watch()

    began, taken = time.monotonic(), None
    while taken is None:
        answer = lease.acquire(connection, NAME, "b", 0.3, seen=watch.stale())
        taken = answer.term
        if taken is None:
            assert time.monotonic() - began < 2.0
            time.sleep(watch.note(answer))

    assert 0.3 <= time.monotonic() - began < 1.0, "the holder had its whole ttl to renew, and no hour more"
    assert taken > dead.term
    assert connection.run_one("lease_hold", *dead) == (0,)


@pytest.mark.lease("L21")
def test_a_server_clock_that_was_set_back_does_not_cost_a_living_holder_its_lease(connection, other):
    mine = take(connection, ttl=0.4)
    shift(connection, "1 hour")
    watch = Watch()
    give_up = time.monotonic() + 1.2  # thrice the ttl

    while time.monotonic() < give_up:
        assert renew(connection, mine, ttl=0.4)
        answer = lease.acquire(other, NAME, "b", 0.4, seen=watch.stale())
        assert answer.term is None
        watch.note(answer)
        time.sleep(0.1)


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
        began = time.monotonic()
        answers = [attempt.result(20) for attempt in attempts]
        took = time.monotonic() - began
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


# Connections


@pytest.mark.lease("L26")
def test_an_own_connection_that_failed_is_replaced_with_a_warning_that_tells_no_secrets(make, database, events):
    mine = make()
    assert mine.try_acquire()
    pids = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'fastq lease'"
    assert execute(database, pids + " and datname = current_database()") == [(True,)]

    with pytest.raises(DatabaseUnavailable):
        mine.renew()
    assert mine.renew()

    (warning,) = [event for event in events if event.name == "lease.connection_lost"]
    assert warning.fields["lease"] == "report"
    assert warning.fields["error"] in {"AdminShutdown", "OperationalError"}
    assert set(warning.fields) == {"lease", "error"}, "no url"


@pytest.mark.lease("L26")
def test_a_lease_waits_for_a_server_that_is_away_and_comes_back(proxy, make):
    mine = make(url=proxy.url)
    proxy.close()
    with pytest.raises(DatabaseUnavailable, match="the lease 'report'"):
        mine.try_acquire()


@pytest.mark.lease("L27")
def test_a_connection_that_was_handed_in_is_neither_closed_nor_replaced(database, make, monkeypatch, events):
    monkeypatch.setenv("FASTQ_DATABASE_URL", database)
    with psycopg.connect(database, autocommit=True) as conn:
        mine = make(conn=conn)
        assert mine.try_acquire()
        mine.close()
        assert not conn.closed
        assert conn.execute("select 1").fetchone() == (1,)
        assert mine.try_acquire()
        conn.close()
        for act in (mine.renew, mine.release, mine.try_acquire):
            with pytest.raises(DatabaseUnavailable, match="closed"):
                act()

    assert execute(database, "select count(*) from pg_stat_activity where application_name = 'fastq lease'") == [(0,)]
    assert not [event for event in events if event.name == "lease.connection_lost"]


@pytest.mark.lease("L27")
def test_a_connection_that_was_handed_in_may_have_rows_of_its_own_kind(database, make, connection):
    with psycopg.connect(database, autocommit=True, row_factory=dict_row) as conn:
        mine = make(conn=conn)
        assert mine.try_acquire()
        assert mine.term == row(connection, "user:report")[1]
        assert mine.renew()
        assert make(conn=conn).try_acquire() is False
        assert mine.release()


def test_a_url_and_a_schema_come_before_those_of_a_configuration(empty_database):
    migrate(empty_database, "other")
    config = Config(database_url="postgresql://nowhere", schema="elsewhere")
    with Lease("report", url=empty_database, schema="other", config=config) as mine:
        assert execute(empty_database, "select name from other.lease where holder <> ''") == [("user:report",)]
        assert mine.trusted()


@pytest.mark.lease("L27")
def test_without_a_database_a_lease_is_refused():
    with pytest.raises(ConfigError, match="a lease needs a database"):
        Lease("report")


@pytest.mark.lease("L29")
def test_no_statement_outlasts_the_trust_in_the_lease(proxy, make):
    mine = make(url=proxy.url, ttl=1.0)
    assert mine.try_acquire()
    sent = boottime()
    assert mine.renew()
    proxy.black_hole()
    with pytest.raises(DatabaseUnavailable):
        mine.renew()

    assert boottime() - sent < 1.0
    proxy.restore()


@pytest.mark.lease("L29")
def test_connecting_counts_too(proxy, make):
    mine = make(url=proxy.url, ttl=1.0)
    assert mine.try_acquire()
    proxy.black_hole()
    mine._drop()  # what an error of the statement before does

    sent = boottime()
    with pytest.raises(DatabaseUnavailable):
        mine.renew()
    assert boottime() - sent < 1.5
    sent = boottime()
    mine.close()
    assert boottime() - sent < lease.RELEASE_TIMEOUTS[0] + 0.5
    proxy.restore()


@pytest.mark.lease("L29")
def test_a_short_ttl_leaves_time_to_connect_over_a_slow_way(proxy, make):
    proxy.late = 0.12
    mine = make(url=proxy.url, ttl=0.5)
    assert mine.try_acquire()
    proxy.late = 0.0


@pytest.mark.lease("L29")
def test_a_long_ttl_does_not_make_a_statement_wait_longer_than_others_do(proxy, make):
    mine = make(url=proxy.url, ttl=3600.0, config=None)
    mine._config = replace(mine._config, statement_timeout=0.5)
    assert mine.try_acquire()
    proxy.black_hole()

    for act in (mine.renew, mine.try_acquire, lambda: mine.acquire(timeout=0.2)):
        sent = boottime()
        with pytest.raises(DatabaseUnavailable):
            act()
        assert boottime() - sent < 2.0
    proxy.restore()


# For users


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
    began = time.monotonic()
    assert not yours.acquire(timeout=0.2)
    assert 0.2 <= time.monotonic() - began < 1.0

    threading.Timer(0.3, mine.release).start()
    assert yours.acquire(timeout=10.0)
    assert yours.term


def test_acquiring_takes_over_from_a_holder_that_died_when_its_ttl_is_over(make, connection):
    take(connection, "dead", ttl=0.5, name="user:report")
    began = time.monotonic()

    assert make().acquire(timeout=5.0)

    assert 0.4 < time.monotonic() - began < 1.0


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
