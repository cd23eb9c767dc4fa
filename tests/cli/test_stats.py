"""`fastq stats`: a table that fits a terminal of 80 characters, JSON with every figure, and mistakes that are told."""

import json

import pytest

from fastq.cli.history.stats import span
from fastq.statistics.bins import OF_WAITS, bin_of
from tests.helpers import execute

pytestmark = pytest.mark.further

ROW = """insert into fastq.stat select date_trunc('minute', now()) - %s * interval '1 minute', 1, %s, %s, %s, %s, 1, 1, 1, 1,
    array[%s, %s]::smallint[], array[%s, %s]::bigint[]"""


@pytest.fixture
def counted(database):
    """Give a database with the statistics of two kinds, and some living jobs."""

    def tell(ago, kind, outcome, jobs, run, wait):
        bins = (bin_of(run), OF_WAITS + bin_of(wait))
        execute(database, ROW, ago, "default", kind, outcome, jobs, *bins, jobs, jobs)

    for ago in range(50):
        tell(ago, "mail", "completed", 100 - ago, 0.02, 0.003)
    tell(5, "mail", "retryable", 7, 2.0, 0.5)
    tell(40, "report", "completed", 3, 125.0, 0.0004)
    tell(40, "report", "discarded", 2, 125.0, 0.0004)
    execute(database, "insert into fastq.job (kind) select 'mail' from generate_series(1, 12)")
    return database


def test_a_table_shows_each_kind_on_a_line_of_80_characters(on_database, counted):
    head, first, second = on_database("stats", "--by", "kind").splitlines()

    assert head.split() == ["kind", "jobs", "failed", "wait", "p50", "p95", "p99", "run", "p50", "p95", "p99", "rate"]
    assert first.split()[:9] == ["mail", "3775", "7", "3ms", "3ms", "3ms", "19ms", "19ms", "19ms"], "in their bin"
    assert second.split()[:9] == ["report", "5", "2", "<1ms", "<1ms", "<1ms", "2.2m", "2.2m", "2.2m"]
    assert max(map(len, (head, first, second))) <= 80
    bars = first.split()[9]
    assert len(bars) == 8
    assert bars[-1] == "█"
    assert sorted(bars[1:]) == list(bars[1:]), "it has gone up"


def test_the_whole_is_shown_by_queue_and_with_a_filter(on_database, counted):
    assert on_database("stats").splitlines()[1].split()[:3] == ["default", "3780", "9"]
    assert on_database("stats", "--kind", "report").splitlines()[1].split()[:3] == ["default", "5", "2"]
    assert on_database("stats", "--kind", "report", "--since", "10m") == ""


def test_as_json_there_is_every_figure(on_database, counted):
    [row] = json.loads(on_database("stats", "--by", "kind", "--kind", "report", "--json"))

    assert (row["kind"], row["ended"], row["failed"], row["outcomes"]) == ("report", 5, 2, {"completed": 3, "discarded": 2})
    assert (row["run"]["timed"], row["run"]["attempts"]) == (2, 5)
    minutes = json.loads(on_database("stats", "--kind", "mail", "--step", "minute", "--json"))
    assert len(minutes) == 50
    assert minutes[0]["at"] < minutes[-1]["at"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "<1ms"),
        (0.0005, "<1ms"),
        (0.0006, "1ms"),
        (0.041, "41ms"),
        (0.0994, "99ms"),
        (0.0996, "0.1s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (99.4, "99s"),
        (99.6, "1.7m"),
        (5_000.0, "83m"),
        (6_000.0, "1.7h"),
        (172_799.0, "48h"),
        (200_000.0, "2.3d"),
        (1e7, "116d"),
    ],
)
def test_a_time_is_written_in_four_characters(seconds, text):
    assert span(seconds) == text
    assert len(text) <= 4
