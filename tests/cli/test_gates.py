"""`fastq gates`: what it shows, and what it tells of a change."""

import json

import pytest

from tests.helpers import execute

pytestmark = pytest.mark.further

WAITING = """
    insert into fastq.job (kind, meta, state, seq, waits_for)
    select 'mail', made, 'waiting', null, made ->> 'gates'
    from jsonb_build_object('gates', '[["limit", "mail-api", 42, 1, 20]]'::jsonb) as made, generate_series(1, 3)
"""


def test_a_gate_is_listed_with_its_numbers_and_jobs(on_database, database):
    execute(database, WAITING)
    assert on_database("gates", "set", "mail-api", 1_000) == "gate 'mail-api': at most 1,000 at once\n"

    head, row = on_database("gates", "list").splitlines()
    assert head.split() == ["gate", "sort", "state", "at", "most", "in", "code", "keys", "admitted", "waiting", "oldest"]
    assert row.split()[:8] == ["mail-api", "limit", "set", "1000", "20", "1", "0", "3"]
    (told,) = json.loads(on_database("gates", "list", "--json"))
    assert (told["name"], told["at_most"], told["set_to"], told["defaults"], told["waiting"]) == ("mail-api", 1000, 1000, [20], 3)
    assert told["state"] == "set"


def test_a_number_is_set_and_removed(on_database, fastq, database):
    first = fastq("gates", "set", "mail-api", 0, FASTQ_DATABASE_URL=database)
    assert (first.returncode, first.stdout) == (0, "gate 'mail-api' is closed\n")
    assert "no living job goes through a gate 'mail-api'; is that its name?" in first.stderr
    told = json.loads(on_database("gates", "set", "mail-api", 5, "--json"))
    assert told == {"gate": "mail-api", "at_most": 5, "before": 0, "changed": True}
    assert on_database("gates", "remove", "mail-api") == "gate 'mail-api': the code's number holds again\n"
    assert on_database("gates", "remove", "mail-api") == "gate 'mail-api': the code's number holds: no other was set\n"
    assert json.loads(on_database("gates", "remove", "mail-api", "--json"))["changed"] is False


def test_of_a_rate_the_time_and_the_burst_are_set_too(on_database):
    told = on_database("gates", "set", "sms-api", 100, "--per", 60, "--burst", 10)
    assert told == "gate 'sms-api': at most 100 in 60 s, burst 10\n"
    assert "100 in 60 s, burst 10" in on_database("gates", "list").splitlines()[1]
    assert json.loads(on_database("gates", "set", "sms-api", 100, "--burst", 3, "--json")) == {
        "gate": "sms-api",
        "at_most": 100,
        "burst": 3,
        "before": 100,
        "changed": True,
    }
    assert "expected seconds from 1 to 2,678,400" in on_database("gates", "set", "sms-api", 1, "--per", 0.5, code=2)


def test_without_gates_it_says_how_one_comes_to_be(fastq, database):
    told = fastq("gates", "list", FASTQ_DATABASE_URL=database)

    assert (told.returncode, told.stdout) == (0, "")
    assert "Limit(...) declares one" in told.stderr


def test_a_held_key_is_shown_and_released(on_database, database, fastq):
    assert "no key is held" in fastq("gates", "held", FASTQ_DATABASE_URL=database).stderr
    execute(database, """insert into fastq.gate_permit values (5, 'default', '[["order-hold","stream","a b",1,1]]')""")

    head, row = on_database("gates", "held").splitlines()
    assert head.split() == ["gate", "key", "job", "state", "kind", "queue", "since", "next", "attempt"]
    assert row.split()[:5] == ["stream", '"a', 'b"', "5", "discarded"]
    told = json.loads(on_database("gates", "held", "--json"))[0]
    assert (told["job"], told["state"], told["until"]) == (5, "discarded", None)

    assert on_database("gates", "release", "stream", "a b") == (
        "gate 'stream' for key a b: it was held by job 5, which stays discarded\n"
    )
    assert "no discarded job holds it (fastq gates held)" in on_database("gates", "release", "stream", '"a b"')


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("set", "mail-api", "-1"), "expected a whole number from 0 on, got '-1'"),
        (("set", "mail-api", "x"), "expected a whole number from 0 on, got 'x'"),
        (("set", "mail-api", 2**31), "expected a whole number from 0 to 2,147,483,647"),
        (("set", "mail api", 1), "expected a name like 'mail-api'"),
        (("remove", ""), "expected a name like 'mail-api'"),
    ],
)
def test_what_no_gate_can_have_is_refused_with_the_rule_and_code_2(on_database, words, rule):
    assert rule in on_database("gates", *words, code=2)


def test_a_job_that_waits_at_a_gate_says_so_wherever_it_is_looked_at(on_database, database):
    execute(database, WAITING)
    told = "at the gate 'mail-api' for key 42, where there is room, behind 2 jobs; but nobody leads now"

    assert f"\nwaits     {told}" in on_database("jobs", "show", 3)
    assert on_database("jobs", "why", 3).startswith(f"job 3 waits {told}")
    assert on_database("jobs", "list").splitlines()[1].endswith("at the gate 'mail-api' for key 42")
    assert json.loads(on_database("jobs", "why", 3, "--json"))["why"].startswith(f"job 3 waits {told}")
    assert json.loads(on_database("jobs", "show", 3, "--json"))["waits_for"] == '[["limit", "mail-api", 42, 1, 20]]'


def test_of_an_unknown_job_why_says_that_there_is_none_with_code_1(on_database):
    assert on_database("jobs", "why", 77, code=1).startswith("fastq: there is no job 77;")
    assert "expected a whole number above 0" in on_database("jobs", "why", "x", code=2)


def test_why_escapes_what_an_error_holds(on_database, database):
    on_database("enqueue", "note", "{}", "--delay", 60)
    execute(database, """update fastq.job set state = 'retryable', errors = '[{"error": "\\u001b[2J"}]'""")

    assert on_database("jobs", "why", 1).rstrip().endswith(r"attempt 0 of 25 failed: \x1b[2J")
