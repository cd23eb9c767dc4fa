"""Giving a job back to be run again: when, whether its attempt counts, and what is remembered."""

import pytest

from tests.db.jobs import CHANNEL, ERROR, add, archived, claim, claim_number, claimed_ids, living

MINE = claim_number(1, 1)


def retry(connection, ids, *, delay=0.0, charged=True, error=ERROR, claims=None):
    """Retry and return how many rows were still ours."""
    many = len(ids)
    return connection.run_one(
        "job_retry", ids, claims or [MINE] * many, [delay] * many, [charged] * many, [error] * many, CHANNEL
    )[0]


@pytest.fixture
def job(connection):
    """Give the id of a job in its second attempt."""
    (job_id,) = add(connection, attempt=1)
    claim(connection, MINE)
    return job_id


def test_without_delay_it_is_available_at_once_with_a_new_seq(connection, job):
    before = living(connection, job)

    assert retry(connection, [job], delay=0.0) == 1

    row = living(connection, job)
    assert (row["state"], row["claim"], row["scheduled_at"], row["attempt"]) == ("available", None, None, 2)
    assert row["seq"] > before["seq"]
    assert claimed_ids(connection) == [job]


@pytest.mark.parametrize(("charged", "state", "attempt"), [(True, "retryable", 2), (False, "scheduled", 1)])
def test_with_a_delay_it_waits_and_its_attempt_counts_only_when_charged(connection, job, charged, state, attempt):
    assert retry(connection, [job], delay=30.0, charged=charged) == 1

    row = living(connection, job)
    assert (row["state"], row["attempt"], row["seq"], row["claim"]) == (state, attempt, None, None)
    assert connection.execute("select $1 - clock_timestamp() between '29 s' and '30 s'", row["scheduled_at"]) == [(True,)]
    assert claim(connection) == []


def test_a_negative_delay_is_none(connection, job):
    retry(connection, [job], delay=-5.0, charged=False)

    assert (living(connection, job)["state"], living(connection, job)["attempt"]) == ("available", 1)


def test_errors_are_appended_with_attempt_and_time(connection, job):
    attempted_at = living(connection, job)["attempted_at"]
    retry(connection, [job], error='{"error": "one"}')
    claim(connection, MINE)
    retry(connection, [job], error='{"error": "two"}')

    errors = living(connection, job)["errors"]
    assert [(e["error"], e["attempt"]) for e in errors] == [("one", 2), ("two", 3)]
    assert connection.execute("select $1::text::timestamptz = $2", errors[0]["at"], attempted_at) == [(True,)]


def test_a_snooze_without_error_leaves_the_errors_as_they_are(connection, job):
    retry(connection, [job], error=None, charged=False, delay=1.0)

    assert living(connection, job)["errors"] is None


@pytest.mark.parametrize("delay", [0.0, 30.0])
def test_a_job_whose_cancellation_was_asked_for_ends_cancelled(connection, job, delay):
    connection.execute("update fastq.job set cancel_requested = true where id = $1", job)

    assert retry(connection, [job], delay=delay) == 1

    row = archived(connection, job)
    assert (row["state"], row["attempt"], [e["error"] for e in row["errors"]]) == ("cancelled", 2, ["boom"])
    assert living(connection, job) is None


def test_only_jobs_that_are_still_ours_change(connection):
    ours, theirs, released, ended = add(connection, 4)
    claim(connection, MINE)
    connection.execute("update fastq.job set claim = $1 where id = $2", claim_number(2, 1), theirs)
    connection.run("job_release", [released], [MINE], CHANNEL)
    connection.run("job_complete_archive", [ended], [MINE])

    assert retry(connection, [ours, theirs, released, ended], delay=30.0) == 1
    assert living(connection, theirs)["state"] == "running"
    assert living(connection, released)["state"] == "available"


def test_each_job_has_its_own_delay_and_charge(connection):
    ids = add(connection, 3)
    claim(connection, MINE)

    connection.run("job_retry", ids, [MINE] * 3, [0.0, 5.0, 5.0], [True, True, False], [None] * 3, CHANNEL)

    assert [living(connection, job_id)["state"] for job_id in ids] == ["available", "retryable", "scheduled"]
    assert [living(connection, job_id)["attempt"] for job_id in ids] == [1, 1, 0]


def test_it_wakes_the_queue_for_what_is_available_and_the_maintainer_for_what_is_due_later(connection, other):
    ids = add(connection, 2, queue="emails")
    claim(connection, MINE, queue="emails")
    other.listen(CHANNEL)

    connection.run("job_retry", ids, [MINE] * 2, [0.0, 5.0], [True] * 2, [None] * 2, CHANNEL)

    assert sorted(other.notifications(timeout=2.0)) == ["@due", "emails"]
