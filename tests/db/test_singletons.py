"""The singletons of a process, without the process: when functions run, what becomes of those that raise, return or stay."""

import asyncio
import queue
import sys
import threading
import time
from itertools import pairwise

import pytest

from fastq import events
from fastq.config import Config
from fastq.work import singletons
from fastq.work.singletons import Singletons
from tests.helpers import Stopwatch, after_renewals, execute, wait_for

HELD = "select holder <> '' and expires_at > clock_timestamp() from fastq.lease where name = %s"


class Process:
    """What process.py does for its singletons: it ticks, and stops them in the end."""

    def __init__(self, url, functions, **settings):
        self.config = Config.load(database_url=url, **({"lease_ttl": 2.0, "timeout_grace": 0.2} | settings))
        self.singletons = Singletons(self.config, url, functions)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._tick)
        self.singletons.start()
        self._thread.start()

    def _tick(self):
        while not self._ends.wait(0.01):
            self.singletons.tick()

    def stop(self, timeout=5.0):
        """Stop in order; return how long it took, in idle seconds (see Stopwatch)."""
        watch = Stopwatch()
        self.singletons.stop()
        wait_for(lambda: not self.singletons.working, timeout, "the functions to return")
        seconds = self.singletons.finish(time.monotonic() + 5.0)
        wait_for(lambda: self.singletons.ended or not seconds, max(seconds, 1.0), "the release of the leases")
        self._ends.set()
        self._thread.join()
        return watch.idle()


@pytest.fixture
def start(database):
    """Give a function that starts a process with these singletons."""
    started = []

    def begin(functions, **settings):
        started.append(Process(database, functions, **settings))
        return started[-1]

    yield begin
    for process in started:
        process.stop()
        process.singletons._elector.stop()  # one with a stuck function would go on until its process ends


@pytest.fixture
def told():
    """Collect the events of singletons: (name, fields)."""
    seen = []
    end = events.subscribe(lambda event: seen.append((event.name, dict(event.fields))))
    yield seen
    end()


def names(told):
    return [name for name, _ in told if name.startswith("singleton.")]


def held(database, name):
    return execute(database, HELD, f"singleton:{name}") == [(True,)]


def stay(calls):
    """Make a function that tells of its handle and stays until it is told to return."""

    def run(singleton):
        calls.put(singleton)
        assert singleton.wait(30)

    return run


def test_without_singletons_there_is_no_thread_and_no_connection(start, database):
    before = threading.active_count()
    process = Singletons(Config.load(database_url=database), database, {})
    process.start()

    assert threading.active_count() == before
    assert list(process.watched()) == []
    process.hint("singleton:a")
    process.stop()
    process.finish(time.monotonic())
    assert execute(database, "select count(*)::int from pg_stat_activity where application_name = 'fastq singleton'") == [(0,)]


def test_each_singleton_runs_and_all_of_them_take_one_connection(start, database):
    calls = queue.Queue()
    process = start({name: stay(calls) for name in "abc"})
    handles = [calls.get(timeout=10) for _ in range(3)]

    assert sorted(handle.name for handle in handles) == ["a", "b", "c"]
    assert all(held(database, handle.name) for handle in handles)
    assert execute(database, "select count(*)::int from pg_stat_activity where application_name = 'fastq singleton'") == [(1,)]
    assert process.stop() < 1
    assert not any(held(database, handle.name) for handle in handles)


def test_of_two_processes_one_runs_it_and_the_other_when_that_stops(start, database, told, monkeypatch):
    calls = queue.Queue()
    monkeypatch.setattr("fastq.leases.lease.identity", lambda: f"host:1:{threading.get_ident()}")
    first, second = (start({"a": stay(calls)}, poll_only=True, poll_interval=0.05) for _ in range(2))
    one = calls.get(timeout=10)
    with pytest.raises(queue.Empty):
        calls.get(timeout=0.3)

    running = first if first.singletons.working else second
    running.stop()
    other = calls.get(timeout=5)
    assert other.term > one.term
    assert one.stopping
    assert not other.stopping
    assert [fields["reason"] for name, fields in told if name == "singleton.ended"] == ["stop"]


def test_a_function_that_returns_is_called_again_in_the_same_term(start, told, monkeypatch):
    monkeypatch.setattr(singletons, "AGAIN", 0.02)
    calls = queue.Queue()
    start({"a": calls.put})
    terms = {calls.get(timeout=10).term for _ in range(3)}

    assert len(terms) == 1
    assert names(told) == ["singleton.started"]


def test_a_function_that_raises_gives_the_lease_up_and_rests_longer_each_time(start, database, told, monkeypatch):
    monkeypatch.setattr(singletons, "FIRST_REST", 0.1)
    calls = []

    def run(singleton):
        calls.append((singleton.term, time.monotonic()))
        raise ValueError("no orders")

    start({"a": run})
    wait_for(lambda: len(calls) == 4, 10, "four attempts")

    terms, times = zip(*calls, strict=True)
    assert list(terms) == sorted(set(terms))
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[0] >= 0.1
    assert pauses[1] >= 0.2
    assert pauses[2] >= 0.4
    failed = next(fields for name, fields in told if name == "singleton.failed")
    assert failed["error"] == "ValueError: no orders"
    assert "in run" in failed["traceback"]


def test_an_exception_that_cannot_be_written_is_a_failure_like_others(start, told):
    def run(singleton):
        error = SyntaxError("no line")
        error.filename, error.lineno, error.text = "f", "q", 5
        raise error

    start({"a": run})

    wait_for(lambda: "singleton.ended" in names(told), 10, "the end of the term")
    assert "singleton.failed" in names(told)


def test_a_coroutine_that_a_decorator_hides_is_told_as_a_failure(start, told):
    async def stay(singleton):
        await singleton.wait_async(30)

    def decorated(singleton):
        return stay(singleton)

    start({"a": decorated})

    wait_for(lambda: "singleton.failed" in names(told), 10, "the failure to be told")
    failed = next(fields for name, fields in told if name == "singleton.failed")
    assert "the outermost decorator must give an async def" in failed["error"]


@pytest.mark.parametrize("awaited", [False, True], ids=["a function", "a coroutine"])
@pytest.mark.lease("L10")
def test_a_holder_that_loses_its_lease_is_told_at_once(start, database, told, awaited):
    calls, ended = queue.Queue(), queue.Queue()

    async def run_async(singleton):
        calls.put(singleton)
        ended.put(await singleton.wait_async(30))

    def run(singleton):
        calls.put(singleton)
        ended.put(singleton.wait(30))

    process = start({"a": run_async if awaited else run})
    handle = calls.get(timeout=10)
    execute(database, "update fastq.lease set holder = 'other', term = term + 1, expires_at = expires_at + interval '1 hour'")
    process.singletons.hint("singleton:a")

    assert ended.get(timeout=2) is True
    assert handle.stopping
    assert not handle.trusted()
    wait_for(lambda: ("singleton.ended", "lost") in [(name, fields.get("reason")) for name, fields in told], 2)


def lose(database, process):
    """Let somebody else have the lease."""
    execute(database, "update fastq.lease set holder = 'other', term = term + 1, expires_at = expires_at + interval '1 hour'")
    process.singletons.hint("singleton:a")


def test_a_function_that_does_not_listen_is_interrupted_after_the_grace(start, database, told):
    calls, ended = queue.Queue(), queue.Queue()

    def run(singleton):
        calls.put(singleton)
        try:
            while True:
                time.sleep(0.001)
        finally:
            ended.put(time.monotonic())

    process = start({"a": run})
    calls.get(timeout=10)
    began = time.monotonic()
    lose(database, process)

    assert ended.get(timeout=5) - began >= 0.2
    wait_for(lambda: "singleton.ended" in names(told), 2)
    assert names(told) == ["singleton.started", "singleton.interrupted", "singleton.ended"]
    assert process.singletons.stuck == 0


def test_a_coroutine_that_does_not_listen_is_cancelled_after_the_grace(start, database, told):
    calls, ended = queue.Queue(), queue.Queue()

    async def run(singleton):
        calls.put(singleton)
        try:
            await asyncio.sleep(60)
        finally:
            ended.put("cancelled")

    process = start({"a": run})
    calls.get(timeout=10)
    lose(database, process)

    assert ended.get(timeout=5) == "cancelled"
    wait_for(lambda: "singleton.ended" in names(told), 2)
    assert names(told) == ["singleton.started", "singleton.interrupted", "singleton.ended"]


def test_a_function_that_swallows_that_too_makes_the_process_recycle(start, database, told):
    calls, may_end = queue.Queue(), threading.Event()

    def run(singleton):
        calls.put(singleton)
        while not may_end.is_set():
            try:
                while not may_end.is_set():
                    time.sleep(0.001)
            except BaseException:  # noqa: BLE001 - what users write
                pass

    process = start({"a": run})
    calls.get(timeout=10)
    lose(database, process)

    wait_for(lambda: process.singletons.stuck == 1, 5, "the function to be given up")
    assert not process.singletons.working
    may_end.set()


def test_a_stopping_process_releases_the_lease_when_the_function_has_returned_and_not_before(start, database):
    calls, may_end = queue.Queue(), threading.Event()

    def run(singleton):
        calls.put(singleton)
        singleton.wait(30)
        assert singleton.once("the last one"), "its term still holds"
        may_end.wait(10)

    process = start({"a": run})
    calls.get(timeout=10)
    process.singletons.stop()
    wait_for(lambda: execute(database, "select count(*)::int from fastq.once") == [(1,)], 5)
    assert held(database, "a")
    assert process.singletons.working

    may_end.set()
    wait_for(lambda: not held(database, "a"), 1)


def test_a_slow_end_of_one_holds_no_other_back(start, database):
    calls, may_end = queue.Queue(), threading.Event()

    def slow(singleton):
        calls.put(singleton)
        may_end.wait(10)

    process = start({"slow": slow, "quick": stay(calls)})
    for _ in range(2):
        calls.get(timeout=10)
    process.singletons.stop()

    wait_for(lambda: not held(database, "quick"), 1)
    assert held(database, "slow")
    may_end.set()


def test_an_operator_can_have_it_given_up(start, database, told):
    calls = queue.Queue()
    process = start({"a": stay(calls)})
    first = calls.get(timeout=10)
    execute(database, "update fastq.lease set resign_term = term")
    process.singletons.hint("singleton:a")

    second = calls.get(timeout=10)
    assert second.term > first.term
    assert [fields["reason"] for name, fields in told if name == "singleton.ended"] == ["resign"]


def test_one_that_was_asked_to_resign_has_returned_before_another_begins(start, database):
    calls, moments = queue.Queue(), queue.Queue()

    def run(singleton):
        calls.put(singleton)
        assert singleton.wait(30)
        after_renewals(database, "singleton:a", 3)  # while we come to an end
        assert singleton.trusted()
        moments.put(("ended", time.monotonic()))

    def heir(singleton):
        moments.put(("began", time.monotonic()))
        singleton.wait(30)

    process = start({"a": run})
    calls.get(timeout=10)
    start({"a": heir})
    execute(database, "update fastq.lease set resign_term = term")
    process.singletons.hint("singleton:a")

    assert [moments.get(timeout=10)[0] for _ in range(2)] == ["ended", "began"]


@pytest.mark.skipif(sys.gettrace() is not None, reason="under a tracer, such as coverage's, the exception gets into the call")
def test_a_process_whose_function_cannot_be_ended_leaves_the_lease_to_others(start, database, told):
    calls, heirs, may_end = queue.Queue(), queue.Queue(), threading.Event()

    def run(singleton):
        calls.put(singleton)
        may_end.wait(30)  # in one C call: no exception can get in

    process = start({"a": run}, lease_ttl=1.0)
    calls.get(timeout=10)
    execute(database, "update fastq.lease set holder = 'other', term = term + 1, expires_at = clock_timestamp() + '0.1 s'")
    process.singletons.hint("singleton:a")
    wait_for(lambda: process.singletons.stuck == 1, 5, "the function to be given up")

    other = start({"a": stay(heirs)}, lease_ttl=1.0)
    heirs.get(timeout=10)
    assert process.singletons.stuck == 1, "and the first process is still there, waiting for its jobs"
    other.stop()
    may_end.set()


def test_what_a_function_raises_because_it_was_told_is_no_failure(start, database, told):
    calls = queue.Queue()

    def run(singleton):
        calls.put(singleton)
        singleton.wait(30)
        singleton.once("too late")

    process = start({"a": run})
    calls.get(timeout=10)
    lose(database, process)

    wait_for(lambda: "singleton.ended" in names(told), 5)
    assert "singleton.failed" not in names(told)
