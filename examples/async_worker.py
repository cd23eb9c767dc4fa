"""Coroutines: many jobs wait at once on one event loop per process, and one that takes too long can clean up.

fastq dev examples.async_worker:registry        works the jobs; brings its own Postgres
python -m examples.async_worker                 enqueues them, from asyncio (in another terminal)
"""

import asyncio
from dataclasses import dataclass

from examples import database
from fastq import Args, AsyncClient, Job, Registry, Worker

registry = Registry()


@dataclass
class FetchArgs(Args, kind="fetch"):
    page: int
    seconds: float = 0.3


@registry.register
class FetchWorker(Worker[FetchArgs]):
    timeout = 2.0  # s
    max_attempts = 1

    def __init__(self) -> None:
        self.open = 0  # one worker per process; all its coroutines run on one thread, so no lock is needed

    async def work(self, job: Job[FetchArgs]) -> dict[str, int]:
        self.open += 1
        try:
            await asyncio.sleep(job.args.seconds)  # stands for a request to somewhere else
        finally:
            self.open -= 1  # runs too when the timeout interrupts the line above
        print(f"fetched  page {job.args.page} while {self.open} other fetches waited")
        return {"page": job.args.page, "beside": self.open}


async def enqueue() -> None:
    """Enqueue ten quick fetches and one that takes longer than it may."""
    async with AsyncClient(database.url()) as client:
        ids = await client.enqueue_many([FetchArgs(page) for page in range(10)])
        slow = await client.enqueue(FetchArgs(10, seconds=60.0))
    print(f"enqueued jobs {ids[0]} to {slow}")


if __name__ == "__main__":
    asyncio.run(enqueue())
