"""The way inside a process: who rests is woken while there is something to do, whatever comes between lying down and sleeping."""

import threading
from collections import deque
from types import SimpleNamespace

import pytest

from fastq.board.board import Board
from fastq.work.execute.threads import ThreadLane
from fastq.work.shared.lane import Feed, Mark, Outbox
from tests.helpers import wait_for

EXECUTORS = 2
JOBS = 10_000


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
    made = ThreadLane(Board.make([EXECUTORS], 1, 8).lane(0, 0, 0), EXECUTORS, lambda: None)
    made.resting = Beds()
    return made


def test_who_is_woken_while_he_lies_down_wakes_the_next_while_there_are_jobs(lane):
    sleeper, racer = Resting(lane), Resting(lane)
    sleeper.thread.start()
    wait_for(lambda: lane.busy() == EXECUTORS - 1, what="one that sleeps")
    lane.resting.who = racer.thread
    racer.thread.start()
    assert lane.resting.lies.wait(10)

    lane.put(["first", "second"], 0)  # the wake-up goes to who lay down last
    lane.resting.goes_on.set()

    assert racer.took.wait(10)
    assert sleeper.took.wait(1.0), "the second job waits behind the first beside an executor that rests"
    assert {racer.job, sleeper.job} == {"first", "second"}


def test_a_sleeping_completer_is_called_by_the_first_completion_alone():
    outbox = Outbox()
    woken = threading.Event()
    completer = threading.Thread(target=lambda: (outbox.take(1, 10), woken.set()), daemon=True)
    completer.start()
    wait_for(lambda: outbox.asleep, what="the completer to sleep")

    outbox.append("first")
    outbox.wake()

    assert not outbox.asleep, "who ends the next job has nobody to call"
    assert woken.wait(5)


def test_a_completion_between_two_looks_of_the_completer_is_never_slept_over():
    """Ten thousand single completions, each called for as an executor does it; a call that got lost would cost 10 s."""
    outbox, taken = Outbox(), []

    def complete():
        while len(taken) < JOBS:
            taken.extend(outbox.take(100, 10))

    completer = threading.Thread(target=complete, daemon=True)
    completer.start()
    for number in range(JOBS):
        outbox.append(number)
        if outbox.asleep:
            outbox.wake()
    completer.join(9)

    assert not completer.is_alive()
    assert taken == list(range(JOBS))


@pytest.mark.parametrize(
    ("count", "low", "at"),
    [(5, 2, 3), (5, 4, 1), (5, 5, 1), (5, 6, None), (5, 0, None), (2, 1, 1), (2, 2, 1), (1, 1, None)],
)
def test_the_mark_stands_where_so_many_jobs_are_left(lane, count, low, at):
    lane.put(list(range(count)), low)

    line = list(lane.inbox)
    assert [line.index(Mark.REFILL) if Mark.REFILL in line else None, len(line)] == [at, count + (at is not None)]


@pytest.mark.parametrize("lanes", ["one", "several"])
@pytest.mark.parametrize(("low", "before"), [(1, 4), (4, 1), (5, 0), (9, 0)])
def test_another_mark_is_put_where_so_many_jobs_are_left_or_in_front(lane, lanes, low, before):
    loop = ThreadLane(lane.board, EXECUTORS, lambda: None)
    loop.mode = "loop"
    feed = Feed(0, "default", [lane, loop] if lanes == "several" else [lane])
    inbox = feed.dispatcher.inbox if feed.dispatcher else lane.inbox
    inbox.extend(range(5))

    feed.mark(low)

    assert (inbox.index(Mark.REFILL), len(inbox)) == (before, 6)


def test_jobs_that_are_taken_out_before_they_start_leave_their_places_to_others(lane):
    loop = ThreadLane(lane.board, EXECUTORS, lambda: None)
    loop.mode = "loop"
    feed = Feed(0, "default", [lane, loop])
    job, task = (SimpleNamespace(batch=SimpleNamespace(worker=SimpleNamespace(mode=mode))) for mode in ("threads", "loop"))
    feed.put([job, task, job], 0)
    assert feed.load().busy == EXECUTORS

    assert feed.drain() == [job, job, task]
    assert (feed.load().busy, list(lane.inbox), list(loop.inbox)) == (0, [], [])
    feed.put([task, task], 0)
    assert list(loop.inbox) == [task, task]
