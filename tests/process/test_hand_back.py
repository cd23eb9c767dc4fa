"""What a process hands back at its end: it asks the database for it, but does not wait for ever."""

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
