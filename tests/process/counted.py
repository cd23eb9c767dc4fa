"""The application of the tests of statistics: a worker of each way of executing."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastq import Args, Cancel, Job, Registry, Worker

registry = Registry()


@dataclass
class Plain(Args, kind="plain"):
    seconds: float = 0.0
    what: str = ""


@registry.register
class PlainWorker(Worker[Plain]):
    def work(self, job: Job[Plain]) -> object:
        time.sleep(job.args.seconds)
        if job.args.what == "raise" and job.attempt == 1:
            raise ValueError(job.args.what)
        return Cancel("not needed") if job.args.what == "cancel" else None

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        return 1.0


@dataclass
class Awaited(Args, kind="awaited"):
    seconds: float = 0.0


@registry.register
class AwaitedWorker(Worker[Awaited]):
    async def work(self, job: Job[Awaited]) -> None:
        await asyncio.sleep(job.args.seconds)


@dataclass
class Bundled(Args, kind="bundled"):
    seconds: float = 0.0


@registry.register
class BundledWorker(Worker[Bundled]):
    up_to = 100
    within = 0.05

    def work_many(self, jobs: Sequence[Job[Bundled]]) -> Any:
        time.sleep(max(job.args.seconds for job in jobs))


@dataclass
class Isolated(Args, kind="isolated"):
    seconds: float = 0.0


@registry.register
class IsolatedWorker(Worker[Isolated]):
    isolate = True

    def work(self, job: Job[Isolated]) -> None:
        time.sleep(job.args.seconds)


@dataclass
class Transacted(Args, kind="transacted"):
    seconds: float = 0.0


@registry.register
class TransactedWorker(Worker[Transacted]):
    def work(self, job: Job[Transacted]) -> None:
        with job.transaction():
            time.sleep(job.args.seconds)
