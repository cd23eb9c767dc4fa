"""An application with hooks in every place, around workers of both forms; each tells the witness where it stands."""

import asyncio
import logging
import os
import signal
import time
from dataclasses import dataclass
from typing import Any

from fastq import Args, Cancel, Discard, Hook, Job, JobTimeout, Registry, Retry, Snooze, current_job, logs
from tests.process.jobs import tell

logs.install()


class Telling(Hook):
    """Tells the witness around the work, in the form of the worker."""

    def __init__(self, name: str) -> None:
        self._name = name

    def work(self, job: Job[Any], proceed: Any) -> object:
        tell(job, f"{self._name}>")
        value = proceed()
        tell(job, f"<{self._name}")
        return value

    async def work_async(self, job: Job[Any], proceed: Any) -> object:
        tell(job, f"{self._name}>")
        value = await proceed()
        tell(job, f"<{self._name}")
        return value


class Around(Telling):
    """The same, once for both forms."""

    work = Hook.work
    work_async = Hook.work_async

    def around(self, job: Job[Any]) -> Any:
        tell(job, f"{self._name}>")
        yield
        tell(job, f"<{self._name}")


class Tenant(Hook):
    """Has the tenant travel from the enqueue to the work."""

    def enqueue(self, enqueuing: Any) -> None:
        enqueuing.carry(tenant=f"tenant of {enqueuing.args.what}")


registry = Registry(hooks=[Around("registry")])


@dataclass
class ThreadArgs(Args, kind="in_thread", hooks=[Telling("kind"), Tenant()]):
    what: str


@dataclass
class LoopArgs(Args, kind="on_loop", hooks=[Telling("kind"), Tenant()]):
    what: str


OWN = [Around("worker")]


@registry.worker(timeout=0.5, hooks=OWN)
def in_thread(job: Job[ThreadArgs]) -> object:
    if job.args.what == "sleep":
        for _ in range(3_000):
            time.sleep(0.01)  # an exception reaches the thread between two of them
    return did(job)


@registry.worker(timeout=0.5, hooks=OWN)
async def on_loop(job: Job[LoopArgs]) -> object:
    if job.args.what == "sleep":
        await asyncio.sleep(30)
    if job.args.what == "ask in a thread":
        return await asyncio.to_thread(lambda: current_job() is job)
    return did(job)


def did(job: Job[Any]) -> object:
    """Do what the job says."""
    what = job.args.what
    tell(job, "work")
    if what == "tenant":
        return job.carried["tenant"]
    if what == "ask":
        return current_job() is job
    if what == "log":
        record = logging.getLogger("application").makeRecord("application", 30, "", 0, "inside", (), None)
        return [record.job_id == job.id, record.job_kind, record.job_queue, record.job_attempt]  # type: ignore[attr-defined]
    if what.startswith("die") and job.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if what.startswith("fail"):
        raise ValueError(what)
    return None


@registry.on_error
def handle(job: Job[Any], error: BaseException) -> Cancel | Discard | Retry | None:
    """Decide by what the job says."""
    tell(job, f"asked about {type(error).__name__}")
    if isinstance(error, JobTimeout):
        return Discard("too slow")
    decisions = {"fail and cancel": Cancel("handled"), "fail and discard": Discard("handled"), "fail and retry": Retry(0.05)}
    return decisions.get(job.args.what)


@registry.on_crash
def handle_crash(job: Job[Any], crash: Any) -> Snooze | Discard | None:
    """Put the job off, or end it."""
    tell(job, f"died by {crash.cause}")
    return {"die and snooze": Snooze(1), "die and discard": Discard("it kills")}.get(job.args.what)
