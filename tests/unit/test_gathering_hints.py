"""When the listener lets hints gather: where they come often, and come as often while nobody reads them."""

import random

from fastq.host.listener import GATHER, MANY, Gathering

READ = 0.0003  # s to hand a hint on


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def listen(gathering, clock, comes, seconds):
    """Read hints for so long; `comes` tells how many have come, and waits for one if none has. Return the readings."""
    readings, end = [], clock.now + seconds
    while clock.now < end:
        hints = comes()
        clock.now += READ
        rest = gathering.rest(hints)
        readings.append((clock.now, hints, rest))
        clock.now += rest
    return readings


def from_outside(clock, rate, seed=1):
    """Hints come at random moments, whoever reads them."""
    rng, coming = random.Random(seed), [clock.now]

    def comes():
        count = 0
        clock.now = max(clock.now, coming[0])
        while coming[0] <= clock.now:
            coming[0] += rng.expovariate(rate)
            count += 1
        return count

    return comes


def in_chains(clock, chains, step):
    """Each hint comes some time after one like it was read: jobs wait for one another."""
    coming = [clock.now + step * nth / chains for nth in range(chains)]

    def comes():
        clock.now = max(clock.now, min(coming))
        found = [nth for nth, at in enumerate(coming) if at <= clock.now]
        for nth in found:
            coming[nth] = clock.now + READ + step
        return len(found)

    return comes


def test_hints_that_come_seldom_are_read_at_once():
    clock = Clock()
    readings = listen(Gathering(clock), clock, from_outside(clock, MANY / 2), 20.0)
    assert not any(rest for *_, rest in readings)


def test_hints_that_come_often_are_read_together_and_none_later_than_the_rest():
    clock = Clock()
    readings = listen(Gathering(clock), clock, from_outside(clock, 1_000), 20.0)
    gathered = [rest for *_, rest in readings if rest]
    assert set(gathered) == {GATHER}
    assert len(readings) < 20.0 / GATHER * 1.2
    assert sum(hints for _, hints, _ in readings) > 19_000


def test_the_first_hint_after_a_quiet_time_is_read_at_once_whatever_was_before():
    clock = Clock()
    gathering = Gathering(clock)
    while not gathering.gathers:
        listen(gathering, clock, from_outside(clock, 1_000), 0.1)
    clock.now += 5.0

    assert gathering.rest(1) <= GATHER  # the rest comes behind the hint
    quiet = listen(gathering, clock, from_outside(clock, 10), 10.0)
    assert not any(rest for *_, rest in quiet[64:])


def test_where_jobs_wait_for_one_another_hints_are_read_at_once_for_nearly_all_of_the_time():
    for chains, step in ((1, 0.001), (2, 0.0015)):
        clock = Clock()
        readings = listen(Gathering(clock), clock, in_chains(clock, chains, step), 60.0)
        alone = listen(_Never(), clock, in_chains(clock, chains, step), 60.0)
        assert sum(hints for _, hints, _ in readings) > 0.96 * sum(hints for _, hints, _ in alone), chains


class _Never:
    def rest(self, hints):
        return 0.0
