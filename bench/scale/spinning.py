"""The application of `bulk`: plain jobs that keep a core busy for a moment, as long as SPIN says in seconds.

A job that does nothing is worked a hundred thousand times a second, and no backlog lasts.
"""

import os
import time
from dataclasses import dataclass

from fastq import Args, Job, Registry, Worker

registry = Registry()
SPIN = float(os.environ.get("SPIN", "0.0002"))


@dataclass
class PlainArgs(Args, kind="bench.noop"):
    number: int


@registry.register
class PlainWorker(Worker[PlainArgs]):
    def work(self, _job: Job[PlainArgs]) -> None:
        end = time.thread_time() + SPIN
        while time.thread_time() < end:
            pass
