"""What a thread does between jobs: no job and no claim is kept alive by who has nothing to do."""

import gc
import threading
import weakref
from dataclasses import dataclass

import pytest

from fastq.args.kinds import Args
from fastq.board import Board
from fastq.jobs.job import Job, JobTimeout
from fastq.jobs.registry import Registry
from fastq.jobs.worker import Worker
from fastq.work.codec.claimed import KindBatch
from fastq.work.codec.codec import decode
from fastq.work.execute import watchdog as watching
from fastq.work.execute.executor import Executor, settle
from fastq.work.execute.watchdog import Watchdog
from fastq.work.shared.lane import Lane, Outbox
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
def lane():
    return Lane(Board.make([1], 1, 1).lane(0, 0, 0), 1, lambda: None)


@pytest.mark.parametrize("text", ["return", "raise"])
def test_an_executor_that_rests_keeps_neither_job_nor_claim(lane, text):
    outbox = Outbox()
    executor = Executor(lane, 0, outbox)
    watchdog = Watchdog([executor], None, outbox, 1.0)
    executor.thread.start()
    claim = claimed([("large", b'{"text":"%s"}' % text.encode())])
    jobs = decode(claim, registry.workers)[0]
    args = weakref.ref(jobs[0].args)

    lane.put(jobs, 0)
    wait_for(lambda: outbox.jobs and lane.resting, 5.0, "the executor to rest")
    watchdog.tick([])
    outbox.jobs.clear()
    del jobs

    assert args() is None
    assert not any(isinstance(one, KindBatch) for one in gc.get_referrers(claim))
    lane.stop(1)
    executor.thread.join()


def test_a_watchdog_forgets_a_job_that_has_ended(lane):
    outbox = Outbox()
    executor = Executor(lane, 0, outbox)
    watchdog = Watchdog([executor], None, outbox, 1.0)
    executor.current = decode(claimed([("large", b'{"text":""}')]), registry.workers)[0][0]
    args = weakref.ref(executor.current.args)
    watchdog.tick([])

    executor.current = None
    watchdog.tick([])

    assert args() is None


def test_an_interruption_that_comes_as_its_job_ends_is_awaited_though_the_one_before_was_told_of_late(lane, monkeypatch):
    outbox = Outbox()
    executor = Executor(lane, 0, outbox)
    executor.thread.start()
    throw = watching._throw_into

    def throw_late(thread, kind):
        go_on.set()  # the job ends before the exception is on its way ...
        wait_for(lambda: executor.current is None, 5.0, "the end of the job")
        threading.Event().wait(0.05)  # ... and its thread would be somewhere else by now
        throw(thread, kind)

    monkeypatch.setattr(watching, "_throw_into", throw_late)
    waiting, returning = decode(claimed([("large", b'{"text":"wait"}'), ("large", b'{"text":""}')]), registry.workers)[0]
    lane.put([waiting], 0)
    wait_for(lambda: executor.current is waiting, 5.0, "the job to start")
    executor.thrown = True  # what the watchdog has said of the last one, which had landed already

    Watchdog([executor], None, outbox, 1.0).throw(executor, waiting, JobTimeout, "took too long")
    lane.put([returning], 0)

    wait_for(lambda: len(outbox.jobs) == 2, 5.0, "both jobs")
    assert [job.outcome for job in outbox.jobs] == [None, None]
    lane.stop(1)
    executor.thread.join()


@pytest.mark.parametrize(("attempt", "again_in"), [(1, 1.0), (2, 16.0), (3, None)])
def test_a_failed_attempt_tells_of_how_many_it_was_and_when_the_next_one_comes(events, attempt, again_in):
    settle(Job.of(LargeArgs(""), attempt=attempt, max_attempts=3), None, ValueError("no"))

    told = {name: events[0].fields[name] for name in ("attempt", "max_attempts", "again_in")}
    assert told == {"attempt": attempt, "max_attempts": 3, "again_in": again_in and pytest.approx(again_in, rel=0.11)}
