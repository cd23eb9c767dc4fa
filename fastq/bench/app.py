"""The application that is measured: a job that does nothing, and a job that writes when it started.

Imported by the fork server, the worker processes and the programs that enqueue. Its jobs deliberately return nothing and have
no options, so that a job goes the plainest way there is; `work` runs in executor threads, and keeps nothing.
"""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass

from fastq.args.kinds import Args
from fastq.jobs.job import Job
from fastq.jobs.registry import Registry
from fastq.jobs.worker import Worker

registry = Registry()

STARTED = struct.Struct("qq")
"""The record of a clock job: its number, and the monotonic clock (one for all processes of a machine) in nanoseconds."""


@dataclass
class NoopArgs(Args, kind="bench.noop"):
    """One small integer: most jobs carry an id."""

    number: int


@registry.register
class NoopWorker(Worker[NoopArgs]):
    """Do nothing."""

    def work(self, job: Job[NoopArgs]) -> None:
        """Return at once."""


@dataclass
class FlatArgs(Args, kind="bench.flat"):
    """Six fields of every flat type: the codec reads such args by column."""

    user_id: int
    template: str
    weight: float
    urgent: bool
    count: int
    reply_to: str | None


@registry.register
class FlatWorker(Worker[FlatArgs]):
    """Do nothing."""

    def work(self, job: Job[FlatArgs]) -> None:
        """Return at once."""


@dataclass
class ClockArgs(Args, kind="bench.clock"):
    """Where to write the time, and under which number."""

    path: str
    number: int


@registry.register
class ClockWorker(Worker[ClockArgs]):
    """Write down when `work` began."""

    def work(self, job: Job[ClockArgs]) -> None:
        """Look at the clock first, then open the file and append."""
        started = time.monotonic_ns()
        fd = os.open(job.args.path, os.O_WRONLY | os.O_APPEND)
        os.write(fd, STARTED.pack(job.args.number, started))  # less than a page: written whole, even if others append
        os.close(fd)
