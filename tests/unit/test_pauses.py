"""What can be paused, until when and why: the rules, without a database."""

from datetime import datetime, timedelta

import pytest

from fastq.admin.pauses import begin_parameters, parameters_of
from fastq.cli.terminal.parser import until
from fastq.errors import FastqError, OptionError


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ({}, "expected one of queue=, kind=, gate= .* got none"),
        ({"queue": "a", "kind": "b"}, "expected one of .* got queue='a', kind='b'"),
        ({"kind": "b", "key": 1}, "expected one of"),
        ({"everything": 1}, "everything=1"),
        ({"queue": "*"}, "queue '\\*': expected"),
        ({"kind": "a b"}, "a b"),
        ({"gate": "a b"}, "gate 'a b': expected a name like 'mail-api'"),
        ({"gate": "a", "key": float("inf")}, "no finite number"),
    ],
)
def test_something_that_cannot_be_paused_is_refused_with_the_rule(target, rule):
    with pytest.raises(FastqError, match=rule):
        parameters_of(target)


@pytest.mark.parametrize("given", [0, -1, True, "tomorrow", datetime(2100, 1, 1), timedelta(0), float("nan")])  # noqa: DTZ001
def test_an_end_is_a_time_with_a_zone_or_seconds(given):
    with pytest.raises(OptionError, match=r"until .*expected a datetime with a time zone"):
        begin_parameters({"queue": "default"}, given, "")


@pytest.mark.parametrize("reason", ["two\nlines", "x" * 501, None])
def test_a_reason_is_one_line(reason):
    with pytest.raises(OptionError, match="expected a text of one line, 500 characters at most"):
        begin_parameters({"queue": "default"}, None, reason)


@pytest.mark.parametrize(("text", "read"), [("90", 90.0), ("90s", 90.0), ("30m", 1800.0), ("1.5h", 5400.0), ("2d", 172_800.0)])
def test_an_end_is_read_from_the_command_line(text, read):
    assert until(text) == read
    assert until("2026-12-24T18:00+01:00") == datetime.fromisoformat("2026-12-24T17:00+00:00")


@pytest.mark.parametrize("text", ["", "soon", "1w", "-3", "2026-12-24T18:00", "nan"])
def test_an_end_that_says_nothing_is_refused(text):
    with pytest.raises(Exception, match="expected 90s, 30m, 2h, 1d or a time with a zone"):
        until(text)
