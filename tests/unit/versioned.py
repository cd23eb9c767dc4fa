"""A kind that has been renamed twice, and whose args have changed twice."""

from dataclasses import dataclass

from fastq import Args, Job, Worker, upgrade


@dataclass
class MailArgs(Args, kind="mail", version=3, aliases=["letter", "post"]):
    to: list[str]
    urgent: bool = False


@upgrade(MailArgs, from_version=1)
def several_receivers(args):
    return {"to": [args.pop("address")], **args}


@upgrade(MailArgs, from_version=2)
def urgency(args):
    return {"urgent": False, **args}


class MailWorker(Worker[MailArgs]):
    def work(self, job: Job[MailArgs]) -> None: ...
