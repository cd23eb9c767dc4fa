"""The applications of loads.py: jobs that take time, that compute, that fail once, and that carry much.

Imported by the worker processes that are measured. One registry has coroutines and the other functions: in one with both, the
jobs of a queue would pass a dispatcher.
"""

import asyncio
import time
from dataclasses import dataclass

from fastq import Args, Job, Registry, Worker

functions, coroutines = Registry(), Registry()


@dataclass
class Sleep(Args, kind="sleep"):
    seconds: float


@functions.register
class SleepWorker(Worker[Sleep]):
    def work(self, job: Job[Sleep]) -> None:
        time.sleep(job.args.seconds)


@dataclass
class Wait(Args, kind="wait"):
    seconds: float


@coroutines.register
class WaitWorker(Worker[Wait]):
    async def work(self, job: Job[Wait]) -> None:
        await asyncio.sleep(job.args.seconds)


@dataclass
class Compute(Args, kind="compute"):
    steps: int


@functions.register
class ComputeWorker(Worker[Compute]):
    def work(self, job: Job[Compute]) -> None:
        compute(job.args.steps)


@dataclass
class Fail(Args, kind="fail"):
    number: int


@functions.register
class FailWorker(Worker[Fail]):
    def work(self, job: Job[Fail]) -> None:
        if job.attempt == 1:
            charge({"number": job.args.number})

    def retry_delay(self, attempt: int, error: BaseException) -> float:  # noqa: ARG002 - what a worker is asked
        return 0.0


@dataclass
class Large(Args, kind="large"):
    id: int
    tenant: int
    email: str
    name: str
    template: str
    subject: str
    body: str
    weight: float
    urgent: bool
    attempts: int
    locale: str
    reply_to: str | None


@functions.register
class LargeWorker(Worker[Large]):
    def work(self, job: Job[Large]) -> None:
        pass


def compute(steps: int) -> int:
    """Keep the interpreter busy for as long as so many steps take."""
    total = 0
    for step in range(steps):
        total += step & 7
    return total


def charge(order: dict[str, int]) -> None:
    """Fail a few calls below `work`, as code of a user's does."""
    send(order["number"])


def send(number: int) -> None:
    raise ConnectionError(f"the bank did not answer for order {number}")
