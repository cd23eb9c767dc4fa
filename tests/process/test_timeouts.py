"""Jobs that outlast their timeout, in all the ways that Python knows; `SHORT` is their timeout, 0.5 s the grace."""

import os
import random
import signal
import time

import pytest

from tests.helpers import Stopwatch, freeze, process_exists, wait_for, wait_until_gone
from tests.process.jobs import SHORT

pytestmark = pytest.mark.process

GRACE, BEYOND_GRACE = 0.5, 2.0
POLITE = 0.2 * GRACE
SLACK = 0.8  # s; ticks, and two cores that others use too


def failed_in_time(jobs, id_, limit, state="retryable"):
    """Wait for the failure of a job, which may take so long from its start; return its error."""
    watch = Stopwatch()
    jobs.wait_until_told("start", id_)
    fate = jobs.wait_for(id_, state, timeout=limit + 5)
    assert watch.idle() < limit + SLACK
    assert (fate.attempt, fate.crashes, len(fate.errors)) == (1, 0, 1)
    return fate.errors[0]["error"]


def test_python_code_is_interrupted_at_its_timeout_and_the_process_lives_on(supervise, jobs):
    supervisor = supervise()
    (worker,) = supervisor.workers
    stubborn = jobs.add("hang", how="swallow once")  # then it comes to its end, as it would have anyway
    ids = [jobs.add("hang", how="loop"), jobs.add("hang", how="naps"), jobs.add("async_hang", how="sleep")]

    for id_ in ids:
        assert failed_in_time(jobs, id_, SHORT + POLITE) == f"JobTimeout: took longer than {SHORT} s"
    assert {line.id for line in jobs.told() if line.what in {"finally", "cancelled"}} >= set(ids)
    assert jobs.wait_for(stubborn, "completed").attempt == 1
    assert jobs.wait_for(jobs.add("nap"), "completed").attempt == 1
    assert supervisor.workers == [worker]


def test_a_job_that_looks_whether_it_was_cancelled_ends_in_its_own_way_before_it_is_interrupted(supervise, jobs):
    supervisor = supervise(timeout_grace=2.5)
    polite_time = 0.5
    raising, returning, rude = (jobs.add("hang", how=how) for how in ("polite", "polite, with a result", "naps"))
    task = jobs.add("async_hang", how="sleep")

    assert failed_in_time(jobs, raising, SHORT) == "TimeoutError: ended by itself"
    assert jobs.wait_for(returning, "completed").attempt == 1
    assert failed_in_time(jobs, rude, SHORT + polite_time) == f"JobTimeout: took longer than {SHORT} s"
    assert failed_in_time(jobs, task, SHORT) == f"JobTimeout: took longer than {SHORT} s"

    def after_start(id_, what):
        return jobs.told(what, id_)[0].at - jobs.told("start", id_)[0].at

    for id_ in (raising, returning):
        assert SHORT <= after_start(id_, "saw") < after_start(id_, "finally")
    assert after_start(rude, "finally") >= SHORT + polite_time
    assert after_start(task, "cancelled") < SHORT + polite_time  # at an await, where it does no harm
    assert "job.given_up" not in supervisor.said


def test_jobs_that_do_not_end_are_given_up_and_the_process_is_replaced_when_its_other_jobs_have_ended(supervise, jobs):
    supervisor = supervise(queues="default=8")
    (worker,) = supervisor.workers
    siblings = jobs.add_all("patient", [{"seconds": SHORT + GRACE + 0.7}]) + jobs.add_all("async_nap", [{"seconds": 1.5}])
    jobs.wait_until_told("start", times=2)
    stuck = [
        jobs.add(kind, how=how, max_attempts=1)
        for kind, how in (("hang", "sleep"), ("hang", "swallow"), ("async_hang", "swallow"))
    ]

    for id_ in stuck:
        assert "did not end within 0.5 s of being told to" in failed_in_time(jobs, id_, SHORT + GRACE, "discarded")
    assert process_exists(worker)  # the siblings still run
    waiting = jobs.add("nap")
    for id_ in [*siblings, waiting]:
        fate = jobs.wait_for(id_, "completed")
        assert (fate.attempt, fate.crashes, len(jobs.told("start", id_))) == (1, 0, 1)

    assert supervisor.wait_until_ready() != [worker]
    for id_ in stuck:
        assert (jobs.fate(id_).attempt, jobs.fate(id_).crashes, len(jobs.told("start", id_))) == (1, 0, 1)
    for told in ("warning job.given_up", "warning process.recycles"):
        assert told in supervisor.said


def test_a_policy_that_waits_for_a_stuck_job_holds_up_no_timeout(supervise, jobs):
    supervisor = supervise()
    stuck, loop = jobs.add("selfish"), jobs.add("hang", how="loop")

    assert "did not end within 0.5 s of being told to" in failed_in_time(jobs, stuck, SHORT + GRACE)
    assert failed_in_time(jobs, loop, SHORT + POLITE) == f"JobTimeout: took longer than {SHORT} s"
    supervisor.wait_until_it_says("process.recycles")
    assert "process.killed" not in supervisor.said


@pytest.fixture
def recycling(supervise, jobs):
    """Give a function that starts a supervisor whose only process recycles beside a job that takes its time; and that job."""

    def start(kind="patient", **settings):
        supervisor = supervise(timeout_grace=0.2, **settings)
        neighbour = jobs.add(kind, seconds=50)
        jobs.wait_until_told("start", neighbour)
        jobs.add("hang", how="sleep", max_attempts=1)
        supervisor.wait_until_it_says("process.recycles")
        return supervisor, neighbour

    return start


def test_a_process_that_recycles_has_a_successor_at_once_however_long_its_other_jobs_take(recycling, jobs):
    supervisor, neighbour = recycling()

    assert jobs.wait_for(jobs.add("nap"), "completed", timeout=4).attempt == 1

    assert (jobs.fate(neighbour).state, jobs.fate(neighbour).attempt) == ("running", 1)
    assert len(jobs.told("start", neighbour)) == 1
    assert "process.died" not in supervisor.said


def test_a_process_that_recycles_obeys_a_cancellation(recycling, jobs):
    _, neighbour = recycling("async_nap")
    (old,) = {line.pid for line in jobs.told("start", neighbour)}

    jobs.execute("update fastq.job set cancel_requested = true where id = %s", neighbour)
    jobs.execute("select pg_notify('fastq', '@cancel')")

    jobs.wait_for(neighbour, "cancelled", timeout=4)
    wait_until_gone([old], 2)  # nothing is left to wait for


def test_a_process_that_recycles_obeys_a_stop(recycling, jobs):
    supervisor, neighbour = recycling("async_nap", shutdown_timeout=0.3)

    code, took = supervisor.stop()

    assert code == 0, supervisor.said
    assert took < 0.3 + 1.0 + SLACK
    fate = jobs.fate(neighbour)
    assert (fate.state, fate.attempt, fate.crashes, fate.errors) == ("available", 0, 0, [])
    assert "process.killed" not in supervisor.said


def test_a_place_is_left_by_its_first_process_when_its_second_recycles_too(recycling, jobs):
    supervisor, neighbour = recycling(shutdown_timeout=0.2)
    wait_for(lambda: len(supervisor.workers) == 2, 5, "a successor")
    second = jobs.add("patient", seconds=50)
    jobs.wait_until_told("start", second)

    jobs.add("hang", how="sleep", max_attempts=1)
    supervisor.wait_until_it_says("process.recycles", times=2)
    third = jobs.add("patient", seconds=50)
    jobs.wait_until_told("start", third)

    pids = [jobs.told("start", id_)[0].pid for id_ in (neighbour, second, third)]
    assert len(set(pids)) == 3
    wait_until_gone([pids[0]])
    assert process_exists(pids[1])
    assert jobs.fate(neighbour).crashes == 0
    assert "process.killed" not in supervisor.said


def test_a_job_that_holds_the_interpreter_is_killed_with_its_process_and_runs_again(supervise, jobs):
    supervisor = supervise()
    (worker,) = supervisor.workers
    stuck = jobs.add("hang", how="interpreter lock", max_attempts=3)
    (start,) = jobs.wait_until_told("start", stuck)

    jobs.wait_until_told("start", stuck, times=2)
    assert jobs.told("start", stuck)[1].at - start.at < SHORT + GRACE + BEYOND_GRACE + 1 + SLACK

    fate = jobs.fate(stuck)
    assert (fate.crashes, [error["attempt"] for error in fate.errors]) == (1, [1])
    assert "died (a job held the interpreter lock beyond its timeout)" in fate.errors[0]["error"]
    assert worker not in supervisor.workers
    assert "out of memory" not in supervisor.said


def test_a_host_that_was_frozen_is_not_taken_for_a_job_that_holds_the_interpreter(supervise, jobs):
    supervisor = supervise(process_ttl=60, timeout_grace=GRACE)
    (worker,) = supervisor.workers
    neighbour = jobs.add("patient", seconds=5, max_attempts=1)
    id_ = jobs.add("hang", how="naps")
    jobs.wait_until_told("start", times=2)

    for pid in (worker, supervisor.pid):
        freeze(pid)
    time.sleep(SHORT + GRACE + BEYOND_GRACE + 0.3)
    os.kill(supervisor.pid, signal.SIGCONT)
    time.sleep(0.8)  # it looks each half second
    os.kill(worker, signal.SIGCONT)

    assert jobs.wait_for(id_, "retryable").errors[0]["error"] == f"JobTimeout: took longer than {SHORT} s"
    assert jobs.wait_for(neighbour, "completed").attempt == 1
    assert "process.killed" not in supervisor.said


def test_a_job_without_a_timeout_takes_its_time(supervise, jobs):
    supervise(timeout_grace=0.1)
    ids = jobs.add_all("patient", [{"seconds": 1.5}] * 2)

    for id_ in ids:
        assert jobs.wait_for(id_, "completed", "retryable").output == "done"


@pytest.mark.slow
def test_a_job_that_ends_when_its_timeout_comes_is_neither_lost_nor_worked_twice(supervise, jobs):
    """The interruption may land in the user's code or come too late, and never anywhere else."""
    dice = random.Random(1)
    supervisor = supervise(procs=2, queues="default=48")
    ids = jobs.add_all("edge", [{"seconds": dice.uniform(0.1, 0.3)} for _ in range(3_000)])
    again = jobs.add_all("nap", [{}] * 500)

    wait_for(lambda: jobs.execute("select count(*) from fastq.job where state in ('available', 'running')") == [(0,)], 40)

    assert sorted(line.id for line in jobs.told("ran")) == ids
    assert sorted(line.id for line in jobs.told("end")) == again  # an interruption that came late would have hit one of these
    late = jobs.execute("select id, attempt, errors -> 0 ->> 'error' from fastq.job")
    assert {(attempt, error) for _, attempt, error in late} == {(1, "JobTimeout: took longer than 0.05 s")}
    assert sum(jobs.counts().values()) + len(late) == len(ids) + len(again)
    assert 300 < len(late) < len(ids)  # both happened
    for text in ("process.died", "ownership.lost", "job.given_up", "recycles"):
        assert text not in supervisor.said
    assert supervisor.stop()[0] == 0
