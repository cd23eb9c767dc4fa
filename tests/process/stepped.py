"""The application of the tests of steps in real processes: jobs of three steps, which tell each time that one is done."""

import asyncio
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from fastq import Args, Job, Registry, Worker
from tests.process.jobs import tell

registry = Registry()
STEPS = ("stepA", "stepB", "stepC")


@dataclass
class Stepped(Args, kind="stepped"):
    gate: str = ""  # within the second step: until there is such a file
    wait: float | None = None  # before the third step: seconds up to which it waits for the signal "go"
    sleep: float = 0.0  # the same: seconds to sleep


class SteppedAsync(Stepped, kind="stepped_async"):
    """The same in a coroutine."""


@dataclass
class Waiting(Args, kind="waiting"):
    """Waits for a signal, for ever."""


class WaitingAsync(Waiting, kind="waiting_async"):
    """The same in a coroutine."""


@dataclass
class Paying(Args, kind="paying"):
    """Pays in a step with its record, and ships in another one."""

    killed: str = ""  # in the first attempt: "in" the transaction, or "after" it


class PayingAsync(Paying, kind="paying_async"):
    """The same in a coroutine."""


@dataclass
class Apart(Args, kind="apart"):
    """Does a step in a process of its own, which dies behind it in the first attempt."""


@registry.register
class SteppedWorker(Worker[Stepped]):
    def work(self, job: Job[Stepped]) -> list[str]:
        def do(name: str) -> str:
            tell(job, name)
            while name == "stepB" and job.args.gate and not Path(job.args.gate).exists():
                time.sleep(0.01)
            return f"{name} done"

        tell(job, "start")
        done = [job.step(name, do, name) for name in STEPS[:2]]
        if job.args.sleep:
            job.sleep(job.args.sleep)
        if job.args.wait is not None:
            done.append(str(job.wait_for("go", str, timeout=job.args.wait).value))
        return [*done, job.step(STEPS[2], do, STEPS[2])]


@registry.register
class SteppedAsyncWorker(Worker[SteppedAsync]):
    async def work(self, job: Job[SteppedAsync]) -> list[str]:
        async def do(name: str) -> str:
            tell(job, name)
            while name == "stepB" and job.args.gate and not Path(job.args.gate).exists():  # noqa: ASYNC110, ASYNC240
                await asyncio.sleep(0.01)
            return f"{name} done"

        tell(job, "start")
        done = [await job.step(name, do, name) for name in STEPS[:2]]
        if job.args.sleep:
            await job.sleep(job.args.sleep)
        if job.args.wait is not None:
            done.append(str((await job.wait_for("go", str, timeout=job.args.wait)).value))
        return [*done, await job.step(STEPS[2], do, STEPS[2])]


@dataclass
class SteppedFunction(Args, kind="stepped_function"):
    """The job of a function."""


@registry.worker
def function(job: Job[SteppedFunction]) -> str:
    tell(job, "start")
    return job.step("only", lambda: f"done by attempt {job.attempt}")


@registry.register
class WaitingWorker(Worker[Waiting]):
    def work(self, job: Job[Waiting]) -> str:
        tell(job, "start")
        return job.wait_for("go", str).value


@registry.register
class WaitingAsyncWorker(Worker[WaitingAsync]):
    async def work(self, job: Job[WaitingAsync]) -> str:
        tell(job, "start")
        return (await job.wait_for("go", str)).value


WRITE = "insert into effect values (%s)"


def die(job: Job[Paying], when: str) -> None:
    """Kill the process, if that is wanted now."""
    if job.args.killed == when and job.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)


@registry.register
class PayingWorker(Worker[Paying]):
    def work(self, job: Job[Paying]) -> str:
        tell(job, "start")
        paid = job.step_transaction("payment", self.pay, job)
        die(job, "after")
        return job.step("ship", lambda: f"shipped: {paid}")

    def pay(self, conn: psycopg.Connection[Any], job: Job[Paying]) -> int:
        conn.execute(WRITE, (job.id,))
        tell(job, "written")
        die(job, "in")
        return job.attempt


@registry.register
class PayingAsyncWorker(Worker[PayingAsync]):
    async def work(self, job: Job[PayingAsync]) -> str:
        tell(job, "start")
        paid = await job.step_transaction("payment", self.pay, job)
        die(job, "after")
        return await job.step("ship", self.ship, paid)

    async def pay(self, conn: psycopg.AsyncConnection[Any], job: Job[PayingAsync]) -> int:
        await conn.execute(WRITE, (job.id,))
        tell(job, "written")
        die(job, "in")
        return job.attempt

    async def ship(self, paid: int) -> str:
        return f"shipped: {paid}"


@registry.register
class ApartWorker(Worker[Apart]):
    isolate = True

    def work(self, job: Job[Apart]) -> str:
        done = job.step("only", lambda: f"done by attempt {job.attempt}")
        if job.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return done
