"""Jobs that use Django: its connections are looked after between jobs, as they are between requests."""

import psycopg
import pytest

from fastq.work.shared import called, django_jobs
from tests.helpers import wait_for
from tests.process.jobs import NapWorker

APP = "tests.process.shop:registry"
KINDS = ["ask", "async_ask"]
SLOTS = 4  # of the queue `default`: at most so many connections
SHOPS = "select count(*) from pg_stat_activity where application_name = 'shop' and datname = current_database()"
CUT = SHOPS.replace("count(*)", "pg_terminate_backend(pid)")

pytestmark = [pytest.mark.process, pytest.mark.further]


def answers(jobs, ids):
    """Wait for jobs and return the sessions that answered them."""
    for id_ in ids:
        jobs.wait_for(id_, "completed", "discarded")
    return {line.what for line in jobs.told() if line.id in ids and line.what.startswith("answered")}


def cut(jobs):
    """End all sessions of Django's."""
    jobs.execute(CUT)
    wait_for(lambda: jobs.execute(SHOPS) == [(0,)], 10, "the end of the sessions")


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_was_cut_between_jobs_costs_none_of_them_where_django_checks_its_health(
    kind, supervise, jobs, monkeypatch
):
    monkeypatch.setenv("SHOP_MAX_AGE", "none")
    monkeypatch.setenv("SHOP_HEALTH_CHECKS", "1")
    supervise(APP)
    before = answers(jobs, jobs.add_all(kind, [{}] * 20, max_attempts=1))
    assert jobs.execute(SHOPS) == [(len(before),)]  # kept, for the next jobs

    cut(jobs)
    after = answers(jobs, jobs.add_all(kind, [{}] * 50, max_attempts=1))

    assert jobs.counts() == {"completed": 70}
    assert not before & after


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_was_cut_costs_one_attempt_where_django_does_not_check(kind, supervise, jobs, monkeypatch):
    monkeypatch.setenv("SHOP_MAX_AGE", "none")
    supervise(APP)
    answers(jobs, jobs.add_all(kind, [{"sql": "select pg_sleep(0.1)"}] * SLOTS, max_attempts=1))
    [(connections,)] = jobs.execute(SHOPS)

    cut(jobs)
    answers(jobs, jobs.add_all(kind, [{}] * 50, max_attempts=1))

    assert jobs.counts().get("discarded", 0) <= connections <= SLOTS


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_is_closed_after_each_job_by_default(kind, supervise, jobs):
    supervise(APP)
    ids = jobs.add_all(kind, [{}] * 10)

    assert len(answers(jobs, ids)) == len(ids)
    wait_for(lambda: jobs.execute(SHOPS) == [(0,)], 10, "the end of the sessions")


def test_an_async_job_keeps_its_connection_and_its_thread_to_itself_until_it_ends(supervise, jobs):
    supervise(APP)
    with psycopg.connect(jobs.url, autocommit=True) as holding:
        holding.execute("select pg_advisory_lock(1)")
        slow = jobs.add("async_ask", sql="select pg_advisory_xact_lock(1)::text")
        waits = jobs.add("wait")
        jobs.wait_until_told("waits", waits)
        quick = jobs.add("async_ask")

        assert jobs.wait_for(quick, "completed")
        assert jobs.wait_until_told("same", waits)
        assert jobs.fate(slow).state == "running"

    jobs.wait_for(slow, "completed")


def test_a_job_that_forks_keeps_its_connection(supervise, jobs):
    supervise(APP)
    id_ = jobs.add("fork", max_attempts=1)

    assert jobs.wait_for(id_, "completed", "discarded").errors == []
    assert jobs.told("same", id_)


def test_the_trace_of_a_job_that_django_fails_begins_in_its_work(supervise, jobs):
    supervise(APP)
    for kind in KINDS:
        fate = jobs.wait_for(jobs.add(kind, sql="select", max_attempts=1), "discarded")

        assert fate.errors[0]["trace"].splitlines()[1].endswith("in work"), fate.errors[0]["trace"]


def test_an_application_without_django_runs_work_itself(monkeypatch):
    for module in ("django.conf", called.CURRENT):
        monkeypatch.delitem(django_jobs.sys.modules, module, raising=False)
    worker = NapWorker()

    assert called.call_of(worker) == worker.work
