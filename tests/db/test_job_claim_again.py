"""The jobs that a process holds, and of which the database has forgotten the claim, are claimed again; no other row changes."""

import pytest

from tests.db.jobs import add, claim, claim_number, living

PROCESS = 7
CLAIM = claim_number(PROCESS, 1)
FORGET = "update fastq.job set state = 'available', claim = null, attempt = attempt - 1, attempted_at = null where id = any ($1)"


@pytest.fixture(autouse=True)
def _living_process(connection):
    connection.execute(
        """insert into fastq.process (id, host, pid, supervisor, queues, expires_at)
        values ($1, 'here', 1, 'here:1:x', 'default', now())""",
        PROCESS,
    )


def claimed(connection, count=3, **columns):
    """Claim some jobs; return their ids."""
    add(connection, count, **columns)
    return [job.id for job in claim(connection, CLAIM)]


def again(connection, ids, *, attempt=1, process=PROCESS):
    """Claim jobs again; return how many there were."""
    return connection.run_one("job_claim_again", process, ids, [CLAIM] * len(ids), [attempt] * len(ids))[0]


def test_jobs_of_a_claim_that_was_forgotten_run_for_their_process_again(connection):
    ids = claimed(connection)
    before = [living(connection, id_) for id_ in ids]
    connection.execute(FORGET, ids)

    assert again(connection, ids) == 3
    for row, was in zip((living(connection, id_) for id_ in ids), before, strict=True):
        assert row["attempted_at"] > was["attempted_at"]
        assert row | {"attempted_at": None} == was | {"attempted_at": None}


def test_jobs_of_a_claim_that_is_known_stay_as_they_are(connection):
    ids = claimed(connection)
    before = [living(connection, id_) for id_ in ids]

    assert again(connection, ids) == 0
    assert [living(connection, id_) for id_ in ids] == before


@pytest.mark.parametrize(
    "change",
    [
        "claim = 99, attempted_at = now()",  # another process has claimed it
        "state = 'available', claim = null",  # it was rescued, and its attempt charged
        "state = 'retryable', seq = null, scheduled_at = now(), claim = null",
        "state = 'waiting', seq = null, waits_for = 'worker:nap', claim = null, attempt = attempt - 1",
    ],
)
def test_a_job_that_somebody_has_taken_or_given_back_stays_as_it_is(connection, change):
    ids = claimed(connection, 1)
    connection.execute(f"update fastq.job set {change} where id = $1", ids[0])
    before = living(connection, ids[0])

    assert again(connection, ids) == 0
    assert living(connection, ids[0]) == before


def test_a_job_that_somebody_is_about_to_claim_is_left_to_them(connection, other):
    ids = claimed(connection)
    connection.execute(FORGET, ids)
    other.execute("begin")
    other.execute("select from fastq.job where id = $1 for update", ids[1])

    assert again(connection, ids) == 2
    other.execute("rollback")
    assert living(connection, ids[1])["state"] == "available"


def test_a_process_that_is_not_known_any_more_claims_nothing(connection):
    ids = claimed(connection)
    connection.execute(FORGET, ids)

    assert again(connection, ids, process=PROCESS + 1) == 0
