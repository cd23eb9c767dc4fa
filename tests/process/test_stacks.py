"""A running job tells where it is, whatever way it is executed in, and runs on; a process that cannot tell is no riddle."""

import asyncio
import os
import signal
import threading

import pytest

from fastq import AsyncClient, Client
from tests.helpers import Stopwatch, freeze, wait_for
from tests.process.conftest import title

APP = "tests.process.placed:registry"
SECRET = "hunter2"  # stands in the args of each job, and in variables of its code


@pytest.fixture
def client(jobs):
    with Client(jobs.url) as made:
        yield made


def running(jobs, kind, **args):
    """Have a job run until the test has ended."""
    job = jobs.add(kind, secret=SECRET, **args)
    jobs.wait_until_told("start", job)
    return job


@pytest.mark.parametrize(
    ("kind", "calls"),
    [
        ("placed", ["work", "placed_call", "until_told"]),
        ("placed_async", ["work", "placed_await", "until_told_async"]),
        ("placed_together", ["work_many", "placed_call", "until_told"]),
        ("placed_together_async", ["work_many", "placed_await", "until_told_async"]),
    ],
)
def test_a_running_job_tells_its_calls_and_no_value_and_runs_on(jobs, supervise, client, kind, calls):
    supervise(APP)
    job = running(jobs, kind)

    stack = client.jobs.stack(job)

    assert stack.why == ""
    at = [stack.text.index(f"in {call}\n") for call in calls]
    assert at == sorted(at)
    assert f"job {job} {kind}, attempt 1" in stack.text
    assert "work/execute" not in stack.text, "the calls that led to the user's are left out"
    assert SECRET not in stack.text
    assert (stack.job, stack.pid in [row.pid for row in client.processes()]) == (job, True)
    assert jobs.fate(job).state == "running"
    (jobs.witness.parent / "over").touch()
    assert jobs.wait_for(job, "completed").attempt == 1
    assert jobs.execute("select count(*) from fastq.stack") == [(0,)]


def test_an_isolated_job_tells_its_calls_though_code_in_c_holds_its_interpreter(jobs, supervise, client):
    supervisor = supervise(APP)
    job = running(jobs, "placed_apart")

    for _ in range(2):
        stack = client.jobs.stack(job)
        at = [stack.text.index(f"in {call}\n") for call in ("work", "in_c")]
        assert at == sorted(at)
        assert "most recent call last" in stack.text
        assert SECRET not in stack.text
    [pid] = [pid for pid in supervisor.descendants if title(pid).startswith(f"fastq: job {job} ")]
    os.kill(pid, signal.SIGKILL)
    [error] = wait_for(lambda: jobs.fate(job).errors)

    assert error["died"] == "signal 9"
    assert "in_c" not in str(error)  # the looks are not the trace of its death


def test_a_process_tells_the_stacks_of_its_jobs_and_of_its_threads(jobs, supervise, client):
    supervise(APP)
    first, second = running(jobs, "placed"), running(jobs, "placed_async")
    [process] = [row for row in client.processes() if row.lives]

    text = client.process_stack(process.id).text

    assert f"job {first} placed" in text
    assert f"job {second} placed_async" in text
    assert "fastq producer" in text
    assert "2 of " in text.partition("\n")[0]
    assert SECRET not in text


def test_the_client_of_an_event_loop_asks_the_same(jobs, supervise):
    supervise(APP)
    job = running(jobs, "placed")

    async def ask():
        async with AsyncClient(jobs.url) as client:
            processes = await client.processes()
            return await client.jobs.stack(job), await client.process_stack(processes[0].id)

    stack, whole = asyncio.run(ask())

    assert "in placed_call" in stack.text
    assert "in placed_call" in whole.text


def test_a_job_that_does_not_run_and_one_that_does_not_exist_are_told_apart(jobs, supervise, client):
    waits = jobs.add("placed", delay=3_600)

    assert client.jobs.stack(waits).why == f"job {waits} does not run: it is scheduled"
    assert client.jobs.stack(4711).why == "job 4711 does not run: it has ended, or does not exist"
    assert client.jobs.stack(2**70).text is None
    assert client.process_stack(4711).why == "there is no worker process 4711, or no longer"
    assert str(client.process_stack(4711)) == client.process_stack(4711).why


@pytest.mark.further
def test_who_asks_a_process_that_dies_hears_that_it_has(jobs, supervise, client):
    supervisor = supervise(APP, procs="1")
    job = running(jobs, "placed")
    [pid] = supervisor.workers
    freeze(pid)
    asked = []

    thread = threading.Thread(target=lambda: asked.append(client.jobs.stack(job, timeout=40.0)))
    thread.start()
    wait_for(lambda: jobs.execute("select count(*) from fastq.stack") == [(1,)])
    os.kill(pid, signal.SIGKILL)
    thread.join()

    assert asked[0].text is None
    assert "has ended before it could answer" in asked[0].why


@pytest.mark.further
def test_who_asks_a_process_that_hangs_hears_what_to_do(jobs, supervise, client):
    supervisor = supervise(APP)
    job = running(jobs, "placed")
    [pid] = supervisor.workers
    freeze(pid)

    stack = client.jobs.stack(job, timeout=0.5)

    os.kill(pid, signal.SIGCONT)
    assert stack.text is None
    assert f"kill -QUIT {pid}" in stack.why
    assert jobs.execute("select count(*) from fastq.stack") == [(0,)]


@pytest.mark.further
def test_a_host_that_hears_no_hints_answers_with_its_next_beat(jobs, supervise, client):
    supervise(APP, poll_only="1", beat_interval="0.3")
    job = running(jobs, "placed")

    assert "in placed_call" in client.jobs.stack(job, timeout=30.0).text


@pytest.mark.further
def test_a_process_that_nobody_asks_has_no_session_for_it_and_an_answer_takes_no_second(jobs, supervise, client):
    supervisor = supervise(APP)
    job = running(jobs, "placed")
    assert supervisor.sessions("stacks") == 0
    watch = Stopwatch()
    assert client.jobs.stack(job).text
    assert watch.idle() < 1.0
    assert supervisor.sessions("stacks") == 1
    wait_for(lambda: supervisor.sessions("stacks") == 0, 30.0, "the end of its session")


def test_the_beat_tells_memory_threads_and_executors(jobs, supervise, client):
    supervise(APP, beat_interval="0.2")
    running(jobs, "placed")

    def measured():
        [process] = [row for row in client.processes() if row.lives]
        told = process.vitals
        return told if told and told.busy and told.held and told.load is not None else None

    told = wait_for(measured)

    assert 10 * 2**20 < told.pss <= told.rss < 2**31
    assert told.threads > 4
    assert told.cpu > 0
    assert (told.executors, told.busy, told.resting, told.held) == (4, 1, 3, 1)
