"""The tests' own tools: what they build upon must not fail silently."""

import pytest

from tests.helpers import url_of, wait_for


def test_wait_for_returns_the_first_true_value():
    values = iter([0, 0, 7])

    assert wait_for(lambda: next(values)) == 7


def test_wait_for_fails_with_what_it_waited_for_and_the_last_value():
    with pytest.raises(AssertionError, match=r"waited 0.01 s for the bus; the last value was \[\]"):
        wait_for(list, timeout=0.01, what="the bus")


def test_url_of_keeps_everything_but_the_database():
    assert url_of("postgresql://postgres@/postgres?host=/a%20b", "x") == "postgresql://postgres@/x?host=/a%20b"
