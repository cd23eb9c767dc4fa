"""Handing back what was claimed and never started."""

from tests.db.jobs import CHANNEL, add, archived, claim, claim_number, claimed_ids, living

MINE = claim_number(1, 1)


def release(connection, ids, claims=(MINE,)):
    return connection.run_one("job_release", ids, list(claims), CHANNEL)[0]


def test_a_released_job_is_available_and_no_attempt_was_charged(connection):
    (job_id,) = add(connection, attempt=3)
    claim(connection, MINE)

    assert release(connection, [job_id]) == 1

    row = living(connection, job_id)
    assert (row["state"], row["attempt"], row["claim"], row["errors"], row["crashes"]) == ("available", 3, None, None, 0)


def test_a_released_job_lies_ahead_of_every_cursor(connection):
    ids = add(connection, 5)
    frontier = claim(connection, MINE)[-1].seq

    release(connection, ids[:2])

    assert claimed_ids(connection, after=(frontier,) * 4) == ids[:2]


def test_only_jobs_that_are_still_ours_are_released(connection):
    ours, theirs, ended, waiting = add(connection, 4)
    claim(connection, MINE, limit=3)
    connection.execute("update fastq.job set claim = $1 where id = $2", claim_number(2, 1), theirs)
    connection.run("job_complete", [ended], [MINE])

    assert release(connection, [ours, theirs, ended, waiting]) == 1
    assert living(connection, theirs)["state"] == "running"
    assert release(connection, [ours]) == 0, "a second release must not take another attempt off"
    assert living(connection, ours)["attempt"] == 0


def test_a_job_whose_cancellation_was_asked_for_ends_cancelled(connection):
    cancelled, other = add(connection, 2)
    claim(connection, MINE)
    connection.run("job_cancel", [cancelled], CHANNEL)

    assert release(connection, [cancelled, other]) == 2

    assert living(connection, cancelled) is None
    assert archived(connection, cancelled)["state"] == "cancelled"
    assert living(connection, other)["state"] == "available"
    assert release(connection, [cancelled, other]) == 0


def test_it_wakes_each_queue_once(connection, other):
    ids = add(connection, 3, queue="a") + add(connection, 3, queue="b")
    claim(connection, claim_number(1, 1), queue="a")
    claim(connection, claim_number(1, 2), queue="b")
    other.listen(CHANNEL)

    assert release(connection, ids, [claim_number(1, 1), claim_number(1, 2)]) == 6

    assert sorted(other.notifications(timeout=2.0)) == ["a", "b"]
