"""The look of pages, without a database: words for times and schedules, measures of charts, and the layout of workflows."""

import itertools
import random
import re
from datetime import UTC, datetime, timedelta

import pytest

from fastq.admin.statistics import StatRow, Times
from fastq.web.live.following import event
from fastq.web.look import graph, wording
from fastq.web.look.charts import HEIGHT, columns, stacked
from fastq.web.look.rendering import ENVIRONMENT, FOLDER, address
from fastq.web.look.schedules import in_words, next_ticks
from fastq.workflows.folding import DrawnStep

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s ago"), (16, "16s ago"), (119, "119s ago"), (180, "3m ago"), (7_300, "2h ago"), (200_000, "2d ago"), (-30, "in 30s")],
)
def test_a_time_is_told_by_its_distance_from_now(seconds, text):
    assert wording.ago(NOW - timedelta(seconds=seconds), NOW) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (9_999, "9,999"), (12_345, "12k"), (1_234_567, "1.2M"), (45_000_000, "45M")]
)
def test_a_number_is_short(number, text):
    assert wording.count(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "<1ms"),
        (0.0004, "<1ms"),
        (0.0123, "12ms"),
        (0.2, "200ms"),
        (1.26, "1.3s"),
        (63.0, "63s"),
        (7_200.0, "2h"),
    ],
)
def test_a_duration_that_nobody_has_measured_is_a_dash(seconds, text):
    assert wording.took(seconds) == text


@pytest.mark.parametrize(
    ("per_second", "text"),
    [
        (12_345.0, "12k/s"),
        (12.4, "12/s"),
        (1.26, "1.3/s"),
        (1.0, "1/s"),
        (0.5, "30/min"),
        (3.5 / 60, "3.5/min"),
        (2 / 3600, "2/h"),
        (0, "0/h"),
    ],
)
def test_a_rate_is_told_in_a_unit_of_which_it_is_one_at_least(per_second, text):
    assert wording.rate(per_second) == text


def minute_of(ago, completed=0, discarded=0, retryable=0):
    outcomes = {"completed": completed, "discarded": discarded, "retryable": retryable}
    none = Times(0, 0, None, None, None, None)
    at = NOW - timedelta(minutes=ago)
    return StatRow(at, 60.0, None, None, outcomes, completed + discarded, discarded + retryable, 0.0, 0, none, none)


def test_columns_stand_on_the_failures_of_their_minute_and_the_highest_is_as_high_as_the_chart():
    chart = columns(
        [minute_of(0, completed=6, discarded=1, retryable=1), minute_of(59, completed=4), minute_of(60, completed=9)], NOW
    )

    assert (chart.most, chart.ends, chart.failures) == (8, 10, 2)
    assert [int(x) for x in re.findall(r"M(\d+) ", chart.ended)] == [0, 59]
    [(foot, failed)] = re.findall(r"M59 ([\d.]+)v-([\d.]+)h", chart.failed)
    assert float(foot) == HEIGHT
    [(top, ended)] = re.findall(r"M59 ([\d.]+)v-([\d.]+)h", chart.ended)
    assert float(top) == pytest.approx(HEIGHT - float(failed))
    assert float(failed) + float(ended) == pytest.approx(HEIGHT)
    assert set(chart.ended + chart.failed) <= set("Mvh -.0123456789")


def test_a_minute_of_a_clock_that_is_ahead_is_the_last_one_and_a_chart_of_nothing_has_no_columns():
    assert columns([minute_of(-3, completed=1)], NOW).ended.startswith("M59 ")
    assert columns([], NOW) == ("", "", 0, 0, 0)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("cron 0 9 * * mon-fri", "at 09:00, Monday to Friday"),
        ("cron 30 2 * * *", "at 02:30"),
        ("cron */15 * * * *", "every 15 minutes"),
        ("cron * * * * *", "every minute"),
        ("cron 5 * * * *", "every hour at :05"),
        ("cron 0 */6 * * *", "every 6 hours"),
        ("cron 0 6 1 * *", "at 06:00, on the 1st"),
        ("cron 0 6 l * *", "at 06:00, on the last day of the month"),
        ("cron 0 8,12 * * 0,7", "at 08:00 and 12:00, Sunday and Sunday"),
        ("cron 0 0 24 dec *", "at 00:00, on the 24th in December"),
        ("cron 0 9 1 * mon", "0 9 1 * mon"),
        ("cron */7 * * * *", "*/7 * * * *"),
        ("cron */0 * * * *", "*/0 * * * *"),
        ("cron 0 9 * * mon#2", "0 9 * * mon#2"),
        ("every 30", "every 30 seconds"),
        ("every 3600", "every hour"),
        ("every 172800", "every 2 days"),
        ("every 0.5", "every 0.5 seconds"),
        ("odd", "odd"),
        ("", ""),
    ],
)
def test_a_schedule_is_said_in_plain_words_or_as_it_is_written(schedule, words):
    assert in_words(schedule) == words


def test_the_next_ticks_of_a_schedule_that_nobody_can_read_are_none():
    assert next_ticks("cron 0 9 * * *", "UTC", NOW, 2) == [
        datetime(2026, 11, 21, 9, tzinfo=UTC),
        datetime(2026, 11, 22, 9, tzinfo=UTC),
    ]
    assert next_ticks("odd", "UTC", NOW) == next_ticks("cron 0 9 * * *", "Nowhere/None", NOW) == []


@pytest.mark.parametrize("counts", [[0, 0], [1, 1_000_000], [5, 5], [1, 1, 1, 1, 100_000], []])
def test_a_part_of_a_bar_that_is_not_nothing_is_seen_and_all_are_within_the_bar(counts):
    parts = stacked([(f"p{n}", count) for n, count in enumerate(counts)], sum(counts))

    assert [part.jobs for part in parts] == [count for count in counts if count]
    assert all(part.width >= 1 for part in parts)
    assert all(part.x + part.width <= 100.1 for part in parts)
    assert all(one.x + one.width <= other.x + 0.1 for one, other in itertools.pairwise(parts))


def some_steps(seed):
    chance = random.Random(seed)
    count = chance.randint(1, 80)
    return [
        DrawnStep(
            f"step-{n}" if chance.random() < 0.7 else None,
            f"kind-{chance.randint(0, 5)}",
            n + 1,
            chance.choice(["completed", "running", "waiting", "discarded"]),
            [(parent, chance.random() < 0.2) for parent in sorted(chance.sample(range(n), min(n, chance.randint(0, 3))))],
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_no_two_boxes_of_a_workflow_touch_and_all_are_within_the_drawing(seed):
    drawing = graph.draw(some_steps(seed))

    assert 0 < len(drawing.boxes) <= graph.MOST or not drawing.edges
    for box in drawing.boxes:
        assert 0 <= box.x <= drawing.width - graph.WIDTH
        assert 0 <= box.y <= drawing.height - graph.HEIGHT
        assert len(box.label) <= graph.LABEL
    for one, other in itertools.combinations(drawing.boxes, 2):
        assert abs(one.x - other.x) >= graph.WIDTH or abs(one.y - other.y) >= graph.HEIGHT
    assert all(re.fullmatch(r"[MCH\d .-]+", curve) for curve, _ in drawing.curves)


def test_an_edge_that_passes_a_column_passes_its_boxes():
    steps = [DrawnStep(name, name, n, "completed", after) for n, (name, after) in enumerate(
        [("a", []), ("b", [(0, False)]), ("c", [(1, False)]), ("d", [(2, False), (0, False)])], 1)]  # fmt: skip

    drawing = graph.draw(steps)
    middles = {box.y + graph.HEIGHT / 2 for box in drawing.boxes if box.label in "bc"}
    long = next(curve for curve, _ in drawing.curves if curve.count("C") == 3)

    assert middles.isdisjoint({float(y) for y in re.findall(r"[\d.]+ ([\d.]+)H", long)})


def test_a_workflow_without_steps_has_no_drawing():
    assert graph.draw([]).boxes == []


def test_an_address_quotes_each_part():
    assert address("/gates/set", name="a b&c=d/é", key='{"x": 1}', empty="", none=None) == (
        "/gates/set?name=a%20b%26c%3Dd%2F%C3%A9&key=%7B%22x%22%3A%201%7D"
    )


@pytest.mark.parametrize("text", ["one\ntwo", "a\r\ndata: b\r\n\r\nevent: c", "a\rb", "\n\n", "a\u2028b"])
def test_no_text_ends_its_event(text):
    sent = event(text).decode()

    assert sent.endswith("\n\n")
    assert sent.count("\n\n") == 1
    assert "\r" not in sent
    assert all(line.startswith("data: ") for line in sent.removesuffix("\n\n").split("\n"))


def test_no_template_switches_the_escapes_off_and_none_has_a_style_or_a_script_of_its_own():
    for path in sorted((FOLDER / "templates").iterdir()):
        text = path.read_text()
        assert not re.search(r"\|\s*safe|autoescape|Markup|style=|<style|\son\w+=", text), path.name
        assert re.findall(r"<script[^>]*>(?!</script>)", text) == [], path.name
        assert "unsafe" not in text
    assert ENVIRONMENT.autoescape is True


def test_the_script_is_short_and_runs_nothing_that_it_was_sent():
    text = (FOLDER / "static" / "fastq.js").read_text()

    assert len(text.splitlines()) <= 300
    assert not re.search(r"\beval\b|new Function|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\.style\b", text)
