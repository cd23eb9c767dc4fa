"""The handle of a singleton: when it says `stopping`, and how whoever waits on it wakes up."""

import asyncio
import functools
import queue
import random
import sys
import threading
import time

import pytest

from fastq import events
from fastq.config import Config
from fastq.leases.elector import Trust
from fastq.leases.lease import Fence, boottime
from fastq.leases.singleton import Notice, Singleton, SingletonStopped
from fastq.work.singletons import Runner

LONG, SOON = 20.0, 2.0  # s: a wait that must be ended, and the time it may take to end


@pytest.fixture
def notice():
    return Notice(Trust(boottime() + 60))


@pytest.fixture
def singleton(notice):
    return Singleton("orders", Fence("singleton:orders", "me", 7), notice, None)


def timed(call):
    began = time.monotonic()
    return call(), time.monotonic() - began


def later(call):
    timer = threading.Timer(0.05, call)
    timer.daemon = True
    timer.start()


def test_a_handle_tells_its_name_and_term(singleton):
    assert (singleton.name, singleton.term, singleton.fence) == ("orders", 7, ("singleton:orders", "me", 7))
    assert repr(singleton) == "Singleton('orders', term=7)"


def test_a_wait_takes_its_time_and_says_that_nothing_happened(singleton):
    told, took = timed(lambda: singleton.wait(0.05))

    assert (told, singleton.stopping, singleton.trusted()) == (False, False, True)
    assert took >= 0.05


def test_a_wait_ends_with_the_notice(singleton, notice):
    later(lambda: notice.give("stop"))
    told, took = timed(lambda: singleton.wait(LONG))

    assert told
    assert took < SOON
    assert singleton.stopping
    assert singleton.trusted(), "a stopping process holds the lease until the function has returned"


def test_a_wait_ends_with_the_trust_though_nobody_says_so(singleton, notice):
    notice.trust.until = boottime() + 0.1
    told, took = timed(lambda: singleton.wait(LONG))

    assert told
    assert took < SOON
    assert (notice.reason, singleton.trusted()) == ("lost", False)


@pytest.mark.parametrize("awaited", [False, True])
def test_a_wait_goes_on_when_the_trust_is_prolonged(singleton, notice, awaited):
    notice.trust.until = boottime() + 0.1
    later(lambda: setattr(notice.trust, "until", boottime() + 60))
    told, took = timed(lambda: asyncio.run(singleton.wait_async(0.3)) if awaited else singleton.wait(0.3))

    assert not told
    assert took >= 0.3


def test_the_first_reason_stays(notice):
    notice.give("stop")
    notice.give("lost")

    assert notice.reason == "stop"


def test_a_coroutine_wakes_up_with_the_notice_from_another_thread(singleton, notice):
    later(lambda: notice.give("lost"))
    told, took = timed(lambda: asyncio.run(singleton.wait_async(LONG)))

    assert told
    assert took < SOON


def test_a_coroutine_waits_its_time_and_leaves_nothing_behind(singleton, notice):
    assert asyncio.run(singleton.wait_async(0.01)) is False
    notice.give("stop")
    assert asyncio.run(singleton.wait_async(LONG)) is True


def test_an_interruption_that_meets_the_end_of_the_function_harms_nothing(monkeypatch, request):
    """It is thrown just when the function returns, 300 times: it lands in the function or nowhere."""
    rng, broken, landed, returned = random.Random(7), [], [], []
    monkeypatch.setattr(threading, "excepthook", broken.append)
    request.addfinalizer(functools.partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(0.0001)  # or the function would end before anybody looks
    began, ended = queue.Queue(), queue.Queue()

    def run(handle):
        try:
            began.put(handle)
            until = time.perf_counter() + rng.uniform(0.0005, 0.006)
            while time.perf_counter() < until:
                pass
            returned.append(handle.term)
        except SingletonStopped:
            landed.append(handle.term)
            raise

    runner = Runner("orders", run, Config(shutdown_timeout=0.002, timeout_grace=5), "")
    end = events.subscribe(lambda event: ended.put(event.fields["term"]) if event.name == "singleton.ended" else None)
    runner.thread.start()
    for term in range(300):
        fence = Fence("singleton:orders", "me", term)
        runner.begin(fence, Trust(boottime() + 60))
        began.get(timeout=5)
        runner.end(fence, "stop")
        while runner.working:
            time.sleep(0.0002)
            runner.tick()
        assert ended.get(timeout=5) == term
    end()

    assert broken == []
    assert runner.thread.is_alive()
    assert not runner.stuck
    assert landed, "some were interrupted"
    assert returned, "and some were not"
    assert sorted({*landed, *returned}) == list(range(300))
