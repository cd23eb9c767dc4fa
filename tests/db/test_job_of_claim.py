"""What a claim took whose answer never came."""

from tests.db.jobs import add, claim, claim_number

MINE = claim_number(1, 2)


def of_claim(connection, claim, after=0, queue="default"):
    return sorted(job_id for (job_id,) in connection.run("job_of_claim", queue, after, claim))


def test_the_jobs_of_a_claim_are_found_in_all_priorities(connection):
    ids = add(connection, 2) + add(connection, 1, priority=3) + add(connection, 1, priority=4)
    claim(connection, MINE)

    assert of_claim(connection, MINE) == ids


def test_nothing_else_is_found(connection):
    add(connection, 6)
    add(connection, 1, queue="emails")
    before, *_ = claim(connection, claim_number(1, 1), limit=1)
    mine = claim(connection, MINE, limit=2, after=(before.seq,) * 4)
    claim(connection, claim_number(2, 2), limit=1, after=(mine[-1].seq,) * 4)
    claim(connection, MINE, queue="emails")
    connection.run("job_complete", [mine[0].id], [MINE])

    assert of_claim(connection, MINE) == [mine[1].id]
    assert of_claim(connection, MINE, after=mine[1].seq) == []
