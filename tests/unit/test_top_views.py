"""The views of `fastq top`, as functions of values: each fits each size, and each key does its thing."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.cells import cell_len

from fastq import admin
from fastq.admin.dead import DeadGroup
from fastq.admin.dead.lately import Lately
from fastq.admin.running import Notice, ProcessRow, ProcessVitals, RunningRow
from fastq.admin.running.whereabouts import Stack
from fastq.admin.search import JobFilter, JobPage
from fastq.admin.statistics import StatRow, Times
from fastq.cli.top import narrowed
from fastq.cli.top.columns import by_time, cut, fit, short
from fastq.cli.top.composing import Seen, composed
from fastq.cli.top.display import keys_of
from fastq.cli.top.figures import MINUTES, Figures, QueueFigures, Rates, Wanted, rates_of
from fastq.cli.top.narrowed import EVERYTHING
from fastq.cli.top.onejob import OneJob
from fastq.cli.top.panes import PANES
from fastq.cli.top.pressing import VIEWS, Shown, press
from fastq.cli.top.top import VIEWS as NAMES
from fastq.cli.top.top import as_json, as_lines
from fastq.errors import OptionError
from fastq.jobs.job import State

NOW = datetime(2026, 11, 20, 6, 0, 30, tzinfo=UTC)
SIZES = [(80, 24), (140, 40), (60, 12), (300, 80), (40, 10)]
TIMES = Times(100, 100, 0.05, 0.0412, 1.23, 2.0)


def queue(name, **changes):
    values = {
        "paused_at": None,
        "paused_until": None,
        "pause_reason": None,
        "available": 3210,
        "claimed": 12,
        "scheduled": 5,
        "retryable": 7,
        "waiting": 0,
        "processes": 2,
    }
    return admin.QueueRow(name, **(values | changes))


def job(job_id, **changes):
    values = {
        "state": State.DISCARDED,
        "kind": "report",
        "queue": "reports",
        "priority": 1,
        "attempt": 1,
        "max_attempts": 1,
        "tags": [],
        "created_at": NOW - timedelta(minutes=5),
        "scheduled_at": None,
        "attempted_at": NOW - timedelta(minutes=4),
        "finalized_at": NOW - timedelta(minutes=3),
        "error": "ValueError: no figures\nfor\x1b[31m 2026",
        "waits_for": None,
    }
    return admin.JobRow(job_id, **(values | changes))


def detail(job_id, **changes):
    base = job(job_id)
    values = {name: getattr(base, name) for name in admin.JobRow.__dataclass_fields__} | {
        "args_json": '{"card":"•••","month":"2026-11"}',
        "output_json": None,
        "errors": [{"attempt": 1, "at": "2026-11-20T05:57:30+00:00", "error": "ValueError", "trace": "Traceback\n  line\x07"}],
        "crashes": 0,
        "cancel_requested": False,
        "host": None,
        "pid": None,
        "meta": {},
    }
    return admin.JobDetail(**(values | changes))


VITALS = ProcessVitals(rss=104_857_600, pss=52_428_800, threads=21, cpu=7.5, load=0.25, executors=16, busy=3, held=40)

FIGURES = Figures(
    Wanted(VIEWS, EVERYTHING),
    NOW,
    [
        QueueFigures(queue("mails"), Rates(1234.5, 12, (0,) * 12 + (1, 8, 3), TIMES, TIMES)),
        QueueFigures(
            queue("a-queue-with-a-name-that-is-longer-than-most", available=10_000, paused_at=NOW, counted_to=10_000), Rates()
        ),
        QueueFigures(queue("nobody", claimed=0, processes=0), Rates()),
    ],
    [
        ProcessRow(1, "host-1", 4711, "host-1:9:a", ["mails"], "default", NOW - timedelta(hours=3), NOW, True, ["mail"], VITALS),
        ProcessRow(2, "host-2", 4712, "host-2:99:abc", ["mails", "reports"], "default", NOW, NOW, False, None, None),
    ],
    [
        RunningRow(7, "report", "reports", 2, 5, None, NOW - timedelta(seconds=75), False, 1, "host-1", 4711, 0.5, "page\t3"),
        RunningRow(8, "mail", "mails", 1, 5, None, NOW, True, 3, None, None, None, None),
    ],
    JobPage([job(42), job(41, kind="漢字漢字漢字漢字漢字漢字"), job(40, state=State.WAITING)], "further", NOW, 1000),
    Lately([DeadGroup("5e88", "report", "failed", "ValueError", "no <n>", 12, 1, NOW, NOW, 42, "no 5", [42])], 12, True),
    [Notice(True, "nobody leads: due jobs stand still", "leaders"), Notice(False, "kind 'mail' is paused", "queues")],
    None,
)


def seen(figures=FIGURES, **changes):
    return Seen(figures, 0.4, 2.0, None, 0.0, False, "Postgres 18.4, database shop")._replace(**changes)


def texts(shown, figures=FIGURES, width=80, height=24, **changes):
    return ["".join(text for text, _ in line) for line in composed(shown, seen(figures, **changes), width, height).lines]


def screen(shown, figures=FIGURES, **changes):
    return "\n".join(texts(shown, figures, **changes))


def pressed(shown, *keys, figures=FIGURES):
    return [deed for deed in (press(shown, key, figures) for key in keys) if deed]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_each_view_fills_each_size_and_no_line_is_longer_than_it(view, size):
    for changes in ({}, {"job": 42}, {"help": True}, {"typed": "x" * 200}, {"said": "y" * 300}, {"filter": "kind:" + "z" * 99}):
        shown = Shown(view=view, **changes)
        figures = replace(FIGURES, job=OneJob(42, detail(42), "job 42 was discarded " * 9, []))
        lines = texts(shown, figures, *size)

        assert len(lines) == size[1]
        assert max(map(cell_len, lines)) <= size[0]
        assert "\x1b" not in "".join(lines)
        assert "\x07" not in "".join(lines)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_without_rows_says_so(view):
    empty = replace(FIGURES, queues=[], processes=[], running=[], jobs=None, failures=None, notices=[])

    assert PANES[view].empty in screen(Shown(view=view), empty)
    assert screen(Shown(view=view), None).count("looking") == 1


def test_while_the_figures_are_those_of_another_view_no_row_is_shown_and_none_is_chosen():
    others = replace(FIGURES, wanted=Wanted(("queues",), EVERYTHING))
    shown = Shown(view="jobs", operate=True)

    assert "looking" in screen(shown, others)
    assert pressed(shown, "c", "y", figures=others) == []
    assert "cancel: nothing is chosen" not in screen(shown, others), "y is a key like another"
    pressed(shown, "c", "enter", figures=others)
    assert shown.job is None


def test_a_terminal_that_is_too_small_asks_for_more():
    assert texts(Shown(), width=39, height=24) == ["fastq top takes 40 x 10 at least"]


def test_the_queues_show_living_jobs_rates_percentiles_and_failures_in_80_columns():
    lines = texts(Shown(operate=True), width=80)
    mails = next(line for line in lines if "mails" in line)

    assert mails.split() == [">", "mails", "3,210", "12", "5", "7", "-", "1,234", "41ms", "1.2s", "41ms", "1.2s", "▁▁▂█▄"]
    assert "10k+" in next(line for line in lines if "a-queu" in line), "the count stopped at its limit"
    wide = "\n".join(texts(Shown(), width=140))
    assert "▁▁▁▁▁▁▁▁▁▁▁▁▂█▄" in wide
    assert "paused" in wide
    assert "unworked" in wide


def test_the_state_of_a_queue_is_seen_at_80_columns_where_names_are_short():
    rows = [QueueFigures(queue("mails", paused_at=NOW), Rates(wait=TIMES, run=TIMES, failing=3))]

    assert "paused" in screen(Shown(), replace(FIGURES, queues=rows, notices=[]))


def test_running_jobs_show_since_when_where_and_how_far():
    lines = texts(Shown(view="running"))

    assert [line.split()[1:6] for line in lines if "host-1" in line] == [["7", "report", "reports", "2/5", "75s"]]
    assert "50% page\\t3" in "\n".join(lines)
    assert "its process is gone" in "\n".join(lines)
    assert "asked to end" in "\n".join(lines)


def test_a_job_shows_why_its_args_with_hidden_values_hidden_and_its_errors():
    figures = replace(FIGURES, job=OneJob(42, detail(42), "job 42 was discarded", []))
    told = screen(Shown(view="jobs", job=42), figures)

    assert "job 42 was discarded" in told
    assert '{"card":"•••","month":"2026-11"}' in told
    assert "attempt 1 failed, 2026-11-20 05:57:30 UTC" in told
    assert "line\\x07" in told
    assert "there is no job 43" in screen(Shown(job=43), replace(FIGURES, job=OneJob(43, None, None, [])))
    assert "looking at job 44" in screen(Shown(job=44), figures)


def test_a_lost_connection_is_a_banner_and_the_age_of_the_figures_goes_on():
    told = screen(Shown(), trouble="server closed the connection", troubled=4.0, age=9.0)

    assert "no database for 4.0s, trying again: server closed the connection" in told
    assert "9 s ago" in told
    assert "mails" in told, "the last figures stay"
    assert "slow: every 20 s" in screen(Shown(), width=140, slow=True, every=20.0)


def test_the_gravest_notice_is_on_top_and_the_others_are_counted():
    assert "! nobody leads: due jobs stand still" in texts(Shown())[2]
    assert texts(Shown())[2].endswith("(+1)")


def test_numbers_and_rates_are_written_in_five_characters():
    assert [short(number) for number in (0, 999, 9_999, 10_000, 99_999, 1_234_567, 12_345_678)] == [
        "0",
        "999",
        "9,999",
        "10k",
        "100k",
        "1.2M",
        "12M",
    ]
    assert [by_time(number) for number in (0.0, 0.04, 0.34, 9.9, 12.4, 45_678.0)] == ["0", "<0.1", "0.3", "9.9", "12", "46k"]
    assert short(10_000, more=True) == "10k+"


def test_texts_are_cut_by_their_cells():
    assert fit("漢字漢字", 5) == "漢字…"
    assert fit("ab", 5, right=True) == "   ab"
    assert cut([("abc", ""), ("def", "red")], 4) == [("abc", ""), ("…", "red")]


def test_a_filter_keeps_what_fits_and_tells_mistakes():
    assert narrowed.read("queue:mails  state:running state:waiting") == JobFilter(
        queues=["mails"], states=[State.RUNNING, State.WAITING]
    )
    assert narrowed.read(" ") == EVERYTHING
    kept = narrowed.keep(FIGURES, JobFilter(queues=["mails"], kinds=["mail"]))
    assert [row.queue.name for row in kept.queues] == ["mails"]
    assert [row.id for row in kept.running] == [8]
    assert [row.id for row in kept.processes] == [1, 2]
    assert narrowed.keep(FIGURES, JobFilter(states=[State.DISCARDED])).running == []
    for text in ("mails", "queue:", "color:red", "state:gone", "queue:'"):
        with pytest.raises(OptionError):
            narrowed.read(text)


def test_keys_choose_views_and_rows_and_a_chosen_row_stays_while_others_come():
    shown = Shown()
    pressed(shown, "3", "down")
    assert (shown.view, shown.chosen["jobs"]) == ("jobs", 41)
    more = replace(FIGURES, jobs=JobPage([job(44), job(43), *FIGURES.jobs.jobs], None, None, 10))
    assert "> 41" in screen(shown, more)
    gone = replace(FIGURES, jobs=JobPage([job(44), job(43), job(42)], None, None, 10))
    assert screen(shown, gone).count("> ") == 1, "the row at its place"
    pressed(shown, "end")
    assert shown.chosen["jobs"] == 40
    pressed(shown, "tab")
    assert shown.view == "failures"
    pressed(shown, "left", "left", "left", "left", "left")
    assert shown.view == "failures", "once around"


def test_a_long_list_scrolls_so_that_the_chosen_row_is_on_the_screen():
    shown = Shown(view="jobs")
    figures = replace(FIGURES, jobs=JobPage([job(1000 - number) for number in range(100)], None, None, 10))
    for key, wanted in (("pgdn", None), ("pgdn", None), ("end", "901"), ("up", "902"), ("home", "1000")):
        screen(shown, figures)
        shown.page = 15
        pressed(shown, key, figures=figures)
        told = screen(shown, figures)
        assert told.count("> ") == 1
        assert wanted in (None, re.search(r"^> *(\d+)", told, re.MULTILINE)[1])


def test_a_filter_is_typed_kept_and_ended():
    shown = Shown()
    pressed(shown, "/", *"kind:repor", "x", "backspace", "t", "enter")
    assert (shown.filter, shown.wanted.narrow) == ("kind:report", JobFilter(kinds=["report"]))
    assert "/kind:report" in screen(shown)
    pressed(shown, "/", "ctrl-u", *"colour:red", "enter")
    assert "expected one of state, kind" in screen(shown)
    pressed(shown, "esc")
    assert shown.filter == "kind:report", "a filter with a mistake changes nothing"
    pressed(shown, "esc")
    assert shown.filter == ""


def test_enter_opens_the_jobs_of_a_queue_a_job_and_the_newest_of_a_group():
    shown = Shown()
    pressed(shown, "enter")
    assert (shown.view, shown.filter) == ("jobs", "queue:mails")
    pressed(shown, "enter")
    assert shown.wanted.job == 42
    pressed(shown, "esc", "4", "enter")
    assert shown.job == 42
    assert "fastq dead show 5e88" in screen(shown)


@pytest.mark.parametrize("key", ["r", "c", "p", "u"])
def test_without_operate_a_key_that_changes_says_so(key):
    shown = Shown(view="jobs")

    assert pressed(shown, key, "y") == []
    assert shown.asked is None
    pressed(shown, key)
    assert "fastq top --operate" in screen(shown)


@pytest.mark.parametrize(
    ("view", "key", "question"),
    [
        ("jobs", "r", "retry job 42 (report)?"),
        ("jobs", "c", "cancel job 42 (report)?"),
        ("running", "c", "cancel job 7 (report)?"),
        ("running", "p", "pause kind 'report'?"),
        ("queues", "p", "pause queue 'mails'?"),
        ("queues", "u", "resume queue 'mails'?"),
        ("failures", "r", "replay 12 jobs of group 5e88 (report)?"),
    ],
)
def test_a_change_is_done_only_when_its_question_is_answered_with_y(view, key, question):
    shown = Shown(view=view, operate=True)

    for answer in ("n", "enter", "esc", "q", key):
        assert pressed(shown, key) == []
        assert question in screen(shown)
        assert pressed(shown, answer) == []
        assert "nothing was done" in screen(shown)
        assert not shown.quit
    [deed] = pressed(shown, key, "y")
    assert deed.question == question


@pytest.mark.parametrize(("view", "key"), [("queues", "r"), ("queues", "c"), ("failures", "c"), ("processes", "p")])
def test_a_key_that_has_no_meaning_in_a_view_says_so(view, key):
    shown = Shown(view=view, operate=True)

    assert pressed(shown, key, "y") == []
    assert shown.asked is None
    pressed(shown, key)
    assert texts(shown)[-2].strip()


def test_a_question_about_a_row_is_about_that_row_when_others_have_come_before_it():
    shown = Shown(view="jobs", operate=True)
    pressed(shown, "c")
    more = replace(FIGURES, jobs=JobPage([job(44), *FIGURES.jobs.jobs], None, None, 10))

    assert "cancel job 42 (report)?" in screen(shown, more)
    assert "> 42" in screen(shown, more)


def test_the_help_can_be_read_on_a_small_terminal():
    shown = Shown()
    pressed(shown, "?")
    first = screen(shown, height=14)
    assert "the views: queues" in first
    assert "lines more" in first
    pressed(shown, "end")
    assert "--once --json all of them" in screen(shown, height=14)
    pressed(shown, "?", "q")
    assert shown.quit


def test_the_characters_of_a_terminal_are_keys():
    assert keys_of("aä\x1b[A\x1bOB\x1b[6~\r\t\x1b[Z\x7f\x1b") == [
        *("a", "ä", "up", "down", "pgdn", "enter", "tab", "backtab", "backspace", "esc"),
    ]
    assert keys_of("\x1b[200~x\x1b[1;5D\x01\x03") == ["x", "ctrl-c"], "others are no keys"


def row(at, seconds, name, ended, failed, times=TIMES):
    return StatRow(at, seconds, name, None, {}, ended, failed, ended / seconds, 0, times, times)


def test_rates_are_of_the_last_two_minutes_and_failures_of_each():
    present = NOW.replace(second=0)
    minutes = [
        row(present - timedelta(minutes=14), 60.0, "mails", 600, 4),
        row(present - timedelta(minutes=1), 60.0, "mails", 60, 2),
        row(present, 30.0, "mails", 30, 1),
        row(present - timedelta(minutes=20), 60.0, "old", 600, 4),
    ]
    found = rates_of([row(present - timedelta(minutes=5), 330.0, "mails", 90, 3)], minutes)

    assert found["mails"].rate == 1.0
    assert found["mails"].failing == 2.0
    assert found["mails"].failures == (4, *(0,) * (MINUTES - 3), 2, 1)
    assert found["mails"].wait == TIMES
    assert found["old"].rate == 0.0
    assert rates_of([], []) == {}


def test_json_has_stable_keys():
    told = as_json(FIGURES, "shop")

    assert list(told) == ["at", "cluster", "notices", "queues", "processes", "running", "jobs", "failures"]
    assert list(told["queues"][0]) == [
        *("name", "state", "paused_at", "paused_until", "pause_reason", "available", "running", "scheduled", "retryable"),
        *("waiting", "at_least", "processes", "rate", "failed_per_minute", "failed_by_minute", "wait", "run"),
    ]
    assert [one["state"] for one in told["queues"]] == ["open", "paused", "unworked"]
    assert told["queues"][1]["at_least"]
    assert told["failures"]["groups"][0]["jobs"] == 12
    assert told["queues"][0]["wait"] == {"p50": 0.0412, "p95": 1.23, "p99": 2.0}


@pytest.mark.parametrize("view", VIEWS)
def test_as_text_a_view_has_all_of_its_rows_and_nothing_is_cut(view):
    lines = ["".join(text for text, _ in line).rstrip() for line in as_lines(FIGURES, view, 10_000)]

    assert sum("> " in line for line in lines) == 0
    assert lines[1] == "! nobody leads: due jobs stand still"
    assert len(lines) >= 5 + len(PANES[view].rows(FIGURES))
    assert "…" not in "\n".join(lines)


def test_the_views_of_the_option_are_those_that_there_are():
    assert NAMES == VIEWS


def test_the_processes_tell_their_memory_processor_time_and_executors():
    shown = screen(Shown(view="processes"), width=140, height=20)

    assert re.search(r"host-1 +4711 +alive +3.0h +1 +3/16 +50M +25% +21 ", shown)


def test_a_running_job_is_shown_with_its_stack_which_a_key_takes_anew():
    text = 'job 42 report, attempt 1, in threads of queue reports\n  File "/srv/jobs.py", line 3, in work\n'
    one = OneJob(42, detail(42, state=State.RUNNING), "it runs", [], Stack(42, 1, "host-1", 4711, NOW, text))
    shown = Shown(view="running", job=42)

    told = screen(shown, replace(FIGURES, job=one), width=120, height=60)

    assert 'File "/srv/jobs.py", line 3, in work' in told
    before = shown.wanted
    pressed(shown, "s")
    assert shown.wanted != before
    assert shown.wanted._replace(asked=before.asked) == before
    silent = one._replace(stack=Stack(42, 1, "host-1", 4711, why="it has not answered"))
    assert "it has not answered" in screen(shown, replace(FIGURES, job=silent), width=120, height=60)
