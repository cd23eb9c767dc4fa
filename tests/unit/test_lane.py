"""The lane: executors that rest are woken while there are jobs, whatever comes between lying down and sleeping."""

import threading
from collections import deque

import pytest

from fastq.board import Board
from fastq.lane import Lane
from tests.helpers import wait_for

EXECUTORS = 2


class Beds(deque):
    """Where executors lie down, with a spot at which one of them is held up after it has lain down."""

    def __init__(self):
        super().__init__()
        self.who = None  # the thread to hold up
        self.lies = threading.Event()
        self.goes_on = threading.Event()

    def append(self, gate):
        super().append(gate)
        if threading.current_thread() is self.who:
            self.lies.set()
            assert self.goes_on.wait(10)


class Resting:
    """An executor that takes one job when there is one, and no more: it is a long one."""

    def __init__(self, lane):
        self._lane = lane
        self.took = threading.Event()
        self.job = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        gate = threading.Lock()
        gate.acquire()
        while self.job is None:
            try:
                self.job = self._lane.inbox.popleft()
            except IndexError:
                self._lane.rest(gate)
        self.took.set()


@pytest.fixture
def lane():
    """Give a lane whose beds can hold somebody up."""
    made = Lane(Board.make([EXECUTORS], 1, 8).lane(0, 0, 0), EXECUTORS, lambda: None)
    made._resting = Beds()
    return made


def test_who_is_woken_while_he_lies_down_wakes_the_next_while_there_are_jobs(lane):
    sleeper, racer = Resting(lane), Resting(lane)
    sleeper.thread.start()
    wait_for(lambda: lane.resting == 1, what="one that sleeps")
    lane._resting.who = racer.thread
    racer.thread.start()
    assert lane._resting.lies.wait(10)

    lane.put(["first", "second"], 0)  # the wake-up goes to who lay down last
    lane._resting.goes_on.set()

    assert racer.took.wait(10)
    assert sleeper.took.wait(1.0), "the second job waits behind the first beside an executor that rests"
    assert {racer.job, sleeper.job} == {"first", "second"}
