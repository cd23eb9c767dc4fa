"""The board: what a dead process leaves to be read about its jobs."""

import itertools
import os
import random
import resource
from array import array
from collections import deque

import pytest

from fastq.board.board import TICKED, Board
from fastq.errors import FastqError

SLOTS, RING = 2, 8


@pytest.fixture
def lane():
    """Give the lane of the only process, as both sides see it."""
    return Board.make([SLOTS], 1, RING).lane(0, 0, 0)


def test_jobs_that_were_claimed_and_do_not_execute_are_outstanding_and_nothing_more(lane):
    lane.claimed(array("q", [1, 2, 3]))

    ids, executing = lane.outstanding()

    assert (sorted(ids), executing) == ([1, 2, 3], set())


def test_what_a_slot_holds_is_executing(lane):
    lane.claimed(array("q", [1, 2, 3, 4]))
    lane.slots[0], lane.slots[1] = 0, 3  # whatever slot 0 had has ended

    ids, executing = lane.outstanding()

    assert (sorted(ids), executing) == ([1, 2, 3, 4], {3})


def test_the_ring_forgets_only_what_is_older_than_all_that_may_be_unwritten(lane):
    for first in range(1, 302, 3):
        lane.claimed(array("q", [first, first + 1, first + 2]))

    ids, executing = lane.outstanding()

    assert set(range(304 - RING, 304)) <= set(ids)
    assert (min(ids) > 200, executing) == (True, set())


def test_what_a_slot_holds_is_outstanding_though_the_ring_has_forgotten_it(lane):
    lane.claimed(array("q", [1]))
    lane.slots[0] = 1
    lane.claimed(array("q", range(2, 2 + RING)))

    ids, executing = lane.outstanding()

    assert 1 in ids
    assert executing == {1}


def test_a_long_job_that_has_ended_and_is_not_written_yet_is_outstanding(lane):
    lane.claimed(array("q", [1]))
    lane.slots[0] = 1
    for short in range(2, 20 * RING):
        lane.claimed(array("q", [short]))
        lane.slots[1] = short
        lane.slots[1] = 0
    lane.slots[0] = 0

    ids, executing = lane.outstanding()

    assert (1 in ids, executing) == (True, set())


def test_a_job_that_ended_before_its_slot_came_to_rest_is_known_until_the_slot_works_again(lane):
    lane.claimed(array("q", [1, 2]))
    lane.rested[0], lane.rested[1] = 1, 2
    lane.slots[1] = 3

    assert lane.ended(told=False) == {1}
    assert lane.ended(told=True) == set()


def test_what_a_broken_process_tells_of_its_ended_jobs_is_known_and_outstanding(lane):
    lane.claimed(array("q", range(1, 7)))
    lane.slots[0] = 5

    lane.tell_ended({2, 4, 99})

    assert lane.ended(told=True) == {2, 4}
    ids, executing = lane.outstanding()
    assert (sorted(ids), executing) == ([1, 2, 3, 4, 5, 6], {5})


def test_a_desk_that_is_cleared_holds_nothing_of_the_process_before():
    board = Board.make([SLOTS, SLOTS], 2, RING, 2)
    for desk in range(2):
        board.desk(desk)[TICKED] = 5
        for queue in range(2):
            board.lane(desk, queue, 1).claimed(array("q", [1, 2, 3]))
            board.lane(desk, queue, 1).slots[0] = 2
            board.lane(desk, queue, 1).limits[0] = 10**9

    board.clear(0)

    assert not any(board.desk(0))
    for queue in range(2):
        lane = board.lane(0, queue, 1)
        assert lane.outstanding() == ([], set())
        assert not any(lane.limits)
        assert board.lane(1, queue, 1).outstanding()[1] == {2}  # its neighbour's is as it was


def test_a_board_takes_memory_for_what_is_claimed_and_not_for_what_could_be():
    board = Board.make([16] * 64, 4, 20_000, 2)
    for desk in range(4):
        board.clear(desk)

    file = os.fstat(board.fd)

    assert file.st_blocks * 512 < file.st_size / 50


def test_without_memory_to_share_the_room_on_a_disk_is_taken_at_once(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")

    file = os.fstat(Board.make([16], 4, 20_000, 2).fd)

    assert file.st_blocks * 512 >= file.st_size > 1_000_000


def test_a_board_for_which_there_is_no_room_is_refused_with_a_message(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(FastqError, match=r"no room for the board, which .* share: .*File too large"):
            Board.make([16], 4, 20_000, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Process:
    """What moves between inbox, slots and outbox as in a process whose every step is left to the dice."""

    def __init__(self, seed, slots, batch):
        self.dice = random.Random(seed)
        self.batch, self.ring = batch, 4 * batch
        self.lane = Board.make([slots], 1, self.ring).lane(0, 0, 0)
        self.ids = itertools.count(1)
        self.inbox, self.outbox, self.writing = deque(), deque(), []

    @property
    def held(self):
        """Return the ids of all that is claimed and not completed."""
        return {*self.inbox, *filter(None, self.lane.slots), *self.outbox, *self.writing}

    def claim(self):
        free = sum(not word for word in self.lane.slots)
        room = min(self.batch, free + self.batch - len(self.inbox), self.ring - len(self.held))
        ids = list(itertools.islice(self.ids, self.dice.randint(0, max(0, room))))
        self.lane.claimed(array("q", ids))
        self.inbox.extend(ids)

    def begin(self):
        for slot, word in enumerate(self.lane.slots):
            if self.inbox and not word:
                self.lane.slots[slot] = self.inbox.popleft()

    def end(self):
        for slot, word in enumerate(self.lane.slots):
            if word and self.dice.random() < (0.9, 0.3, 0.01)[slot % 3]:  # a slot for long jobs, one for short ones
                self.lane.slots[slot] = 0
                self.outbox.append(word)

    def complete(self):
        if self.dice.random() < 0.3:
            self.writing = [self.outbox.popleft() for _ in range(min(self.batch, len(self.outbox)))]


@pytest.mark.parametrize("slots", [1, 3, 9])
@pytest.mark.parametrize("batch", [1, 4])
def test_whatever_is_claimed_and_not_written_is_outstanding_at_any_moment(slots, batch):
    process = Process(slots * batch, slots, batch)

    for _ in range(3_000):
        process.dice.choice([process.claim, process.begin, process.end, process.complete])()
        ids, executing = process.lane.outstanding()
        assert process.held <= set(ids)
        assert executing == set(filter(None, process.lane.slots))
    assert next(process.ids) > 10 * process.ring
