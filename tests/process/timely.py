"""The application of test_expiry.py: jobs in threads and on the event loop that have a moment."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from fastq import Args, Job, Registry, Worker
from tests.process.jobs import tell

registry = Registry()


@dataclass
class Held(Args, kind="held"):
    """Executes until there is such a file."""

    until: str


@registry.register
class HeldWorker(Worker[Held]):
    def work(self, job: Job[Held]) -> None:
        tell(job, "start")
        while not Path(job.args.until).exists():
            time.sleep(0.01)


@dataclass
class AsyncHeld(Args, kind="async_held"):
    until: str


@registry.register
class AsyncHeldWorker(Worker[AsyncHeld]):
    async def work(self, job: Job[AsyncHeld]) -> None:
        tell(job, "start")
        while not Path(job.args.until).exists():  # noqa: ASYNC110, ASYNC240 - a file tells it, of another process
            await asyncio.sleep(0.01)


@dataclass
class Endless(Args, kind="endless"):
    """Executes until it is interrupted."""


@registry.register
class EndlessWorker(Worker[Endless]):
    timeout = None

    def work(self, job: Job[Endless]) -> None:
        tell(job, "start")
        while True:
            time.sleep(0.001)


@dataclass
class AsyncEndless(Args, kind="async_endless"):
    pass


@registry.register
class AsyncEndlessWorker(Worker[AsyncEndless]):
    timeout = None

    async def work(self, job: Job[AsyncEndless]) -> None:
        tell(job, "start")
        await asyncio.sleep(600)


@dataclass
class Failing(Args, kind="failing"):
    delay: float


@registry.register
class FailingWorker(Worker[Failing]):
    def work(self, job: Job[Failing]) -> None:
        tell(job, "start")
        raise ValueError(job.args.delay)

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        return float(str(error))


@dataclass
class AsyncFailing(Args, kind="async_failing"):
    delay: float


@registry.register
class AsyncFailingWorker(Worker[AsyncFailing]):
    async def work(self, job: Job[AsyncFailing]) -> None:
        tell(job, "start")
        raise ValueError(job.args.delay)

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        return float(str(error))
