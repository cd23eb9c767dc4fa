"""Oban (Python) as a measured program, embedded: a pool, queues with limits, workers that are coroutines."""

import asyncio
import logging
from datetime import UTC, datetime

import speak
from oban import Oban, worker
from oban.schema import install

given = speak.order()
logging.disable(logging.CRITICAL)


@worker(queue="default", max_attempts=2)
class Cell:
    """Do what the order names; a failing job is tried again at once."""

    async def process(self, job):
        if given.job == "clock":
            speak.note(job.args["number"], job.args["path"])
        elif given.job == "sleep":
            await asyncio.sleep(speak.SLEEP)
        elif given.job == "cpu":
            speak.spin()
        elif given.job == "fail" and job.attempt == 1:
            raise RuntimeError("not yet")

    def backoff(self, job):
        return 0


async def main():
    pool = await Oban.create_pool(dsn=given.database, max_size=20)
    if given.verb == "setup":
        await install(pool)
        speak.tell("done")
        return
    queues = dict.fromkeys(given.queues, given.slots) if given.verb == "work" else {}
    oban = Oban(pool=pool, queues=queues)
    speak.tell("ready")
    if given.verb == "work":
        await asyncio.to_thread(speak.until, "go")
        await oban.start()
        await asyncio.to_thread(speak.until_end)
        return

    async def send(numbers, queue):
        options = {"queue": queue}
        if given.due:
            options["scheduled_at"] = datetime.fromtimestamp(given.due, UTC)
        jobs = [Cell.new(speak.args_of(given.job, number, given.path), **options) for number in numbers]
        await oban.enqueue_many(jobs)

    await speak.enqueue_async(given, send)
    await asyncio.to_thread(speak.until_end)


asyncio.run(main())
