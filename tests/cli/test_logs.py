"""`fastq logs`: the log of a job for people and for programs, sizes by kind, and exit codes that tell mistakes apart."""

import json

import pytest

from tests.helpers import execute

pytestmark = pytest.mark.further

SHEET = """insert into fastq.job_log (job, claim, start_at, attempt, size, lines, ended, kind, text)
    values (1, %s, %s, %s, %s, %s, %s, 'nap', %s)"""
LINE = "2026-11-19T08:04:11.123Z\tinfo\tshop.mail\t"


@pytest.fixture
def logged(database):
    """Give a database with a job of two attempts, with a gap in the log of the first, and a terminal's escapes in the second."""
    execute(database, "insert into fastq.job (kind) values ('nap')")
    execute(database, SHEET, 5, 0, 1, 100, 2, False, f"{LINE}first\n2026-11-19T08:04:12.000Z\t\tstdout\tprinted\n")
    execute(database, SHEET, 5, 12_445, 1, 100, 1, True, f"{LINE}boom\n\tTraceback\n\t  in work\n")
    execute(database, SHEET, 6, 0, 2, 100, 1, False, f"{LINE}\x1b[31mred\n")
    return database


def test_a_log_is_shown_attempt_by_attempt_with_its_gaps_and_drives_no_terminal(on_database, logged):
    assert on_database("logs", "1").splitlines() == [
        "2026-11-19 08:04:11.123 info    shop.mail: first",
        "2026-11-19 08:04:12.000 stdout : printed",
        "... 12,345 bytes left out ...",
        "2026-11-19 08:04:11.123 info    shop.mail: boom",
        "    Traceback",
        "      in work",
        "attempt 2:",
        r"2026-11-19 08:04:11.123 info    shop.mail: \x1b[31mred",
    ]
    assert on_database("logs", "1", "--attempt", "2").splitlines()[0] == "attempt 2:"


def test_as_json_it_is_whole(on_database, logged):
    lines = json.loads(on_database("logs", "1", "--json"))

    assert [line["left_out"] for line in lines] == [0, 0, 12_345, 0, 0]
    assert lines[3]["text"] == "boom\nTraceback\n  in work"
    assert lines[0] == {
        "attempt": 1, "at": "2026-11-19T08:04:11.123000Z", "level": "info", "source": "shop.mail", "text": "first", "left_out": 0,
    }  # fmt: skip


def test_following_a_job_that_has_ended_shows_all_of_it(on_database, logged):
    execute(logged, "delete from fastq.job")

    lines = on_database("logs", "1", "-f", "--json").splitlines()

    assert [json.loads(line)["attempt"] for line in lines] == [1, 1, 1, 1, 2]


def test_the_sizes_are_told_by_kind(on_database, logged):
    head, row = on_database("logs", "--sizes").splitlines()[:2]

    assert head.split() == ["kind", "attempts", "lines", "bytes", "since"]
    assert row.split()[:4] == ["nap", "2", "4", "300"]
    [size] = json.loads(on_database("logs", "--sizes", "--json"))
    assert (size["kind"], size["more"]) == ("nap", False)


def test_a_job_says_how_many_lines_its_log_has(on_database, logged):
    assert "log       4 lines of 2 attempts: fastq logs 1\n" in on_database("jobs", "show", "1")
    assert json.loads(on_database("jobs", "show", "1", "--json"))["log_lines"] == 4


def test_mistakes_are_told_apart(on_database, fastq, database):
    execute(database, "insert into fastq.job (kind) values ('nap')")

    assert "expected the ID of a job, or --sizes" in on_database("logs", code=2)
    assert "expected the ID of a job, or --sizes" in on_database("logs", "1", "--sizes", code=2)
    assert "there is no job 4711" in on_database("logs", "4711", code=1)
    assert "job 4711: there is none with this id" in on_database("logs", "4711", "-f", code=1)
    assert "no log of job 1" in fastq("logs", "1", FASTQ_DATABASE_URL=database).stderr
    assert "no job logs" in fastq("logs", "--sizes", FASTQ_DATABASE_URL=database).stderr
