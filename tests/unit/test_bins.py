"""Durations in bins: percentiles are off by no more than the bins promise, however the durations are spread."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastq.statistics.bins import ERROR, LAST, LEAST, OF_WAITS, bin_of, middle_of, percentiles

SHARES = (0.01, 0.5, 0.95, 0.99, 1.0)
DURATIONS = st.floats(LEAST, 1e6) | st.floats(-5.0, 5.0).map(lambda power: 10.0**power)


def exact(durations, share):
    """Return the percentile by the nearest rank."""
    return sorted(durations)[math.ceil(share * len(durations)) - 1]


def sorted_in(weighed):
    counts = {}
    for duration, weight in weighed:
        counts[bin_of(duration)] = counts.get(bin_of(duration), 0) + weight
    return counts


@given(st.lists(DURATIONS, min_size=1, max_size=200))
def test_each_percentile_is_off_by_the_stated_share_at_most(durations):
    estimated = percentiles(sorted_in((duration, 1) for duration in durations), SHARES)

    for share, seconds in zip(SHARES, estimated, strict=True):
        true = exact(durations, share)
        assert true / (1 + ERROR) * (1 - 1e-9) <= seconds <= true * (1 + ERROR) * (1 + 1e-9)


@given(st.lists(st.tuples(DURATIONS, st.integers(1, 128)), min_size=1, max_size=50))
def test_a_duration_that_stands_for_several_counts_as_often(weighed):
    many = [duration for duration, weight in weighed for _ in range(weight)]

    assert percentiles(sorted_in(weighed), SHARES) == percentiles(sorted_in((duration, 1) for duration in many), SHARES)


@given(st.floats(LEAST, 1e6), st.floats(LEAST, 1e6))
def test_a_longer_duration_is_in_no_earlier_bin(one, other):
    assert bin_of(min(one, other)) <= bin_of(max(one, other))


@pytest.mark.parametrize("seconds", [-1.0, 0.0, LEAST / 2])
def test_nothing_takes_less_than_the_first_bin(seconds):
    assert bin_of(seconds) == 0
    assert middle_of(0) == LEAST


def test_there_is_a_last_bin_and_those_of_waiting_times_are_behind_it():
    assert bin_of(1e12) == LAST < OF_WAITS
    assert ERROR < 0.0906


def test_of_nothing_there_is_no_percentile():
    assert percentiles({}, SHARES) == [None] * len(SHARES)
