"""The newer of two programs: one kind for what were two, with several addresses. Its jobs tell the witness what they see."""

from dataclasses import dataclass

from fastq import Args, Job, Registry, Worker, upgrade
from tests.process.jobs import tell

registry = Registry()


@dataclass
class MailArgs(Args, kind="mail", version=2, aliases=["post"]):
    to: list[str]


@upgrade(MailArgs, from_version=1)
def several(args):
    return {"to": [args["address"]]}


@registry.register
class MailWorker(Worker[MailArgs]):
    def work(self, job: Job[MailArgs]) -> None:
        tell(job, f"two {job.kind} {','.join(job.args.to)}")
