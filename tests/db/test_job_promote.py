"""Promotion: what is due becomes available, a batch at a time, and the answer says when to come back."""

import pytest

from tests.db.jobs import CHANNEL, add, claimed_ids, living

DUE, LATER = "2000-01-01", "2100-01-01"


def promote(connection, limit=100):
    """Promote; return how many were and in how many seconds the next is due."""
    return connection.run_one("job_promote", limit, CHANNEL)[:2]


def add_waiting(connection, count=1, *, at=DUE, state="scheduled", **columns):
    return add(connection, count, state=state, scheduled_at=at, seq=None, **columns)


def test_what_is_due_becomes_available_and_the_rest_waits(connection):
    due = add_waiting(connection) + add_waiting(connection, state="retryable", attempt=3)
    later = add_waiting(connection, at=LATER)

    assert promote(connection)[0] == 2

    assert [(living(connection, job_id)["state"], living(connection, job_id)["scheduled_at"]) for job_id in due] == [
        ("available", None)
    ] * 2
    assert [living(connection, job_id)["attempt"] for job_id in due] == [0, 3]
    assert living(connection, later[0])["state"] == "scheduled"
    assert sorted(claimed_ids(connection)) == due


def test_what_is_promoted_lies_ahead_of_every_cursor(connection):
    (waiting,) = add_waiting(connection)
    frontier = living(connection, add(connection)[0])["seq"]

    promote(connection)

    assert claimed_ids(connection, after=(frontier,) * 4) == [waiting]


def test_a_batch_is_bounded_and_takes_what_was_due_first(connection):
    late = add_waiting(connection, 2, at="2001-01-01")
    early = add_waiting(connection, 2, at="2000-01-01")

    assert promote(connection, limit=3)[0] == 3
    assert [living(connection, job_id)["state"] for job_id in early] == ["available"] * 2
    assert sorted(living(connection, job_id)["state"] for job_id in late) == ["available", "scheduled"]
    assert promote(connection, limit=3)[0] == 1


@pytest.mark.parametrize(("ahead", "low", "high"), [("10 s", 9.0, 10.0), ("1 day", 86_390.0, 86_400.0)])
def test_the_answer_tells_when_the_next_one_is_due(connection, ahead, low, high):
    (at,) = connection.execute("select clock_timestamp() + $1::text::interval", ahead)[0]
    add_waiting(connection, at=at)
    add_waiting(connection, at=LATER)

    promoted, wait = promote(connection)

    assert promoted == 0
    assert low < wait <= high


def test_nothing_waits_is_told_by_null(connection):
    add(connection, 2)

    assert promote(connection) == (0, None)


def test_jobs_that_others_have_locked_come_next_time(connection, other):
    ids = add_waiting(connection, 3)
    other.execute("begin")
    other.execute("select from fastq.job where id = $1 for update", ids[0])
    connection.execute("set lock_timeout = '1ms'")

    assert promote(connection)[0] == 2
    other.execute("rollback")
    assert promote(connection)[0] == 1


def test_each_queue_is_woken_once(connection, other):
    add_waiting(connection, 3, queue="a")
    add_waiting(connection, 3, queue="b")
    other.listen(CHANNEL)

    promote(connection)

    assert sorted(other.notifications(timeout=2.0)) == ["a", "b"]
