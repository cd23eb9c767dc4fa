"""The limiter of wake-ups: the first rides, few are sent alone, and one in a while stands for all where jobs come often."""

import random

import pytest

from fastq.postgres.hints import LASTS
from fastq.postgres.pool.wake_limiter import BURST, INTERVAL, QUIET, REMEMBERED, WakeLimiter

OFTEN = "@often a"


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def wake(clock):
    return WakeLimiter(clock)


def enqueue(wake, *names):
    """Return the hints of a job: those that ride with it, or those that are sent alone."""
    return [*names] if wake.lead(names) else wake.trail(names)


def busy(wake, clock):
    """Have jobs come until a hint says that they come often."""
    while OFTEN not in enqueue(wake, "a"):
        clock.now += 0.001


def test_the_first_wake_up_of_a_queue_rides_and_so_does_the_next_after_a_rest(wake, clock):
    assert wake.lead({"a"})
    assert not wake.lead({"a"})
    assert wake.lead({"b"})
    clock.now += QUIET + 0.001
    assert wake.lead({"a"})


def test_while_a_queue_is_looked_at_anyway_no_wake_up_rides(wake, clock):
    busy(wake, clock)
    clock.now += LASTS - 0.001
    assert not wake.lead({"a"})
    clock.now += 0.002
    assert not wake.lead({"a"})  # jobs come often still: a hint that says so again waits for no disk


def test_those_behind_it_are_sent_alone_at_once(wake, clock):
    wake.lead({"a"})
    clock.now += 0.001

    assert [wake.trail({"a"}) for _ in range(BURST - 1)] == [["a"]] * (BURST - 1)


def test_jobs_that_come_now_and_then_are_never_said_to_come_often(wake, clock):
    for _ in range(1_000):
        assert enqueue(wake, "a") == ["a"]
        clock.now += INTERVAL + 0.001


def test_where_they_come_often_a_hint_says_so_and_stands_for_those_behind_it(wake, clock):
    told = [enqueue(wake, "a") for _ in range(BURST + 5)]

    assert told == [*[["a"]] * BURST, ["a", OFTEN], *[[]] * 4]
    clock.now += LASTS - 0.001
    assert enqueue(wake, "a") == []
    clock.now += 0.002
    assert enqueue(wake, "a") == ["a", OFTEN]
    assert enqueue(wake, "a") == []


def test_each_queue_is_counted_for_itself(wake, clock):
    busy(wake, clock)

    assert wake.trail({"b"}) == ["b"]
    assert sorted(wake.trail({"a", "b"})) == ["b"]


def test_after_a_rest_jobs_come_now_and_then_again(wake, clock):
    busy(wake, clock)
    clock.now += 60.0

    assert wake.lead({"a"})
    clock.now += 0.02
    assert not wake.lead({"a"})
    assert wake.trail({"a"}) == ["a"]


def test_hints_that_may_not_have_arrived_are_sent_again(wake, clock):
    busy(wake, clock)
    assert wake.trail({"a"}) == []
    wake.forget()

    assert wake.trail({"a"}) == ["a"]


def test_while_the_server_has_no_room_none_is_allowed(wake, clock):
    wake.rest(5.0)
    assert not wake.lead({"a"})
    assert wake.trail({"a"}) == []
    clock.now += 5.0
    assert wake.lead({"a"})


def test_names_without_end_are_not_remembered(wake):
    for number in range(3 * REMEMBERED):
        enqueue(wake, str(number))

    assert len(wake._sent_at) <= REMEMBERED + 1


@pytest.mark.parametrize("steps", [(0.0001,), (0.0001, 0.001, 0.02), (0.003, 0.006), (0.009, 0.012, 0.3), (0.03, 2.0)])
def test_after_each_job_somebody_looks_and_hints_are_few(wake, clock, steps):
    rng = random.Random(1)
    jobs, looks, sent, until = [], [], 0, 0.0
    for _ in range(5_000):
        clock.now += rng.choice(steps)
        jobs.append(clock.now)
        hints = enqueue(wake, "a")
        sent += bool(hints)
        if "a" in hints:
            looks.append(clock.now)
        if OFTEN in hints:
            until = clock.now + LASTS
        if clock.now < until:
            looks.append(until)  # the last of those that come by themselves

    looks.sort(reverse=True)
    for at in jobs:
        while looks and looks[-1] < at:
            looks.pop()
        assert looks[-1] <= at + LASTS
    assert sent <= (clock.now - 100.0) / INTERVAL + BURST
