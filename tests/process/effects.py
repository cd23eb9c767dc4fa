"""The application of the tests of effects in real processes: jobs that end in transactions, and are killed around them."""

import asyncio
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from fastq import Args, Job, JobLost, Registry, Worker
from tests.process.jobs import SHORT, tell

registry = Registry()
WRITE = "insert into effect values (%s)"


@dataclass
class Effect(Args, kind="effect"):
    gate: str = ""
    killed: str = ""  # in the first attempt: "in" the transaction, or "after" it
    fails: bool = False  # after its end
    seconds: float = 0.0  # to sleep after its end


class EffectAsync(Effect, kind="effect_async"):
    """The same in a coroutine."""


class EffectShort(Effect, kind="effect_short"):
    """The same with a timeout."""


class EffectHang(Effect, kind="effect_hang"):
    """Hangs in one call when it has ended."""


def die(job: Job[Effect], when: str) -> None:
    """Kill the process, if that is wanted now."""
    if job.args.killed == when and job.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)


@registry.register
class EffectWorker(Worker[Effect]):
    def work(self, job: Job[Effect]) -> None:
        tell(job, "start")
        try:
            with job.transaction() as conn:
                conn.execute(WRITE, (job.id,))
                tell(job, "written")
                while job.args.gate and not Path(job.args.gate).exists():
                    time.sleep(0.01)
                die(job, "in")
        except JobLost:
            tell(job, "lost")
            raise
        die(job, "after")
        tell(job, "committed")
        for _ in range(round(job.args.seconds * 100)):  # not in one call: a timeout lands between two
            time.sleep(0.01)
        if job.args.fails:
            raise ValueError("behind the end")


@registry.register
class EffectShortWorker(Worker[EffectShort]):
    timeout = SHORT
    work = EffectWorker.work  # type: ignore[assignment]


@registry.register
class EffectHangWorker(Worker[EffectHang]):
    timeout = SHORT

    def work(self, job: Job[EffectHang]) -> None:
        with job.transaction() as conn:
            conn.execute(WRITE, (job.id,))
        time.sleep(3.0)


@registry.register
class EffectAsyncWorker(Worker[EffectAsync]):
    async def work(self, job: Job[EffectAsync]) -> None:
        tell(job, "start")
        try:
            async with job.transaction() as conn:
                await conn.execute(WRITE, (job.id,))
                tell(job, "written")
                while job.args.gate and not Path(job.args.gate).exists():  # noqa: ASYNC110, ASYNC240 - the test makes it
                    await asyncio.sleep(0.01)
                die(job, "in")
        except JobLost:
            tell(job, "lost")
            raise
        die(job, "after")
        tell(job, "committed")
        await asyncio.sleep(job.args.seconds)
        if job.args.fails:
            raise ValueError("behind the end")
