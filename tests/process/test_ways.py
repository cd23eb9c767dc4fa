"""Each way of executing, in both forms, comes to the same ends: a table of what jobs do, and of what becomes of them."""

from datetime import UTC, datetime

import pytest

from fastq import Client
from tests.helpers import wait_for
from tests.process.ways import WAYS, registry

pytestmark = [pytest.mark.process, pytest.mark.further]

APP = "tests.process.ways:registry"
PAST = datetime(2020, 1, 1, tzinfo=UTC)

ENDS = {  # what a job does -> its state, attempt, and a word of its last error
    "nothing": ("completed", 1, ""),
    "value": ("completed", 1, ""),
    "fail once": ("completed", 2, "ValueError: once"),
    "fail": ("discarded", 2, "ValueError: fail"),
    "decide": ("discarded", 1, "decided"),
    "discard": ("discarded", 1, "no use"),
    "cancel": ("cancelled", 1, ""),
    "snooze": ("scheduled", 0, ""),
    "retry": ("retryable", 1, ""),
    "late": ("discarded", 2, "JobTimeout: took longer than 2 s"),
    "progress": ("completed", 1, ""),
    "transaction": ("completed", 1, ""),
}


def found(jobs, id_):
    """Return the state of a job, its attempt, and its last error."""
    fate = jobs.fate(id_)
    return fate.state, fate.attempt, str(fate.errors[-1]["error"]) if fate.errors else ""


@pytest.mark.parametrize("way", WAYS)
def test_what_a_job_does_has_the_same_end_whatever_executes_it(supervise, jobs, way):
    jobs.execute("create table effect (job bigint)")
    with Client(jobs.url) as client:
        ids = {what: jobs.add(way, what=what, max_attempts=2) for what in ENDS}
        supervise(APP, queues="default=4")

        for what, (state, attempt, error) in ENDS.items():
            jobs.wait_for(ids[what], state, timeout=20)
            got = found(jobs, ids[what])
            assert got[:2] == (state, attempt), what
            assert error in got[2], what
        assert jobs.fate(ids["value"]).output == {"kind": way}
        assert jobs.fate(ids["transaction"]).output == "paid"
        assert jobs.execute("select job from effect") == [(ids["transaction"],)]
        assert client.progress(ids["progress"]).fraction == 0.5
        assert {line.id for line in jobs.told("hook")} >= set(ids.values())


@pytest.mark.parametrize("way", WAYS)
def test_a_job_under_a_former_name_of_its_kind_is_executed_beside_the_others(supervise, jobs, way):
    ids = [jobs.add(name, what="value") for name in (f"former_{way}", way, f"former_{way}")]
    supervise(APP)

    assert [jobs.wait_for(id_, "completed", "retryable", timeout=20).attempt for id_ in ids] == [1, 1, 1]
    assert [jobs.fate(id_).state for id_ in ids] == ["completed"] * 3


@pytest.mark.parametrize("way", WAYS)
def test_a_running_job_is_cancelled_whatever_executes_it(supervise, jobs, way):
    supervise(APP)
    id_ = jobs.add(way, what="cancelled", max_attempts=1)
    jobs.wait_until_told("start", id_)

    with Client(jobs.url) as client:
        client.cancel(id_)

    assert jobs.wait_for(id_, "cancelled", "discarded", timeout=20).state == "cancelled"


@pytest.mark.parametrize("way", WAYS)
def test_a_job_that_outlasts_the_shutdown_timeout_is_handed_back_uncharged_whatever_executes_it(supervise, jobs, way):
    supervisor = supervise(APP, shutdown_timeout=0.2)
    id_ = jobs.add(way, what="stop")
    jobs.wait_until_told("start", id_)

    code, _ = supervisor.stop()

    assert code == 0
    assert found(jobs, id_)[:2] == ("available", 0)


@pytest.mark.parametrize("way", WAYS)
def test_a_job_whose_process_dies_is_tried_again_whatever_executes_it(supervise, jobs, way):
    supervise(APP)
    id_ = jobs.add(way, what="die", max_attempts=2)

    fate = jobs.wait_for(id_, "completed", "discarded", timeout=20)

    assert (fate.state, fate.attempt) == ("completed", 2)
    assert "died" in str(fate.errors[0]["error"])


@pytest.mark.parametrize("way", [way for way in WAYS if "batch" not in way])
def test_a_step_is_done_whatever_executes_a_job_alone(supervise, jobs, way):
    supervise(APP)

    assert jobs.wait_for(jobs.add(way, what="step"), "completed").output == 2


@pytest.mark.parametrize("way", [way for way in WAYS if "batch" in way])
def test_a_step_fails_with_a_word_about_it_where_jobs_come_together(supervise, jobs, way):
    supervise(APP)
    id_ = jobs.add(way, what="step", max_attempts=1)

    assert "has no steps" in jobs.wait_for(id_, "discarded").errors[0]["error"]


@pytest.mark.parametrize("way", WAYS)
def test_an_expired_job_does_not_start_whatever_would_execute_it(supervise, jobs, way):
    args = registry.workers[way].kind.type(what="value")
    with Client(jobs.url) as client:
        expired, kept = client.enqueue(args, expires=PAST), client.enqueue(args)
        supervise(APP)
        wait_for(lambda: jobs.fate(kept).state == "completed", 20)

    assert jobs.wait_for(expired, "cancelled").attempt == 0
    assert expired not in {line.id for line in jobs.told()}
