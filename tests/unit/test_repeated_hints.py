"""Hints that the listener hands on by itself: each of its turns while they last, and once more at the end."""

import pytest

from fastq.host.listener import GATHER, Repeated
from fastq.postgres.hints import LASTS


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def repeated(clock):
    return Repeated(clock)


def turns(repeated, clock, seconds):
    """Sleep as the listener does for so long; return the times at which something was due, and what."""
    end, found = clock.now + seconds, []
    while repeated.at is not None and repeated.at <= end:
        clock.now = max(clock.now, repeated.at)
        if due := list(repeated.due([])):
            found.append((clock.now, due))
    clock.now = end
    return found


def test_where_no_jobs_come_often_each_hint_is_due_as_it_is_heard(repeated):
    assert repeated.at is None
    assert list(repeated.due([])) == []
    assert list(repeated.due(["a", "b", "a"])) == ["a", "b"]


def test_a_hint_is_due_again_and_again_until_it_has_lasted_and_then_no_more(repeated, clock):
    repeated.add("a")
    began = clock.now
    found = turns(repeated, clock, 1.0)

    assert {tuple(due) for _, due in found} == {("a",)}
    assert len(found) == pytest.approx(LASTS / GATHER, abs=2)
    assert began + LASTS <= found[-1][0] <= began + LASTS + 2 * GATHER
    assert repeated.at is None


def test_one_that_is_said_again_lasts_longer_and_comes_no_more_often(repeated, clock):
    repeated.add("a")
    found = []
    for _ in range(10):
        found += turns(repeated, clock, LASTS / 2)
        repeated.add("a")
    assert len(found) == pytest.approx(5 * LASTS / GATHER, rel=0.1)


def test_a_hint_of_another_queue_is_handed_on_at_once_and_one_of_the_same_at_the_next_turn(repeated):
    repeated.add("a")
    assert list(repeated.due(["a", "b", "@due"])) == ["b", "@due"]
