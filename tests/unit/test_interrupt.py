"""An exception that is thrown into a thread: it is raised in the code that it was meant for, or nowhere."""

import itertools
import sys
import threading
import time

import pytest

from fastq.work.shared import interrupt
from fastq.work.shared.interrupt import ARROWS, Interrupt, State, Throw, saying
from tests.helpers import wait_for

ROUNDS = 300


class Told(BaseException):
    """What is thrown here."""


class Target:
    """A thread that runs a function for one subject after the other, as an executor does."""

    def __init__(self, run, subjects):
        self.shown = None
        self.landed, self.ended = [], []
        self.interrupt = Interrupt(Told, lambda: self.shown)
        self._run, self._subjects = run, subjects
        self.thread = threading.Thread(target=self._live, daemon=True)
        self.thread.start()

    def _live(self):
        for subject in self._subjects:
            error = None
            try:
                self.shown = subject
                try:
                    self._run(subject)
                except Told as raised:
                    error = raised
                self.shown = None
                self.interrupt.absorb(subject)
            except Told as raised:
                self.shown = None
                error = error or raised
                self.interrupt.absorb(subject)
            if error is not None:
                self.landed.append((subject, str(error)))
            self.ended.append(subject)

    def throw(self, subject, text="told to end"):
        self.interrupt.throw(self.thread.ident, subject, saying(Told, text))


@pytest.fixture
def arrows(monkeypatch):
    """Give the transitions that throws go through."""
    seen, become = set(), Throw.become

    def noting(self, state):
        seen.add((self.state, state))
        become(self, state)

    monkeypatch.setattr(Throw, "become", noting)
    return seen


@pytest.fixture
def switching():
    """Have threads take turns so often that each may meet the other anywhere."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    yield
    sys.setswitchinterval(before)


def spin(_):
    until = time.perf_counter() + 20.0
    while time.perf_counter() < until:
        pass


def test_code_that_runs_gets_the_exception_with_its_text(arrows):
    target = Target(spin, ["job"])
    wait_for(lambda: target.shown == "job", 5.0, "the code to run")

    target.throw("job", "took too long")
    target.thread.join(10)

    assert target.landed == [("job", "took too long")]
    assert arrows == {(State.AIMED, State.THROWN), (State.THROWN, State.LANDED)}


def test_code_that_has_ended_gets_nothing_and_the_next_can_be_told(arrows):
    target = Target(spin, ["first"])
    wait_for(lambda: target.shown == "first", 5.0, "the code to run")

    target.throw("another")
    assert arrows == {(State.AIMED, State.WITHDRAWN)}
    target.throw("first")
    target.thread.join(10)

    assert target.landed == [("first", "told to end")]


def test_a_second_throw_waits_until_the_first_has_landed():
    caught, on = threading.Event(), threading.Event()

    def run(_):
        try:
            spin(_)
        except Told:
            caught.set()
            on.wait(10)

    target = Target(run, ["job"])
    wait_for(lambda: target.shown == "job", 5.0, "the code to run")
    target.throw("job", "first")
    assert caught.wait(10)

    target.throw("job", "second")
    on.set()
    target.thread.join(10)

    assert target.landed == [], "it would have been raised in code that has been told already"


def test_a_throw_that_meets_the_end_is_awaited_though_the_exception_lands_before_the_thrower_says_so(monkeypatch, arrows):
    throw, on = interrupt._throw_into, threading.Event()

    def throw_late(thread, kind):
        on.set()  # the code ends before the exception is on its way ...
        wait_for(lambda: target.shown is None, 5.0, "the end of the code")
        threading.Event().wait(0.02)  # ... and its thread would be somewhere else by now
        throw(thread, kind)
        threading.Event().wait(0.02)  # it has landed

    monkeypatch.setattr(interrupt, "_throw_into", throw_late)
    target = Target(lambda _: on.wait(10), ["first", "second"])
    wait_for(lambda: target.shown == "first", 5.0, "the code to run")

    target.throw("first")
    target.thread.join(10)

    assert (target.landed, target.ended) == ([], ["first", "second"])
    assert arrows == {(State.AIMED, State.THROWN), (State.THROWN, State.LANDED)}


@pytest.mark.usefixtures("switching")
def test_whenever_it_is_thrown_it_lands_in_the_subject_or_nowhere(arrows, monkeypatch):
    broken, returned = [], []
    monkeypatch.setattr(threading, "excepthook", broken.append)

    def run(subject):
        until = time.perf_counter() + 0.0005 * (subject % 7)
        while time.perf_counter() < until:
            pass
        returned.append(subject)

    target = Target(run, range(1, ROUNDS + 1))
    aimed = []
    for pause in itertools.cycle((0.0, 0.0002, 0.0011)):
        if (subject := target.shown) is not None:
            aimed.append(subject)
            target.throw(subject, f"{subject}")
        if not target.thread.is_alive():
            break
        time.sleep(pause)

    assert broken == []
    assert target.ended == list(range(1, ROUNDS + 1))
    assert {subject for subject, _ in target.landed} <= set(aimed)
    assert all(f"{subject}" == text for subject, text in target.landed), "each got the one that was meant for it"
    assert {subject for subject, _ in target.landed} | set(returned) == set(target.ended)
    assert arrows <= ARROWS


@pytest.mark.parametrize(("state", "then"), sorted(set(itertools.product(State, State)) - ARROWS, key=str))
def test_a_throw_goes_no_other_way(state, then):
    throw = Throw("job")
    throw.state = state

    with pytest.raises(AssertionError, match=f"{state.value} cannot be {then.value}"):
        throw.become(then)
