"""The producer's connection ends: what has been handed out runs on and runs once, and what comes later is found."""

import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from fastq.postgres import db
from fastq.work.claim import producer as producers
from tests.db.jobs import add
from tests.helpers import freeze, wait_for
from tests.process.threads import JOBS, OPEN, TOLD, working
from tests.proxy import Proxy

NOWHERE = "postgresql://127.0.0.1:1/nowhere"


@pytest.fixture(autouse=True)
def _fresh():
    TOLD.clear()
    OPEN.clear()


def test_a_connection_that_ends_in_the_turn_after_a_claim_gives_no_job_a_second_run(database, connection):
    ids = add(connection, JOBS, kind="hold")
    statements = {"snapshot": db.statement("snapshot")}
    with Proxy(database, statements) as proxy:
        proxy.hold("snapshot")  # the turn's next statement after the claim
        with working(database, proxy.url) as (producer, cursor):
            wait_for(proxy.held, what="the turn to go on")
            assert TOLD == [], "a job runs that may hold the interpreter, and with it the turn"
            first = producer.session.connection
            proxy.sever()
            proxy.release()
            wait_for(lambda: producer.session.connection not in (None, first), what="the producer's next connection")
            wait_for(lambda: len(TOLD) == JOBS, what="the jobs to run")
            later = add(connection, 1, kind="hold", args='{"hold": false}')
            cursor.wakes += 1
            producer.wake()
            wait_for(lambda: later[0] in TOLD, what="the first job that the new connection claims")

            running = "select count(*) from fastq.job where state = 'running' and attempt = 1 and id = any($1)"
            assert connection.execute(running, ids) == [(JOBS,)]
            OPEN.set()
            wait_for(lambda: connection.execute("select count(*) from fastq.job") == [(0,)], what="all jobs to end")

    assert sorted(TOLD) == [*ids, *later]


def test_jobs_of_a_database_that_has_gone_back_are_found_on_the_next_connection(database, connection):
    with Proxy(database) as proxy, working(database, proxy.url) as (producer, cursor):

        def work(count):
            ids = add(connection, count, kind="hold", args='{"hold": false}')
            cursor.wakes += 1
            producer.wake()
            wait_for(lambda: set(ids) <= set(TOLD), 2.0, "the jobs to run")

        work(20)
        cursor.low[0] = cursor.frontier[0]  # where it comes to by itself within seconds
        connection.execute("alter sequence fastq.job_seq restart with 1")
        proxy.sever()  # as the server would that has gone

        work(1)
        work(2)


@contextmanager
def claims_held_up(database, connection, producer, cursor):
    """Let no claim go on, then add jobs for it; give a function that waits for such a claim and returns its session's pid."""
    text = """select pid from pg_stat_activity where application_name = 'fastq producer' and wait_event_type = 'Lock'
        and pid <> all ($1)"""

    def waiting(*others):
        return wait_for(lambda: connection.execute(text, list(others)), what="a claim to wait for the lock")[0][0]

    resting = producer._sources[0].resting
    while resting.first:  # the look before the claims has seen no job yet: it would wait for the lock, and no claim be under way
        add(connection, 1, kind="hold", args='{"hold": false}')
        cursor.wakes += 1
        producer.wake()
        wait_for(lambda: connection.execute("select count(*) from fastq.job") == [(0,)], what="the statements to be prepared")
    locks = db.connect(database, role="test")
    locks.execute("begin")
    add(locks, JOBS, kind="hold", args='{"hold": false}')
    locks.execute("lock table fastq.job in share mode")
    cursor.wakes += 1
    producer.wake()
    yield waiting
    locks.execute("commit")
    locks.close()


@pytest.mark.parametrize("poll_only", [False, True], ids=["", "pooled"])
def test_a_claim_that_was_cut_and_commits_later_keeps_no_job(database, connection, poll_only):
    with working(database, database, poll_only=poll_only) as (producer, cursor):
        with claims_held_up(database, connection, producer, cursor) as waiting:
            first = waiting()
            producer.session.connection.cut()
            waiting(first)  # another: it has looked for what the first one took
        wait_for(lambda: connection.execute("select count(*) from fastq.job") == [(0,)], 5.0, "all jobs to end")


def test_nothing_is_claimed_before_a_session_that_was_cut_has_ended(database, connection, events):
    with working(database, database, statement_timeout=0.5) as (producer, cursor):
        with claims_held_up(database, connection, producer, cursor) as waiting:
            frozen = waiting()
            assert producer._under_way.number, "another statement than a claim waits for the lock"
            if b"postgres" not in Path(f"/proc/{frozen}/cmdline").read_bytes():
                pytest.skip("the server is on another machine")
            freeze(frozen)
            try:
                producer.session.connection.cut()
                wait_for(lambda: [event for event in events if "has not ended yet" in str(event.fields.get("error"))])
                assert producer._under_way.number
                assert producer._under_way.cut_session == frozen
            finally:
                os.kill(frozen, signal.SIGCONT)
        wait_for(lambda: connection.execute("select count(*) from fastq.job") == [(0,)], 5.0, "all jobs to end")


@pytest.fixture
def connection(database):
    """Give a session of the test's own."""
    opened = db.connect(database, role="test")
    yield opened
    opened.close()


def test_a_producer_that_waits_for_its_database_ends_when_it_is_told_to(database, monkeypatch, events):
    monkeypatch.setattr(producers, "FIRST_PAUSE", 60.0)
    with working(database, NOWHERE):
        wait_for(lambda: [event for event in events if event.name == "producer.waits"], 10.0, "the pause")
        began = time.monotonic()

    assert time.monotonic() - began < 30.0
