"""The application that the tests of fastq.testing test: workers of each form."""

from dataclasses import dataclass

from fastq import Args, Cancel, Discard, Hook, Job, Registry, Retry, Snooze, Worker

TOLD = []


class Telling(Hook):
    def work(self, job, proceed):
        TOLD.append(f"before {job.kind}")
        return proceed()


registry = Registry()


@dataclass
class MailArgs(Args, kind="mail"):
    to: str
    subject: str = "hello"


@registry.register
class MailWorker(Worker[MailArgs]):
    hooks = (Telling(),)

    def work(self, job: Job[MailArgs]) -> object:
        if job.args.to == "nobody":
            raise LookupError("no such person")
        TOLD.append(f"mail {job.args.to}")
        return {"sent": job.args.to}


@dataclass
class PollArgs(Args, kind="poll", queue="slow"):
    url: str = "/"


@registry.register
class PollWorker(Worker[PollArgs]):
    max_attempts = 3

    async def work(self, job: Job[PollArgs]) -> object:
        if job.args.url == "busy":
            return Snooze(60)
        if job.args.url == "gone":
            raise Discard("gone")
        if job.args.url == "refused":
            return Cancel("refused")
        if job.args.url == "later":
            raise Retry(30)
        if job.args.url == "broken":
            raise ConnectionError("broken")
        return job.args.url


@dataclass
class RowArgs(Args, kind="row"):
    number: int


@registry.register
class RowWorker(Worker[RowArgs]):
    up_to = 10

    def work_many(self, jobs):
        TOLD.append([job.args.number for job in jobs])
        return [ValueError("seven") if job.args.number == 7 else job.args.number for job in jobs]


@dataclass
class AsyncRowArgs(Args, kind="async_row"):
    number: int


@registry.register
class AsyncRowWorker(Worker[AsyncRowArgs]):
    async def work_many(self, jobs):
        TOLD.append([job.args.number for job in jobs])


@dataclass
class HeavyArgs(Args, kind="heavy"):
    number: int


@registry.register
class HeavyWorker(Worker[HeavyArgs]):
    isolate = True

    async def work(self, job: Job[HeavyArgs]) -> int:
        return job.args.number * 2
