"""Jobs with processes of their own: their crashes, leaks and hangs cost them an attempt, and their neighbours nothing."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fastq import Client, Workflow
from tests.helpers import freeze, wait_for, wait_until_gone
from tests.process.conftest import ROOT, descendants, title
from tests.process.isolated import LIMIT, Gather, Long
from tests.process.jobs import SHORT

pytestmark = [pytest.mark.process, pytest.mark.further]

APP = "tests.process.isolated:registry"
CRASH = "the process of its own in which the job was executed died (signal {})"


def nursery_of(supervisor):
    """Return the pid of the only nursery."""
    (pid,) = [pid for pid in supervisor.descendants if title(pid) == "fastq: nursery"]
    return pid


def processes_of_jobs(supervisor):
    """Return the pids of the processes of jobs."""
    return [pid for pid in supervisor.descendants if title(pid).startswith("fastq: job ")]


def test_each_job_runs_in_a_process_of_its_own_and_finds_nothing_of_the_job_before(supervise, jobs):
    supervisor = supervise(APP)
    (worker,) = supervisor.workers
    ids = jobs.add_all("alone", [{"what": "value"}] * 20)

    for id_ in ids:
        fate = jobs.wait_for(id_, "completed", timeout=20)
        assert fate.output == {"id": id_, "attempt": 1, "tags": [], "queue": "default", "priority": 1}
    pids = {line.pid for line in jobs.told("start")}
    assert len(pids) == 20
    assert worker not in pids
    wait_until_gone(pids, 5.0)
    assert supervisor.workers == [worker]


@pytest.mark.parametrize(("what", "state"), [("snooze", "scheduled"), ("cancel", "cancelled"), ("discard", "discarded")])
def test_an_isolated_job_decides_as_any_other(supervise, jobs, what, state):
    supervise(APP)
    id_ = jobs.add("alone", what=what)

    fate = jobs.wait_for(id_, state)
    assert (fate.attempt, fate.crashes) == ((0, 0) if what == "snooze" else (1, 0))


def test_an_exception_comes_back_with_its_traceback_and_the_worker_says_when_to_try_again_where_it_was_raised(supervise, jobs):
    supervisor = supervise(APP)
    (worker,) = supervisor.workers
    raised, retried = jobs.add("alone", what="raise"), jobs.add("alone", what="retry")

    fate = jobs.wait_for(raised, "retryable")
    (error,) = fate.errors
    assert error["error"] == "ValueError: in the job"
    assert 'raise ValueError("in the job")' in error["trace"]
    ((delay,),) = jobs.execute("select extract(epoch from scheduled_at - clock_timestamp()) from fastq.job where id = %s", raised)
    assert 3500 < delay < 3600
    assert jobs.told("retry_delay")[0].pid == jobs.told("start", raised)[0].pid != worker
    assert jobs.wait_for(retried, "retryable").attempt == 1
    supervisor.wait_until_it_says(f"job.failed id={raised} kind=alone")


@pytest.mark.parametrize(("what", "number"), [("segfault", 11), ("abort", 6), ("kill", 9)])
def test_a_crash_fails_that_attempt_alone_and_names_the_signal_and_the_line(supervise, jobs, what, number):
    supervisor = supervise(APP, queues="default=8")
    workers = supervisor.workers
    neighbours = jobs.add_all("long", [{"seconds": 1.0}] * 3) + jobs.add_all("patient", [{"seconds": 1.0}])
    jobs.wait_until_told("start", times=4)

    id_ = jobs.add("alone", what=what, max_attempts=1)

    fate = jobs.wait_for(id_, "discarded")
    (error,) = fate.errors
    assert error["error"] == CRASH.format(number)
    assert error["died"] == f"signal {number}"
    assert (fate.attempt, fate.crashes) == (1, 0)
    assert ("in damage" in error.get("trace", "")) == (what != "kill")
    for neighbour in neighbours:
        assert jobs.wait_for(neighbour, "completed").attempt == 1
    assert supervisor.workers == workers
    supervisor.wait_until_it_says(f"job.crashed id={id_} kind=alone attempt=1 max_attempts=1 memory=")
    with Client(jobs.url) as client:
        assert [(group.kind, group.cause, group.jobs) for group in client.dead().groups] == [("alone", "crashed", 1)]


def test_a_process_that_ends_itself_without_a_word_fails_the_attempt(supervise, jobs):
    supervise(APP)
    id_ = jobs.add("alone", what="exit")

    assert jobs.wait_for(id_, "retryable").errors[0]["died"] == "exit code 7"


def test_a_job_that_hangs_in_c_is_killed_at_the_end_of_its_grace_and_the_error_shows_where_it_hung(supervise, jobs):
    supervisor = supervise(APP, queues="default=8")
    workers = supervisor.workers
    ids = jobs.add_all("alone", [{"what": "hang"}] * 3)
    nap = jobs.add("alone", what="value", seconds=0.1)

    for id_ in ids:
        (error,) = jobs.wait_for(id_, "retryable").errors
        assert error["error"] == f"JobTimeout: took longer than {SHORT} s; its process did not end, and was killed"
        assert "in hang_in_c" in error["trace"]
        supervisor.wait_until_it_says(f"job.killed id={id_} kind=alone attempt=1")
    assert jobs.wait_for(nap, "completed").attempt == 1
    wait_until_gone({line.pid for line in jobs.told("start")}, 5.0)
    assert supervisor.workers == workers
    assert "process.recycles" not in supervisor.said
    assert "job.given_up" not in supervisor.said


def test_a_job_that_is_late_in_python_or_at_an_await_is_told_so_in_its_process(supervise, jobs):
    supervise(APP)
    sync, async_ = jobs.add("alone", what="value", seconds=30), jobs.add("long_async", seconds=30)

    assert jobs.wait_for(sync, "retryable").errors[0]["error"] == f"JobTimeout: took longer than {SHORT} s"
    assert jobs.wait_for(async_, "retryable").errors[0]["error"] == "JobTimeout: took longer than 1 s"
    assert jobs.told("cancelled", async_) != []


def test_an_async_job_runs_on_a_loop_of_its_own_process(supervise, jobs):
    supervisor = supervise(APP)
    id_ = jobs.add("long_async", seconds=0.01)

    assert jobs.wait_for(id_, "completed").output not in (None, *supervisor.workers)


def test_a_job_beyond_its_memory_fails_with_an_error_that_names_the_limit(supervise, jobs):
    supervise(APP)
    within, python, c = (
        jobs.add("greedy", max_attempts=1, mebibytes=mebibytes, how=how)
        for mebibytes, how in ((40, "python"), (200, "python"), (200, "c"))
    )

    assert jobs.wait_for(within, "completed").attempt == 1
    error = jobs.wait_for(python, "discarded").errors[0]["error"]
    assert error == f"MemoryError: the job went beyond its limit of memory, 96 MiB (isolate = Isolate(memory={LIMIT}))"
    (crash,) = jobs.wait_for(c, "discarded").errors
    assert re.fullmatch(
        re.escape(CRASH.format(11)) + r"; it had \d+ MiB of memory at its most, and its limit is 96 MiB beside .*", crash["error"]
    )
    assert [line.pid for line in jobs.told() if line.what.startswith("hook ")] != []


def test_what_a_job_leaks_is_gone_with_its_process(supervise, jobs):
    supervisor = supervise(APP, queues="default=2")
    (worker,) = supervisor.workers

    def memory():
        return sum(resident(pid) for pid in [worker, nursery_of(supervisor)])

    jobs.wait_for(jobs.add("long", seconds=0, how="leak"), "completed")
    before = memory()
    for id_ in jobs.add_all("long", [{"seconds": 0, "how": "leak"}] * 10):
        jobs.wait_for(id_, "completed", timeout=20)

    assert memory() - before < 20 * 2**20


def resident(pid):
    """Return the bytes of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_what_a_job_says_comes_out_and_its_process_is_named_after_it(supervise, jobs):
    supervisor = supervise(APP)
    id_ = jobs.add("chatty", text="hello")

    output = jobs.wait_for(id_, "completed").output
    assert output[:2] == [f"fastq: job {id_} chatty", 1]
    for text in ("printed hello\n", "app: logged hello\n"):
        supervisor.wait_until_it_says(text)
    wait_for(lambda: jobs.execute("select fraction, text from fastq.job_progress where job = %s", id_), 5.0, "the note")


def test_a_process_of_a_job_inherits_no_connection_and_not_the_memory_that_the_processes_of_a_host_share(supervise, jobs):
    supervisor = supervise(APP)
    id_ = jobs.add("chatty", text="hello")

    _, _, peers, shares_board = jobs.wait_for(id_, "completed").output
    assert not shares_board
    assert {*peers} == {""}  # pairs: its line to its worker process, and those of that process' own event loop
    assert supervisor.sessions("producer") == 1


def test_a_cancelled_job_hears_of_it_and_one_that_is_deaf_is_killed(supervise, jobs):
    supervise(APP)
    polite, deaf = jobs.add("long", seconds=60), jobs.add("long", seconds=60, how="hang")
    jobs.wait_until_told("start", times=2)

    with Client(jobs.url) as client:
        client.cancel(polite)
        client.cancel(deaf)

    assert jobs.wait_for(polite, "cancelled").attempt == 1
    assert jobs.told("JobCancelled True", polite) != []
    fate = jobs.wait_for(deaf, "cancelled", timeout=15)
    assert (fate.attempt, fate.errors[-1]["error"]) == (1, "cancelled: cancelled; its process did not end, and was killed")
    wait_until_gone({line.pid for line in jobs.told("start")}, 5.0)


@pytest.mark.parametrize("how", ["naps", "hang"])
def test_a_process_that_stops_kills_what_does_not_end_and_hands_it_back_uncharged(supervise, jobs, how):
    supervisor = supervise(APP, shutdown_timeout=0.2)
    id_ = jobs.add("long", seconds=60, how=how)
    (line,) = jobs.wait_until_told("start")

    assert supervisor.stop()[0] == 0
    fate = jobs.fate(id_)
    assert (fate.state, fate.attempt, fate.errors) == ("available", 0, [])
    wait_until_gone([line.pid])


def test_a_job_sees_that_its_process_stops_and_comes_to_a_good_end(supervise, jobs):
    supervisor = supervise(APP, shutdown_timeout=20)
    id_ = jobs.add("long", seconds=60, how="polite")
    jobs.wait_until_told("start")

    supervisor.send_all(signal.SIGTERM)  # as a service manager does: the processes of jobs get it too
    assert supervisor.wait()[0] == 0
    assert (jobs.fate(id_).state, jobs.fate(id_).output) == ("completed", "stopping")


def test_what_a_job_has_started_dies_with_its_process(supervise, jobs):
    supervise(APP)
    id_ = jobs.add("long", seconds=0.2, how="with a program")

    jobs.wait_for(id_, "completed")
    (program,) = [int(line.what.split()[1]) for line in jobs.told(id_=id_) if line.what.startswith("program")]
    wait_until_gone([program], 5.0)


@pytest.mark.parametrize("victim", ["worker", "nursery", "fork server", "supervisor"])
def test_no_process_of_a_job_outlives_those_above_it_and_each_attempt_is_charged_once(supervise, jobs, victim):
    supervisor = supervise(APP, queues="default=8")
    (worker,) = supervisor.workers
    ids = jobs.add_all("long", [{"seconds": 60}, {"seconds": 60, "how": "hang"}, {"seconds": 60, "how": "hang"}])
    started = {line.pid for line in jobs.wait_until_told("start", times=3)}
    assert started == set(processes_of_jobs(supervisor))
    pids = {
        "worker": worker,
        "nursery": nursery_of(supervisor),
        "fork server": supervisor.fork_server,
        "supervisor": supervisor.pid,
    }

    os.kill(pids[victim], signal.SIGKILL)

    wait_until_gone(started, 5.0)
    if victim == "supervisor":
        supervisor.process.wait()
        supervisor = supervise(APP, queues="default=8", ready=False)
    lines = wait_for_second_starts(jobs, ids)
    assert {line.attempt for line in lines} == {2}
    for id_ in ids:
        assert len(jobs.fate(id_).errors) == 1
    assert supervisor.process.poll() is None


def wait_for_second_starts(jobs, ids):
    """Wait until each of these jobs has started once more; return the lines."""
    wait_for(lambda: all(len(jobs.told("start", id_)) >= 2 for id_ in ids), 20.0, "the second attempts")
    return [line for id_ in ids for line in jobs.told("start", id_)[1:]]


def test_a_process_whose_nursery_dies_is_replaced_and_its_other_jobs_come_to_their_ends(supervise, jobs):
    supervisor = supervise(APP, queues="default=8")
    (worker,) = supervisor.workers
    neighbour = jobs.add("patient", seconds=1.5)
    jobs.wait_until_told("start", neighbour)

    id_ = jobs.add("alone", what="kill the nursery", max_attempts=1)

    (error,) = jobs.wait_for(id_, "discarded").errors
    assert error["error"] == "the nursery of the worker process died, and with it the process in which the job was executed"
    assert jobs.wait_for(jobs.add("alone", what="value"), "completed").attempt == 1
    fate = jobs.wait_for(neighbour, "completed")
    assert (fate.attempt, len(jobs.told("start", neighbour))) == (1, 1)
    wait_for(lambda: worker not in supervisor.workers, 10.0, "the end of the process")
    assert "process.died" not in supervisor.said


def test_a_process_with_a_nursery_that_does_nothing_any_more_is_replaced(supervise, jobs):
    supervisor = supervise(APP, queues="default=8")
    (worker,) = supervisor.workers
    freeze(nursery_of(supervisor))

    id_ = jobs.add("alone", what="value", max_attempts=1)

    (error,) = jobs.wait_for(id_, "discarded", timeout=20).errors
    assert error["error"].startswith(f"JobTimeout: took longer than {SHORT} s")
    wait_for(lambda: worker not in supervisor.workers, 10.0, "the end of the process")
    assert jobs.wait_for(jobs.add("alone", what="value"), "completed").attempt == 1


def test_an_isolated_job_reads_the_jobs_before_it_and_forks_processes_of_its_own(supervise, jobs):
    supervise(APP)
    with Client(jobs.url) as client:
        flow = Workflow("two")
        first = flow.add(Gather(), name="first")
        flow.add(Gather(), name="second", after=[first])
        started = client.enqueue_workflow(flow)

    assert jobs.wait_for(started.ids[1], "completed", timeout=20).output == {"first": [1, 2]}
    assert jobs.fate(started.ids[0]).output == [1, 2]


def test_what_an_isolated_job_logs_and_prints_is_kept_with_it_whatever_becomes_of_its_process(supervise, jobs):
    supervise(APP)
    ended, died = jobs.add("wordy", dies=False), jobs.add("wordy", dies=True, max_attempts=1)

    assert jobs.wait_for(ended, "completed").output == 3
    jobs.wait_for(died, "discarded")
    with Client(jobs.url) as client:
        for job, words in ((ended, ["a print", "no end"]), (died, ["a print"])):
            wait_for(lambda job=job, words=words: [line.text for line in client.logs(job)][-1:] == words[-1:])
            lines = client.logs(job)
            assert [line.text for line in lines] == [f"a record of job {job}", *words]
            assert (lines[0].level, lines[0].source, lines[1].source) == ("warning", "app", "stdout")


def test_an_isolated_job_sleeps_without_a_process_and_goes_on_behind_its_steps(supervise, jobs):
    supervise(APP)

    before, behind = jobs.wait_for(jobs.add("sleepy"), "completed").output

    assert before != behind


def test_an_isolated_job_waits_for_a_signal_as_long_as_it_takes_without_a_process(supervise, jobs):
    supervisor = supervise(APP)
    id_ = jobs.add("waiting")
    assert jobs.wait_for(id_, "waiting").attempt == 0
    wait_for(lambda: processes_of_jobs(supervisor) == [])

    with Client(jobs.url) as client:
        client.signal(id_, "go", "on")

    assert jobs.wait_for(id_, "completed").output == "on"


def test_a_deadline_ends_an_isolated_job(supervise, jobs):
    supervise(APP)
    with Client(jobs.url) as client:
        late = client.enqueue(Long(60.0, "hang"), deadline=1.0)
        too_late = client.enqueue(Long(0.0), expires=0.001, delay=0.5)

    assert jobs.wait_for(late, "discarded", timeout=15).errors[0]["error"].startswith("JobTimeout: took longer than ")
    assert jobs.wait_for(too_late, "cancelled").attempt == 0
    assert jobs.told("start", too_late) == []


def test_a_job_ends_in_a_transaction_of_its_own_process_whatever_happens_then(supervise, jobs):
    supervisor = supervise(APP)
    good, crashes = jobs.add("paid", then="nothing"), jobs.add("paid", then="crash")
    before = jobs.add("paid", then="crash before")

    for id_ in (good, crashes):
        assert jobs.wait_for(id_, "completed").output == {"paid": id_}
    assert jobs.wait_for(before, "retryable").errors[0]["died"] == "signal 6"
    supervisor.wait_until_it_says("job.crashed", times=2)
    assert jobs.fate(crashes).state == "completed"
    assert "jobs.lost" not in supervisor.said


def test_a_message_that_a_job_sends_in_the_middle_of_another_one_lets_no_exception_tear_that_one(supervise, jobs):
    supervisor = supervise(APP)
    id_ = jobs.add("torn")
    jobs.wait_until_told("start", id_)

    with Client(jobs.url) as client:
        client.cancel(id_)

    fate = jobs.wait_for(id_, "cancelled", timeout=15)
    assert fate.errors[-1]["error"] == "cancelled: cancelled"
    supervisor.wait_until_it_says("app.said text=xxx")
    assert "job.crashed" not in supervisor.said
    assert jobs.told("not told") == []
    wait_for(lambda: jobs.execute("select text from fastq.job_progress where job = %s", id_), 5.0, "the message in the middle")


def test_a_job_that_is_cancelled_while_its_args_are_written_for_its_process_hears_of_it_there(supervise, jobs, tmp_path):
    supervisor = supervise(APP)
    id_ = jobs.add("slow_to_write", gate=str(tmp_path / "gate"))
    jobs.wait_until_told("writes")

    with Client(jobs.url) as client:
        client.cancel(id_)
    wait_for(lambda: jobs.execute("select cancel_requested from fastq.job") == [(True,)])
    jobs.wait_for(jobs.add("alone", what="value"), "completed")  # the worker process has heard of the cancellation by now
    (tmp_path / "gate").touch()

    assert jobs.wait_for(id_, "cancelled", timeout=15).attempt == 1
    assert "job.killed" not in supervisor.said


def test_a_job_that_was_cancelled_before_its_slot_asked_for_its_process_hears_of_it_there():
    command = [sys.executable, "-m", "tests.process.cancelled_early"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert told.stdout == 'cancelled {"error":"cancelled: cancelled"}\n', told.stderr


def test_an_attempt_that_fails_in_the_worker_process_takes_its_own_process_along(supervise, jobs):
    supervisor = supervise(APP)
    (worker,) = supervisor.workers
    id_ = jobs.add("garbled", max_attempts=2)

    assert jobs.wait_for(id_, "completed", timeout=15).attempt == 2
    first, second = jobs.told("start", id_)
    wait_until_gone([first.pid, second.pid], 5.0)
    assert "DecodeError" in jobs.fate(id_).errors[0]["error"]
    assert supervisor.workers == [worker]


def test_a_thread_that_hangs_when_the_process_of_its_job_is_gone_is_given_up_as_any_other(supervise, jobs):
    supervisor = supervise(APP, queues="default=8")
    (worker,) = supervisor.workers

    id_ = jobs.add("deafening", max_attempts=1)

    (error,) = jobs.wait_for(id_, "discarded", timeout=20).errors
    assert error["error"].startswith(f"JobTimeout: took longer than {SHORT} s and did not end within ")
    wait_for(lambda: worker not in supervisor.workers, 15.0, "the end of the process")
    assert jobs.wait_for(jobs.add("alone", what="value"), "completed").attempt == 1


def asked_about(jobs, id_):
    """Return what the handler of crashes was told of a job, and what worked, in order."""
    return [line.what.removeprefix("asked about ") for line in jobs.told(id_=id_) if not line.what.startswith("in ")]


@pytest.mark.parametrize("kind", ["risky", "risky_async"])
@pytest.mark.parametrize(
    ("what", "crash"),
    [("segfault", "signal 11 11"), ("exit", "exit code 7 None"), ("malloc", "signal 11 11"), ("hang", "timeout None")],
)
def test_the_handler_of_crashes_is_asked_about_the_end_of_a_jobs_own_process_before_the_next_attempt(
    supervise, jobs, kind, what, crash
):
    supervisor = supervise("tests.process.isolated:asked")
    id_ = jobs.add(kind, max_attempts=4, what=what, decision="discard")

    fate = jobs.wait_for(id_, "discarded", timeout=15)
    assert (fate.attempt, fate.crashes) == (2, 0)
    assert fate.errors[-1]["error"] == "discarded: it ends its process"
    assert asked_about(jobs, id_) == ["work", f"{crash} 1 True"]
    (where,) = [line for line in jobs.told(id_=id_) if line.what.startswith("in ")]
    assert where.what == f"in {where.pid}"
    assert where.pid not in supervisor.workers


def test_the_handler_of_crashes_puts_an_isolated_job_off_or_lets_it_work_or_spends_an_attempt(supervise, jobs):
    supervise("tests.process.isolated:asked")
    off, on, again = (
        jobs.add("risky", max_attempts=4, what="segfault", decision=decision) for decision in ("snooze", "go on", "retry")
    )

    asked = "signal 11 11 1 True"
    assert jobs.wait_for(on, "completed", timeout=15).output == 2
    assert asked_about(jobs, on) == ["work", asked, "work"]
    assert jobs.wait_for(off, "completed", timeout=15).attempt == 2
    assert asked_about(jobs, off) == ["work", asked, asked, "work"]
    assert jobs.wait_for(again, "completed", timeout=15).output == 3
    assert asked_about(jobs, again) == ["work", asked, "work"]


def test_the_handler_of_crashes_learns_how_often_the_processes_of_a_job_have_died(supervise, jobs):
    supervise("tests.process.isolated:asked")
    id_ = jobs.add("risky", max_attempts=4, what="abort", decision="go on", times=2)

    wait_for(lambda: jobs.fate(id_).attempt == 2 and jobs.fate(id_).state == "retryable", 15.0, "the second crash")
    jobs.execute("update fastq.job set scheduled_at = clock_timestamp() where id = %s", id_)  # in place of 16 s
    jobs.execute("select pg_notify('fastq', '@due')")

    assert jobs.wait_for(id_, "completed", timeout=15).output == 3
    assert asked_about(jobs, id_) == ["work", "signal 6 6 1 True", "work", "signal 6 6 2 True", "work"]


def test_the_last_attempt_of_an_isolated_job_ends_it_and_nobody_is_asked(supervise, jobs):
    supervise("tests.process.isolated:asked")
    id_ = jobs.add("risky", max_attempts=1, what="segfault", decision="go on")

    assert jobs.wait_for(id_, "discarded").errors[-1]["died"] == "signal 11"
    assert asked_about(jobs, id_) == ["work"]


def test_a_worker_process_without_isolated_workers_has_no_nursery(supervise, jobs):
    supervisor = supervise()

    assert [pid for pid in descendants(supervisor.pid) if "nursery" in title(pid)] == []
    assert jobs.wait_for(jobs.add("nap"), "completed").attempt == 1
