"""Pauses with real processes: a paused kind starts no more, in any of them, and goes on by itself or when it is resumed."""

import pytest

from fastq import admin
from fastq.config import Config
from tests.helpers import wait_for

pytestmark = pytest.mark.further


@pytest.fixture
def operator(jobs, database):
    """Give a connection as the CLI opens it."""
    opened = admin.connect(Config(), database)
    yield opened
    opened.close()


def states(jobs):
    return dict(jobs.execute("select kind || ' ' || state::text, count(*) from fastq.job group by 1"))


def started(jobs):
    return [line.id for line in jobs.told("start")]


def test_a_paused_kind_starts_no_more_in_any_process_and_goes_on_when_it_is_resumed(supervise, jobs, operator):
    supervisor = supervise(procs="2")
    jobs.wait_for(jobs.add("nap"), "completed")
    admin.pause(operator, {"kind": "nap"}, None, "the provider is down")
    wait_for(lambda: supervisor.said.count("kind.paused kinds=nap") == 2, 10.0, "both processes to know")
    before = started(jobs)

    naps = jobs.add_all("nap", [{}] * 300, max_attempts=1)
    other = jobs.add("async_nap")
    jobs.wait_for(other, "completed")
    wait_for(lambda: states(jobs) == {"nap waiting": 300}, 20.0, f"all to wait, not {states(jobs)}")

    assert set(started(jobs)) <= {*before, other}
    assert "kind.unknown" not in supervisor.said
    assert jobs.fate(naps[0]).attempt == 0
    assert admin.why_job(operator, naps[0]).endswith(": the provider is down")
    late = supervise(procs="1")  # it knows of the pause before its first claim
    wait_for(lambda: "kind.paused kinds=nap" in late.said, 10.0, "the new process to know")
    assert states(jobs) == {"nap waiting": 300}

    admin.resume(operator, {"kind": "nap"})
    jobs.wait_until_none_is_left()
    assert {jobs.fate(id_).attempt for id_ in naps[:5]} == {1}


def test_a_kind_and_everything_that_are_paused_until_a_time_go_on_by_themselves(supervise, jobs, operator):
    supervisor = supervise()
    jobs.wait_for(jobs.add("nap"), "completed")
    for target, subject in (({"everything": True}, "everything"), ({"kind": "nap"}, "\"kind 'nap'\"")):
        since = admin.pause(operator, target, 60.0)
        if "kind" in target:
            wait_for(lambda: "kind.paused kinds=nap" in supervisor.said, 10.0, "the process to know")
        job = jobs.add("nap")
        admin.pause(operator, target, 0.5)

        jobs.wait_for(job, "completed")
        (begun,) = jobs.execute("select attempted_at from fastq.job_archive where id = %s", job)[0]
        assert (begun - since).total_seconds() >= 0.5
        wait_for(lambda told=f"pause.ended subject={subject}": told in supervisor.said, 10.0, "the leader to tell of the end")


def test_without_notifications_a_pause_holds_and_ends_too(supervise, jobs, operator):
    supervisor = supervise(poll_only="on", poll_interval="0.05")
    jobs.wait_for(jobs.add("nap"), "completed")
    admin.pause(operator, {"kind": "nap"}, 1.0)
    wait_for(lambda: "kind.paused kinds=nap" in supervisor.said, 10.0, "the process to know")
    job = jobs.add("nap")
    jobs.wait_for(job, "completed")
    assert "kind.resumed kinds=nap" in supervisor.said
