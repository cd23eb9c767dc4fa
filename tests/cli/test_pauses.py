"""`fastq pauses` and `fastq queues pause`: what they change, what they tell, and where a reason shows."""

import json

import pytest

from tests.helpers import execute

pytestmark = pytest.mark.further


def test_pauses_are_added_shown_wherever_jobs_wait_and_removed(on_database, fastq, database):
    execute(database, "insert into fastq.job (kind) values ('mail')")
    add = ("pauses", "add", "--kind", "mail", "--until", "2100-01-01T00:00Z", "--reason", "the provider is down")
    assert on_database(*add) == "kind 'mail' is paused\n"
    assert on_database("pauses", "add", "--gate", "mail-api", "--key", "42") == "gate 'mail-api' for key 42 is paused\n"
    assert on_database("pauses", "add", "--gate", "mail-api", "--key", "ada") == "gate 'mail-api' for key \"ada\" is paused\n"
    assert on_database("pauses", "add", "--all", "--until", "1d") == "everything is paused\n"
    assert on_database("queues", "pause", "default", "--reason", "later") == "queue 'default' is paused\n"

    listed = on_database("pauses", "list").splitlines()
    assert [line.split("  ")[0] for line in listed[1:]] == [
        "gate 'mail-api' for key \"ada\"",
        "gate 'mail-api' for key 42",
        "kind 'mail'",
        "everything",
        "queue 'default'",
    ]
    told = json.loads(on_database("pauses", "list", "--json"))
    assert {row["reason"] for row in told} == {None, "the provider is down", "later"}
    assert "is paused since" in on_database("jobs", "why", "1")
    assert "UTC, until 2100-01-01 00:00:00 UTC: the provider is down" in on_database("jobs", "why", "1")
    queues = fastq("queues", "list", FASTQ_DATABASE_URL=database)
    assert queues.stdout.splitlines()[1].split()[:2] == ["default", "paused"]
    assert "everything is paused since" in queues.stderr
    assert queues.stderr.rstrip().endswith(": later")

    assert on_database("pauses", "remove", "--kind", "mail") == "kind 'mail' is resumed\n"
    assert on_database("pauses", "remove", "--kind", "mail") == "kind 'mail' was not paused\n"
    assert json.loads(on_database("pauses", "remove", "--all", "--json")) == {
        "subject": "everything",
        "paused": False,
        "changed": True,
    }
    execute(database, "insert into fastq.gate (name, at_most) values ('mail-api', 1)")
    assert "gate 'mail-api' for key 42 is paused since" in fastq("gates", "list", FASTQ_DATABASE_URL=database).stderr


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("add", "--until", "1h"), "one of the arguments --queue --kind --gate --all is required"),
        (("add", "--kind", "a", "--queue", "b"), "not allowed with argument"),
        (("add", "--kind", "a", "--key", "1"), "expected one of queue=, kind=, gate="),
        (("add", "--kind", "a", "--until", "soon"), "expected 90s, 30m, 2h, 1d or a time with a zone"),
        (("add", "--queue", "*"), "queue '*': expected"),
    ],
)
def test_a_pause_of_nothing_is_refused_with_the_rule_and_code_2(on_database, words, rule):
    assert rule in on_database("pauses", *words, code=2)
