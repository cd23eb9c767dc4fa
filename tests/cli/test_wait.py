"""`fastq jobs wait` and the progress that `fastq jobs show` tells: the exit code says how the job has ended."""

import json

import pytest

from tests.helpers import execute

pytestmark = pytest.mark.further

END = """insert into fastq.job_archive (id, created_at, finalized_at, state, priority, attempt, max_attempts, crashes, queue,
        kind, args, errors, output)
    select nextval('fastq.job_id_seq'), now(), now(), %s::fastq.state, 1, 1, 1, 0, 'default', 'nap', '{}', %s::jsonb, %s::json"""


@pytest.mark.parametrize(
    ("state", "errors", "output", "code", "told"),
    [
        ("completed", None, '{"n": 3}', 0, '{"n": 3}'),
        ("completed", None, None, 0, "job 1 completed"),
        ("cancelled", None, None, 3, "job 1 was cancelled"),
        ("discarded", '[{"error": "boom"}]', None, 4, "job 1 was discarded: boom"),
    ],
)
def test_the_exit_code_tells_how_the_job_has_ended(fastq, database, state, errors, output, code, told):
    execute(database, END, state, errors, output)

    done = fastq("jobs", "wait", "1", FASTQ_DATABASE_URL=database)
    assert (done.returncode, (done.stdout + done.stderr).strip()) == (code, told)

    as_json = fastq("jobs", "wait", "1", "--json", FASTQ_DATABASE_URL=database)
    assert as_json.returncode == code
    row = json.loads(as_json.stdout)
    assert (row["id"], row["state"], row["output"]) == (1, state, json.loads(output or "null"))


def test_a_job_that_does_not_end_in_time_or_is_not_there_is_told_with_code_1(on_database, database):
    execute(database, "insert into fastq.job (kind) values ('nap')")

    assert "1 of 1 jobs have not ended in 0.1 s" in on_database("jobs", "wait", "1", "--timeout", "0.1", code=1)
    assert "there is no job 4711" in on_database("jobs", "wait", "4711", code=1)


def test_the_progress_of_a_job_is_shown(on_database, database):
    execute(database, "insert into fastq.job (kind) values ('nap')")
    execute(database, "insert into fastq.job_progress (job, fraction, attempt, text) values (1, 0.4, 2, 'row 4')")

    assert "40%, row 4 (" in on_database("jobs", "show", "1")
    told = json.loads(on_database("jobs", "show", "1", "--json"))["progress"]
    assert (told["fraction"], told["text"], told["attempt"]) == (0.4, "row 4", 2)
