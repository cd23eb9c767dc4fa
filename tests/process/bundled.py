"""Batch workers of both forms, which tell the witness of each job with how many others it came, and do what their args say."""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastq import Args, Cancel, Crash, Hook, Job, Limit, Registry, Snooze, Worker
from tests.process.jobs import SHORT, AsyncNapWorker, NapWorker, tell

registry = Registry()
mixed = Registry()  # beside the plain workers of both forms
watched = Registry()  # with hooks and handlers


@dataclass
class Many(Args, kind="many"):
    what: str = "nothing"
    key: str = ""
    gate: str = ""


@dataclass
class AsyncMany(Many, kind="async_many"):
    pass


@dataclass
class ByFunction(Many, kind="by_function"):
    pass


@dataclass
class Slow(Many, kind="slow"):
    pass


@dataclass
class AsyncSlow(Many, kind="async_slow"):
    pass


@dataclass
class Patient(Many, kind="patient_many"):
    pass


@dataclass
class Narrow(Many, kind="narrow", gates=[Limit("narrow", at_most=2, by="key")]):
    pass


def begin(jobs: Sequence[Job[Any]]) -> set[str]:
    """Tell of the call; die if a job says so."""
    for job in jobs:
        tell(job, f"one of {len(jobs)}")
        tell(job, f"with {jobs[0].id}")
    whats = {job.args.what for job in jobs}
    if "kill" in whats or any(job.args.what == "kill once" and job.attempt == 1 for job in jobs):
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(20)
    if "raise" in whats and jobs[0].attempt == 1:
        raise ValueError("all of them")
    if "snooze all" in whats and time.time() < START + 1:
        raise Snooze(0.1)
    return whats


START = time.time()
WRITE = "insert into effect values (%s)"


def result_of(job: Job[Any]) -> Any:
    """Say what becomes of a job."""
    match job.args.what:
        case "value":
            return job.id
        case "fail" if job.attempt == 1:
            return ValueError(f"no {job.id}")
        case "cancel":
            return Cancel("not wanted")
        case "watch" if job.cancelled:
            return Cancel("seen")
    return None


def end(jobs: Sequence[Job[Any]], whats: set[str]) -> Any:
    """Return the results as the jobs say."""
    for job in jobs:
        tell(job, "end")
    if "watch and raise" in whats and jobs[0].attempt == 1:
        raise ValueError("all of them")
    if "dict" in whats:
        return {job: result for job in jobs if (result := result_of(job)) is not None}
    if "few" in whats:
        return []
    if whats <= {"nothing", "kill", "kill once", "raise", "snooze all", "wait", "hang", "sleep", "effect"}:
        return None
    return [result_of(job) for job in jobs]


def waits(jobs: Sequence[Job[Any]], whats: set[str]) -> bool:
    """Tell whether to go on waiting for the file of the jobs, or for a cancellation."""
    if "wait" in whats and not Path(jobs[0].args.gate).exists():
        return True
    watches = {"watch", "watch and raise"} & whats and jobs[0].attempt == 1
    return "hang" in whats or bool(watches and not any(job.cancelled for job in jobs))


class Both:
    """What the workers of both forms have in common."""

    up_to, within, same, timeout = 5, 0.3, "key", 20.0

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        """Wait a little."""
        return 0.1


class Sync(Both):
    def work_many(self, jobs: Sequence[Job[Any]]) -> Any:
        whats = begin(jobs)
        while waits(jobs, whats):
            time.sleep(0.01)
        if "effect" in whats:
            for job in jobs:
                with job.transaction() as conn:
                    conn.execute(WRITE, (job.id,))
        if "sleep" in whats:
            time.sleep(20)  # a C call: nothing interrupts it
        return end(jobs, whats)


class Async(Both):
    async def work_many(self, jobs: Sequence[Job[Any]]) -> Any:
        whats = begin(jobs)
        while waits(jobs, whats):  # noqa: ASYNC110 - for a file
            await asyncio.sleep(0.01)
        if "effect" in whats:
            for job in jobs:
                async with job.transaction() as conn:
                    await conn.execute(WRITE, (job.id,))
        if "sleep" in whats:
            time.sleep(20)  # noqa: ASYNC251 - blocks the loop
        return end(jobs, whats)


@registry.register
class ManyWorker(Sync, Worker[Many]):
    pass


@registry.register
class AsyncManyWorker(Async, Worker[AsyncMany]):
    pass


@registry.worker(up_to=5, within=0.3, same="key", timeout=20.0)
def by_function(jobs: Sequence[Job[ByFunction]]) -> Any:
    """Work many jobs at once."""
    return Sync().work_many(jobs)


@registry.register
class SlowWorker(Sync, Worker[Slow]):
    timeout = SHORT
    max_attempts = 1


@registry.register
class AsyncSlowWorker(Async, Worker[AsyncSlow]):
    timeout = SHORT
    max_attempts = 1


@registry.register
class NarrowWorker(Sync, Worker[Narrow]):
    pass


@registry.register
class PatientManyWorker(Sync, Worker[Patient]):
    within = 30


for worker in (NapWorker, AsyncNapWorker, ManyWorker, AsyncManyWorker):
    mixed.register(worker)


class Around(Hook):
    """Tells of each call."""

    def work_many(self, jobs: Sequence[Job[Any]], proceed: Callable[[], object]) -> object:
        """Tell of it."""
        tell(jobs[0], f"hook around {len(jobs)}")
        return proceed()

    async def work_many_async(self, jobs: Sequence[Job[Any]], proceed: Callable[[], Awaitable[object]]) -> object:
        """Tell of it."""
        tell(jobs[0], f"hook around {len(jobs)}")
        return await proceed()


for worker in (ManyWorker, AsyncManyWorker):
    watched.register(type(worker.__name__, (worker,), {"hooks": [Around()]}))


@watched.on_error
def on_error(job: Job[Any], error: BaseException) -> Cancel:
    """End the job."""
    return Cancel("by the handler")


@watched.on_crash
def on_crash(job: Job[Any], crash: Crash) -> Cancel:
    """End the job."""
    return Cancel(f"after {crash.cause}")
