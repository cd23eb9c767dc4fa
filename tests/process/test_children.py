"""What a worker process has of its parents and what it must not have, what it calls itself, and quick starts and stops."""

import os
import re
import resource
import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fastq import Config
from fastq.board.board import Board
from fastq.host.fork_server import ForkServer
from tests.helpers import descriptors_left, process_exists, wait_for
from tests.process.conftest import title

pytestmark = pytest.mark.process


def sockets(pid):
    """Return the inodes of the sockets that a process has open."""
    links = [str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()]
    return {link for link in links if link.startswith("socket:")}


def test_a_worker_process_shares_no_socket_with_any_other_process(supervise):
    supervisor = supervise(procs=2)
    wait_for(
        lambda: all(supervisor.sessions(role) for role in ("elector", "maintainer", "listener")),
        what="the sessions of the supervisor",
    )
    first, second = supervisor.workers

    assert len(sockets(supervisor.pid)) >= 4  # registrar, listener, elector, maintainer
    assert sockets(first)  # its own
    for one, other in [(first, second), (first, supervisor.pid), (second, supervisor.pid), (first, supervisor.fork_server)]:
        assert sockets(one) & sockets(other) == set()


def test_the_fork_server_has_one_thread_and_no_session(supervise):
    supervisor = supervise(procs=2)
    fork_server = supervisor.fork_server

    assert len(list(Path(f"/proc/{fork_server}/task").iterdir())) == 1
    assert len(sockets(fork_server)) == 1  # on which it is asked for children
    for worker in supervisor.workers:
        assert Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1] == str(fork_server)


def test_the_fork_servers_threads_can_be_counted_by_splitting_its_state_at_blanks(supervise):
    state = Path(f"/proc/{supervise().fork_server}/stat").read_text()

    assert state.split()[19] == "1", "Python reads it so before a fork, and warns of threads that are not there"


def test_a_worker_process_dies_with_the_fork_server_and_another_takes_its_place(supervise):
    supervisor = supervise()
    (worker,) = supervisor.workers

    os.kill(supervisor.fork_server, signal.SIGKILL)

    wait_for(lambda: not process_exists(worker), 1.0, "the worker process to die with its parent")
    assert supervisor.wait_until_ready() != [worker]


def test_processes_are_titled_by_what_they_are_and_never_by_the_database(supervise, jobs):
    supervisor = supervise(procs=2, queues="default=3,emails=2", database_url=f"{jobs.url}&password=hunter2")
    busy = jobs.add_all("nap", [{"seconds": 2}] * 2, queue="emails")
    jobs.wait_until_told("start", times=len(busy))

    workers = re.compile(r"fastq: worker [12]/2 default,emails busy (\d)/5")
    wait_for(
        lambda: sum(int(found[1]) for pid in supervisor.workers if (found := workers.fullmatch(title(pid)))) == len(busy),
        5,
        "the titles to count the busy",
    )
    everybody = [supervisor.pid, *supervisor.descendants]
    titles = [title(pid) for pid in everybody]
    assert titles[0] == "fastq: supervisor tests.process.jobs:registry"
    assert "fastq: fork server" in titles
    assert sum(bool(workers.fullmatch(one)) for one in titles) == 2
    secrets = ["hunter2", urlsplit(jobs.url).path.strip("/"), "postgresql:"]
    assert [one for one in titles if any(secret in one for secret in secrets)] == []
    assert "hunter2" not in supervisor.said


def test_each_process_draws_its_own_random_numbers(supervise, jobs):
    supervisor = supervise(procs=2, queues="default=1")
    ids = jobs.add_all("dice", [{}] * 2)

    drawn = [jobs.wait_for(id_, "completed").output for id_ in ids]

    assert len({line.pid for line in jobs.told("start")}) == 2
    assert drawn[0] != drawn[1]
    assert supervisor.stop()[0] == 0


@pytest.mark.parametrize("count", [1, 2, 3])  # of the four that two pipes take
def test_a_start_for_which_there_are_too_few_descriptors_keeps_none(count):
    fork_server = ForkServer(Config(), "app:registry", None, "postgresql://", Board.make([1], 1, 1))
    before = {fd.name for fd in Path("/proc/self/fd").iterdir()}

    with descriptors_left(count), pytest.raises(OSError, match="Too many open files"):
        fork_server.start(1, 0, 0)

    assert {fd.name for fd in Path("/proc/self/fd").iterdir()} == before


def test_a_host_with_descriptors_for_some_of_its_processes_works_with_these(supervise, jobs):
    ids = jobs.add_all("nap", [{"seconds": 0.01}] * 50)
    supervisor = supervise("tests.process.few:registry", procs=8, ready=False)
    supervisor.wait_until_it_says("Too many open files", times=10)
    jobs.wait_until_none_is_left()

    assert sorted(line.id for line in jobs.told("end")) == ids
    assert 0 < len(supervisor.workers) < 8
    assert "process.died" not in supervisor.said  # a start that fails half way would end the fork server and all of them
    assert supervisor.stop()[0] == 0


def test_the_soft_limit_of_descriptors_does_not_limit_the_processes(supervise, monkeypatch):
    monkeypatch.setenv("LIMIT", "soft")
    supervisor = supervise("tests.process.few:registry", procs=8)

    assert len(supervisor.workers) == 8
    assert supervisor.stop()[0] == 0


@pytest.mark.slow
def test_twenty_quick_starts_and_stops_lose_no_job_and_leave_no_process(supervise, jobs):
    ids = []
    for cycle in range(20):
        ids += jobs.add_all("nap", [{"seconds": 0.001}] * 100)
        supervisor = supervise(procs=2, ready=False)
        if cycle % 2:
            told = len(jobs.told("start"))
            jobs.wait_until_told("start", times=told + 1)
        else:
            wait_for(lambda pid=supervisor.pid: title(pid).startswith("fastq: supervisor"), 10, "the supervisor")
        code, took = supervisor.stop((signal.SIGTERM, signal.SIGINT)[cycle % 2])  # nobody may be left
        assert code == 0
        assert took < 3
    last = supervise(procs=2)
    jobs.wait_until_none_is_left()

    assert sorted(line.id for line in jobs.told("end")) == ids
    assert jobs.counts() == {"completed": len(ids)}
    assert jobs.execute("select count(*) from fastq.job_archive where attempt <> 1 or crashes > 0") == [(0,)]
    assert last.stop()[0] == 0
    assert jobs.execute("select count(*) from fastq.process") == [(0,)]


@pytest.mark.parametrize(("core_dumps", "allowed"), [("off", "0"), ("on", str(2**20))])
def test_a_process_that_crashes_leaves_its_memory_to_nobody_unless_it_is_told_to(core_dumps, allowed, supervise):
    before = resource.getrlimit(resource.RLIMIT_CORE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 2**20:
        pytest.skip("no process may leave a core file here")
    resource.setrlimit(resource.RLIMIT_CORE, (2**20, before[1]))  # what the supervisor inherits
    try:
        supervisor = supervise(procs=1, core_dumps=core_dumps)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)

    for pid in (supervisor.pid, *supervisor.descendants):
        [limit] = re.findall(r"^Max core file size +(\S+)", Path(f"/proc/{pid}/limits").read_text(), re.MULTILINE)
        assert limit == allowed
