"""Events: what a line looks like, who hears of it, and what the log makes of it."""

import json
import logging
import subprocess
import sys
import textwrap

import pytest

from fastq.events import ASKED, FEW, UNLOGGED, Event, asked, emit, emit_each, subscribe, timed
from fastq.events import heard as somebody_hears


@pytest.fixture
def heard():
    """Collect the events of a test."""
    collected = []
    unsubscribe = subscribe(collected.append)
    yield collected
    unsubscribe()


def logged(text):
    """Run a program, in which pytest has no part, and return what it wrote to stderr."""
    head = "import logging, sys\nfrom fastq import log\nfrom fastq.config import Config\nfrom fastq.events import emit\n"
    done = subprocess.run([sys.executable, "-c", head + textwrap.dedent(text)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (3, "3"),
        (0.1 + 0.2, "0.3"),
        (12345678.25, "12345678.25"),
        (True, "true"),
        ("plain", "plain"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "no"', r'"say \"no\""'),
        ("back\\slash", r'"back\\slash"'),
        ("a\nevil id=1", r'"a\nevil id=1"'),
        ("\x1b[31m", r'"\x1b[31m"'),
        ("\u202e", r'"\u202e"'),
        ("\ud800", r'"\ud800"'),
        ("\U000e0001", r'"\U000e0001"'),
        ("größe", "größe"),
        (["a", "b"], "a,b"),
        ("x" * 2001, "x" * 2000 + "..."),
    ],
)
def test_a_value_stays_on_its_line_and_cannot_be_taken_for_another(value, written):
    assert str(Event("job.failed", logging.INFO, {"error": value})) == f"job.failed error={written}"


def test_a_field_of_none_is_left_out():
    assert str(Event("job.failed", logging.INFO, {"id": 1, "queue": None})) == "job.failed id=1"


def test_subscribers_hear_events_whatever_is_logged_until_they_unsubscribe():
    heard = []
    unsubscribe = subscribe(heard.append)

    emit("job.failed", level=logging.DEBUG, id=1)
    unsubscribe()
    emit("job.failed", id=2)

    assert heard == [Event("job.failed", logging.DEBUG, {"id": 1})]


def test_a_subscriber_that_raises_is_logged_and_the_others_hear_the_event(heard, caplog):
    unsubscribe = subscribe(lambda event: 1 / 0)
    later = []
    unsubscribe_later = subscribe(later.append)

    emit("job.failed", id=1)
    unsubscribe()
    unsubscribe_later()

    assert len(heard) == len(later) == 1
    assert "a subscriber raised on job.failed" in caplog.text


@pytest.fixture
def asking():
    """Give a function that subscribes to names, and collects the names of the events that come."""
    ends = []

    def ask(names, **options):
        collected = []
        ends.append(subscribe(lambda event: collected.append(event.name), names, **options))
        return collected

    yield ask
    for end in ends:
        end()


def test_a_subscriber_hears_the_events_that_it_names_and_no_others(asking):
    one, some, everything = asking(["job.failed"]), asking(["job.*", "process.died"]), asking(["*"])

    for name in ("job.failed", "job.started", "process.died", "process.started"):
        emit(name)

    assert one == ["job.failed"]
    assert some == ["job.failed", "job.started", "process.died"]
    assert everything == ["job.failed", "job.started", "process.died", "process.started"]


@pytest.mark.parametrize("name", sorted(ASKED))
def test_events_that_nearly_every_job_has_are_heard_by_those_alone_who_ask_for_them(name, heard, asking):
    assert not asked(name)
    named = asking([name])

    emit(name)

    assert asked(name)
    assert (heard, named) == ([], [name])


def test_attempts_are_timed_while_somebody_asks_for_an_event_that_tells_how_long_they_ran(heard):
    assert not timed()
    end, other = subscribe(print, ["job.failed"]), subscribe(print, ["process.died"])
    assert timed()
    assert not asked("job.started")

    end()
    assert not timed()
    other()


def test_a_subscriber_that_takes_as_many_events_as_it_likes_has_no_jobs_timed_that_come_by_the_thousand():
    takes_some = subscribe(print, ["job.completed"], each=print)
    assert timed(FEW)
    assert not timed(FEW + 1)

    takes_all = subscribe(print, ["job.completed"])
    assert timed(FEW + 1)
    takes_all()
    starts = subscribe(print, ["job.started"], each=print)
    assert timed(FEW + 1)
    starts()
    takes_some()


def test_a_subscriber_that_asks_for_other_names_hears_them_from_then_on():
    collected = []
    subscription = subscribe(collected.append, ["job.failed"])
    subscription.change(["job.*"])
    emit("job.snoozed")
    subscription()
    subscription()

    emit("job.failed")

    assert [event.name for event in collected] == ["job.snoozed"]
    assert not somebody_hears("job.failed")


def test_names_that_are_one_text_are_refused():
    with pytest.raises(TypeError, match=r"names='job.failed': expected a list of names, such as \['job.failed'\]"):
        subscribe(print, "job.failed")


def test_events_of_many_things_are_made_one_by_one_or_by_the_subscriber_that_takes_some(heard):
    told, taken = [], []
    ends = [
        subscribe(told.append, ["job.completed"]),
        subscribe(print, ["job.completed"], each=lambda name, things, fields_of: taken.append((name, things, fields_of(3, 0.5)))),
        subscribe(print, ["job.started"], each=print),
    ]

    emit_each("job.completed", [1, 2], lambda thing, at: {"id": thing})
    for end in ends:
        end()

    assert told == [Event("job.completed", UNLOGGED, {"id": 1}), Event("job.completed", UNLOGGED, {"id": 2})]
    assert taken == [("job.completed", [1, 2], {"id": 3})]
    assert heard == []


def test_nothing_is_written_when_nobody_listens():
    told = logged("""
        class Unprintable:
            def __str__(self):
                raise AssertionError("written although nobody listens")

        log.set_up(Config(log_level="warning"))
        emit("job.failed", what=Unprintable())
    """)

    assert told == ""


def test_the_log_is_one_short_line_for_people():
    told = logged("""
        log.set_up(Config())
        emit("job.failed", level=logging.WARNING, id=1, error="a\\nb")
    """)

    assert told[:2].isdecimal()
    assert told[13:] == 'warning job.failed id=1 error="a\\nb"\n'


def test_a_traceback_stands_below_its_line_where_it_cannot_be_taken_for_another():
    told = logged(r"""
        log.set_up(Config())
        emit("job.failed", id=1, traceback="Traceback:\n  in work\n\x1b[31mE: boom\r12:00:00.000 info job.done")
        emit("job.failed", id=2, traceback=None)
    """)

    assert [line[13:] for line in told.splitlines() if line[0] != " "] == ["info    job.failed id=1", "info    job.failed id=2"]
    below = [line for line in told.splitlines() if line[0] == " "]
    assert below == ["    Traceback:", "      in work", r"    \x1b[31mE: boom", "    12:00:00.000 info job.done"]


def test_the_log_is_one_object_a_line_for_machines():
    told = logged(r"""
        log.set_up(Config(log_json=True))
        emit("job.failed", id=1, error="a\nb\ud800", event="not this", when=Config, traceback="a\n  b")
        logging.getLogger("app").warning("hello")
    """)

    ours, theirs = map(json.loads, told.splitlines())
    assert list(ours) == ["time", "level", "pid", "event", "id", "error", "when", "traceback"]
    assert (ours["event"], ours["level"], ours["id"], ours["error"]) == ("job.failed", "info", 1, "a\nb\ufffd")
    assert (theirs["logger"], theirs["message"]) == ("app", "hello")


def test_the_log_for_machines_holds_no_lone_surrogate():
    told = logged(r"""
        log.set_up(Config(log_json=True))
        emit("job.failed", error="\ud800 \udc00 \udfff\udbff \U0001f600\ud83d \\ud800 é")
    """)

    assert json.loads(told)["error"] == "\ufffd \ufffd \ufffd\ufffd \U0001f600\ufffd \\ud800 é"
    assert told.isascii()


def test_a_second_set_up_replaces_the_first():
    told = logged("""
        log.set_up(Config())
        log.set_up(Config(log_level="error"))
        emit("one", level=logging.WARNING)
        emit("two", level=logging.ERROR)
    """)

    assert [line[13:] for line in told.splitlines()] == ["error   two"]


def test_an_application_that_configured_nothing_logs_in_the_same_form():
    told = logged("""
        log.set_up(Config(log_level="debug"))
        logging.getLogger("app.mail").info("sent %d", 3)
        logging.getLogger("app.mail").debug("not this")
    """)

    assert [line[13:] for line in told.splitlines()] == ["info    app.mail: sent 3"]


def test_what_the_application_configured_itself_stays():
    told = logged("""
        logging.basicConfig(format="theirs %(message)s")
        log.set_up(Config())
        emit("job.failed", id=1)
        logging.getLogger("app").warning("hello")
    """)

    first, second = told.splitlines()
    assert first[13:] == "info    job.failed id=1"
    assert second == "theirs hello"


def test_a_logger_of_ours_that_the_application_configured_is_left_to_it():
    told = logged("""
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("theirs %(message)s"))
        logging.getLogger("fastq").addHandler(handler)
        log.set_up(Config())
        logging.getLogger().handlers.clear()
        emit("job.failed", id=1)
    """)

    assert told == "theirs job.failed id=1\n"


def test_a_value_takes_so_much_of_the_log_and_no_more():
    line = logged("""
        log.set_up(Config(log_json=True))
        emit("job.failed", level=logging.WARNING, id=1, error="x" * 10_000_000, traceback="y" * 10_000_000)
    """)

    told = json.loads(line)
    assert (told["id"], told["error"], told["traceback"]) == (1, "x" * 32_768 + "...", "y" * 32_768 + "...")
