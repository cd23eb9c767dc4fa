"""An application with encrypted args. Its jobs tell the witness a digest of what they see; some fail with it in their text."""

import hashlib
from dataclasses import dataclass, field

from fastq import Args, Every, Job, Registry, Secret, Worker
from tests.process.jobs import tell

registry = Registry()


@dataclass
class PayArgs(Args, kind="pay", encrypted=True):
    card: str
    fails: bool = False


@dataclass
class BuyArgs(Args, kind="buy", max_attempts=1):
    user: int
    card: Secret[str]
    others: list[Secret[str]] = field(default_factory=list)


def digest(card):
    return hashlib.sha256(card.encode()).hexdigest()[:8]


@registry.register
class PayWorker(Worker[PayArgs]):
    def work(self, job: Job[PayArgs]) -> None:
        tell(job, f"pay {digest(job.args.card)}")
        if job.args.fails:
            raise ValueError(f"{job.args.card} was refused: {job.args}")


@registry.register
class BuyWorker(Worker[BuyArgs]):
    async def work(self, job: Job[BuyArgs]) -> None:
        tell(job, f"buy {digest(job.args.card.reveal())}")
        if job.args.user == 0:
            raise ValueError(f"{job.args.card.reveal()} was refused: {job.args}")


def with_ticks():
    """Add a periodic job, for which the keys have to be there when the application is imported."""
    registry.periodic("tick", Every(1), PayArgs("4242-TICK"), run_on_start=True)
