"""Which processes a notification wakes, as their pipes show it. Board and children are real, the places are given."""

import os
from types import SimpleNamespace

import pytest

from fastq.board import board
from fastq.board.board import Board
from fastq.host.children import Child
from fastq.host.waker import Waker

SLOTS, THREADS, LOOP = 4, 0, 1


class Host:
    """Processes that are connected and rest, one desk each, and what each was woken by."""

    def __init__(self, count):
        self.board = Board.make([SLOTS, SLOTS], count, 16, 2)
        self._pipes = [os.pipe() for _ in range(count)]
        seats = [SimpleNamespace(number=desk + 1, place=desk, desk=desk) for desk in range(count)]
        self.children = [Child(None, seat, -1, write) for seat, (_, write) in zip(seats, self._pipes, strict=True)]
        self.leaving = []
        for read, _ in self._pipes:
            os.set_blocking(read, False)
        for desk in range(count):
            self.board.desk(desk)[board.SESSIONS[0]] = 1000 + desk
        self.waker = Waker(self.board, ["default", "mails"], count, self)

    @property
    def working(self):
        return [child for child in self.children if child not in self.leaving]

    def everybody(self):
        return self.children

    def work(self, desk, jobs, queue=0, mode=THREADS):
        """Have a process execute so many jobs."""
        slots = self.board.lane(desk, queue, mode).slots
        for slot in range(SLOTS):
            slots[slot] = 7 if slot < jobs else 0

    def woken(self):
        """Return who was woken since the last call, by desk."""
        return [desk for desk, (read, _) in enumerate(self._pipes) if drained(read)]

    def looked(self, queue=0, left=False):
        """Look at a queue as a producer does."""
        words = self.board.cursor(queue)
        words.backlog = left
        if not left:
            words.drained = words.wakes

    def close(self):
        for pipe in self._pipes:
            for fd in pipe:
                os.close(fd)


def drained(read):
    try:
        return os.read(read, 1024)
    except BlockingIOError:
        return b""


@pytest.fixture
def host(monkeypatch):
    """Give a host whose second look is due at once."""
    monkeypatch.setattr("fastq.host.waker.SECOND_LOOK", 0.0)
    made = Host(3)
    yield made
    made.close()


def test_the_process_with_most_executors_at_rest_is_woken_and_no_other(host):
    host.work(0, 3)
    host.work(1, 1)
    host.work(2, 2)

    host.waker.wake_one("default")

    assert host.woken() == [1]


def test_threads_and_loop_share_a_queues_executors(host):
    host.work(0, 1)
    host.work(0, 2, mode=LOOP)
    host.work(1, 2)
    host.work(2, 2, mode=LOOP)
    host.work(1, 1, mode=LOOP)

    host.waker.wake_one("default")

    assert host.woken() == [2]


def test_what_a_process_does_for_another_queue_does_not_count(host):
    host.work(0, SLOTS, queue=1)
    for desk in (1, 2):
        host.work(desk, 1)

    host.waker.wake_one("default")

    assert host.woken() == [0]


def test_where_none_has_room_all_are_woken(host):
    for desk in range(3):
        host.work(desk, SLOTS)

    host.waker.wake_one("default")

    assert host.woken() == [0, 1, 2]


def test_who_is_not_connected_or_leaves_is_not_the_one(host):
    host.board.desk(0)[board.SESSIONS[0]] = 0
    host.leaving = [host.children[1]]
    host.work(2, 3)

    host.waker.wake_one("default")

    assert host.woken() == [2]


def test_a_hint_counts_for_its_queue_and_one_of_others_for_none(host):
    host.waker.wake_one("mails")
    assert host.woken() != []
    host.waker.wake_one("elsewhere")
    assert host.woken() == []

    assert [host.board.cursor(queue).wakes for queue in (0, 1)] == [0, 1]


def test_all_look_at_all_queues_when_nobody_knows_what_was_missed(host):
    host.waker.wake_all()

    assert host.woken() == [0, 1, 2]
    assert [host.board.cursor(queue).wakes for queue in (0, 1)] == [0, 0]
    assert host.board.peeks().wakes == 1, "no look at all queues at once is called for"


def test_after_a_look_that_left_nothing_nobody_else_is_woken(host):
    host.waker.wake_one("default")
    assert host.woken() == [0]
    host.looked()

    assert host.waker.look() is None
    assert host.woken() == []


def test_the_second_look_has_its_time(host, monkeypatch):
    monkeypatch.setattr("fastq.host.waker.SECOND_LOOK", 60.0)
    host.waker.wake_one("default")
    host.woken()

    assert 0 < host.waker.look() <= 60.0
    assert host.woken() == [], "nobody has looked, but there is time left"


def test_where_nobody_has_looked_or_something_was_left_all_are_woken(host):
    for left in (None, True):
        host.waker.wake_one("default")
        assert host.woken() == [0]
        if left is not None:
            host.looked(left=left)

        assert host.waker.look() is None
        assert host.woken() == [0, 1, 2]


def test_hints_that_follow_each_other_are_looked_after_in_turn(host):
    host.waker.wake_one("default")
    host.looked()
    host.waker.wake_one("default")
    host.woken()

    assert host.waker.look() == 0.0
    assert host.woken() == [], "the first hint was seen to"
    assert host.waker.look() is None
    assert host.woken() == [0, 1, 2], "the second one was not"


def test_each_queue_has_its_own_second_look(host):
    host.waker.wake_one("default")
    host.waker.wake_one("mails")
    host.woken()
    host.looked(queue=1)

    assert host.waker.look() is None
    assert host.woken() == [0, 1, 2]


def test_a_single_process_needs_no_second_look():
    host = Host(1)
    host.waker.wake_one("default")

    assert host.waker.look() is None
    assert host.woken() == [0]
    host.close()
