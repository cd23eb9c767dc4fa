"""Ending with something to tell: an output, a last error, a reason."""

from tests.db.jobs import CHANNEL, ERROR, add, archived, claim, claim_number, count, living

MINE = claim_number(1, 1)


def finish(connection, ids, states, *, claims=None, errors=None, outputs=None):
    """Finish and return how many rows were still ours."""
    before = count(connection, "job")
    nothing = [None] * len(ids)
    claims = claims or [MINE] * len(ids)
    connection.run("job_finish", ids, claims, states, errors or nothing, outputs or nothing, None)
    return before - count(connection, "job")


def test_each_job_gets_its_own_end(connection):
    done, failed, cancelled, left = add(connection, 4)
    claim(connection, MINE)

    ended = finish(
        connection,
        [done, failed, cancelled],
        ["completed", "discarded", "cancelled"],
        errors=[None, ERROR, '{"error": "not needed any more"}'],
        outputs=['{ "n": 1 }', None, None],
    )

    assert ended == 3
    assert (archived(connection, done)["state"], archived(connection, done)["output"]) == ("completed", {"n": 1})
    assert archived(connection, done)["errors"] is None
    assert (archived(connection, failed)["state"], archived(connection, failed)["output"]) == ("discarded", None)
    assert archived(connection, cancelled)["errors"][0]["error"] == "not needed any more"
    assert living(connection, left)["state"] == "running"


def test_the_last_error_is_added_to_those_before_with_its_attempt_and_time(connection):
    (job_id,) = add(connection, attempt=1, errors='[{"error": "first", "attempt": 1}]')
    claim(connection, MINE)
    attempted_at = living(connection, job_id)["attempted_at"]

    finish(connection, [job_id], ["discarded"], errors=[ERROR])

    first, last = archived(connection, job_id)["errors"]
    assert first == {"error": "first", "attempt": 1}
    assert (last["error"], last["attempt"]) == ("boom", 2)
    assert connection.execute("select $1::text::timestamptz = $2", last["at"], attempted_at) == [(True,)]


def test_a_job_keeps_its_columns_in_the_archive(connection):
    (job_id,) = add(
        connection, kind="mail", queue="emails", priority=2, args='{"to": "x"}', tags=["a", "b"], max_attempts=2, crashes=1
    )
    claim(connection, MINE, queue="emails")
    before = living(connection, job_id)

    finish(connection, [job_id], ["completed"], outputs=["[]"])

    row = archived(connection, job_id)
    kept = ("created_at", "attempted_at", "priority", "attempt", "max_attempts", "crashes", "queue", "kind", "args", "tags")
    assert {name: row[name] for name in kept} == {name: before[name] for name in kept}


def test_only_the_pair_of_job_and_claim_counts(connection):
    ids = add(connection, 2)
    claim(connection, claim_number(1, 1), limit=1)
    claim(connection, claim_number(1, 2), limit=1)

    assert finish(connection, ids, ["completed"] * 2, claims=[claim_number(1, 2), claim_number(1, 1)]) == 0
    assert finish(connection, ids, ["completed"] * 2, claims=[claim_number(1, 1), claim_number(1, 2)]) == 2


def test_what_ended_or_was_given_back_is_left_alone(connection):
    ended, released = add(connection, 2)
    claim(connection, MINE)
    finish(connection, [ended], ["completed"])
    connection.run("job_release", [released], [MINE], CHANNEL)

    assert finish(connection, [ended, released], ["discarded"] * 2, errors=[ERROR] * 2) == 0
    assert archived(connection, ended)["state"] == "completed"
    assert living(connection, released)["state"] == "available"
