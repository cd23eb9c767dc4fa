"""An application of jobs that return values and tell how far they are."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from fastq import Args, Job, Registry, Snooze, Worker
from tests.process.jobs import tell

registry = Registry()


@dataclass
class Bill:
    total: Decimal
    at: datetime


@dataclass
class BillArgs(Args, kind="bill", result=Bill):
    amounts: list[Decimal]


@dataclass
class OddArgs(Args, kind="odd"):
    pass


@dataclass
class ArrayArgs(Args, kind="array"):
    size: int


@dataclass
class CountArgs(Args, kind="count"):
    to: int


@dataclass
class AwaitingCountArgs(Args, kind="awaiting-count"):
    to: int


@registry.register
class BillWorker(Worker[BillArgs, Bill]):
    def work(self, job: Job[BillArgs]) -> Bill:
        return Bill(sum(job.args.amounts, Decimal()), datetime(2026, 11, 19, tzinfo=UTC))


@registry.register
class OddWorker(Worker[OddArgs, list[int]]):
    def work(self, job: Job[OddArgs]) -> list[int]:
        return {"not": "a list"}  # type: ignore[return-value]


@registry.register
class ArrayWorker(Worker[ArrayArgs]):
    def work(self, job: Job[ArrayArgs]) -> Any:
        return {"of": np.arange(job.args.size), "mean": np.float32(1.5)}


@registry.register
class CountWorker(Worker[CountArgs]):
    """Tells of each number, more often than it is written, and again in its second attempt, which begins where it has been."""

    def work(self, job: Job[CountArgs]) -> Snooze | int:
        for number in range(job.args.to + 1):
            job.progress(number / job.args.to, f"at {number}")
        tell(job, "counted")
        return job.args.to


@registry.register
class AwaitingCountWorker(Worker[AwaitingCountArgs]):
    async def work(self, job: Job[AwaitingCountArgs]) -> int:
        job.progress(0.5, "half")
        tell(job, "half")
        await asyncio.sleep(60)
        return job.args.to
