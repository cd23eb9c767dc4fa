"""Backoff between attempts: they double up to the longest, and a success begins them anew."""

from fastq.backoff import Backoff, spread


def test_pauses_double_up_to_the_longest():
    pauses = Backoff(0.5, 3.0)

    assert [pauses.next() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_the_coming_pause_can_be_seen_without_being_used_up():
    pauses = Backoff(0.5, 3.0)
    pauses.next()

    assert (pauses.coming, pauses.coming, pauses.next()) == (1.0, 1.0, 1.0)


def test_a_success_begins_with_the_first_pause_again():
    pauses = Backoff(0.5, 3.0)
    pauses.next()
    pauses.next()

    pauses.reset()

    assert pauses.next() == 0.5


def test_a_pause_is_spread_over_its_second_half():
    seen = {spread(8.0) for _ in range(100)}

    assert all(4.0 <= seconds <= 8.0 for seconds in seen)
    assert len(seen) > 1
