"""A loop whose short waits end in time, and whose waits end as soon as there is something to do."""

import asyncio
import os
import selectors
import threading
import time

import pytest

from fastq.work.execute import punctual
from tests.helpers import wait_for

pytestmark = pytest.mark.skipif(not hasattr(selectors, "EpollSelector"), reason="there is no epoll here")


@pytest.fixture
def loop():
    made = punctual.new_loop()
    yield made
    made.close()


def test_a_sleep_of_less_than_a_millisecond_takes_less_than_one(loop):
    async def sleep():
        began = time.perf_counter()
        await asyncio.sleep(0.0002)
        return time.perf_counter() - began

    # A busy machine disturbs many of them, and not all.
    wait_for(lambda: 0.0002 <= loop.run_until_complete(sleep()) < 0.001, what="a sleep that ends in time")


def test_what_comes_during_a_short_wait_ends_it(loop, monkeypatch):
    monkeypatch.setattr(punctual, "SHORT", 3600.0)
    read, write = os.pipe()
    loop.add_reader(read, loop.stop)
    loop.call_later(1800.0, loop.stop)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    os.write(write, b"!")

    wait_for(lambda: not thread.is_alive(), what="the end of the wait")
    os.close(read)
    os.close(write)


def test_a_call_of_another_thread_ends_a_short_wait(loop, monkeypatch):
    monkeypatch.setattr(punctual, "SHORT", 3600.0)
    loop.call_later(1800.0, loop.stop)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    loop.call_soon_threadsafe(loop.stop)

    wait_for(lambda: not thread.is_alive(), what="the end of the wait")


def test_the_loop_that_a_program_has_chosen_is_its_own():
    class Theirs(asyncio.SelectorEventLoop):
        pass

    class Policy(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self):
            return Theirs()

    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(Policy())
    try:
        made = punctual.new_loop()
    finally:
        asyncio.set_event_loop_policy(before)
    assert type(made) is Theirs
    made.close()


def test_a_descriptor_that_select_does_not_take_is_left_to_epoll(monkeypatch):
    monkeypatch.setattr(punctual, "FEW", 0)
    made = punctual.new_loop()

    assert type(made._selector) is selectors.EpollSelector
    made.close()
