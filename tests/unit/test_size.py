"""Sizes that are halved and doubled, and keys that are passed over for a while."""

import pytest

from fastq import size
from fastq.size import Aside, Size
from tests.helpers import wait_for


@pytest.fixture
def clock(monkeypatch):
    """Give a clock that the test moves: a list with the time in it."""
    now = [1000.0]
    monkeypatch.setattr(size.time, "monotonic", lambda: now[0])
    return now


def test_a_size_takes_half_of_what_was_tried_down_to_its_smallest():
    found = Size(100, 10)
    sizes = []
    for tried in (100, 50, 30, 15, 10):
        found.shrink(tried)
        sizes.append(found.now)

    assert sizes == [50, 25, 12, 10, 10]


def test_half_of_a_single_one_is_one():
    found = Size(1)
    found.shrink(1)

    assert (found.now, found.whole) == (1, True)


def test_a_size_is_doubled_until_it_is_whole_and_says_when_it_is():
    found = Size(100)
    found.shrink(60)

    assert [found.succeeded(found.now) for _ in range(3)] == [False, True, False]
    assert found.now == 100


def test_less_than_half_a_size_shows_nothing():
    found = Size(100)
    found.shrink(100)

    assert [(found.succeeded(tried), found.now) for tried in (24, 25)] == [(False, 50), (True, 100)]


def test_a_size_grows_after_so_many_successes_and_a_failure_begins_the_count_anew():
    found = Size(100, successes=3)
    found.shrink(100)
    sizes = []
    for step in range(6):
        if step == 2:
            found.shrink(found.now)
        else:
            found.succeeded(found.now)
        sizes.append(found.now)

    assert sizes == [50, 50, 25, 25, 25, 50]


def test_a_size_rests_before_it_grows(clock):
    found = Size(100, rest=60.0)
    found.shrink(40)
    sizes = []
    for seconds in (59.0, 1.0, 1.0, 59.0):
        clock[0] += seconds
        found.succeeded(found.now)
        sizes.append(found.now)

    assert sizes == [20, 40, 40, 80]


def test_keys_are_passed_over_until_their_time_has_come(clock):
    aside = Aside()
    aside.put(["a", "b"], 10.0)
    clock[0] += 5.0
    aside.put(["c", "b"], 10.0)

    assert (sorted(aside.keys()), aside.wait()) == (["a", "b", "c"], 5.0)
    clock[0] += 5.0
    assert (sorted(aside.keys()), aside.wait()) == (["b", "c"], 5.0)
    clock[0] += 5.0
    assert (aside.wait(), aside.keys(), aside.wait()) == (0.0, [], None)


def test_no_more_keys_are_passed_over_than_there_is_room_for(clock):
    aside = Aside(3)

    assert [aside.put([1, 2], 10.0), aside.put([3, 4], 20.0), aside.put([5], 10.0)] == [2, 1, 0]
    assert aside.keys() == [1, 2, 3]
    clock[0] += 10.0
    assert aside.put([6, 7, 8], 10.0) == 2, "the first two have left"
    assert (aside.keys(), len(aside)) == ([3, 6, 7], 3)


def test_time_passes_by_itself():
    aside = Aside()
    aside.put([1], 0.01)

    wait_for(lambda: not aside.keys(), what="the end of its time")
