"""Jobs that end in ways that nobody expects cost themselves an attempt, and nobody else anything."""

import os

import pytest

from tests.helpers import create_database, drop_database, wait_for
from tests.process.conftest import Jobs, supervising

pytestmark = pytest.mark.process

RAISED = {  # what is raised and what is kept of it
    "syntax": "SyntaxError: no line like that (file, line 1)",
    "mute": "Mute: (its text could not be made: KeyboardInterrupt)",
    "notes": "ValueError: with notes",
}


@pytest.fixture(scope="module")
def jobs(server, migrated_template, tmp_path_factory):
    """Give one database to all tests of this file."""
    name = f"fastq_test_{os.getpid()}_odd_outcomes"
    made = Jobs(create_database(server, name, migrated_template), tmp_path_factory.mktemp("odd"))
    yield made
    made.connection.close()
    drop_database(server, name)


@pytest.fixture(scope="module")
def supervisor(jobs, tmp_path_factory):
    """Give one process with one slot: whoever keeps it, or ends its process, is seen by all that follow."""
    with supervising(jobs, tmp_path_factory.mktemp("supervisors")) as start:
        started = start("tests.process.odd:registry", queues="default=1")
        (pid,) = started.workers
        yield started
        assert started.workers == [pid]
        assert started.stop()[0] == 0, started.said
        assert "process.died" not in started.said


@pytest.mark.parametrize("kind", ["odd", "async_odd"])
def test_an_error_that_cannot_be_written_fails_its_job_and_keeps_no_slot(supervisor, jobs, kind):
    for what, error in RAISED.items():
        fate = jobs.wait_for(jobs.add(kind, what=what), "retryable")
        assert fate.errors[0]["error"] == error
        assert "in misbehave" in fate.errors[0]["trace"]
        for line in fate.errors[0]["trace"].splitlines():
            assert f"\n    {line}\n" in supervisor.said
    assert jobs.wait_for(jobs.add(kind, what="nothing"), "completed").attempt == 1


@pytest.mark.parametrize("kind", ["odd", "async_odd"])
def test_a_value_that_is_no_text_is_dropped_and_its_job_is_done(supervisor, jobs, kind):
    assert jobs.wait_for(jobs.add(kind, what="raw"), "completed").output is None
    assert jobs.wait_for(jobs.add(kind, what="nothing"), "completed").attempt == 1


def test_a_coroutine_or_generator_that_nobody_runs_fails_the_attempt(supervisor, jobs):
    wrapped = jobs.add("wrapped")
    for id_, name in ((wrapped, "coroutine"), (jobs.add("odd", what="generator"), "generator")):
        fate = jobs.wait_for(id_, "retryable")
        assert fate.errors[0]["error"].startswith(f"TypeError: work returned a {name}, which nobody runs")
    assert "never awaited" not in supervisor.said


def test_a_worker_without_archive_leaves_no_row_whatever_it_returns(supervisor, jobs):
    id_ = jobs.add("forgotten")

    wait_for(lambda: jobs.execute("select from fastq.job where id = %s", id_) == [], what="the end of the job")
    assert jobs.execute("select state, output from fastq.job_archive where id = %s", id_) == []
    assert "ownership.lost" not in supervisor.said
