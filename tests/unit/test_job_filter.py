"""The words of a filter: those that make an equal filter again, and those that are refused."""

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from fastq import JobFilter, State
from fastq.admin.search import terms
from fastq.errors import OptionError

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
texts = some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
kinds = some.from_regex(r"[A-Za-z_][A-Za-z0-9_.:\-]{0,20}", fullmatch=True)
queues = some.from_regex(r"[a-z0-9_][a-z0-9_.\-]{0,20}", fullmatch=True)
numbers = some.integers(-(2**63) + 1, 2**63 - 1)
ranges = some.one_of(numbers, some.tuples(numbers, numbers), some.tuples(some.none(), numbers), some.tuples(numbers, some.none()))
moments = some.one_of(
    some.datetimes(
        datetime.fromisoformat("0002-01-01"),
        datetime.fromisoformat("9998-01-01"),
        timezones=some.just(timezone(timedelta(hours=5, minutes=30))),
    ),
    some.timedeltas(timedelta(days=-36_500), timedelta(days=36_500)),
    some.floats(-1e9, 1e9),
)
values = some.one_of(
    texts, some.just(""), some.integers(), some.booleans(), some.none(), some.floats(allow_nan=False, allow_infinity=False)
)
paths = some.lists(texts, min_size=1, max_size=4).map(tuple)
fields = some.lists(some.tuples(paths, values), max_size=3)
LISTS = {"states": some.sampled_from(State), "kinds": kinds, "queues": queues, "tags": texts, "errors": texts}
MOMENTS = [f"{name}{end}" for name in ("", "created_", "due_", "ended_") for end in ("since", "until")]
ARGUMENTS = {
    **{f"{sign}{name}": some.lists(each, max_size=3) for name, each in LISTS.items() for sign in ("", "not_")},
    **{name: some.one_of(some.none(), ranges) for name in ("id", "priority", "attempt")},
    **{name: some.one_of(some.none(), moments) for name in MOMENTS},
    **{f"{sign}{name}": fields for name in ("args", "meta") for sign in ("", "not_")},
    "workflow": some.one_of(some.none(), some.integers(1, 2**63 - 1)),
    "unique": some.one_of(some.none(), some.from_regex(r"[0-9a-fA-F]{6,64}", fullmatch=True)),
    "gate": some.one_of(some.none(), texts),
}


@pytest.mark.parametrize(
    "words", ["since:1h", "since:90s", "since:2d", "since:3w", "until:30m", "due-until:+2h", "since:0s", "since:0.5s"]
)
def test_a_span_is_written_in_the_unit_in_which_a_person_says_it(words):
    assert str(JobFilter.parse(words)) == words


@settings(max_examples=300, deadline=None)
@given(some.fixed_dictionaries({}, optional=ARGUMENTS))
def test_the_words_of_a_filter_make_an_equal_filter(arguments):
    made = JobFilter(**arguments)

    again = JobFilter.parse(str(made))

    assert again == made
    assert again.digest == made.digest
    assert str(again) == str(made)


@settings(max_examples=300, deadline=None)
@given(some.text(max_size=60))
def test_any_text_is_a_filter_or_is_refused_with_the_place(text):
    try:
        made = JobFilter.parse(text)
    except OptionError as error:
        made, said = JobFilter(), str(error)
    else:
        said = "filter"

    assert said.startswith("filter")
    assert JobFilter.parse(str(made)) == made


@settings(max_examples=100, deadline=None)
@given(some.fixed_dictionaries({}, optional=ARGUMENTS))
def test_a_filter_is_stored_as_json_in_ascii_with_times_for_spans(arguments):
    stored = JobFilter(**arguments).stored(NOW)

    assert stored.isascii()
    told = msgspec.json.decode(stored)
    for name in ("moment", "created", "due", "ended"):
        for end in told.get(name, ()):
            assert end is None or datetime.fromisoformat(end).tzinfo is not None


def test_words_say_what_the_arguments_say():
    words = (
        'kind:mail state:discarded since:2h error:"connection refused" args.account.id:42 -queue:slow priority:<3 attempt:>3 '
        'until:+30m id:7..9 -args."a.b".0:x meta.cause:crashed tag:red tag:"two words"'
    )

    assert JobFilter.parse(words) == JobFilter(
        kinds=["mail"],
        states=["discarded"],
        since=timedelta(hours=2),
        until=-1800,
        errors=["connection refused"],
        args={"account.id": 42},
        not_args={'"a.b".0': "x"},
        meta={"cause": "crashed"},
        not_queues=["slow"],
        priority=(None, 2),
        attempt=(4, None),
        id=(7, 9),
        tags=["red", "two words"],
    )


def test_times_are_those_of_a_zone_and_of_utc_without_one():
    assert JobFilter.parse("since:2026-11-20") == JobFilter(since=datetime(2026, 11, 20, tzinfo=UTC))
    assert JobFilter.parse("since:2026-11-20T18:00+01:00") == JobFilter(since=datetime(2026, 11, 20, 17, tzinfo=UTC))
    assert msgspec.json.decode(JobFilter.parse("since:1w").stored(NOW))["moment"] == ["2026-11-13T12:00:00+00:00", None]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("mail", "filter, character 1: expected NAME:VALUE such as kind:mail, got 'mail'"),
        ("kind:mail  stat:x", "filter, character 12: expected one of state, kind, queue, tag, error, id, priority,"),
        ("kind:", "filter, character 1: expected NAME:VALUE such as kind:mail, got 'kind:'"),
        ("state:done", "state 'done': expected one of scheduled, available, running,"),
        ("kind:9", "kind '9': expected a letter or underscore"),
        ('error:"open', "filter, character 7: expected a quote that ends the text, got none"),
        ('error:x"a"y"', "expected a quote that ends the text"),
        ("priority:high", "filter, character 1: priority 'high': expected a number or a range, such as 3, >3, <=3 or 1..3"),
        ("attempt:>1..3", "attempt '>1..3': expected a number or a range"),
        ("since:soon", "filter, character 1: since 'soon': expected how long ago, such as 90s, 30m, 2h, 1d or 1w"),
        ("since:2h since:3h", "filter, character 10: since: expected once, got it again: 'since:3h'"),
        ("-since:2h", "since: expected no '-' before it, got '-since:2h'"),
        ("args.:1", "path '': expected names with a dot between"),
        ("args.a..b:1", "path 'a..b': expected names with a dot between"),
        ("unique:xyz", "unique 'xyz': expected 6 to 64 hexadecimal digits"),
        ("workflow:first", "workflow 'first': expected the id of a workflow"),
        ("kind:a " * 101, "expected 100 words at most, got 101"),
        ("kind:" + "a" * 10_000, "expected 10,000 characters at most, got 10,005"),
    ],
)
def test_a_filter_that_nobody_can_have_meant_is_refused_with_the_rule(words, said):
    with pytest.raises(OptionError) as refused:
        JobFilter.parse(words)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"states": "discarded"}, "states 'discarded': expected a list"),
        ({"since": datetime.fromisoformat("2026-01-01")}, "expected a time with a zone"),
        ({"since": "2h"}, "since '2h': expected a time with a zone, a timedelta, or seconds ago"),
        ({"priority": "1"}, "priority '1': expected a whole number, or a tuple of the smallest and the largest one"),
        ({"priority": (None, None)}, "expected one end of the range at least"),
        ({"args": {"a": [1]}}, "args 'a': expected a text, a number, true, false or None, got [1]"),
        ({"args": {"": 1}}, "path '': expected names with a dot between"),
        ({"errors": ["a\0b"]}, "expected a text without NUL"),
        ({"workflow": 0}, "workflow 0: expected the id of a workflow"),
    ],
)
def test_arguments_that_are_no_filter_are_refused_with_the_rule(arguments, said):
    with pytest.raises(OptionError) as refused:
        JobFilter(**arguments)

    assert said in str(refused.value)


def test_a_text_that_takes_long_to_read_is_bounded():
    path = ".".join(["a"] * terms.MOST)

    assert len(JobFilter.parse(f"args.{path}:1").args[0][0]) == terms.MOST
    with pytest.raises(OptionError, match="path: expected 100 names at most"):
        JobFilter.parse(f"args.{path}.a:1")
