"""Streams of events through the database: heard by filter, bounded, nothing missing without a word, nothing done for nobody."""

import asyncio
import logging
import os
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace

import psycopg
import pytest

from fastq import Args, AsyncClient, Client, Job
from fastq.errors import FastqError, OptionError
from fastq.events import UNLOGGED, emit, emit_each, heard, subscribe, timed
from fastq.lead.observed.subscriptions import AGAIN, IDLE, NAP, Subscriptions
from fastq.postgres import db
from fastq.subscribing import event_stream, tray
from fastq.work import forwarder
from fastq.work.forwarder import Forwarder
from tests.db.leases import configured, site_on
from tests.db.test_plans import explain
from tests.helpers import execute, wait_for

SCHEMA = "schema"
PROCESS = """insert into fastq.process (id, host, pid, supervisor, queues, expires_at)
    values (%s, %s, %s, 'h:1:aa', 'default', now() + interval '1 hour')"""
SESSIONS = "select count(*) from pg_stat_activity where application_name = 'fastq events' and datname = current_database()"


@dataclass
class MailArgs(Args, kind="mail"):
    to: str = "ada"


@contextmanager
def forwarding(url, **settings):
    """Run a forwarder in this process, without the rest of a process."""
    config = configured(database_url=url, **settings)
    made = Forwarder(config, lambda: db.session(config, url, "events"))
    made.start()
    try:
        yield made
    finally:
        made.finish(time.monotonic() + 5)
        made.join(10)
        assert made.ended


@pytest.fixture
def forward(database, monkeypatch):
    """Give a forwarder that works, in a process that is registered: a stream begins when it hears."""
    monkeypatch.setattr(event_stream, "READY", 30.0)
    execute(database, PROCESS, 1, socket.gethostname(), os.getpid())
    with forwarding(database) as made:
        yield made


@contextmanager
def hearing(made, client, *names, **filters):
    """Begin a stream, with the hint that a listener would have heard."""
    stream = client.events(*names, **filters)
    hints = threading.Event()

    def hint():
        while not hints.wait(0.01):
            made.hint()

    hinting = threading.Thread(target=hint)
    hinting.start()
    try:
        with stream:
            hints.set()
            hinting.join()
            yield stream
    finally:
        hints.set()
        hinting.join()
        made.hint()


def take(stream, count):
    """Return the next events."""
    events = []
    for event in stream:
        events.append(event)
        if len(events) == count:
            return events
    raise AssertionError(f"the stream ended after {events}")


@pytest.fixture
def client(database):
    with Client(database) as made:
        yield made


def test_a_program_hears_the_events_of_a_process_that_pass_its_filter(forward, client):
    with hearing(forward, client, "job.*", kinds=["mail"]) as stream:
        emit("process.died", pid=1)
        emit("job.failed", level=logging.WARNING, id=1, kind="post")
        emit("job.failed", level=logging.WARNING, id=2, kind="mail", error="no\nroute", traceback="in work", queue=None)

        [event] = take(stream, 1)

    assert (event.name, event.level, event.fields) == (
        "job.failed",
        logging.WARNING,
        {"id": 2, "kind": "mail", "error": "no\nroute"},
    )
    assert str(event) == 'job.failed id=2 kind=mail error="no\\nroute"'
    assert event.host
    assert not event.dropped


def test_where_nobody_subscribes_nothing_hears_and_no_session_stays_open(forward, connection, client):
    assert not heard("job.completed")
    wait_for(lambda: connection.execute(SESSIONS) == [(0,)], what="the end of its first look")

    with hearing(forward, client, "job.*"):
        assert heard("job.completed")
        assert timed()
        assert not heard("process.died")
        assert connection.execute(SESSIONS) == [(1,)]

    wait_for(lambda: not heard("job.completed") and connection.execute(SESSIONS) == [(0,)], what="the end of it")
    assert connection.execute("select count(*) from fastq.subscription") == [(0,)]


def test_two_programs_have_trays_of_their_own_so_that_a_flood_for_one_drops_nothing_of_the_other(forward, client):
    with hearing(forward, client, "job.failed") as few, hearing(forward, client, "job.completed") as many:
        flood(5_000)
        emit("job.failed", id=7)
        flood(5_000)

        [event] = take(few, 1)
        assert event.fields == {"id": 7}
        assert seen(many) == 10_000


def flood(count):
    """Tell of so many completed jobs, by the batch."""
    jobs = [Job.of(MailArgs(), id=number) for number in range(1, count + 1)]
    emit_each("job.completed", jobs, lambda job, at: {"id": job.id, "kind": job.kind})


def seen(stream, most=10_000):
    """Count the events of a stream and those that it says are missing, until all of them are told of."""
    count = dropped = 0
    for event in stream:
        if event.dropped:
            dropped += event.fields["count"]
        else:
            count += 1
        if count + dropped >= most:
            break
    assert count >= tray.EVENTS
    assert dropped > 0
    return count + dropped


def test_jobs_that_end_by_the_batch_are_told_of_one_by_one_to_those_who_ask(forward, client):
    with hearing(forward, client, "job.completed", jobs=[3, 5]) as stream:
        flood(6)

        first, second = take(stream, 2)

    assert (first.fields, second.fields) == ({"id": 3, "kind": "mail"}, {"id": 5, "kind": "mail"})
    assert first.level == logging.DEBUG > UNLOGGED


@pytest.mark.parametrize("tell", [lambda job: emit("job.failed", id=job.id), lambda job: told_each("job.completed", job)])
def test_the_start_of_a_job_is_told_before_its_end(forward, client, tell):
    job = Job.of(MailArgs(), id=3)
    with hearing(forward, client, "job.*") as stream:
        told_each("job.started", job)
        tell(job)

        first, second = take(stream, 2)

    assert first.name == "job.started"
    assert first.at <= second.at


def told_each(name, job):
    """Tell of a job as of one among many."""
    emit_each(name, [job], lambda job, at: {"id": job.id, "kind": job.kind})


def test_a_program_that_leaves_its_loop_and_comes_back_misses_nothing(forward, client):
    with hearing(forward, client, "job.failed") as stream:
        for number in range(5):
            emit("job.failed", id=number)

        assert [event.fields["id"] for event in take(stream, 2)] == [0, 1]
        assert [event.fields["id"] for event in take(stream, 3)] == [2, 3, 4]


def test_a_stream_that_is_closed_in_another_thread_ends(forward, client):
    told = []
    with hearing(forward, client) as stream:
        reading = threading.Thread(target=lambda: told.extend(stream))
        reading.start()
        emit("job.failed", id=1)
        wait_for(lambda: told)

        stream.close()
        reading.join(10)

        assert not reading.is_alive()
    assert [event.fields["id"] for event in told] == [1]


def test_an_event_loop_hears_them_too(forward, database):
    async def main():
        async with AsyncClient(database) as client:
            begun = asyncio.create_task(hint())
            async with client.events("job.failed") as stream:
                begun.cancel()
                emit("job.failed", id=1)
                return (await anext(aiter(stream))).fields

    async def hint():
        while True:
            forward.hint()
            await asyncio.sleep(0.01)

    assert asyncio.run(main()) == {"id": 1}


def test_a_stream_without_a_block_begins_with_its_first_event_and_ends_with_its_loop(forward, client, connection):
    stream = iter(client.events("job.failed"))
    first = []
    reading = threading.Thread(target=lambda: first.append(next(stream)))
    reading.start()
    wait_for(lambda: forward.hint() or heard("job.failed"), what="the subscription")
    emit("job.failed", id=1)
    reading.join(10)

    stream.close()

    assert [event.fields["id"] for event in first] == [1]
    assert connection.execute("select count(*) from fastq.subscription") == [(0,)]


def test_a_subscription_that_is_not_renewed_is_forgotten_and_a_program_that_reads_on_is_told_that_events_are_missing(
    forward, client, connection, monkeypatch
):
    monkeypatch.setattr(event_stream, "TTL", 0.3)
    monkeypatch.setattr(event_stream, "RENEWAL", 0.0)
    with hearing(forward, client, "job.failed") as stream:
        wait_for(lambda: not heard("job.failed"), what="the process to forget a program that reads nothing")
        emit("job.failed", id=1)
        monkeypatch.setattr(event_stream, "TTL", 30.0)

        [event] = take(stream, 1)

        assert (event.name, event.fields) == ("events.dropped", {"count": None})
        wait_for(lambda: forward.hint() or heard("job.failed"))
        emit("job.failed", id=2)
        assert [event.fields["id"] for event in take(stream, 1)] == [2]


def test_a_program_that_does_not_read_fills_neither_memory_nor_the_table(forward, client, connection, monkeypatch):
    monkeypatch.setattr(forwarder, "KEPT", 0.5)
    monkeypatch.setattr(forwarder, "INTERVAL", 0.01)
    with hearing(forward, client, "job.completed") as stream:
        told = 0
        sheets = []
        while connection.execute("select count(*) > 0 and min(start_at) > 0 from fastq.event") != [(True,)]:
            flood(300)
            told += 300
            sheets += connection.execute("select count(*), max(size) from fastq.event")
        assert max(size or 0 for _, size in sheets) <= tray.EVENTS

        assert seen(stream, told) == told


def test_a_crash_that_empties_the_table_is_told_with_the_number_of_events(forward, client, connection):
    with hearing(forward, client, "job.failed") as stream:
        emit("job.failed", id=1)
        take(stream, 1)
        for number in (2, 3):
            emit("job.failed", id=number)
        wait_for(lambda: connection.execute("select sum(size) from fastq.event where start_at > 0") == [(2,)])
        connection.execute("truncate fastq.event")
        emit("job.failed", id=4)

        gap, event = take(stream, 2)

    assert (gap.name, gap.fields, event.fields) == ("events.dropped", {"count": 2}, {"id": 4})


def test_a_sheet_is_written_once_though_the_answer_to_its_statement_was_lost(forward, client, connection):
    with hearing(forward, client, "job.failed") as stream:
        emit("job.failed", id=1)
        take(stream, 1)
        [row] = connection.execute("select subscription, source, number, start_at, size, events from fastq.event where size > 0")
        connection.run("event_write", *([value] for value in row), 15.0)
        assert connection.execute("select count(*) from fastq.event where size > 0") == [(1,)]


def test_events_wait_in_their_tray_while_the_database_does_not_take_them(forward, client, connection, other):
    with hearing(forward, client, "job.failed") as stream:
        with other.raw.transaction():
            other.raw.execute("lock table fastq.event in share row exclusive mode")
            emit("job.failed", id=1)
            wait_for(lambda: connection.execute("select count(*) from pg_locks where not granted") == [(1,)])
            emit("job.failed", id=2)

        assert [event.fields["id"] for event in take(stream, 2)] == [1, 2]


def test_more_streams_than_may_be_at_once_are_refused(client, monkeypatch):
    monkeypatch.setattr(event_stream, "SUBSCRIPTIONS", 1)
    monkeypatch.setattr(event_stream, "READY", 0.0)
    with client.events(), pytest.raises(FastqError, match="expected 1 programs at most that hear events"):
        client.events().__enter__()


def test_a_filter_that_is_none_is_refused_before_anything_is_sent():
    with pytest.raises(OptionError, match="kinds='mail': expected a list of texts"):
        Client("host=nowhere").events(kinds="mail")


def test_a_stream_begins_when_all_living_processes_hear(forward, database, client, connection, monkeypatch):
    monkeypatch.setattr(event_stream, "READY", 0.5)
    execute(database, PROCESS, 2, "elsewhere", 7)
    begun = time.monotonic()
    with hearing(forward, client) as stream:
        assert time.monotonic() - begun >= 0.5
        assert connection.run("subscription_heard", stream._id) == [(False,)]
        connection.execute(
            "insert into fastq.event (subscription, source, number, start_at, size, events) "
            "values ($1, 'elsewhere:7:bb', 0, 0, 0, '[]')",
            stream._id,
        )
        assert connection.run("subscription_heard", stream._id) == [(True,)]


def test_a_look_upon_a_hint_that_fails_is_done_again_though_the_last_one_was_a_moment_ago(database, connection, monkeypatch):
    failures = []

    class Counted(forwarder.Rebuilt):
        def failed(self, text, *, quiet=False):
            failures.append(text)
            return super().failed(text, quiet=quiet)

    monkeypatch.setattr(forwarder, "POLL", 3_600.0)
    monkeypatch.setattr(forwarder, "Rebuilt", Counted)
    with forwarding(database) as made:
        wait_for(lambda: made._look_at > 0 and connection.execute(SESSIONS) == [(0,)], what="the end of its first look")
        connection.execute("alter table fastq.subscription rename to away")
        made.hint()
        wait_for(lambda: failures)
        connection.execute("alter table fastq.away rename to subscription")
        connection.execute("insert into fastq.subscription (filter, expires_at) values ('{}', now() + interval '1 hour')")

        wait_for(lambda: heard("job.failed"))


def test_a_program_that_only_polls_calls_the_processes_that_listen(database, monkeypatch):
    """As a web application behind a pooler, of workers that connect directly."""
    monkeypatch.setattr(event_stream, "READY", 0.0)
    config = configured(database_url=database, poll_only=True)
    with psycopg.connect(database, autocommit=True) as ear, Client(config=config) as polling:
        ear.execute("listen fastq")
        with polling.events("job.failed"):
            pass
        told = [notification.payload for notification in ear.notifies(timeout=30.0, stop_after=2)]

    assert told == ["@events", "@events"]


def test_a_process_without_listen_finds_out_by_itself(database, client, monkeypatch):
    monkeypatch.setattr(forwarder, "POLL", 0.05)
    monkeypatch.setattr(event_stream, "READY", 30.0)
    execute(database, PROCESS, 1, socket.gethostname(), os.getpid())
    with forwarding(database, poll_only=True), client.events("job.failed") as stream:
        emit("job.failed", id=1)

        assert [event.fields["id"] for event in take(stream, 1)] == [1]


def test_a_role_that_may_not_look_is_told_of_and_nothing_else_is_disturbed(database, connection):
    role, told = f"test_{os.getpid()}_nobody", []
    end = subscribe(told.append, ["events.waits"])
    connection.execute(f"create role {role}")
    try:
        with forwarding(f"{database}{'&' if '?' in database else '?'}options=-c%20role%3D{role}"):
            wait_for(lambda: told, what="the event")
    finally:
        end()
        connection.execute(f"drop role {role}")
    assert "permission denied" in told[0].fields["error"]


def test_a_filter_of_a_newer_program_is_left_to_newer_processes(forward, connection):
    connection.execute(
        "insert into fastq.subscription (filter, expires_at) values ('{\"tenants\": [1]}', now() + interval '1 hour')"
    )
    forward.hint()

    wait_for(lambda: not forward._hinted)
    assert not heard("job.failed")


@pytest.fixture
def site(database):
    """Give the leader of the schema."""
    made = site_on(database, name=SCHEMA)
    yield made
    made.connection.close()


def test_the_leader_removes_what_programs_and_processes_have_left(site, connection):
    connection.execute(
        "insert into fastq.subscription (filter, expires_at) values ('{}', now() - interval '2 minutes'), "
        "('{}', now() - interval '10 s'), ('{}', now() + interval '1 hour')"
    )
    connection.execute(
        "insert into fastq.event (subscription, source, number, start_at, size, events, at) values "
        "(3, 'h:1:aa', 0, 0, 1, '[]', now()), "
        "(3, 'h:2:aa', 0, 0, 1, '[]', now() - interval '2 minutes'), (4711, 'h:1:bb', 0, 0, 1, '[]', now())"
    )
    chore = Subscriptions()

    assert chore.run(site) == AGAIN
    assert connection.execute("select id from fastq.subscription order by id") == [(2,), (3,)]
    assert connection.execute("select subscription, source from fastq.event") == [(3, "h:1:aa")]
    assert site.changed == 3

    connection.execute("delete from fastq.subscription")
    assert chore.run(site) == AGAIN
    assert chore.run(site) == IDLE
    site.config = replace(site.config, poll_only=True)
    assert chore.run(site) == AGAIN


def test_the_leader_removes_sheets_by_the_batch(site, connection):
    connection.execute(
        "insert into fastq.event (subscription, source, number, start_at, size, events) "
        "select 4711, 'h:1:aa', number, 0, 1, '[]' from generate_series(1, 150) as number"
    )
    chore = Subscriptions()

    assert [chore.run(site), chore.run(site)] == [NAP, AGAIN]
    assert connection.execute("select count(*) from fastq.event") == [(0,)]


def test_dead_sheets_that_an_old_snapshot_keeps_are_walked_over_by_no_reader_and_no_writer(connection, database):
    connection.execute(
        "insert into fastq.subscription (id, filter, expires_at) overriding system value values (1, '{}', 'infinity')"
    )
    sheets = """insert into fastq.event (subscription, source, number, start_at, size, events)
        select 1, 'h:' || source, number, 0, 0, '[]'
        from generate_series(1, 4) as source, generate_series(1, 5000) as number"""
    sources, numbers = [f"h:{source}" for source in range(1, 5)], [5000] * 4
    with psycopg.connect(database) as old:
        old.execute("begin isolation level repeatable read")
        old.execute("select count(*) from fastq.event")
        connection.execute(sheets)
        connection.execute("delete from fastq.event where number < 4990")
        connection.execute("analyze fastq.event")

        read = touched(connection, "event_read", (1, sources, numbers, 100))
        empty = touched(connection, "event_read", (1, [*sources, "h:9"], [*numbers, 1], 100))
        write = touched(connection, "event_write", ([1] * 4, sources, [5001] * 4, [0] * 4, [0] * 4, ["[]"] * 4, 15.0))

    assert max(read, empty) <= 40
    assert write <= 400  # a thousand numbers of each source, and the new rows


def touched(connection, name, params):
    """Return how many pages a statement touches."""
    plan = explain(connection, name, params, "analyze, buffers")["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
