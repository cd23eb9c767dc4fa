"""What a look does next, by the rows of its plan; and how the words of a cursor lie on the board."""

from itertools import product

import pytest

from fastq.board.board import Board
from fastq.board.cursor_words import COUNT, CursorWords
from fastq.work.cursor.looks import Kind, Pass, View, next_claim

NONE, AHEAD, BEHIND, BOTH = (), (Kind.AHEAD,), (Kind.BEHIND,), (Kind.BOTH,)
PLAN = {  # claims sent so far, whether there is backlog, the re-scan -> the next claim; nothing follows what is not here
    (NONE, True, Pass.RESTS): Kind.AHEAD,
    (NONE, True, Pass.DUE): Kind.BEHIND,
    (NONE, False, Pass.RESTS): Kind.AHEAD,
    (NONE, False, Pass.DUE): Kind.AHEAD,
    (NONE, False, Pass.SHORT): Kind.BOTH,
    (BEHIND, True, Pass.RESTS): Kind.AHEAD,
    (BEHIND, True, Pass.DUE): Kind.AHEAD,  # the pass was full, and is not through
    (BEHIND, False, Pass.RESTS): Kind.AHEAD,
    (BEHIND, False, Pass.DUE): Kind.AHEAD,
    (BEHIND, False, Pass.SHORT): Kind.AHEAD,
    (AHEAD, False, Pass.DUE): Kind.BEHIND,
    (AHEAD, False, Pass.SHORT): Kind.BEHIND,
}
SENT = (NONE, AHEAD, BEHIND, BOTH, BEHIND + AHEAD, AHEAD + BEHIND)
VIEWS = [
    view for view in product(SENT, (True, False), Pass) if view[1:] != (True, Pass.SHORT)
]  # under backlog none is taken for short


@pytest.mark.parametrize(("sent", "backlog", "rescan"), VIEWS)
def test_the_next_claim_of_a_look_is_as_the_plan_says(sent, backlog, rescan):
    assert next_claim(View(sent, backlog, rescan)) is PLAN.get((sent, backlog, rescan))


def test_no_two_words_of_a_cursor_are_one_and_none_is_left_over():
    board = Board.make([1], 1, 8)
    words, value = board.cursor(0), 0
    for name in CursorWords.__annotations__:
        if isinstance(getattr(words, name), memoryview):
            for at in range(len(getattr(words, name))):
                value += 1
                getattr(words, name)[at] = value
        else:
            value += 1
            setattr(words, name, value)

    assert value == COUNT
    assert sorted(board.words[:COUNT]) == list(range(1, value + 1))


def test_the_words_of_two_queues_are_not_the_same():
    board = Board.make([1, 1], 1, 8)
    board.cursor(0).wakes = 7

    assert [board.cursor(queue).wakes for queue in (0, 1)] == [7, 0]
