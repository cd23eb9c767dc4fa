"""What a process hands back at its end: it asks the database for it, but does not wait for ever."""

import signal

import psycopg


def test_a_lock_on_the_jobs_does_not_hold_up_the_end_of_a_process(supervise, jobs):
    supervisor = supervise(
        statement_timeout=0.5, poll_only=1, poll_interval=0.05, queues="default=1", prefetch=10, shutdown_timeout=0.5
    )
    jobs.add_all("nap", [{}] * 100)
    jobs.wait_until_none_is_left()  # a pace: more are claimed than can start
    ids = jobs.add_all("nap", [{"seconds": 30}] * 5)
    jobs.wait_until_told("start", times=101)
    with psycopg.connect(jobs.url) as locking:
        locking.execute("lock table fastq.job in share mode")
        supervisor.send(15)
        supervisor.wait_until_it_says("jobs.not_handed_back", timeout=6.0)
        locking.rollback()
    supervisor.wait()

    assert {jobs.fate(id_).state for id_ in ids} == {"available"}


def test_a_locked_job_does_not_keep_the_others_from_being_handed_back(supervise, jobs):
    supervisor = supervise(queues="default=1", prefetch=10, beat_interval=5, process_ttl=15)
    jobs.add_all("nap", [{"seconds": 0.001}] * 300)  # a pace: it claims ahead
    jobs.wait_until_told("end", times=300)
    with jobs.connection.transaction():
        jobs.add("patient", seconds=60)  # for so long the process would not end, and nobody else give its jobs back
        locked, *others = jobs.add_all("nap", [{}] * 20)
    for id_ in (locked, *others):
        jobs.wait_for(id_, "running")
    with psycopg.connect(jobs.url) as locking:
        locking.execute("select from fastq.job where id = %s for update", [locked])

        supervisor.send(signal.SIGTERM)
        for id_ in others:
            jobs.wait_for(id_, "available", timeout=20)

        assert jobs.fate(locked).state == "running"
        locking.rollback()
    supervisor.wait_until_it_says('jobs.not_handed_back count=1 error="their rows are locked"')
