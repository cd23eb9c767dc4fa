"""Rescue: the jobs of hosts that are gone come back, and those of the living stay where they are."""

import pytest

from tests.db.jobs import CHANNEL, ERROR, add, archived, claim, count, living, token

GRACE = 60.0  # s that a process may be unknown
EXPIRED, ALIVE, UNKNOWN = 3, 4, 5  # numbers of processes


def rescue(connection, grace=GRACE):
    """Rescue; return the counts of expired processes, jobs available again and jobs ended."""
    return connection.run_one("job_rescue", grace, CHANNEL, ERROR)[:3]


def know(connection, process, expires_in):
    connection.execute(
        "insert into fastq.process (id, host, pid, supervisor, queues, expires_at) "
        "values ($1, 'h', 1, 'h:1:x', 'default', clock_timestamp() + make_interval(secs => $2))",
        process,
        float(expires_in),
    )


def running(connection, process, count=1, *, since=0.0, **columns):
    """Add jobs that a process claimed so many seconds ago."""
    ids = add(connection, count, **columns)
    claim(connection, token(process, 1))
    connection.execute(
        "update fastq.job set attempted_at = clock_timestamp() - make_interval(secs => $1) where id = any ($2)", since, ids
    )
    return ids


def test_rescue_gives_back_the_jobs_of_an_expired_process(connection):
    know(connection, EXPIRED, -1)
    (job_id,) = running(connection, EXPIRED, attempt=1)
    before = living(connection, job_id)

    assert rescue(connection) == (1, 1, 0)

    row = living(connection, job_id)
    assert (row["state"], row["claim"], row["attempt"], row["crashes"]) == ("available", None, 2, 0)
    assert row["seq"] > before["seq"]
    assert [(e["error"], e["attempt"]) for e in row["errors"]] == [("boom", 2)]
    assert count(connection, "process") == 0


def test_rescue_leaves_jobs_of_live_processes_alone(connection):
    know(connection, ALIVE, 10)
    know(connection, EXPIRED, -1)
    mine = running(connection, ALIVE, 2, since=10 * GRACE)
    running(connection, EXPIRED, 2)
    before = [living(connection, job_id) for job_id in mine]

    assert rescue(connection) == (1, 2, 0)
    assert [living(connection, job_id) for job_id in mine] == before


def test_rescue_waits_for_a_process_that_is_not_known_yet(connection):
    young = running(connection, UNKNOWN, since=GRACE / 2)
    old = running(connection, UNKNOWN, since=GRACE * 2)

    assert rescue(connection) == (0, 1, 0)
    assert living(connection, young[0])["state"] == "running"
    assert living(connection, old[0])["state"] == "available"


def test_rescue_gives_back_a_running_job_that_no_claim_owns(connection):
    (job_id,) = add(connection, state="running", attempt=1)

    assert rescue(connection) == (0, 1, 0)
    assert living(connection, job_id)["state"] == "available"


def test_rescue_ends_the_last_attempt_and_what_was_to_be_cancelled(connection):
    know(connection, EXPIRED, -1)
    (last,) = running(connection, EXPIRED, max_attempts=1)
    (unwanted,) = running(connection, EXPIRED, cancel_requested=True)

    assert rescue(connection) == (1, 0, 2)
    assert (archived(connection, last)["state"], archived(connection, last)["attempt"]) == ("discarded", 1)
    assert (archived(connection, unwanted)["state"]) == "cancelled"
    assert archived(connection, last)["errors"][0]["error"] == "boom"


def test_rescue_leaves_waiting_jobs_alone(connection):
    know(connection, EXPIRED, -1)
    ids = add(connection) + add(connection, state="scheduled", seq=None, scheduled_at="2100-01-01")

    assert rescue(connection) == (1, 0, 0)
    assert [living(connection, job_id)["state"] for job_id in ids] == ["available", "scheduled"]


def test_a_job_that_is_being_completed_is_left_to_its_completion(connection, other):
    know(connection, EXPIRED, -1)
    kept, free = running(connection, EXPIRED, 2)
    other.execute("begin")
    other.run("job_complete", [kept], [token(EXPIRED, 1)])
    connection.execute("set lock_timeout = '1ms'")

    assert rescue(connection) == (1, 1, 0)
    other.execute("rollback")
    assert (living(connection, kept)["state"], living(connection, free)["state"]) == ("running", "available")
    assert rescue(connection, grace=-1.0) == (0, 1, 0), "what was locked comes when the process has been unknown for a while"


@pytest.mark.parametrize("lasts", [0.5, 10.0])
def test_the_late_completion_of_a_rescued_job_changes_nothing(connection, lasts):
    know(connection, EXPIRED, -lasts)
    (job_id,) = running(connection, EXPIRED)
    rescue(connection)
    claim(connection, token(ALIVE, 1))

    connection.run("job_complete_archive", [job_id], [token(EXPIRED, 1)])

    assert living(connection, job_id)["claim"] == token(ALIVE, 1)
    assert count(connection, "job_archive") == 0
