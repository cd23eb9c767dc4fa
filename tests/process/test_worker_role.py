"""`fastq run` with the grants of a worker: whatever it does without leading, it may."""

import os
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.db.test_roles import GRANTS, PREFIX
from tests.helpers import wait_for

pytestmark = [pytest.mark.process, pytest.mark.further]

ROLE = f"{PREFIX}worker"


@pytest.fixture
def as_worker(jobs):
    """Give the database's URL for a role with the grants of a worker, and no others."""
    with psycopg.connect(jobs.url, autocommit=True) as owner:
        owner.execute(GRANTS["worker"])
        owner.execute(f"alter role {ROLE} login password 'worker'")
        parts = urlsplit(jobs.url)
        yield parts._replace(netloc=f"{ROLE}:worker@{parts.netloc.rpartition('@')[2]}").geturl()
        owner.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where usename = '{ROLE}'")
        wait_for(lambda: not owner.execute("select from pg_stat_activity where usename = %s", [ROLE]).fetchall(), 10.0)
        owner.execute(f"drop owned by {ROLE}; drop role {ROLE}")


def test_it_works_and_recovers_jobs_with_these_grants_alone(supervise, jobs, as_worker):
    supervisor = supervise(database_url=as_worker, lead="off", procs=1)
    done = jobs.add("nap")
    failing = jobs.add("outcome", what="raise", max_attempts=1)
    again = jobs.add("outcome", what="raise", max_attempts=2)
    snoozed = jobs.add("outcome", what="snooze")
    held = jobs.add("gated", gate=str(supervisor.log.parent / "gate"))
    unknown = jobs.add("no_such_kind")
    jobs.wait_until_told("start", held)

    assert jobs.wait_for(done, "completed")
    assert jobs.wait_for(failing, "discarded")
    assert jobs.wait_for(again, "retryable")
    assert jobs.wait_for(snoozed, "scheduled")
    assert jobs.wait_for(unknown, "waiting")
    os.kill(supervisor.workers[0], 9)
    (supervisor.log.parent / "gate").touch()
    assert jobs.wait_for(held, "completed", timeout=20.0).attempt == 2
    supervisor.stop()
    assert "permission denied" not in supervisor.said


def test_it_writes_the_logs_of_jobs_with_these_grants_alone(supervise, jobs, as_worker):
    supervisor = supervise("tests.process.told:registry", database_url=as_worker, lead="off", procs=1)
    jobs.add("retried")

    wait_for(lambda: jobs.execute("select sum(lines) from fastq.job_log where ended") == [(1,)], 20.0, "the log")
    supervisor.stop()
    assert "permission denied" not in supervisor.said


@pytest.mark.parametrize("app", ["tests.process.singletons:registry", "tests.process.test_periodic:registry"])
def test_it_runs_singletons_and_declares_periodic_jobs_with_these_grants_alone(app, supervise, jobs, as_worker):
    supervisor = supervise(app, ready=False, database_url=as_worker, lead="off", procs=1, shutdown_timeout=1)
    if "singletons" in app:
        jobs.wait_until_told("acted")
        assert jobs.execute("select count(*) > 0 from fastq.once") == [(True,)]
    else:
        wait_for(lambda: jobs.execute("select name from fastq.periodic") != [], 20.0, "the definitions")
        wait_for(lambda: supervisor.workers, 20.0, "the worker process")
    supervisor.stop()

    assert "permission denied" not in supervisor.said
