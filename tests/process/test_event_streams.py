"""Streams of events in a running cluster: of every way of executing, across processes and deaths, at the cost of nobody else."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from fastq import AsyncClient, Client
from fastq.postgres import embedded
from fastq.subscribing import event_stream, event_stream_async
from tests.helpers import execute, freeze, wait_for
from tests.process.conftest import ROOT, Jobs, supervising
from tests.process.heard import (
    TAKES,
    ApartArgs,
    ApartOutcomeArgs,
    AwaitedArgs,
    BatchedArgs,
    EndedArgs,
    GatedArgs,
    OutcomeArgs,
    PlainArgs,
)
from tests.process.test_outage import crash, own_server  # noqa: F401 - a fixture

pytestmark = [pytest.mark.process, pytest.mark.further]

APP = "tests.process.heard:registry"
FORWARDING = "select count(*) from pg_stat_activity where application_name = 'fastq events' and datname = current_database()"


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Let a stream begin when all processes hear, also on a busy machine."""
    monkeypatch.setattr(event_stream, "READY", 30.0)
    monkeypatch.setattr(event_stream_async, "READY", 30.0)


@pytest.fixture
def client(database):
    with Client(database) as made:
        yield made


class Hearer(threading.Thread):
    """Hears events in a thread, and keeps them."""

    def __init__(self, client, *names, **filters):
        super().__init__(daemon=True)
        self.events = []
        self.stream = client.events(*names, **filters)
        self._begun = threading.Event()
        self.start()
        assert self._begun.wait(30)

    def run(self):
        with self.stream as stream:
            self._begun.set()
            for event in stream:
                self.events.append(event)

    def of(self, name):
        return [event for event in self.events if event.name == name]

    def wait(self, name, **fields):
        """Wait for an event with these fields, and return it."""
        return wait_for(
            lambda: next((event for event in self.of(name) if fields.items() <= event.fields.items()), None),
            30.0,
            f"{name} {fields} among {[str(event) for event in self.events]}",
        )

    def end(self):
        self.stream.close()
        self.join(30)
        assert not self.is_alive()


@pytest.fixture
def hear():
    """Give a function that begins to hear events."""
    begun = []

    def begin(client, *names, **filters):
        begun.append(Hearer(client, *names, **filters))
        return begun[-1]

    yield begin
    for hearer in begun:
        hearer.end()


@pytest.mark.parametrize("kind", [PlainArgs, AwaitedArgs, BatchedArgs, ApartArgs, EndedArgs])
def test_start_and_end_of_a_job_are_heard_with_their_durations_however_it_is_executed(supervise, client, hear, kind):
    supervise(APP, queues="default=4")
    hearer = hear(client, "job.*")

    job = client.enqueue(kind())

    completed = hearer.wait("job.completed", id=job)
    [started] = hearer.of("job.started")
    assert started.fields.keys() == {"id", "kind", "attempt", "queue", "age"}
    assert completed.fields.keys() == {"id", "kind", "attempt", "queue", "age", "ran"}
    assert (completed.fields["attempt"], completed.fields["queue"]) == (1, "default")
    assert completed.fields["ran"] >= TAKES
    assert completed.at >= started.at


@pytest.mark.parametrize(("what", "name"), [("raise", "job.failed"), ("snooze", "job.snoozed"), ("discard", "job.discarded")])
def test_other_ends_are_heard_with_their_durations_and_no_event_shows_args(supervise, client, hear, what, name):
    supervise(APP, queues="default=4")
    hearer = hear(client)

    job = client.enqueue(OutcomeArgs(what))

    event = hearer.wait(name, id=job)
    assert event.fields["ran"] >= TAKES
    assert event.fields["queue"] == "default"
    hearer.wait("job.discarded" if what == "raise" else name, id=job)
    assert "opensesame" not in " ".join(str(event.fields) for event in hearer.events)


@pytest.mark.parametrize(("what", "name"), [("raise", "job.failed"), ("snooze", "job.snoozed")])
def test_other_ends_of_isolated_jobs_are_heard_with_their_durations_by_a_filter_of_queues(supervise, client, hear, what, name):
    supervise(APP, queues="default=4")
    hearer = hear(client, "job.*", queues=["default"])

    job = client.enqueue(ApartOutcomeArgs(what))

    fields = hearer.wait(name, id=job).fields
    assert fields["queue"] == "default"
    assert fields["ran"] > 0


def test_all_processes_are_heard_and_each_program_hears_the_events_that_it_wants(supervise, client, hear, jobs):
    supervise(APP, queues="default=1", procs="2")
    mine, others = hear(client, "job.started", kinds=["plain"]), hear(client, jobs=[4711])

    client.enqueue_many([PlainArgs()] * 20)
    client.enqueue_many([AwaitedArgs()] * 5)
    jobs.wait_until_none_is_left()

    wait_for(lambda: len(mine.events) == 20)
    assert {event.fields["id"] for event in mine.events} == set(range(1, 21))
    assert len({event.pid for event in mine.events}) == 2
    assert others.events == []


def test_where_nobody_hears_no_process_has_a_session_for_it(supervise, client, hear, database):
    supervise(APP, procs="2")
    wait_for(lambda: execute(database, FORWARDING) == [(0,)], what="the end of the first looks")
    hearer = hear(client, "job.*")
    assert execute(database, FORWARDING) == [(3,)]

    hearer.end()

    wait_for(lambda: execute(database, FORWARDING) == [(0,)], what="the end of the sessions")
    wait_for(lambda: execute(database, "select count(*) from fastq.event") == [(0,)], what="the leader to remove the events")


def test_the_death_of_a_process_is_heard_and_so_are_the_events_of_its_successor(supervise, client, hear, jobs, tmp_path):
    supervisor = supervise(APP, queues="default=4")
    hearer, gate = hear(client), tmp_path / "gate"
    job = client.enqueue(GatedArgs(str(gate)))
    [line] = jobs.wait_until_told("start")
    assert hearer.wait("job.started", id=job).pid == line.pid

    os.kill(line.pid, signal.SIGKILL)

    died = hearer.wait("process.died", code=-9)
    assert died.pid == supervisor.pid
    jobs.wait_until_told("start", times=2)
    gate.touch()
    completed = hearer.wait("job.completed", id=job)
    assert completed.pid != line.pid
    assert completed.fields["attempt"] == 2


def test_the_last_events_of_a_host_that_stops_are_heard(supervise, client, hear, jobs, tmp_path):
    supervisor = supervise(APP, queues="default=4")
    hearer, gate = hear(client), tmp_path / "gate"
    job = client.enqueue(GatedArgs(str(gate)))
    jobs.wait_until_told("start")

    supervisor.send(signal.SIGTERM)
    hearer.wait("supervisor.stops")
    gate.touch()

    hearer.wait("job.completed", id=job)
    assert supervisor.wait()[0] == 0


def test_a_program_that_was_frozen_is_forgotten_and_is_told_so_when_it_goes_on(supervise, client, database):
    supervise(APP, queues="default=4")
    command = [sys.executable, "-m", "fastq", "events", "-f", "--json"]
    program = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "FASTQ_DATABASE_URL": database}, stdout=subprocess.PIPE, text=True
    )
    try:
        wait_for(lambda: execute(database, "select count(*) from fastq.event") > [(1,)], 30.0, "the processes to hear for it")
        freeze(program.pid)
        execute(database, "update fastq.subscription set expires_at = clock_timestamp()")
        execute(database, "select pg_notify('fastq', '@events')")
        wait_for(lambda: execute(database, FORWARDING) == [(0,)], 30.0, "the processes to forget it")
        os.kill(program.pid, signal.SIGCONT)

        told = json.loads(program.stdout.readline())

        assert (told["event"], told["count"], told["level"]) == ("events.dropped", None, "warning")
    finally:
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=30)
    assert program.returncode == 130


def test_a_flood_is_bounded_and_all_of_it_is_told_of(supervise, client, hear, jobs):
    supervise("fastq.bench.app:registry", queues="default=4", procs="2")
    hearer = hear(client, "job.completed")

    jobs.add_all("bench.noop", [{"number": 1}] * 20_000)
    jobs.wait_until_none_is_left(60.0)

    def told():
        return sum(event.fields["count"] if event.dropped else 1 for event in hearer.events)

    wait_for(lambda: told() == 20_000, 30.0, "all events, or the number of those that are missing")
    assert all(event.fields["count"] for event in hearer.of("events.dropped"))


def test_a_program_goes_on_after_a_crash_of_postgres_and_knows_of_a_gap(own_server, tmp_path):  # noqa: F811 - the fixture
    with supervising(Jobs(own_server.url, tmp_path), tmp_path) as start:
        running = start(APP, queues="default=4")
        with Client(own_server.url) as client:
            hearer = Hearer(client)
            first = client.enqueue(PlainArgs())
            hearer.wait("job.completed", id=first)

            crash(own_server)
            wait_for(lambda: "completer.waits" in running.said or "producer.waits" in running.said, 30.0)
            with embedded.start(own_server.folder):
                second = wait_for(lambda: enqueued(client), 40.0)
                hearer.wait("job.completed", id=second)
                hearer.wait("producer.waits")
                hearer.end()
                running.stop()


def enqueued(client):
    """Enqueue a job if the server is back."""
    try:
        return client.enqueue(PlainArgs())
    except Exception:  # noqa: BLE001 - it is away, in one of many ways
        return None


def test_a_host_without_listen_is_heard(supervise, client, hear):
    supervise(APP, queues="default=4", poll_only="1", poll_interval="0.2")
    hearer = Hearer(client, "job.completed")
    try:
        wait_for(lambda: client.enqueue(PlainArgs()) and hearer.events, 40.0, "an event")
    finally:
        hearer.end()


def test_an_event_loop_hears_a_host(supervise, database):
    supervise(APP, queues="default=4")

    async def main():
        async with AsyncClient(database) as client, client.events("job.completed") as events:
            job = await client.enqueue(AwaitedArgs())
            return (await anext(aiter(events))).fields["id"] == job

    assert asyncio.run(main())


def test_the_command_shows_events_of_these_names_and_kinds_for_people(supervise, client, database):
    supervise(APP, queues="default=4")
    command = [sys.executable, "-m", "fastq", "events", "job.completed", "--kind", "plain", "--queue", "default"]
    program = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "FASTQ_DATABASE_URL": database}, stdout=subprocess.PIPE, text=True
    )
    wait_for(lambda: execute(database, "select count(*) from fastq.event") > [(1,)], 30.0, "the processes to hear for it")

    client.enqueue_many([AwaitedArgs(), PlainArgs()])
    said, _ = program.communicate(timeout=30)

    [line] = said.splitlines()
    assert " job.completed id=2 kind=plain attempt=1 queue=default age=" in line
    assert time.strftime("%H:") in line or line[:2].isdecimal()
    assert program.returncode == 0
