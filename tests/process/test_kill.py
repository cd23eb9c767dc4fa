"""Sudden deaths: of worker processes, of the fork server, of the supervisor."""

import os
import signal
import time

import pytest

from tests.helpers import Stopwatch, wait_for, wait_until_gone

pytestmark = pytest.mark.process


def test_the_jobs_of_a_killed_process_run_again_within_a_second_and_only_the_started_are_charged(supervise, jobs):
    supervisor = supervise(queues="default=2", prefetch=10)
    jobs.add_all("nap", [{}] * 200)  # a pace that makes it hold many
    jobs.wait_until_none_is_left()
    ids = jobs.add_all("patient", [{"seconds": 30, "later": 0.05}] * 2 + [{"seconds": 0.05}] * 10)
    jobs.wait_until_told("start", ids[0])
    jobs.wait_until_told("start", ids[1])
    ((held,),) = jobs.execute("select count(*) from fastq.job where state = 'running'")
    assert held > 2

    (worker,) = supervisor.workers
    watch, killed = Stopwatch(), time.monotonic()
    os.kill(worker, signal.SIGKILL)
    again = wait_for(lambda: [line for line in jobs.told("start") if line.at > killed], 5)

    assert again[0].at - killed < 1.0 + watch.busy()
    jobs.wait_until_none_is_left()
    fates = [jobs.fate(id_) for id_ in ids]
    assert [(fate.attempt, fate.crashes) for fate in fates] == [(2, 1)] * 2 + [(1, 0)] * 10
    assert [error["attempt"] for error in fates[0].errors] == [1]
    assert f"the process {worker} that executed the job died (signal 9)" in str(fates[0].errors)
    assert {fate.state for fate in fates} == {"completed"}
    assert f"executing=2 jobs={ids[0]},{ids[1]}" in _line(supervisor, "process.died")
    assert supervisor.stop()[0] == 0


def _line(supervisor, event):
    return next(line for line in supervisor.said.splitlines() if f" {event} " in line)


@pytest.mark.parametrize("kind", ["nap", "async_nap"])
def test_killed_again_and_again_no_job_is_lost_and_none_ends_twice_without_a_kill(supervise, jobs, kind):
    supervisor = supervise(procs=2, queues="default=4", max_crashes=100)
    ids = jobs.add_all(kind, [{"seconds": 0.01}] * 1_000)
    for kills in range(1, 6):
        told = len(jobs.told("end"))
        jobs.wait_until_told("end", times=min(told + 40, 1_000))
        os.kill(supervisor.wait_until_ready()[kills % 2], signal.SIGKILL)

    jobs.wait_until_none_is_left()

    ends = [line.id for line in jobs.told("end")]
    assert jobs.counts() == {"completed": 1_000}
    assert set(ends) == set(ids)
    # A job can end twice only where its process died between its end and its completion; here a handful of slots per kill.
    assert len(ends) - len(ids) <= 5 * 8
    ((crashed, charged),) = jobs.execute("select sum(crashes), sum(attempt - 1) from fastq.job_archive")
    assert crashed <= 5 * 4
    assert crashed <= charged
    assert supervisor.stop()[0] == 0


@pytest.mark.parametrize(("how", "cause"), [("exit", "exit code 7"), ("fault", "signal 11")])
def test_a_job_that_kills_its_process_is_discarded_and_its_neighbours_live(supervise, jobs, how, cause):
    supervisor = supervise(queues="default=1")
    before = jobs.add_all("nap", [{}] * 5, wake=False)
    poison = jobs.add("poison", how=how, wake=False)
    after = jobs.add_all("nap", [{}] * 5)

    fate = jobs.wait_for(poison, "discarded")
    for id_ in before + after:
        neighbour = jobs.wait_for(id_, "completed")
        assert (neighbour.crashes, neighbour.errors) == (0, [])

    assert (fate.crashes, fate.attempt, len(fate.errors)) == (3, 3, 3)
    assert all(cause in error["error"] for error in fate.errors)
    assert len(jobs.told("start", poison)) == 3
    supervisor.wait_until_it_says(f"job.discarded id={poison} kind=poison attempt=3")
    assert supervisor.stop()[0] == 0


@pytest.mark.parametrize("code", [0, 3, 4])  # what a process ends with that stops, cannot start, recycles
def test_an_exit_code_that_a_job_chose_is_a_death_like_any_other(supervise, jobs, code):
    supervisor = supervise()
    poison = jobs.add("poison", how=f"exit {code}", max_attempts=1)

    assert f"exit code {code}" in str(jobs.wait_for(poison, "discarded").errors)
    supervisor.wait_until_it_says(f"code={code}")

    assert "process.died" in supervisor.said
    assert jobs.wait_for(jobs.add("nap"), "completed").attempt == 1
    assert supervisor.stop()[0] == 0


def test_a_job_that_ends_its_process_while_the_host_stops_is_no_stop_in_order(supervise, jobs):
    supervisor = supervise()
    neighbour = jobs.add("patient", seconds=30)
    poison = jobs.add("poison", how="exit 0", after=1.0, max_attempts=1)
    jobs.wait_until_told("start", times=2)

    assert supervisor.stop()[0] == 1

    assert jobs.fate(poison).state == "discarded"
    assert jobs.fate(neighbour).state in {"available", "retryable"}
    assert "a worker process ended in disorder (exit code 0)" in supervisor.said


@pytest.mark.timeout(120)  # chance decides when it is alone, and the pauses before that grow
def test_a_poison_job_beside_others_is_found_out_and_they_complete(supervise, jobs):
    supervise(queues="default=8")
    others = jobs.add_all("patient", [{"seconds": 0.1}] * 3)
    jobs.wait_until_told("start", times=3)
    poison = jobs.add("poison", how="exit")

    fate = jobs.wait_for(poison, "discarded", timeout=90)  # five seconds as a rule
    jobs.wait_until_none_is_left()

    assert fate.crashes == 3
    assert jobs.counts() == {"completed": len(others), "discarded": 1}


def test_the_death_of_the_fork_server_restarts_everything(supervise, jobs):
    supervisor = supervise(procs=2)
    old = [supervisor.fork_server, *supervisor.workers]
    ids = jobs.add_all("patient", [{"seconds": 30, "later": 0.1}] * 8)
    jobs.wait_until_told("start", times=8)

    os.kill(old[0], signal.SIGKILL)
    wait_until_gone(old, 2)
    workers = supervisor.wait_until_ready()

    assert not set(old) & {supervisor.fork_server, *workers}
    jobs.wait_until_none_is_left()
    assert {jobs.fate(id_).state for id_ in ids} == {"completed"}
    assert {jobs.fate(id_).attempt for id_ in ids} == {2}
    assert supervisor.stop()[0] == 0


def test_nobody_survives_a_killed_supervisor_and_another_host_takes_its_jobs(supervise, jobs):
    doomed = supervise(procs=2, process_ttl=2, beat_interval=0.5, timeout_grace=30)  # it kills no process that hangs
    ids = jobs.add_all("patient", [{"seconds": 30, "later": 0.1}] * 3)
    stuck = jobs.add("hang", how="interpreter lock", max_attempts=1)  # deaf to everything but a signal
    jobs.wait_until_told("start", times=4)
    heir = supervise(process_ttl=2, beat_interval=0.5)
    below = doomed.descendants

    killed = time.monotonic()
    doomed.send(signal.SIGKILL)
    wait_until_gone([doomed.pid, *below], 2)
    jobs.wait_until_none_is_left()

    starts = [line for line in jobs.told("start") if line.at > killed]
    assert sorted(line.id for line in starts) == ids
    assert starts[0].at - killed < 2 + 5 + 2  # time to live, rescue interval, lease
    assert {(jobs.fate(id_).state, jobs.fate(id_).attempt) for id_ in ids} == {("completed", 2)}
    assert "no longer gives a sign of life" in str(jobs.fate(ids[0]).errors)
    assert jobs.fate(stuck).state == "discarded"
    assert "jobs.rescued" in heir.said
    assert heir.stop()[0] == 0


def test_a_supervisor_that_starts_after_a_killed_one_rescues_its_jobs(supervise, jobs):
    doomed = supervise(process_ttl=1, beat_interval=0.3)
    id_ = jobs.add("patient", seconds=30, later=0.1)
    jobs.wait_until_told("start", id_)
    doomed.send(signal.SIGKILL)

    supervise(process_ttl=1, beat_interval=0.3)

    assert jobs.wait_for(id_, "completed", timeout=12).attempt == 2
