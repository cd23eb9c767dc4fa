"""Limits as their users see them: real processes, and a ledger beside the database that says how many ran at once."""

import os
import signal

import pytest

from fastq import Client
from tests.helpers import wait_for
from tests.process.limited import AT_MOST, Limited

pytestmark = [pytest.mark.process, pytest.mark.further]

APP = "tests.process.limited:registry"


@pytest.fixture
def client(database):
    """Give a client."""
    with Client(database) as made:
        yield made


def most_at_once(jobs):
    """Return the most jobs that ran at once, by account: a process that died ran none from then on."""
    running, most, lines = {}, {}, jobs.told()
    last = {line.pid: line.at for line in lines}
    ends = {(line.pid, line.id) for line in lines if line.what.startswith("end")}
    moments = []
    for line in lines:
        what, account = line.what.split()
        if what == "end" or (line.pid, line.id) in ends:
            moments.append((line.at, what == "start", account))
        else:  # its process was killed while it ran: at the latest when that told its last
            moments += [(line.at, True, account), (max(line.at, last[line.pid]), False, account)]
    for _, starts, account in sorted(moments):
        running[account] = running.get(account, 0) + (1 if starts else -1)
        most[account] = max(most.get(account, 0), running[account])
    return most


def test_never_more_than_the_limit_at_once_over_all_processes_and_no_slot_stays_empty(supervise, jobs, client):
    client.enqueue_many([Limited(n % 4, seconds=0.02) for n in range(200)])
    supervise(APP, procs=2, queues="default=8")
    jobs.wait_until_none_is_left()

    assert most_at_once(jobs) == {str(account): AT_MOST for account in range(4)}
    assert jobs.counts() == {"completed": 200}


def test_a_job_of_an_account_that_has_room_starts_though_another_has_a_long_queue(supervise, jobs, client):
    long = client.enqueue_many([Limited(1, seconds=60)] * 20)
    supervise(APP, queues="default=8")
    jobs.wait_until_told("start 1", times=AT_MOST)

    other = client.enqueue(Limited(2))
    jobs.wait_for(other, "completed")

    assert {line.id for line in jobs.told("start 1")} == {*long[:AT_MOST]}


def test_when_a_process_dies_its_jobs_keep_their_room_and_run_again(supervise, jobs, client):
    supervisor = supervise(APP, procs=2, queues="default=8")
    ids = client.enqueue_many([Limited(1, seconds=0.3)] * 7)
    first = jobs.wait_until_told("start 1")[0]

    os.kill(first.pid, signal.SIGKILL)
    jobs.wait_until_none_is_left()

    assert most_at_once(jobs)["1"] <= AT_MOST
    assert {line.id for line in jobs.told("end 1")} == {*ids}
    assert "gate.repaired" not in supervisor.said


def test_when_the_leader_dies_another_goes_on_and_lets_no_more_go_than_there_is_room(supervise, jobs, client):
    first = supervise(APP, queues="default=4")
    second = supervise(APP, queues="default=4")
    ids = client.enqueue_many([Limited(1, seconds=0.2)] * 40)
    jobs.wait_until_told("start 1", times=6)

    leader = next(one for one in (first, second) if "lease.acquired lease=schema" in one.said)
    leader.send(signal.SIGKILL)
    jobs.wait_until_none_is_left(40.0)

    assert most_at_once(jobs)["1"] <= AT_MOST
    assert {line.id for line in jobs.told("end 1")} == {*ids}


def test_jobs_that_came_past_the_gate_are_put_before_it(supervise, jobs):
    jobs.add_all("limited", [{"account": 1, "seconds": 0.1}] * 12)  # by a program that does not know of it
    supervisor = supervise(APP, procs=2, queues="default=8")
    jobs.wait_until_none_is_left()

    assert most_at_once(jobs)["1"] == AT_MOST
    wait_for(lambda: "job.ungated" in supervisor.said, what="a word of it")
