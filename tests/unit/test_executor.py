"""What a thread does between jobs: no job and no claim is kept alive by who has nothing to do."""

import gc
import threading
import weakref
from dataclasses import dataclass

import pytest

from fastq.args.kinds import Args
from fastq.board.board import Board
from fastq.jobs.job import Job, JobTimeout
from fastq.jobs.registry import Registry
from fastq.jobs.worker import Worker
from fastq.work.codec.codec import KindBatch, decode
from fastq.work.execute.settle import settle
from fastq.work.execute.threads import Threads
from fastq.work.execute.watchdog import Watchdog
from fastq.work.shared import interrupt
from fastq.work.shared.lane import Outbox
from tests.codec.claims import claimed
from tests.helpers import wait_for

registry = Registry()
go_on = threading.Event()  # for jobs that wait


@dataclass
class LargeArgs(Args, kind="large"):
    text: str


@registry.register
class LargeWorker(Worker[LargeArgs]):
    def work(self, job):
        if job.args.text == "raise":
            raise ValueError(job)
        if job.args.text == "wait":
            go_on.wait(5.0)


@pytest.fixture
def outbox():
    return Outbox()


@pytest.fixture
def threads(outbox):
    """Give the mode that executes in threads, with one lane and one executor."""
    mode = Threads(outbox, 0)
    mode.one_lane = mode.lane(Board.make([1], 1, 1).lane(0, 0, 0), 1, lambda: None)
    return mode


@pytest.fixture
def executor(threads):
    """Give the executor, which runs."""
    threads.start()
    yield threads.slots[0]
    threads.stop()
    threads.slots[0].thread.join()


@pytest.fixture
def lane(threads):
    return threads.one_lane


@pytest.mark.parametrize("text", ["return", "raise"])
@pytest.mark.usefixtures("executor")
def test_an_executor_that_rests_keeps_neither_job_nor_claim(threads, lane, outbox, text):
    watchdog = Watchdog([threads], outbox, 1.0)
    claim = claimed([("large", b'{"text":"%s"}' % text.encode())])
    jobs = decode(claim, registry.workers)[0]
    args = weakref.ref(jobs[0].args)

    lane.put(jobs, 0)
    wait_for(lambda: outbox.jobs and not lane.busy(), 5.0, "the executor to rest")
    watchdog.tick()
    outbox.jobs.clear()
    del jobs

    assert args() is None
    assert not any(isinstance(one, KindBatch) for one in gc.get_referrers(claim))


def test_a_watchdog_forgets_a_job_that_has_ended(threads, outbox):
    [executor] = threads.slots
    watchdog = Watchdog([threads], outbox, 1.0)
    executor.current = decode(claimed([("large", b'{"text":""}')]), registry.workers)[0][0]
    args = weakref.ref(executor.current.args)
    watchdog.tick()

    executor.current = None
    watchdog.tick()

    assert args() is None


def test_an_interruption_that_comes_as_its_job_ends_is_awaited_whatever_became_of_those_before(
    executor, lane, outbox, monkeypatch
):
    go_on.clear()
    throw = interrupt._throw_into

    def throw_late(thread, kind):
        go_on.set()  # the job ends before the exception is on its way ...
        wait_for(lambda: executor.current is None, 5.0, "the end of the job")
        threading.Event().wait(0.05)  # ... and its thread would be somewhere else by now
        throw(thread, kind)

    monkeypatch.setattr(interrupt, "_throw_into", throw_late)
    waiting, returning = decode(claimed([("large", b'{"text":"wait"}'), ("large", b'{"text":""}')]), registry.workers)[0]
    lane.put([waiting], 0)
    wait_for(lambda: executor.current is waiting, 5.0, "the job to start")
    executor.interrupt(returning, JobTimeout, "of another job")  # withdrawn

    executor.interrupt(waiting, JobTimeout, "took too long")
    lane.put([returning], 0)

    wait_for(lambda: len(outbox.jobs) == 2, 5.0, "both jobs")
    assert [job.outcome for job in outbox.jobs] == [None, None]


@pytest.mark.parametrize(("attempt", "again_in"), [(1, 1.0), (2, 16.0), (3, None)])
def test_a_failed_attempt_tells_of_how_many_it_was_and_when_the_next_one_comes(events, attempt, again_in):
    settle(Job.of(LargeArgs(""), attempt=attempt, max_attempts=3), None, ValueError("no"))

    told = {name: events[0].fields[name] for name in ("attempt", "max_attempts", "again_in")}
    assert told == {"attempt": attempt, "max_attempts": 3, "again_in": again_in and pytest.approx(again_in, rel=0.11)}
