"""`fastq jobs list` and `fastq jobs count` take the words of a filter, as a shell hands them over."""

import json

import pytest

pytestmark = pytest.mark.further


@pytest.fixture
def three(on_database):
    """Enqueue two notes and a mail."""
    for kind, args in (("note", '{"text": "a b"}'), ("note", '{"text": "c"}'), ("mail", "{}")):
        on_database("enqueue", kind, args)


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ((), [3, 2, 1]),
        (("kind:note",), [2, 1]),
        (("-kind:note",), [3]),
        (("kind:note -args.text:c",), [1]),
        (("args.text:a b",), [1]),
        (('args.text:"a b"', "state:available"), [1]),
        (("--kind", "note", "-args.text:c", "--limit", "5"), [1]),
        (("id:>1", "--state", "available"), [3, 2]),
        (("error:a b",), []),
    ],
)
def test_words_of_a_filter_are_arguments(on_database, three, words, ids):
    assert [job["id"] for job in json.loads(on_database("jobs", "list", *words, "--json"))] == ids
    assert on_database("jobs", "count", *[word for word in words if word not in ("--limit", "5")]) == f"{len(ids)}\n"


def test_a_list_that_goes_on_tells_the_cursor(fastq, database, three):
    first = fastq("jobs", "list", "--limit", "2", "--json", FASTQ_DATABASE_URL=database)
    after = first.stderr.split("--after ")[1].strip()
    rest = fastq("jobs", "list", "--json", "--after", after, FASTQ_DATABASE_URL=database)

    assert [job["id"] for told in (first, rest) for job in json.loads(told.stdout)] == [3, 2, 1]
    assert "--after" not in rest.stderr


def test_a_word_that_is_wrong_is_told_with_its_place(on_database, three):
    told = on_database("jobs", "list", "kind:note", "colour:red", code=2)

    assert "fastq: filter, character 11: expected one of state, kind, queue," in told
