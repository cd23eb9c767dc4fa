"""An application of which one queue has a limit, for all its kinds. Its jobs tell the witness what they do."""

import time
from dataclasses import dataclass

from fastq import Args, Job, Limit, Queue, Registry, Worker
from tests.process.jobs import tell

AT_MOST = 2

registry = Registry()
narrow = Queue("narrow", gates=[Limit("narrow", at_most=AT_MOST)])


@dataclass
class Mail(Args, kind="mail", queue=narrow):
    seconds: float = 0.0


@dataclass
class Chat(Args, kind="chat"):
    seconds: float = 0.0


class Telling:
    """Work for some time."""

    def work(self, job: Job[Mail] | Job[Chat]) -> None:
        tell(job, "start")
        time.sleep(job.args.seconds)
        tell(job, "end")


@registry.register
class MailWorker(Telling, Worker[Mail]):
    pass


@registry.register
class ChatWorker(Telling, Worker[Chat]):
    pass
