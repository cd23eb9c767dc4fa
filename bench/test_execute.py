"""Ask how many jobs a second go from the inbox through threads, or the event loop, to the outbox. No database."""

import time
from dataclasses import dataclass

import pytest

from bench.pieces import claimed
from fastq import Args, Job, Registry, Worker
from fastq.board.board import Board
from fastq.work.codec.codec import decode
from fastq.work.execute.loop import Loop
from fastq.work.execute.threads import Threads
from fastq.work.shared.lane import Outbox

JOBS = 20_000
POLL = 0.0002  # s between two looks at the outbox: 1 % of a round
registry = Registry()


@dataclass
class SyncArgs(Args, kind="sync"):
    number: int


@dataclass
class AsyncArgs(Args, kind="async"):
    number: int


@registry.register
class SyncWorker(Worker[SyncArgs]):
    def work(self, job: Job[SyncArgs]) -> None:
        pass


@registry.register
class AsyncWorker(Worker[AsyncArgs]):
    async def work(self, job: Job[AsyncArgs]) -> None:
        pass


def jobs_of(kind, count):
    """Return jobs that no database knows."""
    return decode(claimed(kind, [b'{"number":%d}' % number for number in range(count)]), registry.workers)[0]


def lane_of(mode, concurrency):
    return mode.lane(Board.make([concurrency], 1, 1).lane(0, 0, 0), concurrency, lambda: None)


def await_all(outbox, count):
    while len(outbox.jobs) < count:
        time.sleep(POLL)


@pytest.mark.parametrize("threads", [1, 4, 16])
def test_execute_in_threads(measured, size, threads):
    outbox = Outbox()
    mode = Threads(outbox, 0)
    lane = lane_of(mode, threads)
    mode.start()
    jobs = jobs_of("sync", size(JOBS))

    def execute():
        lane.put(jobs, 0)
        await_all(outbox, len(jobs))

    measured(len(jobs), execute, setup=outbox.jobs.clear)
    mode.stop()
    for executor in mode.slots:
        executor.thread.join()


@pytest.mark.parametrize("concurrency", [1, 16])
def test_execute_on_the_loop(measured, size, concurrency):
    outbox = Outbox()
    loop = Loop(outbox, 0)
    lane = lane_of(loop, concurrency)
    loop.start()
    jobs = jobs_of("async", size(JOBS))

    def execute():
        lane.put(jobs, 0)
        await_all(outbox, len(jobs))

    measured(len(jobs), execute, setup=outbox.jobs.clear)
