"""The older of two programs: its kind is named `post`, and its args have one address. Its jobs tell the witness what they see."""

from dataclasses import dataclass

from fastq import Args, Job, Registry, Worker
from tests.process.jobs import Nap, NapWorker, tell

registry = Registry()
registry.register(NapWorker)
assert Nap


@dataclass
class MailArgs(Args, kind="mail"):
    address: str


@dataclass
class PostArgs(Args, kind="post"):
    address: str


@registry.register
class MailWorker(Worker[MailArgs]):
    def work(self, job: Job[MailArgs]) -> None:
        tell(job, f"one {job.kind} {job.args.address}")


@registry.register
class PostWorker(Worker[PostArgs]):
    def work(self, job: Job[PostArgs]) -> None:
        tell(job, f"one {job.kind} {job.args.address}")
