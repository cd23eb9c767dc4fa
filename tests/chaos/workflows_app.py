"""The app that the chaos of workflows works: steps that complete, cancel themselves or fail for good, and callbacks.

Imported by the worker processes, by their supervisors and by the program that enqueues.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from fastq import Args, Cancel, Job, Registry, Worker
from tests.chaos.ledger import END, START, Ledger
from tests.flows import CANCELLED, DISCARDED

registry = Registry()
ledger = Ledger(Path(os.environ.get("CHAOS_LEDGER", "/nonexistent")))


@dataclass
class StepArgs(Args, kind="chaos_step", max_attempts=100):
    fate: str
    seconds: float


@dataclass
class CalledArgs(Args, kind="chaos_called", max_attempts=100):
    workflow: str
    event: str


@registry.register
class StepWorker(Worker[StepArgs]):
    def work(self, job: Job[StepArgs]) -> Cancel | int:
        ledger.write(START, job.id, job.attempt)
        time.sleep(job.args.seconds)
        ledger.write(END, job.id, job.attempt)
        if job.args.fate == DISCARDED:
            raise RuntimeError("as planned")
        return Cancel("as planned") if job.args.fate == CANCELLED else job.attempt

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        return 0.05


@registry.register
class CalledWorker(Worker[CalledArgs]):
    def work(self, job: Job[CalledArgs]) -> None:
        ledger.write(START, job.id, job.attempt)
        ledger.write(END, job.id, job.attempt)
