"""What an attempt comes to: what `work` returned or raised, and what is kept of it."""

import json
import os

import pytest

from tests.helpers import Stopwatch, create_database, drop_database
from tests.process.conftest import Jobs, supervising

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def jobs(server, migrated_template, tmp_path_factory):
    """Give one database to all tests of this file."""
    name = f"fastq_test_{os.getpid()}_outcomes"
    made = Jobs(create_database(server, name, migrated_template), tmp_path_factory.mktemp("outcomes"))
    yield made
    made.connection.close()
    drop_database(server, name)


@pytest.fixture(scope="module")
def supervise(jobs, tmp_path_factory):
    with supervising(jobs, tmp_path_factory.mktemp("supervisors")) as start:
        yield start


@pytest.fixture(scope="module")
def supervisor(supervise, jobs):
    """Give one supervisor to all of them: whatever a job does, the process is as good as new for the next."""
    started = supervise()
    yield started
    assert started.stop()[0] == 0
    assert "process.died" not in started.said
    assert len({line.pid for line in jobs.told() if line.queue == "default"}) == 1


@pytest.fixture
def run(supervisor, jobs):
    """Give a function that has a job of the kind 'outcome' worked and returns what became of it."""

    def run_one(what, *states, **options):
        return jobs.wait_for(jobs.add("outcome", what=what, **options), *states)

    yield run_one
    assert jobs.wait_for(jobs.add("nap"), "completed").attempt == 1


def test_what_is_returned_becomes_the_output_if_it_is_json(run, supervisor):
    nothing = run("none", "completed")
    assert (nothing.output, nothing.attempt, nothing.errors) == (None, 1, [])
    assert run("value", "completed").output == {"sum": 3}
    assert run("set", "completed").output == ["2026-01-01T00:00:00Z"]
    assert run("nul", "completed").output == "a\ufffdb"
    assert run("escape", "completed").output == "\\u0000 \ufffd"  # six characters that only look like an escape, and NUL
    assert run("no json", "completed").output is None
    assert run("large", "completed").output is None
    assert supervisor.said.count("output.dropped") == 2


def test_what_is_raised_is_recorded_and_the_worker_says_how_long_to_wait(run, jobs):
    failed = run("raise soon", "retryable", "available", "running", "discarded")
    assert failed.max_attempts == 25

    last = run("raise soon", "discarded", max_attempts=3)
    assert last.attempt == 3
    assert [error["attempt"] for error in last.errors] == [1, 2, 3]
    assert {error["error"] for error in last.errors} == {"ValueError: raise soon"}
    trace = last.errors[0]["trace"]
    assert trace.startswith("Traceback")
    assert 'raise ValueError({"raise nul"' in trace
    assert "work/execute/" not in trace
    assert "work/shared/" not in trace


def test_an_error_is_capped_and_cleaned_of_what_postgres_cannot_store(run):
    assert run("raise nul", "retryable").errors[0]["error"] == "ValueError: a\ufffdb"
    assert run("raise surrogate", "retryable").errors[0]["error"] == "ValueError: a\ufffdb"
    long = run("raise long", "retryable").errors[0]
    assert len(json.dumps(long)) < 40_000
    assert "characters left out" in long["error"]
    assert run("raise mute", "retryable").errors[0]["error"] == "Mute: (its text could not be made: AttributeError)"


def test_a_retry_delay_that_makes_no_sense_is_replaced_and_told(run, jobs):
    watch = Stopwatch()
    for what in ("raise bad delay", "raise nan delay", "raise exit delay"):
        id_ = jobs.add("outcome", what=what, max_attempts=2)
        fate = jobs.wait_for(id_, "retryable")

        ((wait,),) = jobs.execute(
            "select extract(epoch from scheduled_at - attempted_at)::float8 from fastq.job where id = %s", id_
        )
        assert 0.9 <= wait < 2 + watch.busy()
        assert "so the default applies" in fate.errors[0]["trace"]


def test_a_snoozed_job_runs_again_and_no_attempt_is_spent(run, jobs):
    id_ = jobs.add("outcome", what="snooze", max_attempts=1)
    fate = jobs.wait_for(id_, "completed")

    assert fate.attempt == 1
    assert fate.errors == []
    first, second = jobs.told("start", id_)
    assert (first.attempt, second.attempt) == (1, 1)
    assert second.at - first.at >= 0.1


def test_a_job_that_cancels_itself_ends_with_its_reason(run):
    fate = run("cancel", "cancelled")

    assert fate.attempt == 1
    assert [error["error"] for error in fate.errors] == ["cancelled: not needed"]


def test_what_is_raised_outside_exception_fails_the_job_and_nothing_else(run):
    assert run("system exit", "retryable").errors[0]["error"] == "SystemExit: 3"
    assert run("interrupt", "retryable").errors[0]["error"].startswith("KeyboardInterrupt")
    assert run("generator exit", "retryable").errors[0]["error"].startswith("GeneratorExit")


def test_a_last_attempt_that_fails_is_discarded_whatever_the_delay(run):
    fate = run("raise", "discarded", max_attempts=1)

    assert fate.attempt == 1
    assert [error["error"] for error in fate.errors] == ["ValueError: raise"]


def test_args_that_do_not_decode_fail_their_job_alone_and_name_the_field(run, jobs):
    before = jobs.add_all("nap", [{}] * 5, wake=False)
    bad = [
        jobs.add("nap", words=["fine", 3], wake=False),
        jobs.add("nap", seconds="soon", wake=False),
        jobs.add("outcome", wake=False),
        jobs.add_all("nap", [[1, 2]], wake=False)[0],
    ]
    after = jobs.add_all("nap", [{}] * 5)

    errors = [jobs.wait_for(id_, "retryable", "discarded").errors[0]["error"] for id_ in bad]
    for id_ in before + after:
        assert jobs.wait_for(id_, "completed").attempt == 1
    for error, field in zip(errors, ["words[1]", "seconds", "what"], strict=False):
        assert f"'{field}'" in error
        assert error.startswith("ArgsError: args of kind '")
        assert "position" not in error  # a row of a claim that nobody else sees
    assert {jobs.fate(id_).attempt for id_ in bad} == {1}
    assert {line.id for line in jobs.told("start")} & {*before, *bad, *after} == {*before, *after}


def test_args_that_never_decode_are_discarded_after_the_last_attempt(run, jobs):
    fate = jobs.wait_for(jobs.add("nap", seconds="soon", max_attempts=1), "discarded")

    assert fate.attempt == 1
    assert "'seconds'" in fate.errors[0]["error"]
