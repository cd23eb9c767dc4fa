"""What an attempt came to: no value and no exception, however odd, keeps it from having an outcome."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

import msgspec
import pytest

from fastq import texts
from fastq.jobs.job import Job, JobCancelled
from fastq.jobs.outcome import Cancel, Failed, Output, Release, Snooze, of_value
from fastq.work.execute.settle import settle


class Bomb(BaseException):
    def __str__(self):
        raise SystemExit(3)


class Meta(type):
    def __getattribute__(cls, name):
        if name == "__qualname__":
            raise KeyboardInterrupt
        return super().__getattribute__(name)


class Nameless(Exception, metaclass=Meta):
    pass


@dataclass
class Measure:
    value: float


class Closed:
    """A coroutine as other compilers make them: known by what it can do."""

    closed = False

    def send(self, value):
        raise StopIteration

    def throw(self, *args):
        raise StopIteration

    def close(self):
        self.closed = True
        raise RuntimeError("already running")

    def __await__(self):
        return self


def with_notes(notes):
    error = ValueError("with notes")
    error.__notes__ = notes
    return error


ODD = {
    "a syntax error of numbers": SyntaxError("x", ("f", 1, 2, 12345)),
    "a text that ends the thread": Bomb(),
    "notes that are none": with_notes(5),
    "notes that end the thread": with_notes([Bomb()]),
    "a class without a name": Nameless(),
    "a group of them": BaseExceptionGroup("all", [Bomb(), SyntaxError("x", ("f", 1, 2, 12345))]),
}


@pytest.mark.parametrize("name", ODD)
def test_an_attempt_that_raised_has_failed_whatever_it_raised(name):
    result = settle(Job.of(None), None, ODD[name])

    assert isinstance(result, Failed)
    assert result.delay is not None
    assert msgspec.json.decode(result.error)["error"]


def test_an_error_keeps_its_frames_though_its_text_cannot_be_made():
    def work():
        raise SyntaxError("x", ("f", 1, 2, 12345))

    try:
        work()
    except SyntaxError as error:
        result = settle(Job.of(None), None, error)

    assert "in work\n" in msgspec.json.decode(result.error)["trace"]


def test_a_job_that_is_told_to_end_is_handed_back_by_a_process_that_leaves_and_is_cancelled_otherwise():
    assert settle(Job.of(None), None, JobCancelled("the process stops"), leaving=True) == Release()
    assert settle(Job.of(None), None, JobCancelled("cancelled")) == Cancel("cancelled")


@pytest.mark.parametrize("value", [msgspec.Raw(b"\xff"), {"in it": [msgspec.Raw(b"\xff")]}, object()])
def test_a_value_that_cannot_be_kept_is_dropped_and_the_job_is_done(value):
    assert settle(Job.of(None), value, None) is None


@pytest.mark.parametrize("text", ["no json", "}", '{"a":1,}', "NaN", '"a\nb"', '"\\ud800"', "[" * 100_000 + "]" * 100_000])
@pytest.mark.parametrize("hold", [msgspec.Raw, lambda text: {"in it": [msgspec.Raw(text)]}])
def test_raw_output_that_is_no_json_is_dropped_and_told(hold, text, events):
    assert settle(Job.of(None), hold(text.encode()), None) is None

    assert [(event.name, "is no JSON value" in event.fields["reason"]) for event in events] == [("output.dropped", True)]


def test_raw_output_that_is_json_is_kept_as_it_is():
    assert settle(Job.of(None), msgspec.Raw(b' {"a": 1e999}'), None) == Output(' {"a": 1e999}')


@pytest.mark.parametrize("value", [float("nan"), {"x": [1.0, float("inf")], "none": None}, Measure(float("-inf"))])
def test_a_number_that_would_be_stored_as_null_is_dropped_and_told(value, events):
    assert settle(Job.of(None), value, None) is None

    (event,) = events
    assert (event.name, event.fields["reason"].endswith("has no JSON form; expected a finite number, or None")) == (
        "output.dropped",
        True,
    )


def test_a_null_of_the_users_own_is_kept():
    assert settle(Job.of(None), {"x": None, "y": "null", "z": 1.5}, None) == Output('{"x":null,"y":"null","z":1.5}')


@pytest.mark.parametrize("value", [Snooze, Cancel])
def test_a_class_in_place_of_an_outcome_fails_the_attempt(value):
    outcome = settle(Job.of(None), value, None)

    assert isinstance(outcome, Failed)
    assert f"the class {value.__name__} itself" in outcome.error


def test_a_value_that_ends_the_thread_when_it_is_written_is_dropped():
    class Zone(tzinfo):
        def utcoffset(self, at):
            raise Bomb

    assert settle(Job.of(None), datetime(2026, 1, 1, tzinfo=Zone()), None) is None
    assert settle(Job.of(None), datetime(2026, 1, 1, tzinfo=UTC), None) == Output('"2026-01-01T00:00:00Z"')


@pytest.mark.parametrize("make", ["coroutine", "generator", "async generator", "future", "foreign coroutine"])
def test_what_has_yet_to_run_fails_the_attempt(make, recwarn):
    async def coroutine():
        raise AssertionError

    def generator():
        yield

    async def async_generator():
        yield

    loop = asyncio.new_event_loop()
    made = {
        "coroutine": coroutine,
        "generator": generator,
        "async generator": async_generator,
        "future": loop.create_future,
        "foreign coroutine": Closed,
    }
    value = made[make]()

    result = settle(Job.of(None), value, None)

    loop.close()
    assert isinstance(result, Failed)
    assert "which nobody runs" in msgspec.json.decode(result.error)["error"]
    assert getattr(value, "closed", True)
    del value
    assert [str(warning.message) for warning in recwarn if "never awaited" in str(warning.message)] == []


@pytest.mark.parametrize("verdict", [Cancel("no such user"), Snooze(60)])
def test_a_verdict_may_be_raised_as_well_as_returned_and_keeps_no_traceback(verdict, events):
    def work():
        try:
            raise verdict
        except Exception as error:  # of a worker that logs and goes on
            raise AssertionError from error

    with pytest.raises(type(verdict)) as caught:
        work()

    for settled in (settle(Job.of(None), None, caught.value), settle(Job.of(None), caught.value, None)):
        assert settled == verdict
        assert settled.__traceback__ is None
    assert [event for event in events if event.name != "job.snoozed"] == []


def test_a_reason_is_kept_as_text_so_that_no_outcome_holds_an_exception():
    assert of_value(Cancel("not needed")) == (Cancel("not needed"), None)
    assert of_value(Cancel(KeyError("no such user"))) == (Cancel("'no such user'"), None)
    reason = of_value(Cancel(Bomb()))[0].reason
    assert type(reason) is str
    assert reason


def test_an_exception_of_any_length_is_told_in_so_many_characters():
    error = ValueError("x" * 10_000_000)

    told, trace = texts.told(error), texts.trace_of(error)
    again = texts.capped(told)

    assert told.startswith("ValueError: xxx")
    assert max(len(told), len(trace)) <= texts.MAX_TEXT
    assert again == told
