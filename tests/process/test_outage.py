"""What Postgres may do to us: end our sessions, restart, stay away, freeze."""

import os
import random
import shutil
import signal
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from fastq.bench.cost import tree
from fastq.postgres import db, embedded
from fastq.schema.migrate import migrate
from tests.helpers import freeze, wait_for
from tests.process.conftest import APP, SESSIONS, Jobs, Supervisor, supervising
from tests.proxy import Proxy

pytestmark = [pytest.mark.process, pytest.mark.further]

EXPIRED = "select bool_and(expires_at < clock_timestamp()) from fastq.process"
ROLES = ("producer", "completer", "registrar", "listener", "elector", "maintainer")


def fill(jobs, count):
    """Enqueue short jobs of both modes; return their ids."""
    return jobs.add_all("nap", [{}] * count) + jobs.add_all("async_nap", [{"seconds": 0.001}] * (count // 10))


def check(jobs, ids):
    """Each job has run once to its end and is completed."""
    assert sorted(line.id for line in jobs.told("end")) == ids
    assert jobs.counts() == {"completed": len(ids)}
    assert jobs.execute("select count(*) from fastq.job") == [(0,)]


def test_sessions_that_are_ended_under_load_cost_no_job_and_no_second_run(supervise, jobs):
    supervisor = supervise(procs=2, queues="default=8", batch=50, poll_interval=0.2)
    ids = fill(jobs, 5_000)
    stopped = threading.Event()
    ended = dict.fromkeys(ROLES, 0)

    def end_sessions():
        dice = random.Random(2)
        with psycopg.connect(jobs.url, autocommit=True) as connection:
            while not stopped.wait(0.05):
                pid, name = dice.choice(connection.execute(SESSIONS).fetchall() or [(0, "fastq nobody")])
                if connection.execute("select pg_terminate_backend(%s)", [pid]).fetchone() == (True,):
                    ended[name.removeprefix("fastq ")] = ended.get(name.removeprefix("fastq "), 0) + 1

    thread = threading.Thread(target=end_sessions)
    thread.start()
    try:
        jobs.wait_until_none_is_left(40)
        wait_for(lambda: all(ended[role] for role in ROLES), 10, f"the end of a session of each role in {ended}")
    finally:
        stopped.set()
        thread.join()

    check(jobs, ids)
    assert "process.died" not in supervisor.said
    jobs.wait_for(jobs.add("nap"), "completed")
    assert supervisor.stop()[0] == 0


@pytest.fixture
def own_server(tmp_path):
    """Give a server that the test may ill-treat, and its folder."""
    folder = Path(tempfile.mkdtemp(prefix="fastq-outage-", dir="/dev/shm" if Path("/dev/shm").is_dir() else "/tmp"))
    folder.chmod(0o711)
    with embedded.start(folder, settings={"fsync": "off"}) as server:
        migrate(server.url)
        yield server
    shutil.rmtree(folder)


@pytest.fixture
def own_host(own_server, tmp_path):
    """Give jobs on that server, and a function that starts a supervisor for them."""
    made = Jobs(own_server.url, tmp_path)  # its connection is made anew where a test has ended it
    started = []

    def start(**settings):
        started.append(Supervisor(made, tmp_path, APP, settings))
        started[0].wait_until_ready()
        return started[0]

    yield made, start
    for supervisor in started:
        supervisor.clear()
    made.connection.close()


def postmaster(server):
    """Return the pid of the server's first process."""
    return int((server.data / "postmaster.pid").read_text().split()[0])


def crash(server):
    """End the server at once, without a checkpoint, and wait until it is gone."""
    pid = postmaster(server)
    os.kill(pid, signal.SIGQUIT)
    wait_for(lambda: not (server.data / "postmaster.pid").exists() or not Path(f"/proc/{pid}").exists(), 10)


def answering(url):
    """Tell whether a server answers."""
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def test_an_immediate_restart_of_the_server_under_load_costs_no_job(own_server, own_host):
    jobs, start = own_host
    supervisor = start(procs=2, queues="default=8", batch=50, poll_interval=0.2)
    ids = fill(jobs, 5_000)
    jobs.wait_until_told("end", times=500)

    crash(own_server)
    wait_for(lambda: "producer.waits" in supervisor.said, 10)
    with embedded.start(own_server.folder):
        wait_for(lambda: answering(jobs.url), 20)
        jobs.connection.close()
        jobs.wait_until_none_is_left(40)
        check(jobs, ids)
        assert "process.died" not in supervisor.said
        jobs.wait_for(jobs.add("nap"), "completed")
        assert supervisor.stop()[0] == 0


@pytest.mark.parametrize("twice", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_host_can_be_stopped_while_the_server_is_away(own_server, own_host, twice):
    jobs, start = own_host
    supervisor = start(shutdown_timeout=1)
    id_ = jobs.add("patient", seconds=30)
    jobs.wait_until_told("start", id_)
    jobs.execute("checkpoint")  # a claim does not wait for the disk (docs/adr/0045)
    crash(own_server)

    if twice:
        supervisor.send(signal.SIGTERM)
        supervisor.wait_until_it_says("supervisor.stops")
    code, took = supervisor.stop()

    assert code == 1  # something could not be told to the database
    assert not twice or 'supervisor.failed reason="killed by a second signal"' in supervisor.said
    assert took < (1.0 if twice else 18.0)  # 1 s for the job, 1 s to cancel it, completer and registrar 5 s and a pause each
    with embedded.start(own_server.folder):
        wait_for(lambda: answering(jobs.url), 20)
        jobs.connection.close()
        assert jobs.fate(id_).state == "running"  # until the next host's leader rescues it


def test_a_server_that_freezes_is_noticed_and_work_goes_on_when_it_thaws(own_server, own_host):
    jobs, start = own_host
    supervisor = start(statement_timeout=0.5, process_ttl=30)
    ids = fill(jobs, 3_000)
    jobs.wait_until_told("end", times=100)
    pids = tree(postmaster(own_server))

    for pid in pids:
        freeze(pid)
    try:
        supervisor.wait_until_it_says("connection.cut", times=2)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    jobs.wait_until_none_is_left(30)
    check(jobs, ids)
    assert supervisor.stop()[0] == 0


def test_an_outage_longer_than_the_time_to_live_costs_no_running_job_though_a_host_comes_back_late(jobs, tmp_path):
    settings = {"process_ttl": "2.1", "beat_interval": "1", "lease_ttl": "1", "queues": "default=1"}
    with ExitStack() as stack:
        wires = [stack.enter_context(Proxy(jobs.url)) for _ in range(2)]
        start = stack.enter_context(supervising(jobs, tmp_path))
        first, late = (start(database_url=wire.url, **settings) for wire in wires)
        ids = jobs.add_all("patient", [{"seconds": 7}] * 2, max_attempts=1)
        jobs.wait_until_told("start", times=2)

        for wire in wires:
            wire.black_hole()
        wait_for(lambda: jobs.execute(EXPIRED) == [(True,)], 10.0, "all processes to expire")
        terms = first.said.count("term.started lease=leader:default")
        wires[0].restore()
        first.wait_until_it_says("term.started lease=leader:default", times=terms + 1)
        first.wait_until_it_says("rescue.waits")  # it has looked
        time.sleep(0.5)  # and would have rescued; a third of the time that it waits
        wires[1].restore()
        jobs.wait_until_none_is_left()

        assert {(jobs.fate(id_).state, jobs.fate(id_).attempt) for id_ in ids} == {("completed", 1)}
        assert "jobs.rescued" not in first.said + late.said
        assert [supervisor.stop()[0] for supervisor in (first, late)] == [0, 0]


def test_a_beat_that_is_lost_without_a_word_starts_no_job_a_second_time(supervise, jobs):
    with Proxy(jobs.url, {"beat": db.statement("process_beat")}) as wire:
        supervisor = supervise(database_url=wire.url, process_ttl=3.6, beat_interval=0.6)  # FASTQ_STATEMENT_TIMEOUT stays at 10 s
        ids = jobs.add_all("patient", [{"seconds": 5.5}] * 4, max_attempts=1)
        jobs.wait_until_told("start", times=4)

        wire.lose("beat")
        jobs.wait_until_none_is_left()

        assert wire.lost == 1
        assert len(jobs.told("start")) == 4
        assert {(jobs.fate(id_).state, jobs.fate(id_).attempt) for id_ in ids} == {("completed", 1)}
        assert "jobs.rescued" not in supervisor.said
        assert supervisor.stop()[0] == 0
