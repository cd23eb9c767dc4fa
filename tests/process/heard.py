"""An application with a worker for each way of executing, for programs that hear its events."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fastq import Args, Discard, Job, Registry, Snooze, Worker
from tests.process.jobs import tell

registry = Registry()

TAKES = 0.05  # s


@dataclass
class PlainArgs(Args, kind="plain"):
    token: str = "opensesame"


@dataclass
class AwaitedArgs(Args, kind="awaited"):
    pass


@dataclass
class BatchedArgs(Args, kind="batched"):
    pass


@dataclass
class ApartArgs(Args, kind="apart"):
    pass


@dataclass
class ApartOutcomeArgs(Args, kind="apart_outcome"):
    what: str


@dataclass
class EndedArgs(Args, kind="ended"):
    pass


@dataclass
class OutcomeArgs(Args, kind="outcome"):
    what: str
    token: str = "opensesame"


@dataclass
class GatedArgs(Args, kind="gated"):
    gate: str


@registry.worker
def plain(job: Job[PlainArgs]) -> None:
    """Do something for a moment."""
    time.sleep(TAKES)


@registry.worker
async def awaited(job: Job[AwaitedArgs]) -> None:
    """Do the same on the event loop."""
    await asyncio.sleep(TAKES)


@registry.register
class BatchedWorker(Worker[BatchedArgs]):
    """Does the same for many."""

    up_to = 10

    def work_many(self, jobs: Sequence[Job[BatchedArgs]]) -> None:
        time.sleep(TAKES)


@registry.worker(isolate=True)
def apart(job: Job[ApartArgs]) -> None:
    """Do the same in a process of its own."""
    time.sleep(TAKES)


@registry.worker(isolate=True, max_attempts=1)
def apart_outcome(job: Job[ApartOutcomeArgs]) -> Snooze | None:
    """Come to another end than success in a process of its own."""
    if job.args.what == "raise":
        raise ValueError("no route")
    return Snooze(3600)


@registry.worker
def ended(job: Job[EndedArgs]) -> None:
    """End in a transaction."""
    time.sleep(TAKES)
    with job.transaction():
        pass


@registry.worker(max_attempts=1)
def outcome(job: Job[OutcomeArgs]) -> Snooze | Discard | None:
    """Come to another end."""
    time.sleep(TAKES)
    if job.args.what == "raise":
        raise ValueError("no route")
    return Snooze(3600) if job.args.what == "snooze" else Discard("no use")


@registry.worker
def gated(job: Job[GatedArgs]) -> None:
    """Execute until there is such a file."""
    tell(job, "start")
    while not Path(job.args.gate).exists():
        time.sleep(0.01)
