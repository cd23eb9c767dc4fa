"""The cells of the board: each job of a bundle is seen after the death of its process, until it is written."""

import random

from fastq.board.board import Board
from fastq.board.cells import Cells


def board(ring=16):
    return Board.make([2], 2, ring, 3)


def test_jobs_that_wait_are_held_and_those_that_execute_are_told_apart():
    cells = board().cells(1)
    waiting, executing = cells.hold([1, 2]), cells.hold([3, 4, 5])
    cells.start(executing, [3, 4, 5])

    assert cells.outstanding() == ({1, 2, 3, 4, 5}, {3, 4, 5})
    cells.start(waiting, [1, 2])
    assert cells.outstanding() == ({1, 2, 3, 4, 5}, {1, 2, 3, 4, 5})


def test_jobs_that_have_ended_are_held_and_execute_no_longer_and_are_found_by_the_first_of_their_bundle():
    cells = board().cells(0)
    first, second = cells.hold([1, 2]), cells.hold([3, 4])
    cells.start(first, [1, 2])
    cells.start(second, [3, 4])
    cells.end(first, [1, 2])
    cells.end(second, [3, 4])

    assert cells.outstanding() == ({1, 2, 3, 4}, set())
    assert (cells.ended_with({3}), cells.ended_with({1}), cells.ended_with({2})) == ({3, 4}, {1, 2}, set())


def test_the_supervisor_reads_what_another_mapping_has_written_and_wipes_it():
    ours = board()
    theirs = Board(ours.fd, ours.concurrency, 2, ours.ring, 3)
    theirs.cells(1).start(theirs.cells(1).hold([7]), [7])

    assert ours.cells(1).outstanding() == ({7}, {7})
    assert ours.cells(0).outstanding() == (set(), set())
    ours.clear(1)
    assert ours.cells(1).outstanding() == (set(), set())


def test_no_cell_overlaps_a_lane():
    ours = board()
    lane = ours.lane(0, 0, 2)
    lane.slots[1] = 99
    cells = ours.cells(0)
    cells.start(cells.hold(range(1, 17)), range(1, 17))

    assert (list(lane.slots), ours.cells(1).outstanding()) == ([0, 99], (set(), set()))


def test_with_as_many_jobs_as_may_be_unwritten_none_is_ever_missing():
    """Bundles of any size begin and end in any order; the oldest ended jobs are written first."""
    for seed in range(30):
        dice, size = random.Random(seed), 32
        cells = Cells(memoryview(bytearray(8 * Cells.words_for(size))).cast("q"), size)
        bundles, ended, last = [], [], 0
        for _ in range(400):
            held = sum(len(ids) for _, ids in bundles) + len(ended)
            if held < size and dice.random() < 0.5:
                ids = list(range(last + 1, last + 1 + dice.randint(1, size - held)))
                last = ids[-1]
                bundles.append((cells.hold(ids), ids))
            elif bundles and dice.random() < 0.7:
                taken, ids = bundles.pop(dice.randrange(len(bundles)))
                cells.start(taken, ids)
                assert cells.outstanding()[1] == set(ids)
                cells.end(taken, ids)
                ended += ids
            else:
                del ended[: dice.randint(0, len(ended))]
            assert {*ended, *(id_ for _, ids in bundles for id_ in ids)} <= cells.outstanding()[0]
