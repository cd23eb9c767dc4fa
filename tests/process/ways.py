"""An application with one worker for each way of executing, all of which do the same: what their args say."""

import asyncio
import os
import signal
import time
import types
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fastq import Args, Cancel, Discard, Hook, Job, Registry, Retry, Snooze, Worker
from tests.process.jobs import SHORT, tell

LONG = 20.0
"""Seconds, of a job that is to be ended before."""

WRITE = "insert into effect values (%s)"


class Around(Hook):
    """Tells of each job that it stands around."""

    def around(self, job: Job[Any]) -> Iterator[None]:
        """Tell of one job."""
        tell(job, "hook")
        yield

    def work_many(self, jobs: Sequence[Job[Any]], proceed: Callable[[], object]) -> object:
        """Tell of all jobs of a call."""
        for job in jobs:
            tell(job, "hook")
        return proceed()

    async def work_many_async(self, jobs: Sequence[Job[Any]], proceed: Callable[[], Awaitable[object]]) -> object:
        """Tell of all jobs of a call."""
        for job in jobs:
            tell(job, "hook")
        return await proceed()


registry = Registry(hooks=[Around()])


@registry.on_error
def decide(job: Job[Any], error: BaseException) -> Discard | None:
    """Discard a job whose error says so."""
    return Discard("decided") if "decide" in str(error) else None


def outcome_of(job: Job[Any]) -> object:
    """Come to an end, as all forms of `work` do."""
    match job.args.what:
        case "value":
            return {"kind": job.kind}
        case "fail once" if job.attempt == 1:
            raise ValueError("once")
        case "fail" | "decide":
            raise ValueError(job.args.what)
        case "discard":
            return Discard("no use")
        case "cancel":
            raise Cancel("no need")
        case "snooze":
            return Snooze(3600)
        case "retry":
            raise Retry(after=3600)
        case "progress":
            job.progress(0.5, "half")
        case "step":
            return job.step("double", lambda: 2)
        case "die" if job.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(LONG)
    return None


def sync(job: Job[Any]) -> object:
    """Do what the args say."""
    tell(job, "start")
    if job.args.what in ("late", "cancelled", "stop"):
        until = time.monotonic() + LONG
        while time.monotonic() < until:
            time.sleep(0.01)
    if job.args.what == "transaction":
        with job.transaction(outcome="paid") as conn:
            conn.execute(WRITE, (job.id,))
    return outcome_of(job)


async def awaits(job: Job[Any]) -> object:
    """Do the same on an event loop."""
    tell(job, "start")
    if job.args.what in ("late", "cancelled", "stop"):
        await asyncio.sleep(LONG)
    if job.args.what == "transaction":
        async with job.transaction(outcome="paid") as conn:
            await conn.execute(WRITE, (job.id,))
    if job.args.what == "step":
        return await job.step("double", lambda: 2)
    return outcome_of(job)


@dataclass
class Do(Args):
    """What to do."""

    what: str = ""


def arguments(name: str) -> type[Do]:
    """Make the args of a kind."""

    @dataclass
    class Arguments(Do, kind=name, aliases=[f"former_{name}"]):
        pass

    return Arguments


class Common:
    """What the workers have in common."""

    max_attempts, timeout = 2, SHORT * 5

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        """Wait for a moment."""
        return 0.05


def worker_of(name: str, *, is_async: bool, isolate: bool = False, many: bool = False) -> None:
    """Register the worker of a way."""
    own: dict[str, Any] = {"isolate": isolate}
    if many:
        own = {"up_to": 5, "within": 0.05, "same": "what"}

        def work_many(self: Any, jobs: Sequence[Job[Any]]) -> object:
            return [sync(job) for job in jobs]

        async def work_many_async(self: Any, jobs: Sequence[Job[Any]]) -> object:
            return [await awaits(job) for job in jobs]

        own["work_many"] = work_many_async if is_async else work_many
    else:
        work = awaits if is_async else sync
        own["work"] = (lambda self, job: work(job)) if not is_async else _awaiting
    registry.register(
        types.new_class(f"{name.title()}Worker", (Common, Worker[arguments(name)]), {}, lambda body: body.update(own))
    )


async def _awaiting(self: Any, job: Job[Any]) -> object:
    return await awaits(job)


WAYS = {
    "thread": {"is_async": False},
    "loop": {"is_async": True},
    "isolated": {"is_async": False, "isolate": True},
    "isolated_loop": {"is_async": True, "isolate": True},
    "batch": {"is_async": False, "many": True},
    "batch_loop": {"is_async": True, "many": True},
}
for way, form in WAYS.items():
    worker_of(way, **form)
