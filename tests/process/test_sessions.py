"""A session of SQLAlchemy's for each job: committed when the work returns, rolled back when it raises, seen by that job alone."""

import pytest
import sqlalchemy

from fastq.errors import OptionError
from fastq.integrations.orm import AsyncSessionPerJob, SessionPerJob

APP = "tests.process.sessions:registry"
BOTH = pytest.mark.parametrize("kind", ["write", "async_write"])

pytestmark = [pytest.mark.process, pytest.mark.further]


@pytest.fixture
def written(supervise, jobs):
    """Start a worker of the application; give a function that returns the jobs whose rows were committed."""
    jobs.execute("create table written (job bigint)")
    supervise(APP)
    return lambda: {job for (job,) in jobs.execute("select job from written")}


@BOTH
def test_what_a_job_writes_is_committed_before_the_job_has_ended(kind, jobs, written):
    ids = jobs.add_all(kind, [{}] * 20)
    for id_ in ids:
        jobs.wait_for(id_, "completed")
        assert id_ in written()


@BOTH
def test_what_a_job_writes_before_it_raises_is_rolled_back_and_the_error_is_its_own(kind, jobs, written):
    id_ = jobs.add(kind, what="raise", max_attempts=1)

    assert jobs.wait_for(id_, "discarded").errors[-1]["error"] == "ValueError: raised behind a statement"
    assert written() == set()


@BOTH
def test_what_a_job_writes_before_it_returns_a_decision_is_committed(kind, jobs, written):
    id_ = jobs.add(kind, what="discard")

    jobs.wait_for(id_, "discarded")
    assert written() == {id_}


@BOTH
def test_jobs_side_by_side_have_sessions_of_their_own_and_none_takes_a_connection_that_it_does_not_use(kind, jobs, written):
    for id_ in jobs.add_all(kind, [{"what": "nothing"}] * 30):
        jobs.wait_for(id_, "completed")

    assert len(jobs.told()) == 30
    begun = "select count(*) from pg_stat_activity where datname = current_database() and query like 'BEGIN%' and state <> 'idle'"
    assert jobs.execute(begun) == [(0,)]


def test_the_jobs_of_one_call_of_a_batch_worker_share_a_session(jobs, written):
    ids = jobs.add_all("write_many", [{}] * 10)
    for id_ in ids:
        jobs.wait_for(id_, "completed")

    assert written() == set(ids)


def test_a_session_of_the_other_form_is_missing_and_the_error_tells_which_form_it_is_for(jobs, written):
    id_ = jobs.add("wrong", max_attempts=1)

    error = jobs.wait_for(id_, "discarded").errors[-1]["error"]
    assert error.startswith("RuntimeError: SessionPerJob.session: expected to be called by the work of a job, got no session")
    assert "for each 'def work'" in error


@pytest.mark.parametrize("hook", [SessionPerJob, AsyncSessionPerJob])
def test_an_engine_or_a_session_in_the_place_of_a_maker_is_refused_with_the_line_to_write(hook):
    with pytest.raises(OptionError, match=f"expected a function that makes a session; write {hook.__name__}"):
        hook(sqlalchemy.create_engine("postgresql+psycopg://"))
