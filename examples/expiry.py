"""Expiry: login codes that nobody wants after a minute, quotes that must be there in time, and an export that a deploy may stop.

fastq dev examples.expiry:registry              works the jobs; brings its own Postgres
python -m examples.expiry                       enqueues some of each (in another terminal)

Then: fastq jobs list --state cancelled, fastq jobs why ID. Stop the workers by Ctrl-C while an export runs: it ends well.
"""

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from examples import database
from fastq import Args, Client, Job, Registry, Snooze, Worker

registry = Registry()


@dataclass
class CodeArgs(Args, kind="login_code", expires=60):
    to: str


@registry.register
class CodeWorker(Worker[CodeArgs]):
    def work(self, job: Job[CodeArgs]) -> None:
        print(f"a code for {job.args.to}")


@dataclass
class QuoteArgs(Args, kind="quote"):
    seconds: float


@registry.register
class QuoteWorker(Worker[QuoteArgs]):
    async def work(self, job: Job[QuoteArgs]) -> None:
        await asyncio.sleep(job.args.seconds)  # as if another service took its time
        print(f"a quote in time for {job.deadline}")


@dataclass
class FlakyArgs(Args, kind="moody"):
    pass


@registry.register
class FlakyWorker(Worker[FlakyArgs]):
    keep_trying_for = timedelta(seconds=2)

    def work(self, job: Job[FlakyArgs]) -> None:
        raise ConnectionError(f"the other side does not answer, for the {job.attempt}. time")

    def retry_delay(self, attempt: int, error: BaseException) -> float:  # noqa: ARG002 - the method's signature
        return 0.2


@dataclass
class ExportArgs(Args, kind="export"):
    pages: int


@registry.register
class ExportWorker(Worker[ExportArgs]):
    def work(self, job: Job[ExportArgs]) -> Snooze | dict[str, int]:
        for page in range(job.args.pages):
            if job.stopping:
                print(f"stopped in good order before page {page}")
                return Snooze(0)
            time.sleep(0.01)
        return {"pages": job.args.pages}


def main() -> None:
    """Enqueue two codes, one of them too late, two quotes, one of them too slow, a job that never succeeds, and an export."""
    with Client(database.url()) as client:
        client.enqueue(CodeArgs("Ada"))
        client.enqueue(CodeArgs("Grace"), expires=datetime.now(UTC) - timedelta(minutes=1))
        client.enqueue(QuoteArgs(0.01), deadline=60)
        client.enqueue(QuoteArgs(600.0), deadline=3)
        client.enqueue(FlakyArgs())
        client.enqueue(ExportArgs(20))


if __name__ == "__main__":
    main()
