"""What hooks have kept is sent before a worker process ends, within a limit."""

import threading

import pytest

from fastq.events import subscribe
from fastq.hooks import leaving


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.setattr(leaving, "_functions", [])


def test_each_function_is_called_once_with_the_seconds_that_it_has():
    told = []
    leaving.before_the_end(told.append)
    leaving.before_the_end(told.append)

    leaving.send_off(2.0)

    assert told == [2.0]


def test_a_function_that_fails_keeps_no_other_from_sending_and_is_told_of():
    told, events = [], []

    def fail(limit):
        raise ConnectionError("no collector")

    leaving.before_the_end(fail)
    leaving.before_the_end(told.append)
    unsubscribe = subscribe(events.append)
    leaving.send_off()
    unsubscribe()

    assert told == [leaving.LIMIT]
    assert [event.fields["error"] for event in events if event.name == "hook.not_sent"] == ["ConnectionError: no collector"]


def test_the_end_does_not_wait_for_a_function_that_hangs():
    free, hangs = threading.Event(), threading.Event()

    def hang(limit):
        hangs.set()
        free.wait()

    leaving.before_the_end(hang)
    leaving.send_off(0.01)

    assert hangs.wait(10)
    free.set()


def test_without_functions_there_is_no_thread(monkeypatch):
    monkeypatch.setattr(threading, "Thread", None)

    leaving.send_off()
