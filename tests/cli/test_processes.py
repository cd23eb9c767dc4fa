"""`fastq processes` and `fastq jobs stack`: processes with their figures, and words where nobody can tell a stack."""

import json

import pytest

from tests.helpers import execute

PROCESS = """insert into fastq.process (id, host, pid, supervisor, queues, expires_at, kinds, vitals)
    values (%s, 'web-1', 99, 'web-1:7:x', 'emails', now() + %s::interval, array['mail'], %s::text::jsonb)"""
VITALS = '{"rss": 104857600, "pss": 52428800, "threads": 21, "cpu": 7.5, "load": 0.25, "executors": 16, "busy": 3, "held": 40}'


@pytest.fixture
def announced(database):
    """Give a database with a process that lives and has been measured, and one that is silent and has not."""
    execute(database, PROCESS, 17, "1 hour", VITALS)
    execute(database, PROCESS, 18, "-1 second", None)
    return database


def test_the_processes_are_listed_with_their_figures(on_database, announced):
    head, first, second = on_database("processes").splitlines()

    assert head.split()[:10] == ["process", "host", "pid", "state", "started", "memory", "threads", "cpu", "busy", "held"]
    assert first.split()[:4] == ["17", "web-1", "99", "alive"]
    assert " 50 MiB " in first
    assert " 25% " in first
    assert " 3/16 " in first
    assert second.split()[3] == "silent"
    rows = json.loads(on_database("processes", "--json"))
    assert rows[0]["vitals"] == json.loads(VITALS)
    assert rows[1]["vitals"] is None


def test_without_a_process_it_says_what_to_start(fastq, database):
    told = fastq("processes", FASTQ_DATABASE_URL=database)

    assert (told.returncode, told.stdout) == (0, "")
    assert "start fastq run" in told.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("processes", "stack", "4711"), "there is no worker process 4711, or no longer"),
        (("jobs", "stack", "4711"), "job 4711 does not run: it has ended, or does not exist"),
        (("processes", "stack", "17", "--timeout", "0.1"), "kill -QUIT 99"),
        (("processes", "stack", "17", "--timeout", "0"), "timeout 0.0: expected seconds above 0, 60 at most"),
    ],
)
def test_where_nobody_can_tell_a_stack_a_sentence_says_why(fastq, announced, words, why):
    told = fastq(*words, FASTQ_DATABASE_URL=announced)

    assert told.stdout == ""
    assert why in told.stderr
    assert told.returncode != 0


def test_as_json_the_reason_is_a_field(fastq, announced):
    told = json.loads(fastq("jobs", "stack", "4711", "--json", FASTQ_DATABASE_URL=announced).stdout)

    assert told["text"] is None
    assert told["why"] == "job 4711 does not run: it has ended, or does not exist"
