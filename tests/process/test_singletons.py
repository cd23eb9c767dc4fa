"""Singletons in real processes: one at a time in the cluster, and another one soon when its process ends, dies or freezes."""

import os
import signal
import time

import pytest

from tests.helpers import freeze, process_exists, wait_for, wait_until_gone

pytestmark = [pytest.mark.process, pytest.mark.further]

APP = "tests.process.singletons:registry"
TTL = 1.0  # s
NAME = "projection:orders"
HAND_OVER = 0.25  # s
STALE = """select count(*)::int from fastq.once join fastq.lease using (name)
    where once.term < lease.term and once.at >= lease.acquired_at"""
BUSY = 0.5  # s; what a machine that runs other tests too may add


def start(supervise, **settings):
    supervisor = supervise(APP, ready=False, **({"lease_ttl": TTL, "shutdown_timeout": 1} | settings))
    wait_for(lambda: len(supervisor.workers) == supervisor.procs, 20, "the worker processes")  # they claim nothing: no producer
    return supervisor


def lines(jobs, what, name=NAME):
    return [line for line in jobs.told(what) if line.queue == name]


def wait_for_lines(jobs, what, times=1, name=NAME, timeout=10.0):
    wait_for(lambda: len(lines(jobs, what, name)) >= times, timeout, f"{times} times {what!r} of {name}")
    return lines(jobs, what, name)


def of(supervisors, pid):
    """Return the supervisor of a worker process, and the others."""
    [its] = [supervisor for supervisor in supervisors if pid in supervisor.descendants]
    return its, [supervisor for supervisor in supervisors if supervisor is not its]


def alone(jobs, name=NAME):
    """Tell whether no two processes acted between each other: the terms never go back."""
    acted = [line.id for line in lines(jobs, "acted", name)]
    return acted == sorted(acted)


def test_an_app_without_workers_leaves_jobs_to_those_that_know_them(supervise, jobs):
    id_ = jobs.add("nap")
    supervisor = start(supervise, poll_interval=0.1)
    wait_for_lines(jobs, "acted", 50)

    assert supervisor.sessions("producer") == 0
    assert jobs.execute("select state::text, attempt, scheduled_at from fastq.job where id = %s", id_) == [("available", 0, None)]
    supervise()
    jobs.wait_for(id_, "completed")
    assert supervisor.stop()[0] == 0


@pytest.mark.lease("L01")
def test_each_singleton_runs_in_one_process_of_all(supervise, jobs):
    supervisors = [start(supervise, procs=2), start(supervise)]
    for name in (NAME, "mails", "stubborn"):
        wait_for_lines(jobs, "start", name=name)
    wait_for_lines(jobs, "acted", 50)

    for name in (NAME, "mails", "stubborn"):
        assert len(lines(jobs, "start", name)) == 1
    assert {line.pid for line in lines(jobs, "acted")} == {lines(jobs, "start")[0].pid}
    assert lines(jobs, "again") == []
    assert sum(supervisor.sessions("singleton") for supervisor in supervisors[:1]) == 2, "one connection per host"


@pytest.mark.lease("L22", "L24")
def test_a_killed_worker_process_is_followed_within_the_ttl(supervise, jobs):
    supervisors = [start(supervise), start(supervise)]
    first = wait_for_lines(jobs, "start")[0]
    wait_for_lines(jobs, "acted", 3)

    killed = time.monotonic()
    os.kill(first.pid, signal.SIGKILL)
    second = wait_for_lines(jobs, "start", 2)[1]

    assert second.pid != first.pid
    assert second.at - killed < TTL + 0.5 + BUSY
    wait_for_lines(jobs, "acted", len(lines(jobs, "acted")) + 3)
    assert alone(jobs)
    its, _ = of(supervisors, second.pid)
    assert its.process.poll() is None


@pytest.mark.lease("L22", "L25")
def test_the_worker_of_a_killed_supervisor_is_followed_within_the_ttl(supervise, jobs):
    supervisors = [start(supervise), start(supervise)]
    first = wait_for_lines(jobs, "start")[0]
    wait_for_lines(jobs, "acted", 3)
    doomed, [heir] = of(supervisors, first.pid)

    killed = time.monotonic()
    doomed.send(signal.SIGKILL)
    second = wait_for_lines(jobs, "start", 2)[1]

    assert second.pid in heir.workers
    assert second.at - killed < TTL + 0.5 + BUSY
    wait_until_gone([first.pid])
    assert alone(jobs)


def test_a_lone_supervisor_runs_it_again_when_its_worker_process_was_killed(supervise, jobs):
    start(supervise)
    first = wait_for_lines(jobs, "start")[0]
    os.kill(first.pid, signal.SIGKILL)
    second = wait_for_lines(jobs, "start", 2)[1]

    assert second.pid != first.pid
    assert second.id > first.id


def test_a_stop_in_order_hands_over_at_once(supervise, jobs):
    supervisors = [start(supervise, lease_ttl=20), start(supervise, lease_ttl=20)]
    first = wait_for_lines(jobs, "start")[0]
    wait_for_lines(jobs, "start", name="mails")
    stopping, [heir] = of(supervisors, first.pid)

    stopping.send(signal.SIGTERM)
    second = wait_for_lines(jobs, "start", 2)[1]
    end = lines(jobs, "end")[0]

    assert end.pid == first.pid
    assert 0 < second.at - end.at < HAND_OVER + BUSY
    assert second.pid in heir.workers
    assert stopping.wait(20)[0] == 0
    assert len(wait_for_lines(jobs, "start", 2, "mails")) >= 2
    assert alone(jobs)


def test_a_host_that_leads_nothing_runs_singletons(supervise, jobs):
    start(supervise, lead="off")

    wait_for_lines(jobs, "acted", 3)


@pytest.mark.lease("L20", "L54")
def test_a_frozen_holder_is_refused_when_it_goes_on(supervise, jobs):
    supervisors = [start(supervise), start(supervise)]
    first = wait_for_lines(jobs, "start")[0]
    wait_for_lines(jobs, "acted", 3)

    frozen = time.monotonic()
    freeze(first.pid)
    second = wait_for_lines(jobs, "start", 2)[1]
    assert second.at - frozen < TTL + 0.5 + BUSY
    wait_for_lines(jobs, "acted", len(lines(jobs, "acted")) + 3)
    resumed = time.monotonic()
    os.kill(first.pid, signal.SIGCONT)
    wait_for(lambda: [line for line in lines(jobs, "end") if line.pid == first.pid], 5, "the first to end")

    late = [line.what for line in jobs.told() if line.pid == first.pid and line.at > resumed and line.queue == NAME]
    assert late in (["refused", "end"], ["acted", "refused", "end"]), "it may hear late what it asked in time"
    acted = sum(line.pid == first.pid for line in lines(jobs, "acted"))
    assert jobs.execute("select count(*)::int from fastq.once where term = %s", first.id) == [(acted,)]
    assert jobs.execute(STALE) == [(0,)]
    assert len(supervisors) == 2


def test_a_function_that_does_not_end_when_it_has_lost_its_lease_costs_its_process(supervise, jobs):
    supervisor = start(supervise, timeout_grace=0.3)
    first = wait_for_lines(jobs, "start", name="stubborn")[0]
    jobs.execute(
        "update fastq.lease set holder = 'other', term = term + 1, expires_at = clock_timestamp() where name like '%:stubborn'"
    )

    second = wait_for_lines(jobs, "start", 2, "stubborn")[1]

    assert second.pid != first.pid
    assert lines(jobs, "swallowed", "stubborn")
    supervisor.wait_until_it_says("singleton.stuck")
    supervisor.wait_until_it_says("process.recycles")


def test_what_a_singleton_forks_ends_with_the_function(supervise, jobs):
    supervisor = supervise("tests.process.singletons:registry_that_forks", ready=False, lease_ttl=TTL)

    assert [line.what for line in jobs.wait_until_told("child ended")] == ["child ended"]
    assert supervisor.stop()[0] == 0


def hold(supervise, **settings):
    return supervise(
        "tests.process.singletons:registry_that_holds", lease_ttl=TTL, timeout_grace=0.3, shutdown_timeout=1, **settings
    )


def test_a_singleton_that_holds_the_interpreter_lock_for_longer_than_its_lease_costs_its_process(supervise, jobs):
    supervisor = hold(supervise, ready=False)
    first = wait_for_lines(jobs, "holds", name="holding")[0]

    second = wait_for_lines(jobs, "start", 2, "holding", 30.0)[1]

    assert second.pid != first.pid
    supervisor.wait_until_it_says("process.killed")
    assert "it gave no sign for longer than the leases of its singletons last" in supervisor.said
    assert supervisor.stop()[0] == 0


def test_a_singleton_that_holds_the_lock_beside_a_job_runs_in_another_process_and_the_job_keeps_its_time(supervise, jobs):
    (jobs.witness.parent / "held").touch()
    supervisor = hold(supervise)
    first = wait_for_lines(jobs, "start", name="holding")[0]
    id_ = jobs.add("patient", seconds=2, max_attempts=1)
    jobs.wait_until_told("start", id_)

    freeze(first.pid)  # nobody outside can tell it from a call in C
    second = wait_for_lines(jobs, "start", 2, "holding", 30.0)[1]
    supervisor.wait_until_it_says(f"process.silent pid={first.pid}")
    assert process_exists(first.pid)
    assert jobs.fate(id_).state == "running"
    os.kill(first.pid, signal.SIGCONT)

    assert second.pid != first.pid
    assert jobs.wait_for(id_, "completed").attempt == 1
    wait_for(lambda: not process_exists(first.pid), 10, "the end of the first process")
    assert "process.died" not in supervisor.said
    assert supervisor.stop()[0] == 0


def test_the_singletons_of_a_process_that_died_run_again_at_once_however_long_their_leases_are(supervise, jobs):
    supervisor = start(supervise, lease_ttl=600)
    first = wait_for_lines(jobs, "start")[0]

    os.kill(first.pid, signal.SIGKILL)
    second = wait_for_lines(jobs, "start", 2)[1]

    assert second.id > first.id
    assert second.pid in supervisor.descendants
    assert alone(jobs)
