"""An application of jobs that log and print."""

import asyncio
import logging
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from fastq import Args, Job, Registry, Snooze, Worker
from tests.process.jobs import tell

registry = Registry(logs=True)
log = logging.getLogger("shop")


@dataclass
class ChatArgs(Args, kind="chat"):
    gate: str
    lines: int = 1


@dataclass
class AwaitingChatArgs(Args, kind="awaiting-chat"):
    gate: str


@dataclass
class RetriedArgs(Args, kind="retried"):
    pass


@dataclass
class SnoozedArgs(Args, kind="snoozed"):
    note: str


@dataclass
class QuietArgs(Args, kind="quiet"):
    pass


@registry.register
class ChatWorker(Worker[ChatArgs]):
    """Prints, waits until there is such a file, and logs."""

    def work(self, job: Job[ChatArgs]) -> None:
        for number in range(job.args.lines):
            print(f"print {number} of {job.id}")
        tell(job, "printed")
        while not Path(job.args.gate).exists():
            time.sleep(0.01)
        log.warning("record of %d", job.id)


@registry.register
class AwaitingChatWorker(Worker[AwaitingChatArgs]):
    """The same on the event loop, step by step beside others."""

    async def work(self, job: Job[AwaitingChatArgs]) -> None:
        print(f"begin {job.id}", end=" ... ")
        tell(job, "printed")
        while not Path(job.args.gate).exists():  # noqa: ASYNC110, ASYNC240 - a test's
            await asyncio.sleep(0.01)
        print(f"end {job.id}")
        log.info("record of %d", job.id)
        await asyncio.to_thread(print, f"thread of {job.id}", file=sys.stderr)


@registry.worker(max_attempts=2, retry_delay=lambda attempt, error: 0.1)
def retried(job: Job[RetriedArgs]) -> None:
    log.info("attempt %d", job.attempt)
    if job.attempt == 1:
        raise RuntimeError("boom")


@registry.worker
def snoozed(job: Job[SnoozedArgs]) -> Snooze | None:
    """Is put off once: an attempt that does not count has the number of the next one."""
    note = Path(job.args.note)
    log.info("put off" if not note.exists() else "done")
    if note.exists():
        return None
    note.touch()
    return Snooze(0.2)


@registry.worker(logs=False)
def quiet(job: Job[QuietArgs]) -> None:
    print("not kept")
    log.warning("not kept either")
