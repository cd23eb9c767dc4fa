"""What the table says a process runs and the process does not hold is ended, and nothing that it holds ever is."""

import os
import random
import socket
import time

import pytest

from fastq.board.cursor_words import PRIORITIES
from fastq.postgres import db
from fastq.work.claim import forgotten
from fastq.work.shared import held
from tests.db.jobs import add, archived, living
from tests.helpers import wait_for
from tests.process.threads import OPEN, TOLD, working
from tests.proxy import Proxy

pytestmark = pytest.mark.further

NONE_LEFT = "select count(*) = 0 from fastq.job"
KEEP = "create table if not exists public.kept (like fastq.job)"
RESTORE = "insert into fastq.job overriding system value select * from public.kept"
HALF = 0.5  # as if they were between two places
FAILED = "does not know the outcome of this attempt"


@pytest.fixture(autouse=True)
def _fresh():
    TOLD.clear()
    OPEN.clear()


@pytest.fixture
def often(monkeypatch):
    """Look again and again."""
    monkeypatch.setattr(forgotten, "INTERVAL", 0.01)
    monkeypatch.setattr(forgotten, "REST", 0)


@pytest.fixture
def connection(database):
    """Give a session of the test's own."""
    opened = db.connect(database, role="test")
    yield opened
    opened.close()


def counted(monkeypatch, of, name):
    """Have the calls of a method counted; give a function that tells how many there were."""
    calls, method = [], getattr(of, name)

    def counting(*args):
        calls.append(1)
        return method(*args)

    monkeypatch.setattr(of, name, counting)
    return lambda: len(calls)


def wake(producer, cursor):
    cursor.wakes += 1
    producer.wake()


def run_and_keep(connection, producer, cursor, count=3, **columns):
    """Have jobs executed to their end, and keep their rows as they were while they ran; return their ids."""
    ids = add(connection, count, kind="hold", **columns)
    cursor.waiting_hints += 1
    wake(producer, cursor)
    wait_for(lambda: set(ids) <= set(TOLD), what="the jobs to run")
    connection.execute(KEEP)
    connection.execute("insert into public.kept select * from fastq.job")
    OPEN.set()
    wait_for(lambda: connection.execute(NONE_LEFT) == [(True,)], what="the jobs to complete")
    return ids


def states(connection, ids):
    return {living(connection, id_)["state"] for id_ in ids}


def test_completions_of_jobs_that_had_waited_for_a_worker_are_found_though_no_frontier_tells_of_them(database, connection, often):
    with working(database, database) as (producer, cursor):
        ids = run_and_keep(connection, producer, cursor, state="waiting", seq=None, waits_for="worker:hold")
        assert max(cursor.frontier) == 0
        connection.execute("delete from fastq.job_archive")
        connection.execute(RESTORE)

        wait_for(lambda: states(connection, ids) == {"retryable"}, what="the jobs to count as failed")


def test_completions_that_the_database_forgot_count_as_failed_attempts_on_the_next_connection(database, connection, events):
    with Proxy(database) as proxy, working(database, proxy.url) as (producer, cursor):
        ids = run_and_keep(connection, producer, cursor)
        connection.execute("delete from fastq.job_archive")
        connection.execute(RESTORE)
        proxy.sever()
        wait_for(lambda: states(connection, ids) == {"retryable"}, 3.0, "the jobs to be given back")

        row = living(connection, ids[0])
        assert (row["attempt"], len(row["errors"]), row["errors"][0]["attempt"]) == (1, 1, 1)
        assert FAILED in row["errors"][0]["error"]
        assert [event.fields["count"] for event in events if event.name == "jobs.forgotten"] == [3]


@pytest.mark.process
def test_a_supervisor_whose_table_of_jobs_was_filled_from_an_older_copy_runs_them_again(supervise, jobs, tmp_path):
    supervisor, gate = supervise(), tmp_path / "gate"
    (first, second) = ids = jobs.add_all("gated", [{"gate": str(gate)}] * 2)
    (other,) = jobs.add_all("async_nap", [{"seconds": 1.0}])
    jobs.wait_until_told("start", times=3)
    jobs.execute("create table public.kept as select * from fastq.job")
    gate.touch()
    jobs.wait_until_none_is_left()
    jobs.execute("truncate fastq.job_archive")
    jobs.execute(RESTORE)
    jobs.execute("update fastq.job set cancel_requested = true where id = %s", second)  # what fastq jobs cancel does

    jobs.wait_until_told("end", first, times=2, timeout=20)
    jobs.wait_until_told("end", other, times=2, timeout=20)
    jobs.wait_until_none_is_left()
    assert [jobs.fate(id_).state for id_ in (*ids, other)] == ["completed", "cancelled", "completed"]
    assert jobs.fate(first).attempt == 2
    supervisor.wait_until_it_says("jobs.forgotten")
    assert supervisor.stop()[0] == 0


CRASHED = """with forgotten as (
    update fastq.job set state = 'available', claim = null, attempt = attempt - 1, attempted_at = null where id = any (%s)
) select pg_terminate_backend(pid) from pg_stat_activity where application_name in ('fastq producer', 'fastq completer')"""


@pytest.mark.process
@pytest.mark.parametrize("first", ["producer", "completer"])
def test_jobs_of_a_claim_that_a_crash_has_lost_run_once_where_their_process_lives(supervise, jobs, tmp_path, first):
    supervisor, gate = supervise(poll_interval=0.2 if first == "producer" else 60), tmp_path / "gate"
    jobs.wait_for(jobs.add("nap"), "completed")  # so the completer has a session
    ids = jobs.add_all("gated", [{"gate": str(gate)}] * 2)
    jobs.wait_until_told("start", times=3)
    jobs.execute(CRASHED, ids)
    if first == "producer":
        supervisor.wait_until_it_says("jobs.claimed_again")
    gate.touch()

    jobs.wait_until_none_is_left()
    assert [(line.id, line.attempt) for line in jobs.told("start")[1:]] == [(id_, 1) for id_ in ids]
    assert [jobs.fate(id_).state for id_ in ids] == ["completed"] * 2
    supervisor.wait_until_it_says("jobs.claimed_again")
    assert "ownership.lost" not in supervisor.said
    assert supervisor.stop()[0] == 0


def test_they_are_found_though_no_connection_was_lost(database, connection, often):
    with working(database, database) as (producer, cursor):
        ids = run_and_keep(connection, producer, cursor)
        connection.execute("delete from fastq.job_archive")
        connection.execute(RESTORE)
        wait_for(lambda: states(connection, ids) == {"retryable"}, what="the jobs to be given back")


def test_they_are_found_where_the_completer_alone_had_lost_its_connection(database, connection):
    with Proxy(database) as proxy, working(proxy.url, database) as (producer, cursor):
        ids = run_and_keep(connection, producer, cursor)
        connection.execute("delete from fastq.job_archive")
        connection.execute(RESTORE)
        session = producer._around.completer.writer.session
        first = session.connection
        proxy.sever()
        OPEN.set()
        add(connection, 1, kind="hold", args='{"hold": false}')
        wake(producer, cursor)
        wait_for(lambda: session.connection not in (None, first), what="the completer's next connection")
        wait_for(lambda: states(connection, ids) == {"retryable"}, 3.0, "the jobs to be given back")


def test_a_database_that_has_gone_back_is_looked_through_as_far_as_the_process_has_ever_claimed(database, connection):
    with Proxy(database) as proxy, working(database, proxy.url) as (producer, cursor):
        ids = run_and_keep(connection, producer, cursor)
        connection.execute("delete from fastq.job_archive")
        connection.execute(RESTORE)
        connection.execute("alter sequence fastq.job_seq restart with 1")
        for at in range(PRIORITIES):  # as another process of the host does that is there first
            cursor.frontier[at] = cursor.low[at] = 0
        proxy.sever()
        wait_for(lambda: states(connection, ids) == {"retryable"}, 3.0, "the jobs to be given back")


@pytest.mark.parametrize("window", [3, 100], ids=["in windows of 3", "more than there is room for"])
def test_what_is_forgotten_is_found_in_all_priorities_however_much_it_is(database, connection, often, monkeypatch, window):
    monkeypatch.setattr(forgotten, "WINDOW", window)
    monkeypatch.setattr(forgotten, "FULL_REST", 0.05)
    taken = []
    look = forgotten.Forgotten.look

    def telling(self, connection, claimed, last, room):
        found = look(self, connection, claimed, last, room)
        taken.append((len(found[1]) if found else 0, room))
        return found

    monkeypatch.setattr(forgotten.Forgotten, "look", telling)
    with working(database, database) as (producer, cursor):  # the board has room for 40 jobs
        ids = add(connection, 60, kind="hold", args='{"hold": false}')
        wake(producer, cursor)
        wait_for(lambda: connection.execute(NONE_LEFT) == [(True,)], what="the jobs to complete")
        connection.execute("""insert into fastq.job (id, kind, priority, state, claim, attempt, attempted_at)
            overriding system value
            select id, kind, 1 + id % 4, 'running', 1::bigint << 32 | 1, 1, now() from fastq.job_archive""")
        connection.execute("delete from fastq.job_archive")
        for at in range(PRIORITIES):
            cursor.frontier[at] = 1_000
        wait_for(lambda: states(connection, ids) == {"retryable"}, what="the jobs to be given back")

    assert all(count <= room for count, room in taken)
    assert max(count for count, _ in taken) == (3 if window == 3 else 40)


def test_what_waits_for_a_lock_on_the_table_does_not_make_the_next_look_later(database, connection, monkeypatch):
    looks = counted(monkeypatch, forgotten.Forgotten, "_walk")
    monkeypatch.setattr(forgotten, "INTERVAL", 0.05)
    with working(database, database, poll_interval=60):  # nothing else waits for the lock
        wait_for(lambda: looks() > 1, what="looks")
        connection.execute("begin")
        connection.execute("lock table fastq.job in access exclusive mode")
        waiting = (
            "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%looked%' and pid <> pg_backend_pid()"
        )
        wait_for(lambda: connection.execute(waiting), 60.0, "a look to wait for the lock")  # a slow look is followed by a rest
        time.sleep(0.5)  # so long it waits: a hundred seconds of rest, were it a walk
        connection.execute("commit")
        before = looks()
        wait_for(lambda: looks() > before + 2, 60.0, "the next looks")


def test_a_last_attempt_that_was_forgotten_ends_the_job_and_a_cancellation_goes_before_it(database, connection, often):
    with working(database, database) as (producer, cursor):
        first, second = run_and_keep(connection, producer, cursor, 2, max_attempts=1)
        connection.execute("delete from fastq.job_archive")
        connection.execute("update public.kept set cancel_requested = (id = $1)", second)
        connection.execute(RESTORE)
        wait_for(lambda: connection.execute(NONE_LEFT) == [(True,)], what="the jobs to end")

        assert archived(connection, first)["state"] == "discarded"
        assert FAILED in archived(connection, first)["errors"][0]["error"]
        assert archived(connection, second)["state"] == "cancelled"


def test_who_shares_its_number_with_another_process_ends_nothing(database, connection, often, monkeypatch):
    looks = counted(monkeypatch, forgotten.Forgotten, "_walk")
    with working(database, database) as (producer, cursor):
        (mine,) = run_and_keep(connection, producer, cursor, 1)
        connection.execute("delete from fastq.job_archive")
        process = (
            "insert into fastq.process (id, host, pid, supervisor, queues, expires_at) values (1, $1, $2, 'x', 'default', now())"
        )
        connection.execute(process, socket.gethostname(), os.getpid() + 1)
        connection.execute(RESTORE)
        before = looks()
        wait_for(lambda: looks() > before + 20, what="looks")
        assert states(connection, [mine]) == {"running"}

        connection.execute("update fastq.process set pid = $1", os.getpid())
        wait_for(lambda: states(connection, [mine]) == {"retryable"}, what="the job to be given back")


def test_a_job_whose_every_end_is_refused_is_ended_once_that_is_over(database, connection, often, events, monkeypatch):
    monkeypatch.setattr(forgotten, "FIRST_AGAIN", 0.2)
    connection.execute("""create function refuse() returns trigger language plpgsql as $$ begin
        raise exception 'not this one'; end $$""")
    connection.execute(
        "create trigger refuse before update or delete on fastq.job for each row when (old.state = 'running') "
        "execute function refuse()"
    )
    with working(database, database) as (producer, cursor):
        (id_,) = add(connection, 1, kind="hold", args='{"hold": false}')
        wake(producer, cursor)
        wait_for(lambda: [event.name for event in events].count("jobs.forgotten") >= 2, what="two more tries")
        assert states(connection, [id_]) == {"running"}
        connection.execute("drop trigger refuse on fastq.job")
        wait_for(lambda: states(connection, [id_]) == {"retryable"}, what="the job to be given back")
    assert [id_] == TOLD


def test_nothing_that_is_held_is_ended_though_each_look_misses_half_of_it(database, connection, often, events, monkeypatch):
    monkeypatch.setattr(forgotten, "INTERVAL", 0.0)
    jobs, dice = held.Held.jobs, random.Random(1)
    monkeypatch.setattr(held.Held, "jobs", lambda self: [job for job in jobs(self) if dice.random() < HALF])
    accounts = counted(monkeypatch, held.Account, "whole")
    with working(database, database, slots=16, batch=500) as (producer, cursor):
        (lost,) = run_and_keep(connection, producer, cursor, 1)
        ids = add(connection, 20_000, kind="hold", args='{"hold": false}')
        connection.execute(RESTORE)
        wake(producer, cursor)
        wait_for(lambda: connection.execute("select count(*) from fastq.job where state <> 'retryable'") == [(0,)], 60.0)

        assert sorted(TOLD) == sorted([lost, *ids])
        assert [event.fields["count"] for event in events if event.name == "jobs.forgotten"] == [1]
        assert accounts()
        assert connection.execute("select count(*) from fastq.job_archive where attempt = 1") == [(20_001,)]


def test_a_job_that_executes_is_held_for_as_long_as_it_does(database, connection, often, events, monkeypatch):
    looks = counted(monkeypatch, forgotten.Forgotten, "_walk")
    with working(database, database) as (producer, cursor):
        ids = add(connection, 3, kind="hold")
        wake(producer, cursor)
        wait_for(lambda: len(TOLD) == len(ids), what="the jobs to run")
        before = looks()
        wait_for(lambda: looks() > before + 20, what="looks")
        assert states(connection, ids) == {"running"}
        OPEN.set()
        wait_for(lambda: connection.execute(NONE_LEFT) == [(True,)], what="the jobs to complete")
    assert not [event for event in events if event.name == "jobs.forgotten"]
