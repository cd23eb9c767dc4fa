"""`fastq jobs` changes what a filter means by an operation, and `fastq operations` and `fastq audit` tell of it."""

import json

import pytest

pytestmark = pytest.mark.further


@pytest.fixture
def notes(on_database):
    """Enqueue two notes and a mail."""
    for kind, args in (("note", '{"text": "a"}'), ("note", '{"text": "c"}'), ("mail", "{}")):
        on_database("enqueue", kind, args)


def test_a_filter_makes_an_operation_only_if_it_is_told_yes(on_database, notes):
    assert on_database("jobs", "cancel", "kind:note").startswith("cancel: 2 jobs fit state:scheduled state:available")
    assert json.loads(on_database("operations", "list", "--json")) == []

    told = on_database("jobs", "cancel", "kind:note", "-args.text:c", "--yes", "--by", "ada")

    assert told.startswith("operation 1: cancel 1 jobs that fit ")
    [row] = json.loads(on_database("operations", "list", "--json"))
    assert (row["verb"], row["state"], row["expected"], row["by"]) == ("cancel", "waiting", 1, "ada")


def test_an_operation_is_shown_and_asked_to_end(on_database, notes):
    on_database("jobs", "cancel", "kind:note", "-args.text:c", "--yes")

    assert "done    0 of 1" in on_database("operations", "show", 1)
    assert on_database("operations", "cancel", 1) == "operation 1 is asked to end\n"
    assert "there is no operation 7" in on_database("operations", "show", 7, code=1)
    assert json.loads(on_database("audit", "list", "--json"))[0]["operation"] == 1


def test_jobs_are_moved_and_edited_by_their_ids_and_the_audit_says_by_whom(on_database, notes):
    assert on_database("jobs", "move", "--queue", "slow", 1, 2) == "job 1 moved\njob 2 moved\n"
    assert on_database("jobs", "edit", "--priority", "3", "--args", '{"text": "new"}', 1) == "job 1 changed\n"
    assert "job 9 does not exist, or has ended" in on_database("jobs", "edit", "--priority", "3", 9, code=1)
    assert "expected a change, got none" in on_database("jobs", "edit", 1, code=2)

    [job] = json.loads(on_database("jobs", "list", "id:1", "--json"))
    assert (job["queue"], job["priority"]) == ("slow", 3)
    rows = json.loads(on_database("audit", "list", "--json"))
    assert [(row["verb"], row["job"]) for row in rows] == [("edit", 1), ("move", 2), ("move", 1)]
    assert all(row["by"].count("@") == 1 for row in rows)
    assert "moved" not in on_database("audit", "list")
