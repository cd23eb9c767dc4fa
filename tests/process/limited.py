"""An application whose jobs go through a gate: so many at once for each account. They tell the witness what they do."""

import time
from dataclasses import dataclass

from fastq import Args, Job, Registry, Worker
from fastq.args.gates import Limit
from tests.process.jobs import tell

AT_MOST = 3

registry = Registry()


@dataclass
class Limited(Args, kind="limited", gates=[Limit("accounts", at_most=AT_MOST, by="account")]):
    account: int
    seconds: float = 0.0


@registry.register
class LimitedWorker(Worker[Limited]):
    def work(self, job: Job[Limited]) -> None:
        tell(job, f"start {job.args.account}")
        time.sleep(job.args.seconds)
        tell(job, f"end {job.args.account}")
