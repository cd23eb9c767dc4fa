"""Ways of executing: each takes its jobs through the same states, and the watchdog needs to know nothing else of it."""

import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from fastq.args.kinds import Args
from fastq.board.board import Board
from fastq.errors import RegistryError
from fastq.jobs.job import Job, JobTimeout
from fastq.jobs.outcome import Failed, Output
from fastq.jobs.registry import Registry
from fastq.jobs.worker import Worker
from fastq.work.codec.codec import decode
from fastq.work.execute.bundles import Bundles
from fastq.work.execute.loop import Loop
from fastq.work.execute.mode import PHASES, TELLERS, Phase, Slot, Teller
from fastq.work.execute.threads import Threads
from fastq.work.execute.watchdog import Watchdog
from fastq.work.modes import check_modes, modes_for
from fastq.work.shared.lane import Outbox
from tests.codec.claims import claimed
from tests.helpers import wait_for

registry = Registry()
started, go_on = threading.Event(), threading.Event()


@dataclass
class SyncArgs(Args, kind="sync"):
    what: str


@dataclass
class AsyncArgs(Args, kind="async"):
    what: str


@dataclass
class TogetherArgs(Args, kind="together"):
    what: str


def do(job):
    """Do what a job says; no C call but short ones, so that it can be interrupted and not be ended."""
    started.set()
    if job.args.what == "value":
        return "value"
    if job.args.what in ("raise", "raise and hang"):
        raise ValueError(job.args.what)
    while job.args.what in ("hang", "wait") and not go_on.is_set():
        try:
            while not go_on.is_set():
                time.sleep(0.001)
        except JobTimeout:
            if job.args.what == "wait":
                raise
    return None


def delay(error):
    started.set()
    while f"{error}" == "raise and hang" and not go_on.is_set():
        time.sleep(0.001)
    return 1.0


@registry.register
class SyncWorker(Worker[SyncArgs]):
    timeout = 0.05

    def work(self, job):
        return do(job)

    def retry_delay(self, attempt, error):
        return delay(error)


@registry.register
class AsyncWorker(Worker[AsyncArgs]):
    timeout = 0.05

    async def work(self, job):
        return do(job)

    def retry_delay(self, attempt, error):
        return delay(error)


@registry.register
class TogetherWorker(Worker[TogetherArgs]):
    timeout = 0.05
    up_to = 1

    def work_many(self, jobs):
        [result] = map(do, jobs)
        return None if result is None else [result]

    def retry_delay(self, attempt, error):
        return delay(error)


KINDS = {"threads": "sync", "loop": "async", "bundles": "together"}


@pytest.fixture(params=[Threads, Loop, Bundles], ids=lambda mode: mode.name)
def running(request, monkeypatch):
    """Give a mode with one slot that runs, the transitions that its slot goes through, and a function that hands it a job."""
    seen, store = set(), Slot.__setattr__

    def noting(self, name, value):
        if name in ("current", "settling", "teller") and hasattr(self, "leaving"):
            before = self.occupant()[1], self.teller
            store(self, name, value)
            seen.add((before[0], self.occupant()[1]) if name != "teller" else (before[1], self.teller))
            return
        store(self, name, value)

    monkeypatch.setattr(Slot, "__setattr__", noting)
    started.clear()
    go_on.clear()
    outbox = Outbox()
    mode = request.param(outbox, 0)
    lane = mode.lane(Board.make([1], 1, 8).lane(0, 0, 0), 1, lambda: None)
    mode.start()

    def put(what):
        [job] = decode(claimed([(KINDS[mode.name], b'{"what":"%s"}' % what.encode())]), registry.workers)[0]
        lane.put([job], 0)
        return job

    yield SimpleNamespace(mode=mode, lane=lane, outbox=outbox, seen=seen, put=put, slot=mode.slots[0])
    go_on.set()
    mode.stop()
    wait_for(lambda: not mode.working, 5.0, "the mode to end its jobs")


def phases(running):
    return {arrow for arrow in running.seen if isinstance(arrow[0], Phase)}


def tellers(running):
    return {arrow for arrow in running.seen if isinstance(arrow[0], Teller)}


def tick_until(running, condition):
    watchdog = Watchdog([running.mode], running.outbox, grace=0.1)

    def ticked():
        watchdog.tick()
        return condition()

    wait_for(ticked, 10.0, "the watchdog to act")
    return watchdog


def test_a_job_that_returns_nothing_is_executed_and_not_settled(running):
    job = running.put("nothing")
    wait_for(lambda: running.outbox.jobs, 5.0, "the job to end")

    assert (list(running.outbox.jobs), job.outcome) == ([job], None)
    assert phases(running) == {(Phase.RESTING, Phase.EXECUTING), (Phase.EXECUTING, Phase.RESTING)}
    assert tellers(running) == set()


@pytest.mark.parametrize(("what", "outcome"), [("value", Output), ("raise", Failed)])
def test_a_job_that_returns_something_or_raises_is_settled_too(running, what, outcome):
    job = running.put(what)
    wait_for(lambda: running.outbox.jobs, 5.0, "the job to end")

    assert isinstance(job.outcome, outcome)
    assert phases(running) == PHASES


@pytest.mark.parametrize("what", ["hang", "raise and hang"])
def test_a_job_that_does_not_end_is_told_of_by_the_watchdog_alone(running, what):
    job = running.put(what)
    assert started.wait(5)
    watchdog = tick_until(running, lambda: running.outbox.jobs)
    assert running.slot.held() == ()
    go_on.set()

    [told] = running.outbox.jobs
    assert (told.id, told is job, watchdog.given_up) == (job.id, False, 1)
    wait_for(lambda: running.slot.occupant()[0] is None, 5.0, "the job to end after all")
    assert len(running.outbox.jobs) == 1
    assert {(Teller.SLOT, Teller.CONTESTED), (Teller.CONTESTED, Teller.WATCHDOG)} <= tellers(running) <= TELLERS


def test_a_slot_of_the_loop_goes_on_after_a_job_that_was_given_up_and_an_executor_ends(running):
    running.put("hang")
    assert started.wait(5)
    tick_until(running, lambda: running.outbox.jobs)
    go_on.set()
    running.put("nothing")

    if running.mode.name == "loop":
        wait_for(lambda: len(running.outbox.jobs) == 2, 5.0, "the next job")
        assert (Teller.WATCHDOG, Teller.SLOT) in tellers(running)
    else:
        running.slot.thread.join(5)
        assert not running.slot.thread.is_alive()
        assert (Teller.WATCHDOG, Teller.SLOT) not in tellers(running)


def test_a_job_that_has_just_ended_is_not_given_up(running):
    job = Job.of(SyncArgs("another"))

    assert running.slot.contest(job, Phase.EXECUTING) is False
    assert tellers(running) == {(Teller.SLOT, Teller.CONTESTED), (Teller.CONTESTED, Teller.SLOT)}


def test_no_other_change_of_the_teller_is_let_pass(running):
    with pytest.raises(AssertionError, match="WATCHDOG cannot tell of a job after SLOT"):
        running.slot.tell_by(Teller.WATCHDOG)


def test_a_process_has_the_modes_that_its_workers_are_of_in_the_order_of_the_board():
    workers = registry.workers
    assert {worker.kind.name: worker.mode for worker in workers.values()} == {
        "sync": "threads",
        "async": "loop",
        "together": "bundles",
    }

    assert [(mode.name, mode.number) for mode in modes_for(workers.values(), Outbox())] == [
        ("threads", 0),
        ("loop", 1),
        ("bundles", 3),
    ]
    assert [(mode.name, mode.number) for mode in modes_for([workers["async"]], Outbox())] == [("loop", 1)]
    assert [(mode.name, mode.number) for mode in modes_for([], Outbox())] == [("threads", 0)]


def test_a_mode_that_there_is_not_is_refused():
    class Other(SyncWorker):
        mode = "fibres"

    names = "'threads', 'loop', 'isolated', 'bundles'"
    with pytest.raises(RegistryError, match=rf"Other\.mode: expected one of {names}, got 'fibres'"):
        check_modes([SyncWorker(), Other()])
