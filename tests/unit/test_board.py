"""The board: what a dead process leaves to be read about its jobs."""

from array import array

import pytest

from fastq.board import Board

SLOTS, RING = 2, 8


@pytest.fixture
def lane():
    """Give the lane of the only process, as both sides see it."""
    return Board.make([SLOTS], 1, RING).lane(0, 0, 0)


def test_jobs_that_were_claimed_and_never_started_are_outstanding_and_nothing_more(lane):
    lane.claimed(array("q", [1, 2, 3]))

    ids, started, executing = lane.outstanding()

    assert (sorted(ids), started, executing) == ([1, 2, 3], set(), set())


def test_all_up_to_the_furthest_job_in_a_slot_had_started(lane):
    lane.claimed(array("q", [1, 2, 3, 4]))
    lane.slots[0], lane.slots[1] = -1, 3  # 1 has ended, 2 ended before it in the same slot, 3 is executing

    ids, started, executing = lane.outstanding()

    assert (sorted(ids), started, executing) == ([1, 2, 3, 4], {1, 2, 3}, {3})


def test_a_job_that_was_claimed_again_has_started_only_if_its_last_claim_has(lane):
    lane.claimed(array("q", [1, 2, 3]))
    lane.slots[0] = 3
    lane.claimed(array("q", [4, 1]))  # 1 failed and was retried at once

    assert lane.outstanding()[1] == {2, 3}
    lane.slots[1] = 1
    assert lane.outstanding()[1] == {1, 2, 3, 4}


def test_the_ring_forgets_only_what_is_older_than_its_size(lane):
    for first in range(1, 22, 3):
        lane.claimed(array("q", [first, first + 1, first + 2]))
    lane.slots[0] = 18

    ids, started, executing = lane.outstanding()

    assert (sorted(ids), started, executing) == (list(range(14, 22)), {14, 15, 16, 17, 18}, {18})


def test_what_a_slot_holds_is_outstanding_though_the_ring_has_forgotten_it(lane):
    lane.claimed(array("q", [1]))
    lane.slots[0] = 1
    lane.claimed(array("q", range(2, 2 + RING)))

    ids, started, executing = lane.outstanding()

    assert 1 in ids
    assert (started, executing) == ({1}, {1})
