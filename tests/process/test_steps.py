"""Steps in real processes: killed at every statement, stopped between two, asleep, and waiting for a signal."""

import os
import signal

import pytest

from fastq import Client
from tests.helpers import execute, wait_for
from tests.process.stepped import STEPS, Apart, Stepped, SteppedAsync, Waiting, WaitingAsync
from tests.proxy import Proxy

pytestmark = [pytest.mark.process, pytest.mark.further]
APP = "tests.process.stepped:registry"
DONE = [f"{name} done" for name in STEPS]
both = pytest.mark.parametrize("kind", ["stepped", "stepped_async"])


@pytest.fixture
def client(database):
    with Client(database) as made:
        yield made


class Killing:
    """Kill the process that executes a job when it sends the nth record of its steps: before this arrives, or after it."""

    def __init__(self, jobs, number, when):
        self.jobs, self.left, self.when = jobs, number, when

    def __call__(self, chunk):
        if self.left and any(name.encode() in chunk for name in STEPS):
            self.left -= 1
            if self.left == 0:
                os.kill(self.jobs.told("start")[-1].pid, signal.SIGKILL)
                return self.when
        return None


@both
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_process_killed_at_any_record_does_no_step_again_whose_record_was_committed(supervise, jobs, kind, number, when):
    with Proxy(jobs.url) as wire:
        supervise(APP, database_url=wire.url)
        wire.cut = Killing(jobs, number, when)
        job = jobs.add(kind)

        fate = jobs.wait_for(job, "completed", timeout=30.0)

    assert (fate.attempt, fate.crashes, fate.output) == (2, 1, DONE)
    told = [line.what for line in jobs.told(id_=job) if line.what != "start"]
    again = [STEPS[number - 1]] if when == "before" else []  # done, and its record never arrived
    assert sorted(told) == sorted([*STEPS, *again])


@both
def test_a_process_that_stops_hands_the_job_back_between_two_steps_and_another_goes_on(supervise, jobs, tmp_path, kind):
    gate = tmp_path / "gate"
    supervisor = supervise(APP, shutdown_timeout="30")
    job = jobs.add(kind, gate=str(gate))
    jobs.wait_until_told("stepB", job)
    supervisor.send(signal.SIGTERM)
    wait_for(lambda: "stopping" in supervisor.said or "supervisor.stops" in supervisor.said, what="the stop")
    pid = jobs.told("start", job)[0].pid
    wait_for(lambda: b"stopping" in open(f"/proc/{pid}/cmdline", "rb").read(), what="a process that stops")  # noqa: PTH123, SIM115
    gate.touch()
    code, _ = supervisor.wait()

    fate = jobs.fate(job)
    assert (code, fate.state, fate.attempt, fate.errors) == (0, "available", 0, [])
    assert "job.interrupted" in supervisor.said
    supervise(APP)
    fate = jobs.wait_for(job, "completed")
    assert (fate.attempt, fate.output) == (1, DONE)
    assert [line.what for line in jobs.told(id_=job)] == ["start", "stepA", "stepB", "start", "stepC"]


@both
def test_a_job_that_sleeps_and_waits_goes_on_in_other_runs_of_the_same_attempt(supervise, jobs, client, kind):
    supervisor = supervise(APP)
    job = jobs.add(kind, sleep=0.3, wait=600)
    wait_for(lambda: "signal=go" in supervisor.said, what="a job that waits for a signal")
    wait_for(lambda: jobs.fate(job).state == "scheduled", what="a job that is parked")

    assert client.signal(job, "go", "signalled")

    fate = jobs.wait_for(job, "completed")
    assert (fate.attempt, fate.output, fate.errors) == (1, [*DONE[:2], "signalled", DONE[2]], [])
    assert [line.what for line in jobs.told(id_=job) if line.what != "start"] == [*STEPS]
    assert len(jobs.told("start", job)) == 3
    assert [step.sort for step in client.steps(job)] == ["step", "step", "sleep", "wait", "signal", "step"]


@both
def test_a_wait_that_is_over_fails_the_attempt_that_takes_the_value(supervise, jobs, kind):
    supervise(APP)
    job = jobs.add(kind, wait=0.1, max_attempts=1)

    fate = jobs.wait_for(job, "discarded")
    assert fate.errors[0]["error"].startswith("TimeoutError: no signal 'go' came within the timeout")


def test_signals_that_race_with_parking_jobs_wake_each_of_them(supervise, jobs, client):
    supervise(APP, procs=2, queues="default=8")
    ids = jobs.add_all("waiting", [{}] * 100)
    for job in ids:
        assert client.signal(job, "go", str(job))

    jobs.wait_until_none_is_left()
    rows = jobs.execute("select id, output from fastq.job_archive where state = 'completed' order by id")
    assert rows == [(job, str(job)) for job in ids]


def test_a_function_that_is_a_worker_has_steps(supervise, jobs):
    supervise(APP)
    job = jobs.add("stepped_function")

    assert jobs.wait_for(job, "completed").output == "done by attempt 1"
    assert [name for (name,) in execute(jobs.url, "select name from fastq.job_step")] == ["only"]


DEADLINE = 2.0  # s from the enqueueing: the jobs are parked by then, also where the machine is busy


def parked(jobs, job, state="scheduled"):
    jobs.wait_until_told("start", job)
    wait_for(lambda: (fate := jobs.fate(job)).state == state and fate.attempt == 0, what="a parked job")


@pytest.mark.parametrize("args", [Waiting(), WaitingAsync(), Stepped(sleep=600.0), SteppedAsync(wait=600.0)], ids=str)
def test_a_parked_job_ends_at_its_deadline(supervise, jobs, client, args):
    supervise(APP)
    job = client.enqueue(args, deadline=DEADLINE)
    parked(jobs, job)

    fate = jobs.wait_for(job, "cancelled", timeout=30.0)

    detail = client.get(job)
    assert (detail.cause, fate.attempt, fate.errors) == ("deadline", 0, [])
    assert detail.finalized_at >= detail.deadline
    assert len(jobs.told("start", job)) == 1


@pytest.mark.parametrize("args", [Waiting(), WaitingAsync()], ids=str)
def test_a_parked_job_has_begun_so_it_does_not_expire(supervise, jobs, client, args):
    supervise(APP)
    job = client.enqueue(args, expires=DEADLINE)
    parked(jobs, job, "waiting")
    passed = "select clock_timestamp() > created_at + make_interval(secs => %s) from fastq.job where id = %s"
    wait_for(lambda: jobs.execute(passed, DEADLINE, job) == [(True,)], what="the moment to pass")

    assert client.signal(job, "go", "late")

    assert jobs.wait_for(job, "completed").output == "late"


@pytest.fixture
def effects(jobs):
    """Give the jobs, beside a table of the user's."""
    jobs.execute("create table effect (job bigint)")
    return jobs


@pytest.mark.parametrize("kind", ["paying", "paying_async"])
@pytest.mark.parametrize(("killed", "by"), [("in", 2), ("after", 1)])
def test_a_process_killed_in_or_behind_the_transaction_of_a_step_writes_once(supervise, effects, kind, killed, by):
    supervise(APP)
    job = effects.add(kind, killed=killed)

    fate = effects.wait_for(job, "completed", timeout=30.0)

    assert (fate.attempt, fate.crashes, fate.output) == (2, 1, f"shipped: {by}")
    assert effects.execute("select job from effect") == [(job,)]
    assert len(effects.told("written", job)) == by


class Committing:
    """Kill the process that executes a job at the COMMIT of its step: before this arrives, or after it."""

    def __init__(self, jobs, when):
        self.jobs, self.when, self.noted, self.done = jobs, when, False, False

    def __call__(self, chunk):
        self.noted = self.noted or b"payment" in chunk  # the name of the step, in its record
        if self.done or not self.noted or b"COMMIT" not in chunk:
            return None
        self.done = True
        os.kill(self.jobs.told("start")[-1].pid, signal.SIGKILL)
        return self.when


@pytest.mark.parametrize("kind", ["paying", "paying_async"])
@pytest.mark.parametrize(("when", "by"), [("before", 2), ("after", 1)])
def test_a_process_killed_at_the_commit_of_a_step_writes_once(supervise, effects, kind, when, by):
    with Proxy(effects.url) as wire:
        supervise(APP, database_url=wire.url)
        wire.cut = Committing(effects, when)
        job = effects.add(kind)

        fate = effects.wait_for(job, "completed", timeout=30.0)

    assert (fate.attempt, fate.crashes, fate.output) == (2, 1, f"shipped: {by}")
    assert effects.execute("select job from effect") == [(job,)]


@both
def test_a_process_that_dies_behind_a_step_spends_no_attempt_where_progress_counts(supervise, jobs, client, kind):
    args = {"stepped": Stepped, "stepped_async": SteppedAsync}[kind]()
    with Proxy(jobs.url) as wire:
        supervise(APP, database_url=wire.url)
        wire.cut = Killing(jobs, 1, "after")
        job = client.enqueue(args, max_attempts=1, attempts="since_progress")

        fate = jobs.wait_for(job, "completed", timeout=30.0)

    assert (fate.attempt, fate.crashes, fate.output) == (2, 1, DONE)


def test_the_process_of_an_isolated_job_that_dies_behind_a_step_spends_no_attempt_either(supervise, jobs, client):
    supervise(APP)
    job = client.enqueue(Apart(), max_attempts=1, attempts="since_progress")

    fate = jobs.wait_for(job, "completed", timeout=30.0)

    assert (fate.attempt, fate.output) == (2, "done by attempt 1")
    assert client.get(job).max_attempts == 2


def test_the_process_of_an_isolated_job_that_dies_behind_a_step_ends_it_where_each_attempt_counts(supervise, jobs, client):
    supervise(APP)
    job = client.enqueue(Apart(), max_attempts=1)

    assert jobs.wait_for(job, "discarded", timeout=30.0).attempt == 1
