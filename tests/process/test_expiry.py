"""Jobs that expire, have a deadline, or are tried for a time: in a real `fastq run`, in both modes."""

from datetime import UTC, datetime, timedelta

import pytest

from fastq import Client, Enqueue
from tests.helpers import wait_for
from tests.process.timely import (
    AsyncEndless,
    AsyncFailing,
    AsyncHeld,
    Endless,
    Failing,
    Held,
)

pytestmark = [pytest.mark.process, pytest.mark.further]

APP = "tests.process.timely:registry"
SOON = 3  # s from the enqueueing: the jobs are claimed by then, also where the machine is busy


@pytest.fixture
def client(jobs):
    with Client(jobs.url) as opened:
        yield opened


def wait_for_end(client, job_id, timeout=15.0):
    """Wait until a job has ended; return its detail."""

    def ended():
        detail = client.get(job_id)
        return detail if detail is not None and detail.finalized_at is not None else None

    return wait_for(ended, timeout, f"the end of job {job_id}")


@pytest.mark.parametrize("kind", [Held, AsyncHeld])
def test_a_job_that_expires_while_its_process_has_it_does_not_start(supervise, jobs, client, tmp_path, kind):
    """It is claimed and lies in the inbox behind one that holds the only slot: the claim came in time, the start does not."""
    gate, open_ = tmp_path / "gate", tmp_path / "open"
    open_.touch()
    supervisor = supervise(APP, queues="default=1")
    client.enqueue_many([kind(str(open_))] * 2_000)  # from now on it expects jobs to take no time, and claims many at once
    jobs.wait_until_none_is_left()
    soon = datetime.now(UTC) + timedelta(seconds=SOON)
    items = [{}, {"expires": SOON}, {"deadline": soon}, {"expires": 600}]
    first, late, by, timely = client.enqueue_many(Enqueue(kind(str(gate)), **options) for options in items)
    jobs.wait_until_told("start", first)
    wait_for(lambda: {client.get(job_id).state for job_id in (late, by, timely)} == {"running"}, what="all to be claimed")
    passed = "select clock_timestamp() > greatest(%s, created_at + make_interval(secs => %s)) from fastq.job where id = %s"
    wait_for(lambda: jobs.execute(passed, soon, SOON, late) == [(True,)], what="the moment to pass")

    gate.touch()

    expired, missed = wait_for_end(client, late), wait_for_end(client, by)
    assert (expired.state, expired.cause, expired.attempt, expired.errors) == ("cancelled", "expired", 0, [])
    assert (missed.state, missed.cause, missed.attempt, missed.errors) == ("cancelled", "deadline", 0, [])
    assert wait_for_end(client, timely).state == "completed"
    assert {line.id for line in jobs.told("start") if line.id >= first} == {first, timely}
    assert "by the time at which it expired" in client.why(late)
    supervisor.wait_until_it_says(f"jobs.expired queue=default kind={kind.__fastq_kind__.name} cause=expired count=")


@pytest.mark.parametrize("kind", [Endless, AsyncEndless])
def test_an_attempt_is_interrupted_at_the_jobs_deadline_and_the_job_is_discarded(supervise, jobs, client, kind):
    supervise(APP)
    job_id = client.enqueue(kind(), deadline=1.5)

    ended = wait_for_end(client, job_id)

    assert (ended.state, ended.cause, ended.attempt) == ("discarded", "deadline", 1)
    assert "JobTimeout: took longer than" in ended.errors[0]["error"]
    assert ended.deadline == ended.created_at + timedelta(seconds=1.5)
    assert ended.finalized_at > ended.deadline
    assert jobs.told("start", job_id)


@pytest.mark.parametrize("kind", [Failing, AsyncFailing])
def test_no_attempt_is_planned_for_a_time_behind_the_deadline(supervise, client, kind):
    supervisor = supervise(APP)
    within, beyond = client.enqueue(kind(0.01), deadline=600, max_attempts=2), client.enqueue(kind(700.0), deadline=600)

    assert [wait_for_end(client, job_id).cause for job_id in (within, beyond)] == ["failed", "deadline"]
    assert (client.get(within).attempt, client.get(beyond).attempt) == (2, 1)
    assert client.get(beyond).state == "discarded"
    assert "its deadline left no time" in client.why(beyond)
    supervisor.wait_until_it_says(f"job.discarded id={beyond}")


@pytest.mark.parametrize("kind", [Failing, AsyncFailing])
def test_a_job_is_tried_as_often_as_its_time_allows(supervise, jobs, client, kind):
    supervise(APP)
    job_id = client.enqueue(kind(0.0), keep_trying_for=1)
    none = client.enqueue(kind(60.0), keep_trying_for=1)

    ended, once = wait_for_end(client, job_id), wait_for_end(client, none)

    assert (ended.state, ended.cause, once.state, once.attempt) == ("discarded", "failed", "discarded", 1)
    assert ended.attempt > 1
    assert ended.max_attempts == 32_767, "in place of 25"
    assert ended.finalized_at > ended.created_at + timedelta(seconds=1)
    assert len(jobs.told("start", job_id)) == ended.attempt


@pytest.mark.parametrize("kind", [Held, AsyncHeld])
def test_a_job_that_had_expired_runs_when_an_operator_asks_for_it(supervise, jobs, client, tmp_path, kind):
    (tmp_path / "gate").touch()
    supervise(APP)
    job_id = client.enqueue(kind(str(tmp_path / "gate")), expires=datetime(2026, 1, 1, tzinfo=UTC))
    assert wait_for_end(client, job_id).cause == "expired"

    assert client.retry(job_id)

    wait_for(lambda: client.get(job_id).state == "completed", what="the job to complete")
    assert (client.get(job_id).attempt, client.get(job_id).expires) == (1, None)
