"""A host that works many queues: all are worked, also without hints, and queues that have nothing cost nothing."""

import psycopg
import pytest

from tests.helpers import wait_for

pytestmark = pytest.mark.further

QUEUES = [f"queue{number}" for number in range(60)]
EACH = ",".join(f"{name}=1" for name in QUEUES)
INSERT = "insert into fastq.job (kind, queue) values ('nap', %s) returning id"
WAITING = (
    "insert into fastq.job (kind, queue, state, seq, waits_for) values ('nap', %s, 'waiting', null, 'worker:nap') returning id"
)


def test_jobs_of_all_queues_are_worked_and_those_without_a_hint_too(supervise, jobs):
    supervise(procs="2", queues=EACH, poll_interval="0.5")
    hinted = [jobs.add("nap", queue=name) for name in QUEUES]
    for job in hinted:
        jobs.wait_for(job, "completed")

    silent = [jobs.execute(INSERT, name)[0][0] for name in QUEUES[::7]]

    for job in silent:
        jobs.wait_for(job, "completed")


def test_a_job_that_is_committed_late_is_found_though_its_queue_has_been_quiet(supervise, jobs, database):
    supervise(procs="1", queues=EACH, poll_interval="0.2")
    jobs.wait_for(jobs.add("nap", queue=QUEUES[3]), "completed")
    with psycopg.connect(database) as late:
        (job,) = late.execute(INSERT, (QUEUES[3],)).fetchone()
        for _ in range(5):
            jobs.wait_for(jobs.add("nap", queue=QUEUES[5]), "completed")
        late.commit()

    jobs.wait_for(job, "completed")


def test_one_by_one_backlogs_in_all_queues_are_worked_by_each_process(supervise, jobs):
    supervisor = supervise(procs="2", queues=EACH)
    for name in QUEUES[:20]:
        jobs.add_all("nap", [{}] * 50, queue=name)

    jobs.wait_until_none_is_left()

    assert len({line.pid for line in jobs.told("start")}) == 2
    assert "Traceback" not in supervisor.said


def test_jobs_that_wait_for_a_worker_are_found_in_the_queues_that_have_some(supervise, jobs):
    supervise(procs="1", queues=EACH)
    job = jobs.add("nap", queue=QUEUES[9])
    jobs.wait_for(job, "completed")
    ((waits,),) = jobs.execute(WAITING, QUEUES[11])

    wait_for(lambda: jobs.fate(waits).state == "completed", 30.0, "the next look for waiting jobs")
