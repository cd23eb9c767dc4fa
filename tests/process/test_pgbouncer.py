"""Everything through PgBouncer in transaction mode, with FASTQ_POLL_ONLY: sessions are shared, and nothing may stay in them."""

import asyncio
import os
import signal

import psycopg
import pytest

from fastq import AsyncClient, Client, Config
from fastq.schema.migrate import migrate
from tests.helpers import execute, wait_for
from tests.pgbouncer import leftovers, pgbouncer
from tests.process.jobs import AsyncNap, Nap, Outcome, Patient

pytestmark = [pytest.mark.process, pytest.mark.further]


@pytest.fixture
def pooled(database, tmp_path):
    """Give the URL of the test's database through a pooler."""
    with pgbouncer(database, tmp_path) as through:
        yield through


@pytest.fixture
def work(supervise, pooled):
    """Give a function that starts a supervisor behind the pooler and waits for its processes."""

    def start(**settings):
        shared = {"database_url": pooled, "poll_only": "true", "poll_interval": 0.2}
        supervisor = supervise(ready=False, **shared, **settings)  # a session's name tells nothing here
        wait_for(lambda: len(supervisor.workers) == supervisor.procs, 20, "the worker processes")
        return supervisor

    return start


def test_jobs_enqueued_and_worked_through_a_transaction_pool_end_as_they_should(work, jobs, pooled):
    supervisor = work(procs=2)
    config = Config(database_url=pooled, poll_only=True)

    async def enqueue_async():
        async with AsyncClient(config=config) as client:
            return await client.enqueue_many([AsyncNap(0.01)] * 10)

    with Client(config=config) as client:
        ids = [client.enqueue(Nap(0.01)) for _ in range(10)] + client.enqueue_many([Nap()] * 100)
        ids += asyncio.run(enqueue_async())
        assert client.enqueue_copy(Nap() for _ in range(500)) == 500
        later = client.enqueue(Nap(), delay=0.5)
        fates = {what: client.enqueue(Outcome(what)) for what in ("value", "cancel", "raise soon", "snooze")}
        with psycopg.connect(pooled, prepare_threshold=None) as conn:
            client.enqueue(Nap(), conn=conn)
            conn.rollback()
            kept = client.enqueue(Nap(), conn=conn)
    for what, state in (("value", "completed"), ("cancel", "cancelled"), ("snooze", "completed")):
        jobs.wait_for(fates[what], state)
    wait_for(lambda: jobs.fate(fates["raise soon"]).attempt > 1, 10, "a second attempt")
    jobs.execute("update fastq.job set cancel_requested = true where id = %s", fates["raise soon"])
    jobs.wait_until_none_is_left()

    assert {jobs.fate(id_).state for id_ in [*ids, later, kept]} == {"completed"}
    assert sum(jobs.counts().values()) == len(ids) + 500 + 1 + 4 + 1
    assert leftovers(pooled) == set()
    assert supervisor.stop()[0] == 0
    for text in ("waits", "ownership.lost", "process.died"):
        assert text not in supervisor.said


def test_the_jobs_of_a_process_that_is_killed_behind_a_pooler_run_again(work, jobs, pooled):
    supervisor = work(queues="default=4")
    with Client(config=Config(database_url=pooled, poll_only=True)) as client:
        patient = client.enqueue_many([Patient(30, later=0.01)] * 4)
        waiting = client.enqueue_many([Nap(0.01)] * 50)
    jobs.wait_until_told("start", times=4)

    os.kill(supervisor.workers[0], signal.SIGKILL)
    jobs.wait_until_none_is_left()

    fates = [jobs.fate(id_) for id_ in patient]
    assert [(fate.state, fate.attempt, fate.crashes) for fate in fates] == [("completed", 2, 1)] * 4
    assert {(jobs.fate(id_).state, jobs.fate(id_).attempt) for id_ in waiting} == {("completed", 1)}
    assert len(jobs.told("start")) == 2 * len(patient) + len(waiting)
    assert leftovers(pooled) == set()
    assert supervisor.stop()[0] == 0


def test_a_schema_is_migrated_through_a_transaction_pool(empty_database, tmp_path):
    with pgbouncer(empty_database, tmp_path) as through:
        assert migrate(through) != []
        assert migrate(through) == []
        assert leftovers(through) == set()

    assert execute(empty_database, "select count(*) from fastq.job") == [(0,)]


def test_what_a_session_leaves_behind_would_be_seen(pooled):
    with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as conn:
        conn.execute("set statement_timeout = '7s'")
        conn.execute("listen somewhere")
        conn.execute("select pg_advisory_lock(7)")
        conn.execute("prepare ours as select 1")

    assert leftovers(pooled) >= {"setting statement_timeout = 7000", "listens to somewhere", "holds advisory lock"}
