"""The applications whose jobs the cells are about, as a user would write them: one with functions that block, one that awaits.

Imported by the fork server, the worker processes and the programs that enqueue. The jobs return nothing; a noted start goes
into a file (speak.py), and else nothing is kept.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from fastq.args.kinds import Args
from fastq.bench.cells.speak import SLEEP, note, spin
from fastq.jobs.job import Job
from fastq.jobs.registry import Registry
from fastq.jobs.worker import Worker

registry = Registry()
awaiting = Registry()
"""Async workers alone: a process that works these makes no threads for its queues."""


@dataclass
class Noop(Args, kind="cells.noop"):
    """One small integer: most jobs carry an id."""

    number: int


@registry.register
class NoopWorker(Worker[Noop]):
    """Do nothing."""

    def work(self, job: Job[Noop]) -> None:
        """Return at once."""


@dataclass
class Large(Args, kind="cells.large"):
    """A kilobyte in twelve fields."""

    number: int
    user: int
    weight: float
    urgent: bool
    text0: str
    text1: str
    text2: str
    text3: str
    text4: str
    text5: str
    text6: str
    text7: str


@registry.register
class LargeWorker(Worker[Large]):
    """Do nothing."""

    def work(self, job: Job[Large]) -> None:
        """Return at once."""


@dataclass
class Clock(Args, kind="cells.clock"):
    """Where to write the time, and under which number."""

    number: int
    path: str


@registry.register
class ClockWorker(Worker[Clock]):
    """Write down when `work` began."""

    def work(self, job: Job[Clock]) -> None:
        """Look at the clock first, then append."""
        note(job.args.number, job.args.path)


@dataclass
class Nap(Args, kind="cells.nap"):
    """As `Noop`."""

    number: int


@registry.register
class NapWorker(Worker[Nap]):
    """Wait in a thread."""

    def work(self, job: Job[Nap]) -> None:  # noqa: ARG002
        """Block."""
        time.sleep(SLEEP)


@dataclass
class Sleep(Args, kind="cells.sleep"):
    """As `Noop`."""

    number: int


@awaiting.register
class SleepWorker(Worker[Sleep]):
    """Wait on the event loop."""

    async def work(self, job: Job[Sleep]) -> None:  # noqa: ARG002
        """Let others run."""
        await asyncio.sleep(SLEEP)


@dataclass
class Cpu(Args, kind="cells.cpu"):
    """As `Noop`."""

    number: int


@registry.register
class CpuWorker(Worker[Cpu]):
    """Compute."""

    def work(self, job: Job[Cpu]) -> None:  # noqa: ARG002
        """Take a millisecond of CPU."""
        spin()


@dataclass
class Fail(Args, kind="cells.fail"):
    """As `Noop`."""

    number: int


@registry.register
class FailWorker(Worker[Fail]):
    """Fail once."""

    def work(self, job: Job[Fail]) -> None:
        """Raise at the first attempt."""
        if job.attempt == 1:
            raise RuntimeError("not yet")

    def retry_delay(self, attempt: int, error: BaseException) -> float:  # noqa: ARG002
        """Try again at once."""
        return 0.0


ARGS: dict[str, type[Args]] = {
    "noop": Noop,
    "large": Large,
    "clock": Clock,
    "nap": Nap,
    "sleep": Sleep,
    "cpu": Cpu,
    "fail": Fail,
}
