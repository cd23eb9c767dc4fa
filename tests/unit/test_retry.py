"""The wait before the next attempt."""

import random

import pytest

from fastq.jobs.retry import JITTER, MAX_DELAY, default_delay


class Middle:
    """Draws the middle of the range."""

    def uniform(self, a, b):
        return (a + b) / 2


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 1), (2, 16), (3, 81), (10, 10_000), (25, 390_625)])
def test_delay_is_the_fourth_power_of_the_attempt(attempt, seconds):
    assert default_delay(attempt, Middle()) == pytest.approx(seconds)


def test_delays_of_jobs_that_failed_together_spread_a_tenth_each_way():
    rng = random.Random(1)

    delays = [default_delay(10, rng) for _ in range(1000)]

    assert 9_000 <= min(delays) < 9_100
    assert 10_900 < max(delays) <= 11_000


def test_same_seed_gives_the_same_delay():
    assert default_delay(3, random.Random(7)) == default_delay(3, random.Random(7))


def test_delay_of_the_last_attempt_allowed_is_a_year_and_no_more():
    assert MAX_DELAY * (1 - JITTER) <= default_delay(32_767) <= MAX_DELAY * (1 + JITTER)
