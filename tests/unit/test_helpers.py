"""The tests' own tools: what they build upon must not fail silently."""

import subprocess
import sys
import time

import pytest

from tests import helpers
from tests.helpers import Stopwatch, url_of, wait_for


def test_wait_for_returns_the_first_true_value():
    values = iter([0, 0, 7])

    assert wait_for(lambda: next(values)) == 7


def test_wait_for_fails_with_what_it_waited_for_and_the_last_value(monkeypatch):
    monkeypatch.setattr(helpers, "PATIENCE", 0.01)  # while the machine is busy
    with pytest.raises(AssertionError, match=r"waited 0.01 s for the bus; the last value was \[\]"):
        wait_for(list, timeout=0.01, what="the bus")


def test_url_of_keeps_everything_but_the_database():
    assert url_of("postgresql://postgres@/postgres?host=/a%20b", "x") == "postgresql://postgres@/x?host=/a%20b"


def test_a_stopwatch_counts_no_idle_time_beyond_that_of_the_clock():
    watch = Stopwatch()
    time.sleep(0.05)

    assert 0.0 <= watch.idle() <= watch.clock()


def test_a_stopwatch_counts_hardly_any_idle_time_while_all_cpus_are_busy():
    burn = "import os, time\nfor _ in range(os.cpu_count() - 1):\n    if not os.fork(): break\n"
    burn += "end = time.monotonic() + 1.0\nwhile time.monotonic() < end: pass"
    with subprocess.Popen([sys.executable, "-c", burn]) as burning:
        time.sleep(0.3)  # it has begun
        watch = Stopwatch()
        time.sleep(0.5)
        idle = watch.idle()
        burning.wait()

    assert idle < 0.25
