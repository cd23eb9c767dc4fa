"""An application whose jobs are rough with the process that they run in: with its event loop, its signals, its forks."""

import asyncio
import sys
from dataclasses import dataclass

from fastq import Args, Job, Registry, Worker
from tests.process.jobs import AsyncNapWorker, NapWorker, PatientWorker, tell

registry = Registry()
for worker in (NapWorker, AsyncNapWorker, PatientWorker):
    registry.register(worker)


async def leave():
    """End the program, as a function does that was written for the command line."""
    sys.exit("no such file")


@dataclass
class OnLoop(Args, kind="on_loop"):
    what: str


@registry.register
class OnLoopWorker(Worker[OnLoop]):
    """Does to the loop what only its owner should."""

    timeout = 2.0
    max_attempts = 1

    async def work(self, job: Job[OnLoop]) -> None:
        tell(job, "start")
        what = job.args.what
        if what == "exit in a task":
            await asyncio.gather(leave(), asyncio.sleep(60))
        elif what == "exit in a callback":
            asyncio.get_running_loop().call_soon(sys.exit, "no such file")
            await asyncio.sleep(0.01)
        elif what == "stop":
            asyncio.get_running_loop().stop()
            await asyncio.sleep(0.01)
        tell(job, "end")
