"""An application whose jobs start at a rate for each account; one that is told to says once that the rate was exceeded."""

from dataclasses import dataclass

from fastq import Args, Job, Rate, RateLimited, Registry, Worker
from tests.process.jobs import tell

AT_MOST, PER, BURST = 5, 1.0, 1

registry = Registry()


@dataclass
class Paced(Args, kind="paced", gates=[Rate("calls", at_most=AT_MOST, per=PER, burst=BURST, by="account")]):
    account: int
    refused: bool = False


@registry.register
class PacedWorker(Worker[Paced]):
    refused = False

    def work(self, job: Job[Paced]) -> RateLimited | None:
        tell(job, f"start {job.args.account}")
        if job.args.refused and not self.refused:
            self.refused = True
            return RateLimited(after=2)
        return None
