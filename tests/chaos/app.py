"""The app that the chaos runs work: naps that tell the ledger of their start and their end, and, if CHAOS_PERIODIC asks for it,
periodic jobs that tick each second. Imported by the worker processes and by their supervisor.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from fastq import Args, Backfill, Every, Job, Registry, Worker
from tests.chaos.ledger import END, FAILED, START, Ledger

registry = Registry()
ledger = Ledger(Path(os.environ.get("CHAOS_LEDGER", "/nonexistent")))


@dataclass
class Nap(Args, kind="chaos_nap"):
    seconds: float
    failures: int = 0  # the first so many attempts end with an error


@registry.register
class NapWorker(Worker[Nap]):
    def work(self, job: Job[Nap]) -> None:
        ledger.write(START, job.id, job.attempt)
        time.sleep(job.args.seconds)
        if job.attempt <= job.args.failures:
            ledger.write(FAILED, job.id, job.attempt)
            raise RuntimeError("as planned")
        ledger.write(END, job.id, job.attempt)

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        return 0.1


@dataclass
class Tick(Args, kind="chaos_tick"):
    pass


@registry.register
class TickWorker(Worker[Tick]):
    def work(self, job: Job[Tick]) -> None:
        return


for number in range(int(os.environ.get("CHAOS_PERIODIC", "0"))):
    registry.periodic(f"chaos-{number}", Every(1), Tick(), missed=Backfill(1_000))
