"""How a host stops: what runs ends or is handed back, nothing is charged that did not fail, nobody stays behind."""

import os
import signal

import pytest

from tests.helpers import Stopwatch, freeze, process_exists, wait_for
from tests.process.conftest import APP, SESSIONS, title

pytestmark = pytest.mark.process

HANDLERS = "tests.process.handlers:registry"  # an application that handles signals itself


def process_rows(jobs):
    """Return the registered processes."""
    return jobs.execute("select id, pid from fastq.process")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_idle_host_stops_at_once_and_leaves_nothing_behind(supervise, jobs, number):
    supervisor = supervise(procs=2)
    assert len(process_rows(jobs)) >= 2

    code, took = supervisor.stop(number)

    assert code == 0
    assert took < 1.0
    assert process_rows(jobs) == []
    assert jobs.execute("select distinct holder from fastq.lease") == [("",)]
    wait_for(lambda: jobs.execute(SESSIONS) == [], 2)


@pytest.mark.parametrize("kind", ["rounds", "async_rounds"])
def test_a_long_loop_sees_that_its_process_was_told_to_stop_and_comes_to_a_good_end(supervise, jobs, kind):
    supervisor = supervise(shutdown_timeout="30")
    job = jobs.add(kind)
    jobs.wait_until_told("start", job)

    code, _ = supervisor.stop()

    fate = jobs.fate(job)
    assert (code, fate.state, fate.attempt, fate.output) == (0, "completed", 1, "a good end, cancelled: False")


@pytest.mark.parametrize("kind", ["nap", "async_nap"])
def test_running_jobs_end_and_the_prefetched_are_handed_back_uncharged(supervise, jobs, kind):
    supervisor = supervise(queues="default=4", prefetch=10)
    jobs.add_all(kind, [{}] * 300)  # a pace that makes it hold many
    jobs.wait_until_none_is_left()
    slow = jobs.add_all(kind, [{"seconds": 0.5}] * 100)
    jobs.wait_until_told("start", times=304)
    wait_for(lambda: jobs.execute("select count(*) > 8 from fastq.job where state = 'running'") == [(True,)], what="a prefetch")

    code, took = supervisor.stop()

    assert code == 0
    assert took < 1.5
    started = {line.id for line in jobs.told("start")}
    ended = {line.id for line in jobs.told("end")}
    assert started == ended
    assert jobs.counts() == {"completed": len(ended)}
    left = jobs.execute("select id, state::text, attempt, crashes, errors from fastq.job order by id")
    assert [row[0] for row in left] == [id_ for id_ in slow if id_ not in ended]
    assert {row[1:] for row in left} == {("available", 0, 0, None)}
    assert len(left) > 80


def test_jobs_that_outlast_the_shutdown_timeout_are_cancelled_and_handed_back_uncharged(supervise, jobs):
    supervisor = supervise(queues="default=8", shutdown_timeout=0.3)
    polite = jobs.add("patient", seconds=30)  # naps in Python
    hard = jobs.add("nap", seconds=30)  # one C call, out of Python's reach
    asynchronous = jobs.add("async_nap", seconds=30)
    jobs.wait_until_told("start", times=3)

    watch = Stopwatch()
    code, took = supervisor.stop()

    assert code == 0
    assert watch.clock() > 0.3
    assert took < 0.3 + 1.0 + 1.0
    for id_ in (polite, hard, asynchronous):
        fate = jobs.fate(id_)
        assert (fate.state, fate.attempt, fate.crashes, fate.errors) == ("available", 0, 0, [])


def test_a_job_can_be_cancelled_while_its_process_stops(supervise, jobs):
    supervisor = supervise(shutdown_timeout=10)
    id_ = jobs.add("async_nap", seconds=30)
    (start,) = jobs.wait_until_told("start", id_)
    supervisor.send(signal.SIGTERM)
    wait_for(lambda: title(start.pid).endswith("stopping"), 5, "the process to hear of the stop")

    jobs.execute("update fastq.job set cancel_requested = true where id = %s", id_)
    jobs.execute("select pg_notify('fastq', '@cancel')")
    code, took = supervisor.wait()

    assert (code, jobs.fate(id_).state) == (0, "cancelled")
    assert took < 3.0


def test_a_process_that_does_not_listen_holds_up_neither_the_beat_nor_the_stop(supervise, jobs):
    supervisor = supervise(beat_interval=0.1)
    (worker,) = supervisor.workers
    ((number,),) = wait_for(lambda: jobs.execute("select id from fastq.process where pid = %s", worker), 10, "the process's row")

    def expiry():
        return jobs.execute("select expires_at from fastq.process where id = %s", number)

    freeze(worker)
    jobs.execute(  # more than its pipe holds
        """insert into fastq.job (id, kind, queue, state, attempt, claim, cancel_requested, scheduled_at)
        overriding system value
        select 100000000000000000 + number, 'nap', 'default', 'running', 1, %s::bigint << 32, true, now()
        from generate_series(1, 5000) as number""",
        number,
    )
    for _ in range(5):
        last = expiry()
        wait_for(lambda last=last: expiry() != last, 2, "the next beat")
    supervisor.send(signal.SIGTERM)
    supervisor.wait_until_it_says("supervisor.stops", timeout=2)
    os.kill(worker, signal.SIGCONT)

    code, took = supervisor.wait()

    assert code == 0
    assert took < 3.0


@pytest.mark.parametrize("heard", [False, True])
def test_a_second_signal_ends_everything_within_a_second(supervise, jobs, heard):
    supervisor = supervise(procs=2)
    ids = [id_ for kind in ("nap", "async_nap", "patient") for id_ in jobs.add_all(kind, [{"seconds": 30}] * 2)]
    jobs.wait_until_told("start", times=6)
    workers = supervisor.workers
    supervisor.send(signal.SIGTERM)
    supervisor.wait_until_it_says("supervisor.stops")
    if heard:
        wait_for(lambda: all(title(pid).endswith("stopping") for pid in workers), 5, "the processes to hear of the first signal")

    code, took = supervisor.stop()

    assert code in {0, 1}
    assert took < 1.0, supervisor.said
    for id_ in ids:
        fate = jobs.fate(id_)
        assert (fate.state, fate.attempt, fate.crashes) == ("available", 0, 0)


def test_a_second_signal_does_not_wait_for_the_import_of_the_app(supervise, jobs):
    supervisor = supervise("tests.process.slow:registry", ready=False)
    wait_for(lambda: "fastq: fork server" in map(title, supervisor.descendants), 10, "the fork server")

    supervisor.send(signal.SIGINT)
    code, took = supervisor.stop()

    assert code in {0, 1}
    assert took < 1.0, supervisor.said


def test_a_second_signal_does_not_wait_for_a_fork_server_that_hangs(supervise, jobs):
    supervisor = supervise()
    id_ = jobs.add("nap", seconds=30)
    jobs.wait_until_told("start", id_)
    freeze(supervisor.fork_server)
    supervisor.send(signal.SIGINT)

    code, took = supervisor.stop()

    assert code in {0, 1}
    assert took < 1.0 + 0.3, supervisor.said  # all three deadlines of the end are used up
    assert (jobs.fate(id_).state, jobs.fate(id_).attempt, jobs.fate(id_).crashes) == ("available", 0, 0)


@pytest.mark.parametrize(
    ("app", "number"),
    [
        (APP, signal.SIGTERM),
        pytest.param(APP, signal.SIGINT, marks=pytest.mark.further),
        pytest.param(APP, signal.SIGHUP, marks=pytest.mark.further),
        (HANDLERS, signal.SIGINT),
        pytest.param(HANDLERS, signal.SIGTERM, marks=pytest.mark.further),
        pytest.param(HANDLERS, signal.SIGHUP, marks=pytest.mark.further),
    ],
)
def test_a_signal_to_the_whole_process_group_stops_in_order(supervise, jobs, number, app):
    supervisor = supervise(app, procs=2)
    ids = jobs.add_all("nap", [{"seconds": 0.4}] * 4)
    jobs.wait_until_told("start", times=4)

    supervisor.send_all(number)
    code, took = supervisor.wait()

    assert code == 0
    assert took < 1.5
    assert {jobs.fate(id_).state for id_ in ids} == {"completed"}
    assert len(jobs.told("start")) == 4
    assert "process.died" not in supervisor.said


def test_a_terminal_that_closes_stops_in_order_however_many_hangups_come(supervise, jobs):
    supervisor = supervise()
    id_ = jobs.add("nap", seconds=0.6, max_attempts=1)
    jobs.wait_until_told("start", id_)

    supervisor.send_all(signal.SIGHUP)
    supervisor.wait_until_it_says("supervisor.stops")
    supervisor.send_all(signal.SIGHUP)

    assert supervisor.wait()[0] == 0
    assert (jobs.fate(id_).state, "supervisor.kills" in supervisor.said) == ("completed", False)


def test_a_hangup_that_is_ignored_already_stops_nothing(supervise, jobs):
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does, for what it starts
    try:
        supervisor = supervise()
    finally:
        signal.signal(signal.SIGHUP, handler)

    supervisor.send_all(signal.SIGHUP)

    assert jobs.wait_for(jobs.add("nap"), "completed").attempt == 1
    assert supervisor.stop()[0] == 0
    assert supervisor.said.count("supervisor.stops") == 1


def test_a_worker_process_that_is_told_to_end_alone_ends_its_jobs_and_is_replaced(supervise, jobs):
    supervisor = supervise()
    (worker,) = supervisor.workers
    id_ = jobs.add("nap", seconds=0.4)
    jobs.wait_until_told("start", id_)

    os.kill(worker, signal.SIGTERM)
    wait_for(lambda: not process_exists(worker), 5)
    (replacement,) = supervisor.wait_until_ready()

    assert replacement != worker
    assert jobs.wait_for(id_, "completed").attempt == 1
    assert jobs.wait_for(jobs.add("nap"), "completed").attempt == 1
    assert "process.died" not in supervisor.said
    assert supervisor.stop()[0] == 0


@pytest.mark.parametrize("moment", ["supervisor", "fork server", "starting", "worker"])
def test_a_signal_during_the_start_stops_in_order(supervise, jobs, moment):
    supervisor = supervise(ready=False, procs=2)

    def reached():
        return any(moment in title(pid) for pid in [supervisor.pid, *supervisor.descendants])

    wait_for(reached, 10, moment)
    code, took = supervisor.stop()

    assert code == 0
    assert took < 3.0
    assert jobs.execute("select count(*) from fastq.job") == [(0,)]


@pytest.mark.slow
def test_a_signal_under_load_loses_no_job_and_works_none_twice(supervise, jobs):
    ids = jobs.add_all("nap", [{"seconds": 0.005}] * 5_000, wake=False)  # 1.6 s for 16 threads: the signal comes before their end
    ids += jobs.add_all("async_nap", [{}] * 500, wake=False)
    rounds = 0
    while jobs.execute("select count(*) from fastq.job") != [(0,)]:
        supervisor = supervise(procs=2, queues="default=8", ready=False)
        jobs.wait_until_told("end", times=min(len(jobs.told("end")) + 1_000, len(ids)))
        code, took = supervisor.stop()
        assert code == 0
        assert took < 3.0
        assert "ownership.lost" not in supervisor.said
        assert jobs.execute("select count(*) from fastq.job where state = 'running' or attempt > 0") == [(0,)]
        rounds += 1

    assert sorted(line.id for line in jobs.told("end")) == ids
    assert jobs.counts() == {"completed": len(ids)}
    assert rounds > 1, "the first round must not have worked them all"


def test_an_app_that_cannot_be_imported_in_a_worker_process_stops_the_host_with_a_message(supervise, jobs):
    watch = Stopwatch()
    supervisor = supervise("tests.process.broken:registry", ready=False, procs=2)

    assert supervisor.wait()[0] == 1

    assert watch.idle() < 5
    assert "raised while it was imported: RuntimeError: not in a worker process" in supervisor.said
    assert "a worker process could not start" in supervisor.said
    assert supervisor.said.count("process.started") == 2  # nobody was replaced
    assert "process.boot_failed" in supervisor.said


def test_a_host_that_the_database_refused_from_the_start_stops_at_once_and_without_a_reproach(supervise, jobs):
    jobs.execute("alter sequence fastq.process_number rename to elsewhere")  # as a standby refuses to count
    supervisor = supervise(ready=False)
    supervisor.wait_until_it_says("registrar.waits")

    code, took = supervisor.stop()

    assert code == 0
    assert took < 2.0
    assert "supervisor.stopped" in supervisor.said


def test_an_app_that_cannot_be_imported_at_all_is_refused_at_once(supervise, jobs):
    supervisor = supervise("tests.process.nowhere:registry", ready=False)

    assert supervisor.wait()[0] == 2
    assert "no module 'tests.process.nowhere'" in supervisor.said


def test_an_error_that_ends_a_thread_of_the_supervisor_stops_the_host_in_order(supervise, jobs):
    supervisor = supervise("tests.process.brittle:registry", procs=2)
    id_ = jobs.add("nap", seconds=0.5, max_attempts=1)
    jobs.wait_until_told("start", id_)

    (jobs.witness.parent / "break").touch()

    assert supervisor.wait()[0] == 1
    assert jobs.fate(id_).state == "completed"
    assert process_rows(jobs) == []
    assert "told: nobody expected that" in supervisor.said
    assert """supervisor.failed reason="the thread 'fastq brittle' ended by an error: ArithmeticError\"""" in supervisor.said
