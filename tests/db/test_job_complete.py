"""Completing: the row goes, the archive's row is right, and whoever lost the job changes nothing."""

import pytest

from tests.db.jobs import CHANNEL, add, archived, claim, claim_number, claimed_ids, count, living

MINE, ANOTHER = claim_number(1, 1), claim_number(2, 1)


@pytest.fixture(params=["job_complete", "job_complete_archive"])
def complete(request, connection):
    """Complete by both statements: they differ in the archive alone. Gives the number of rows that were still ours."""

    def run(*, ids, claims=(MINE,)):
        before = count(connection, "job")
        connection.run(request.param, sorted(ids), list(claims))
        gone = before - count(connection, "job")
        assert count(connection, "job_archive") == (gone if request.param == "job_complete_archive" else 0)
        return gone

    return run


def test_completing_ends_the_jobs_of_several_claims_at_once(connection, complete):
    add(connection, 6)
    first = claimed_ids(connection, claim_number(1, 1), limit=3)
    second = claimed_ids(connection, claim_number(1, 2), limit=3)

    assert complete(ids=first + second, claims=[claim_number(1, 1), claim_number(1, 2)]) == 6


def test_completing_leaves_jobs_of_another_claim_alone(connection, complete):
    ids = add(connection, 2)
    claim(connection, ANOTHER, limit=1)
    claim(connection, MINE, limit=1)

    assert complete(ids=ids) == 1
    assert living(connection, ids[0])["claim"] == ANOTHER


def test_completing_what_was_completed_already_changes_nothing(connection, complete):
    (job_id,) = add(connection)
    claim(connection, MINE)
    complete(ids=[job_id])

    connection.run("job_complete", [job_id], [MINE])
    connection.run("job_complete_archive", [job_id], [MINE])

    assert count(connection, "job_archive") <= 1


def test_completing_what_was_released_changes_nothing(connection, complete):
    (job_id,) = add(connection)
    claim(connection, MINE)
    connection.run("job_release", [job_id], [MINE], CHANNEL)

    assert complete(ids=[job_id]) == 0
    assert living(connection, job_id)["state"] == "available"


def test_completing_what_was_released_and_claimed_again_by_somebody_else_changes_nothing(connection, complete):
    (job_id,) = add(connection)
    claim(connection, MINE)
    connection.run("job_release", [job_id], [MINE], CHANNEL)
    claim(connection, ANOTHER)

    assert complete(ids=[job_id]) == 0
    assert (living(connection, job_id)["state"], living(connection, job_id)["claim"]) == ("running", ANOTHER)


def test_completing_an_earlier_attempt_changes_nothing_though_the_same_process_has_the_next(connection, complete):
    (job_id,) = add(connection)
    claim(connection, claim_number(1, 1))
    connection.run("job_retry", [job_id], [claim_number(1, 1)], [0.0], [True], [None], CHANNEL)
    claim(connection, claim_number(1, 2))

    assert complete(ids=[job_id], claims=[claim_number(1, 1)]) == 0
    assert living(connection, job_id)["attempt"] == 2


def test_the_archive_keeps_what_the_job_was(connection):
    (job_id,) = add(
        connection,
        kind="mail",
        queue="emails",
        priority=3,
        args='{"to": "a@b.c"}',
        tags=["x"],
        max_attempts=7,
        crashes=1,
        errors='[{"error": "first"}]',
        attempt=1,
    )
    claim(connection, MINE, queue="emails")
    before = living(connection, job_id)

    connection.run("job_complete_archive", [job_id], [MINE])

    row = archived(connection, job_id)
    kept = (
        "created_at",
        "attempted_at",
        "priority",
        "attempt",
        "max_attempts",
        "crashes",
        "queue",
        "kind",
        "args",
        "tags",
        "errors",
    )
    assert {name: row[name] for name in kept} == {name: before[name] for name in kept}
    assert (row["state"], row["attempt"], row["output"]) == ("completed", 2, None)
    assert before["attempted_at"] < row["finalized_at"]
    assert living(connection, job_id) is None


def test_completing_waits_for_no_job_but_its_own(connection, other):
    ids = add(connection, 2)
    claim(connection, MINE)
    other.execute("begin")
    other.execute("select from fastq.job where id = $1 for update", ids[0])
    connection.execute("set lock_timeout = '1ms'")

    connection.run("job_complete", ids[1:], [MINE])

    other.execute("rollback")
    assert living(connection, ids[1]) is None
