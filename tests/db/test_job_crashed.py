"""Giving a job back whose own process has died: it is tried again after a while, with a note for the handler of crashes."""

import json
from datetime import UTC, datetime, timedelta

from tests.db.jobs import CHANNEL, ERROR, add, archived, claim, claim_number, living

MINE = claim_number(1, 1)
NOTE = json.dumps({"next": 2, "crashes": 1, "cause": "signal 11", "memory": 7})


def crashed(connection, ids, claim_=MINE):
    """Give the jobs back, and return how many rows were still ours."""
    many = len(ids)
    return connection.run_one("job_crashed", ids, [claim_] * many, [30.0] * many, [ERROR] * many, [NOTE] * many, CHANNEL)[0]


def test_it_waits_for_its_next_attempt_with_the_note_and_the_error(connection):
    first, other = add(connection, 2, meta='{"carried": {"tenant": "a"}, "crashed": {"next": 1, "died": "long ago"}}')
    claim(connection, MINE)

    assert crashed(connection, [first]) == 1

    row = living(connection, first)
    assert (row["state"], row["attempt"], row["crashes"], row["seq"], row["claim"]) == ("retryable", 1, 0, None, None)
    assert timedelta(seconds=28) < row["scheduled_at"] - datetime.now(UTC) < timedelta(seconds=32)
    assert [(error["error"], error["attempt"]) for error in row["errors"]] == [("boom", 1)]
    note = row["meta"].pop("crashed")
    assert abs(datetime.fromisoformat(note.pop("at")) - datetime.now(UTC)) < timedelta(seconds=10)
    assert (note, row["meta"]) == (json.loads(NOTE), {"carried": {"tenant": "a"}})
    assert living(connection, other)["state"] == "running"


def test_a_job_without_meta_gets_some(connection):
    (job_id,) = add(connection)
    claim(connection, MINE)

    crashed(connection, [job_id])

    assert living(connection, job_id)["meta"].keys() == {"crashed"}


def test_a_job_that_somebody_else_has_by_now_does_not_change(connection):
    (job_id,) = add(connection)
    claim(connection, MINE)
    before = living(connection, job_id)

    assert crashed(connection, [job_id], MINE + 1) == 0

    assert living(connection, job_id) == before


def test_a_job_with_a_cancellation_asked_for_ends_cancelled(connection):
    (job_id,) = add(connection)
    claim(connection, MINE)
    connection.run("job_cancel", [job_id], CHANNEL)

    assert crashed(connection, [job_id]) == 1

    row = archived(connection, job_id)
    assert (row["state"], row["meta"], row["errors"][-1]["error"]) == ("cancelled", {"cause": "asked"}, "boom")
