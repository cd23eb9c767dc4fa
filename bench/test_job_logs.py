"""Ask how much a job pays for its log: calls of the function that an executor calls for each job, and the work of the scribe.

The difference to `plain` is the price. There are no threads here, no loop and no database: on a machine that others share a price
below a microsecond is nowhere to be seen behind these. `--benchmark-timer=time.process_time` helps there, too. `write` is the
scribe's part, off the job's thread: it makes the rows. The statement is not in it.
"""

import logging
import sys
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from bench.pieces import claimed
from fastq import Args, Registry, Worker
from fastq.joblogs import keeping, streams
from fastq.joblogs.transcript import Transcript
from fastq.work.codec.codec import decode

JOBS = 5_000
LINE = "the customer was told, in 12 ms"
log = logging.getLogger("bench")


@dataclass
class SilentArgs(Args, kind="silent"):
    number: int


@dataclass
class LoggingArgs(Args, kind="logging"):
    number: int


@dataclass
class PrintingArgs(Args, kind="printing"):
    number: int


class Silent(Worker[SilentArgs]):
    def work(self, job):
        pass


class Logging(Worker[LoggingArgs]):
    def work(self, job):  # noqa: ARG002 - what it is given
        log.info(LINE)


class Printing(Worker[PrintingArgs]):
    def work(self, job):  # noqa: ARG002 - the same
        print(LINE)


class Nowhere:
    """A stream that throws away what is written."""

    def write(self, text):
        return len(text)

    def flush(self):
        pass


@contextmanager
def hearing(monkeypatch):
    """Hear what jobs tell, as in a process with such a kind; their prints and records go nowhere else."""
    taken = {}
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "fastq.hooks.current", raising=False)
        patch.setattr(sys, "stdout", Nowhere())
        patch.setattr(logging.getLogger(), "handlers", [])
        patch.setattr(logging.getLogger("bench"), "level", logging.INFO)
        keeping.use(lambda job: Transcript(job, taken.setdefault))
        streams.listen("info")
        yield taken
        streams.leave()
        keeping.use(None)


def jobs_of(worker, count, *, logs):
    registry = Registry(logs=logs)
    registry.register(worker)
    (kind,) = registry.workers
    return decode(claimed(kind, [b'{"number":%d}' % number for number in range(count)]), registry.workers)[0]


@pytest.mark.parametrize("logs", [False, True], ids=["plain", "logs"])
@pytest.mark.parametrize("worker", [Silent, Logging, Printing])
def test_call_with(measured, size, monkeypatch, worker, logs):
    with hearing(monkeypatch) as taken:
        jobs = jobs_of(worker, size(JOBS), logs=logs)
        work = jobs[0].batch.work

        def run():
            taken.clear()
            for job in jobs:
                work(job)

        measured(len(jobs), run, rounds=50)
        assert len(taken) == (len(jobs) if logs and worker is not Silent else 0)


def test_make_the_rows_of_a_line_of_each(measured, size, monkeypatch):
    with hearing(monkeypatch) as taken:
        jobs = jobs_of(Logging, size(JOBS), logs=True)
        for job in jobs:
            jobs[0].batch.work(job)
        told = [(transcript, transcript._head) for transcript in taken]  # noqa: SLF001 - to take them again

        def run():
            for transcript, lines in told:
                transcript._head = lines  # noqa: SLF001 - the same
                transcript.take()

        measured(len(jobs), run, rounds=20)
