"""The quickstart: four workers, and a handful of jobs for them.

fastq dev examples.quickstart:registry          works the jobs; brings its own Postgres
python -m examples.quickstart                   enqueues them (in another terminal)
"""

import asyncio
import itertools
from dataclasses import dataclass, replace
from pathlib import Path

from fastq import Args, Client, Config, Job, Registry, Snooze, Worker
from fastq.postgres import embedded

registry = Registry()


@dataclass
class SortArgs(Args, kind="sort"):  # a service that only enqueues needs this class, not the worker
    strings: list[str]


@registry.register
class SortWorker(Worker[SortArgs]):
    timeout = 30.0  # s

    def work(self, job: Job[SortArgs]) -> None:
        print(f"sort     {sorted(job.args.strings)}")


@dataclass
class GreetArgs(Args, kind="greet"):
    name: str


@registry.register
class GreetWorker(Worker[GreetArgs]):
    async def work(self, job: Job[GreetArgs]) -> str:  # `async def` runs on the process's event loop
        await asyncio.sleep(0.5)
        print(f"greet    hello, {job.args.name}")
        return f"hello, {job.args.name}"  # kept with the job: fastq jobs show ID


@dataclass
class FlakyArgs(Args, kind="flaky"):
    failures: int


@registry.register
class FlakyWorker(Worker[FlakyArgs]):
    max_attempts = 5

    def work(self, job: Job[FlakyArgs]) -> None:
        if job.attempt <= job.args.failures:
            raise ConnectionError(f"attempt {job.attempt} fails on purpose")  # recorded with its traceback, and tried again
        print(f"flaky    attempt {job.attempt} went well")

    def retry_delay(self, attempt: int, error: BaseException) -> float:
        if isinstance(error, ConnectionError):
            return 1.0 * attempt  # s
        return super().retry_delay(attempt, error)  # attempt**4 s


@dataclass
class OvenArgs(Args, kind="oven"):
    degrees: int


@registry.register
class OvenWorker(Worker[OvenArgs]):
    def __init__(self) -> None:
        self.readings = itertools.count(60, 60)  # one oven per process, heating up at every look

    def work(self, job: Job[OvenArgs]) -> Snooze | None:
        reading = next(self.readings)
        if reading < job.args.degrees:
            print(f"oven     {reading} of {job.args.degrees} degrees: come back later")
            return Snooze(1.0)  # spends no attempt
        print("oven     hot")
        return None


def enqueue(client: Client) -> None:
    """Enqueue a handful of jobs."""
    client.enqueue(SortArgs(["whale", "tiger", "bear"]))
    client.enqueue_many(GreetArgs(name) for name in ("Ada", "Grace", "Barbara"))
    client.enqueue(FlakyArgs(failures=2))
    client.enqueue(OvenArgs(degrees=180))
    client.enqueue(SortArgs(["later"]), delay=3.0, tags=["example"])
    print("enqueued 7 jobs")


def main() -> None:
    """Enqueue them to FASTQ_DATABASE_URL; without it, to the embedded Postgres of `fastq dev` or `fastq migrate`."""
    config = Config.load()
    if config.database_url:
        enqueue(Client(config=config))
        return
    with embedded.start(Path(config.data_dir)) as server, Client(config=replace(config, database_url=server.url)) as client:
        enqueue(client)


if __name__ == "__main__":
    main()
