"""The list of a job's errors has an end: the first 10 and the last 15 stay, whichever statement adds one."""

import json
import re
from importlib import resources

import pytest

from tests.db.jobs import CHANNEL, ERROR, add, archived, claim, claim_number, living

KEPT, FIRST = 25, 10
DEAD = 5
MINE = claim_number(DEAD, 1)
FENCE = ("leader:default", "me", 1)


def errors(count, **others):
    """Make a list of errors as attempts leave it."""
    return json.dumps([{"error": f"e{attempt}", "attempt": attempt, **others} for attempt in range(1, count + 1)])


@pytest.fixture
def fenced(connection):
    """Hold the lease of a leader."""
    connection.execute(
        "update fastq.lease set holder = $2, term = $3, expires_at = clock_timestamp() + interval '1 hour' where name = $1",
        *FENCE,
    )


def retry(connection, job_id):
    connection.run("job_retry", [job_id], [MINE], [0.0], [True], [ERROR], CHANNEL)


def crash(connection, job_id):
    connection.run("job_crashed", [job_id], [MINE], [1.0], [ERROR], [ERROR], CHANNEL)


def retry_a_cancelled_one(connection, job_id):
    connection.run("job_cancel", [job_id], CHANNEL)
    retry(connection, job_id)


def finish(connection, job_id):
    connection.run("job_finish", [job_id], [MINE], ["discarded"], [ERROR], [None], None)


def finish_late(connection, job_id):
    connection.run("job_finish_late", [job_id], [MINE], ["discarded"], [ERROR], ["deadline"], [True], None)


def recover(connection, job_id, max_crashes=9):
    connection.run("job_recover", [job_id], 0, 0, "default", [job_id], max_crashes, DEAD, CHANNEL, ERROR, [], ERROR)


def recover_and_end(connection, job_id):
    recover(connection, job_id, max_crashes=1)


def rescue(connection, job_id):
    row = living(connection, job_id)
    connection.run("job_rescue", *FENCE, None, "default", [job_id], [MINE], [row["attempt"]], CHANNEL, ERROR)


def rescue_the_last_attempt(connection, job_id):
    connection.execute("update fastq.job set max_attempts = attempt where id = $1", job_id)
    rescue(connection, job_id)


@pytest.mark.parametrize(
    "end",
    [retry, crash, retry_a_cancelled_one, finish, finish_late, recover, recover_and_end, rescue, rescue_the_last_attempt],
    ids=lambda end: end.__name__,
)
@pytest.mark.parametrize("before", [KEPT - 1, KEPT, 1_000])
def test_of_many_errors_the_first_and_the_last_stay_and_one_says_how_many_went(connection, fenced, end, before):
    (job_id,) = add(connection, attempt=before, max_attempts=before + 2, errors=errors(before))
    claim(connection, MINE)

    end(connection, job_id)

    kept = (living(connection, job_id) or archived(connection, job_id))["errors"]
    attempts = [error["attempt"] for error in kept]
    every = list(range(1, before + 2))
    assert attempts == (every if len(every) <= KEPT else every[:FIRST] + every[-(KEPT - FIRST) :])
    assert [error.get("left_out") for error in kept] == [
        len(every) - KEPT if place == FIRST and len(every) > KEPT else None for place in range(KEPT)
    ]
    assert kept[-1]["error"] == "boom"


def test_however_often_a_job_fails_its_list_says_how_many_errors_it_had(connection):
    (job_id,) = add(connection, max_attempts=100)
    for number in range(1, 61):
        claim(connection, MINE)
        connection.run("job_retry", [job_id], [MINE], [0.0], [True], [json.dumps({"error": f"e{number}"})], CHANNEL)

    kept = living(connection, job_id)["errors"]
    assert [error["error"] for error in kept] == [f"e{n}" for n in (*range(1, 11), *range(46, 61))]
    assert [error["left_out"] for error in kept if "left_out" in error] == [60 - KEPT]
    assert kept[FIRST]["left_out"] == 60 - KEPT


@pytest.mark.slow
def test_a_job_whose_errors_have_reached_the_limit_of_jsonb_can_fail_again(connection):
    (job_id,) = add(connection, attempt=16_000, max_attempts=32_000)
    connection.execute(
        "update fastq.job set errors = (select jsonb_agg(jsonb_build_object('error', repeat('x', 16700), 'attempt', n)) "
        "from generate_series(1, 16000) n) where id = $1",
        job_id,
    )
    claim(connection, MINE)

    retry(connection, job_id)

    kept = living(connection, job_id)["errors"]
    assert (len(kept), kept[FIRST]["left_out"], kept[-1]["error"]) == (KEPT, 16_001 - KEPT, "boom")


def test_all_statements_that_write_an_error_say_it_in_the_same_words():
    said = {}
    for file in resources.files("fastq").joinpath("sql").iterdir():
        if file.is_file() and "'attempt'" in (text := file.read_text()):
            words = " ".join(re.sub(r"\bjob\.|^--.*$", "", text, flags=re.MULTILINE).split())
            words = re.sub(r"(\$\d+|error)::jsonb", "error::jsonb", words)
            begin, end = "case when coalesce(jsonb_array_length(errors)", "'at', attempted_at))"
            parts = re.findall(rf"{re.escape(begin)}.*?{re.escape(end)}", words)
            assert len(parts) == words.count("'attempt'"), f"{file.name} writes an error without looking at how many there are"
            said |= {f"{file.name} {number}": part for number, part in enumerate(parts)}

    assert len(said) >= 6
    assert len(set(said.values())) == 1
