"""The limiter of wake-ups: the first at once, few in between, the last never left out."""

import random

from fastq.postgres.wake_limiter import WakeLimiter


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def limiter():
    clock = Clock()
    return WakeLimiter(interval=0.010, clock=clock), clock


def test_the_first_wake_up_of_a_queue_may_go_at_once_and_the_next_after_the_interval():
    wake, clock = limiter()

    assert wake.lead({"a"})
    assert not wake.lead({"a"})
    assert wake.lead({"b"})
    clock.now += 0.011
    assert wake.lead({"a"})


def test_one_that_may_not_go_at_once_goes_when_the_interval_ends():
    wake, clock = limiter()
    wake.lead({"a"})
    clock.now += 0.004

    assert not wake.lead({"a"})
    assert round(wake.trail({"a"}), 6) == 0.006
    clock.now += 0.006
    assert wake.take() == (["a"], None)


def test_only_the_first_that_waits_is_asked_to_come_back():
    wake, _ = limiter()
    wake.lead({"a"})

    assert wake.trail({"a"}) is not None
    assert wake.trail({"a"}) is None
    assert wake.trail({"b"}) is None


def test_what_is_not_due_yet_is_kept_for_the_next_time():
    wake, clock = limiter()
    wake.lead({"a"})
    clock.now += 0.005
    wake.lead({"b"})
    wake.trail({"a", "b"})
    clock.now += 0.0051

    due, again = wake.take()
    assert due == ["a"]
    assert round(again, 4) == 0.0049
    clock.now += again
    assert wake.take() == (["b"], None)


def test_a_commit_after_the_interval_is_followed_by_a_wake_up_at_once():
    wake, clock = limiter()
    wake.lead({"a"})
    assert not wake.lead({"a"})
    clock.now += 5.0

    assert wake.trail({"a"}) == 0.0


def test_at_the_end_everything_that_waits_is_taken():
    wake, _ = limiter()
    wake.lead({"a"})
    wake.trail({"a"})

    assert wake.take(everything=True) == (["a"], None)
    assert wake.take(everything=True) == ([], None)


def test_every_enqueue_is_followed_by_a_wake_up_and_they_are_few():
    wake, clock = limiter()
    rng = random.Random(1)
    sent, enqueued, timer = [], [], None
    for _ in range(2_000):
        step = rng.choice([0.0001, 0.001, 0.02])
        while timer is not None and timer <= clock.now + step:
            step -= timer - clock.now
            clock.now = timer
            names, again = wake.take()
            sent += [clock.now] * len(names)
            timer = None if again is None else clock.now + again
        clock.now += step
        enqueued.append(clock.now)
        if wake.lead({"a"}):
            sent.append(clock.now)
        elif (delay := wake.trail({"a"})) is not None:
            timer = clock.now + delay
    sent.append(timer or 0.0)

    assert all(any(at <= time <= at + 0.0101 for time in sent) for at in enqueued)
    assert len(sent) <= (clock.now - 100.0) / 0.010 + 1
