"""Jobs that are rough with their process cost themselves an attempt, and their neighbours nothing."""

from pathlib import Path

import pytest

from fastq.postgres import db
from tests.helpers import wait_for
from tests.proxy import Proxy

pytestmark = pytest.mark.process

APP = "tests.process.rough:registry"


def test_what_a_job_does_to_the_event_loop_ends_no_other_job(supervise, jobs):
    supervisor = supervise(APP, queues="default=8")
    (worker,) = supervisor.workers
    neighbour = jobs.add("async_nap", seconds=1.0, max_attempts=1)
    jobs.wait_until_told("start", neighbour)

    in_task, in_callback, stops = (
        jobs.add("on_loop", what=what, max_attempts=1) for what in ("exit in a task", "exit in a callback", "stop")
    )

    assert jobs.wait_for(in_task, "discarded").errors[0]["error"] == "SystemExit: no such file"
    for id_ in (in_callback, stops, neighbour, jobs.add("async_nap")):
        assert jobs.wait_for(id_, "completed", "discarded").state == "completed"
    for reason in ("SystemExit: no such file", "a job stopped it"):
        assert reason in supervisor.said
    assert supervisor.workers == [worker]
    assert supervisor.stop()[0] == 0


def test_jobs_that_never_heard_of_their_workers_max_attempts_are_told_of(supervise, jobs):
    supervisor = supervise(APP)
    id_ = jobs.add("on_loop", what="nothing")  # as by a program that imports the args alone

    jobs.wait_for(id_, "completed")

    supervisor.wait_until_it_says(f"max_attempts.differs kind=on_loop id={id_} worker=1 job=25 hint=")


def test_jobs_beside_one_that_blocks_the_event_loop_are_handed_back_and_run_elsewhere(supervise, jobs):
    supervisor = supervise(APP, queues="default=8")
    (worker,) = supervisor.workers
    neighbours = jobs.add_all("async_nap", [{"seconds": 1.5}] * 2)
    jobs.wait_until_told("start", times=2)

    blocking = jobs.add("on_loop", what="block", max_attempts=1)
    behind = jobs.add("async_nap")  # it may be in the inbox of the loop

    for id_ in [*neighbours, behind]:
        fate = jobs.wait_for(id_, "completed", timeout=12)
        assert (fate.attempt, fate.crashes, fate.errors) == (1, 0, [])
        last = jobs.told("start", id_)[-1]
        assert last.pid != worker
    assert jobs.wait_for(blocking, "discarded").attempt == 1
    assert [len(jobs.told("start", id_)) for id_ in neighbours] == [2, 2]
    assert "loop.given_up handed_back=2" in supervisor.said
    wait_for(lambda: worker not in supervisor.workers, 5, "the end of the process, which has nothing to wait for")
    assert "process.died" not in supervisor.said


def test_what_a_job_forks_ends_with_its_part_of_work_and_runs_no_other_job(supervise, jobs):
    supervisor = supervise(APP, queues="default=1", prefetch=10)
    (worker,) = supervisor.workers
    jobs.add_all("nap", [{"seconds": 0.001}] * 300)  # a pace: it claims ahead, so that the inbox is full when the job forks
    jobs.wait_until_told("end", times=300)

    with jobs.connection.transaction():
        hows = ("return", "exit", "raise", "await", "await what is under way")
        forks = [jobs.add(kind, how=how) for kind in ("fork", "async_fork") for how in hows]
        naps = jobs.add_all("nap", [{"seconds": 0.001}] * 20)
    jobs.wait_until_none_is_left()

    for id_, code in zip(forks, (0, 7, 1, 0, 0, 0, 7, 1, 1, 1), strict=True):
        assert [line.what for line in jobs.told(id_=id_)] == [f"child ended with {code}", "end"]
        assert jobs.fate(id_).attempt == 1
    assert [len(jobs.told("start", id_)) for id_ in naps] == [1] * len(naps)
    assert {line.pid for line in jobs.told()} == {worker}
    assert supervisor.workers == [worker]


def test_signals_to_what_a_job_started_reach_it_and_not_its_process(supervise, jobs):
    supervisor = supervise(APP)
    (worker,) = supervisor.workers

    sender = jobs.add("signals")
    jobs.wait_for(sender, "completed")

    told = [line.what for line in jobs.told(id_=sender)]
    assert told == ["terminated: -15", "SIGINT: -2", "SIGHUP: -1", "SIGUSR1: -10", "SIGTERM: -15"]
    neighbour = jobs.add("nap", seconds=1.0)
    jobs.wait_until_told("start", neighbour)
    assert jobs.wait_for(neighbour, "completed").attempt == 1
    assert supervisor.workers == [worker]


def test_args_that_end_the_program_while_they_are_read_cost_their_job_an_attempt(supervise, jobs):
    supervisor = supervise(APP)
    (worker,) = supervisor.workers

    with jobs.connection.transaction():
        ids = jobs.add_all("picky", [{"number": number} for number in (12, 13, 14)], max_attempts=1)
    fates = [jobs.wait_for(id_, "completed", "discarded") for id_ in ids]

    assert [fate.state for fate in fates] == ["completed", "discarded", "completed"]
    assert fates[1].errors[0]["error"].endswith("raised SystemExit: bad args")
    assert supervisor.workers == [worker]


@pytest.mark.parametrize("kind", ["undecided", "async_undecided"])
def test_a_policy_that_does_not_answer_is_given_up_as_a_job_is(supervise, jobs, kind):
    supervisor = supervise(APP, queues="default=1")

    undecided = jobs.add(kind)
    error = jobs.wait_for(undecided, "retryable", timeout=5).errors[0]["error"]

    assert error.startswith("JobTimeout: took longer than 0.4 s to tell its outcome")
    assert jobs.wait_for(jobs.add("nap"), "completed").attempt == 1
    assert "warning process.recycles" in supervisor.said
    assert supervisor.stop()[0] == 0, supervisor.said


def test_a_policy_that_does_not_answer_holds_up_no_stop(supervise, jobs):
    supervisor = supervise(APP, queues="default=1", shutdown_timeout=0.1, timeout_grace=30)
    undecided = jobs.add("undecided")
    jobs.wait_until_told("decide", undecided)

    assert supervisor.stop()[0] == 0, supervisor.said
    fate = jobs.fate(undecided)
    assert (fate.state, fate.attempt, fate.crashes) == ("available", 0, 0)


def test_a_job_that_takes_its_time_keeps_no_args_of_those_it_was_claimed_with(supervise, jobs):
    supervisor = supervise(APP, queues="default=8", prefetch=10)
    (worker,) = supervisor.workers
    jobs.add_all("nap", [{"seconds": 0.001}] * 300)  # a pace: it claims ahead
    jobs.wait_until_told("end", times=300)
    before = resident(worker)

    words = ["x" * 250_000]
    for wave in range(1, 6):  # of 10 MB each
        ids = jobs.add_all("patient", [{"seconds": 60}], wake=False) + jobs.add_all("nap", [{"words": words}] * 40)
        jobs.wait_until_told("end", times=300 + 40 * wave)
        jobs.wait_until_told("start", ids[0])

    wait_for(lambda: resident(worker) < before + 25, 5, f"less memory than {resident(worker)} MB, {before} at the beginning")


def test_a_process_whose_descriptors_a_job_has_closed_ends_though_threads_of_the_jobs_go_on(supervise, jobs):
    supervisor = supervise(APP)
    (worker,) = supervisor.workers
    closing = jobs.add("close_all")
    jobs.wait_until_told("start", closing)

    fate = jobs.wait_for(closing, "completed", timeout=30)

    assert (fate.attempt, fate.crashes) == (2, 1)
    assert worker not in supervisor.workers
    assert "told: [Errno 9] Bad file descriptor" in supervisor.said
    assert supervisor.stop()[0] == 0


def test_a_process_without_descriptors_left_goes_on_with_what_it_has_open(supervise, jobs):
    supervisor = supervise(APP)
    (worker,) = supervisor.workers
    for kind in ("nap", "take_descriptors"):
        jobs.wait_for(jobs.add(kind), "completed")

    failing, telling = (jobs.add("outcome", what=what) for what in ("raise", "value"))  # by statements that it has not used yet

    jobs.wait_for(failing, "retryable")
    assert jobs.wait_for(telling, "completed").output == {"sum": 3}
    assert jobs.told("start", failing)[0].pid == jobs.told("start", telling)[0].pid == worker
    assert supervisor.stop()[0] == 0


def resident(pid):
    """Return the memory of a process in MB."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) // 1024


def test_a_job_that_breaks_its_process_behind_its_own_end_is_found_out_and_no_other_job_is_discarded(supervise, jobs):
    supervise(APP, queues="default=4", prefetch=10)
    jobs.add_all("nap", [{"seconds": 0.001}] * 300)  # a pace: it claims ahead
    jobs.wait_until_told("end", times=300)

    naps = [{"seconds": 0.02}] * 150
    with jobs.connection.transaction():
        before, breaking, after = jobs.add_all("nap", naps), jobs.add("close_behind", max_attempts=4), jobs.add_all("nap", naps)
    fate = jobs.wait_for(breaking, "discarded", "completed", timeout=60)
    jobs.wait_until_none_is_left(40)

    assert fate.state == "discarded"
    assert len(jobs.told("start", breaking)) == fate.attempt <= 4
    deaths = [error for error in fate.errors if " died (" in error["error"]]  # during the job, or just behind it
    assert fate.crashes == 3 <= len(deaths)  # where another job was executing, a death behind the end is charged to that one
    assert {jobs.fate(id_).state for id_ in [*before, *after]} == {"completed"}


def test_a_job_behind_whose_end_its_process_dies_is_charged_where_nothing_else_was_executing(supervise, jobs):
    with Proxy(jobs.url, {"completion": db.statement("job_complete_archive")}) as wire:
        supervise(APP, database_url=wire.url)
        wire.lose("completion", 4)

        dying = jobs.add("die_behind")
        fate = jobs.wait_for(dying, "discarded", "completed", timeout=30)

    assert (fate.state, fate.attempt, fate.crashes) == ("discarded", 3, 3)
    assert "(exit code 7) when the job had just ended" in str(fate.errors)
