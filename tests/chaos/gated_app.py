"""The app that the chaos of gates works: twenty limits, of 1 to 20 at once for each key, and an order of one after the other.

Imported by the worker processes, by their supervisors and by the program that enqueues.
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from fastq import Args, Job, Limit, Ordered, Registry, Worker
from tests.chaos.ledger import END, START, Ledger

LIMITS = range(1, 21)

registry = Registry()
ledger = Ledger(Path(os.environ.get("CHAOS_LEDGER", "/nonexistent")))


@dataclass
class Keyed(Args):
    key: int
    seconds: float


class KeyedWorker(Worker[Keyed]):
    """Nap, and tell the ledger of it."""

    def work(self, job: Job[Keyed]) -> None:
        ledger.write(START, job.id, job.attempt)
        time.sleep(job.args.seconds)
        ledger.write(END, job.id, job.attempt)


def add(kind: str, gate: Limit | Ordered) -> type[Keyed]:
    """Make a kind whose jobs go through a gate, and its worker."""

    class Made(Keyed, kind=kind, gates=[gate]):
        pass

    class MadeWorker(KeyedWorker, Worker[Made]):
        pass

    registry.register(MadeWorker)
    return Made


KINDS = {most: add(f"chaos_limit_{most}", Limit(f"limit-{most}", at_most=most, by="key")) for most in LIMITS}
KINDS[0] = add("chaos_order", Ordered("order", by="key"))
