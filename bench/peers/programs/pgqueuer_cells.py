"""PgQueuer as a measured program, on its asyncpg driver and uvloop, as its own benchmark has it. A queue is an entrypoint."""

import asyncio
import json
import logging
import time
from datetime import timedelta

import asyncpg
import speak
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.queries import Queries

given = speak.order()
logging.disable(logging.CRITICAL)


async def work(job):
    """Do what the order names; all entrypoints do the same."""
    args = json.loads(job.payload)
    if given.job == "clock":
        speak.note(**args)
    elif given.job == "sleep":
        await asyncio.sleep(speak.SLEEP)
    elif given.job == "cpu":
        speak.spin()


async def main():
    if given.verb == "setup":
        connection = await asyncpg.connect(given.database)
        await Queries(AsyncpgDriver(connection)).install()
        speak.tell("done")
        return
    if given.verb == "work":
        connection = await asyncpg.connect(given.database)
        manager = PgQueuer(AsyncpgDriver(connection))
        for queue in given.queues:
            manager.entrypoint(queue)(work)
        speak.tell("ready")
        await asyncio.to_thread(speak.until, "go")
        batch = max(10, min(1_000, given.slots))
        running = asyncio.create_task(manager.run(batch_size=batch, dequeue_timeout=timedelta(seconds=30)))
        await asyncio.to_thread(speak.until_end)
        manager.shutdown.set()
        await running
        return
    pool = await asyncpg.create_pool(given.database, min_size=1, max_size=max(1, given.threads))
    queries = Queries(AsyncpgPoolDriver(pool))
    speak.tell("ready")

    async def send(numbers, queue):
        texts = [json.dumps(speak.args_of(given.job, number, given.path)).encode() for number in numbers]
        after = None
        if given.due:
            after = timedelta(seconds=given.due - time.time())
        count = len(texts)
        await queries.enqueue([queue] * count, texts, [0] * count, execute_after=[after] * count)

    await speak.enqueue_async(given, send)
    await asyncio.to_thread(speak.until_end)


uvloop.run(main())
