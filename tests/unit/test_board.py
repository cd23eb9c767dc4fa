"""The board: what a dead process leaves to be read about its jobs."""

from array import array

import pytest

from fastq.board import Board

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


def test_the_ring_forgets_only_what_is_older_than_its_size(lane):
    for first in range(1, 22, 3):
        lane.claimed(array("q", [first, first + 1, first + 2]))

    ids, executing = lane.outstanding()

    assert (sorted(ids), executing) == (list(range(14, 22)), set())


def test_what_a_slot_holds_is_outstanding_though_the_ring_has_forgotten_it(lane):
    lane.claimed(array("q", [1]))
    lane.slots[0] = 1
    lane.claimed(array("q", range(2, 2 + RING)))

    ids, executing = lane.outstanding()

    assert 1 in ids
    assert executing == {1}
