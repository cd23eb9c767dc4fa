"""Jobs that stay in a known place until the test is over, each in its way of being executed."""

import asyncio
import ctypes
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fastq import Args, Job, Registry, Worker
from tests.process.jobs import tell

OVER = Path(os.environ.get("WITNESS", os.devnull)).parent / "over"

registry = Registry()


def until_told() -> None:
    while not OVER.exists():
        time.sleep(0.01)


async def until_told_async() -> None:
    while not OVER.exists():  # noqa: ASYNC110 - another process makes the file
        await asyncio.sleep(0.01)


def placed_call(secret: str) -> None:
    held = [secret]
    until_told()
    held.clear()


async def placed_await(secret: str) -> None:
    held = [secret]
    await until_told_async()
    held.clear()


@dataclass
class Placed(Args, kind="placed"):
    secret: str


@registry.register
class PlacedWorker(Worker[Placed]):
    def work(self, job: Job[Placed]) -> None:
        tell(job, "start")
        placed_call(job.args.secret)


@dataclass
class PlacedAsync(Args, kind="placed_async"):
    secret: str


@registry.register
class PlacedAsyncWorker(Worker[PlacedAsync]):
    async def work(self, job: Job[PlacedAsync]) -> None:
        tell(job, "start")
        await placed_await(job.args.secret)


@dataclass
class PlacedTogether(Args, kind="placed_together"):
    secret: str


@registry.register
class PlacedTogetherWorker(Worker[PlacedTogether]):
    up_to = 10
    within = 0.0

    def work_many(self, jobs: Sequence[Job[PlacedTogether]]) -> None:
        for job in jobs:
            tell(job, "start")
        placed_call(jobs[0].args.secret)


@dataclass
class PlacedTogetherAsync(Args, kind="placed_together_async"):
    secret: str


@registry.register
class PlacedTogetherAsyncWorker(Worker[PlacedTogetherAsync]):
    up_to = 10
    within = 0.0

    async def work_many(self, jobs: Sequence[Job[PlacedTogetherAsync]]) -> None:
        for job in jobs:
            tell(job, "start")
        await placed_await(jobs[0].args.secret)


@dataclass
class PlacedApart(Args, kind="placed_apart"):
    secret: str


@registry.register
class PlacedApartWorker(Worker[PlacedApart]):
    isolate = True

    def work(self, job: Job[PlacedApart]) -> None:
        tell(job, "start")
        self.in_c(job.args.secret)

    def in_c(self, secret: str) -> None:
        """Hold the interpreter: nothing but a signal handler in C can tell where this is. A signal ends a sleep of C's."""
        held = [secret]
        while held:
            ctypes.PyDLL(None).sleep(3_600)
