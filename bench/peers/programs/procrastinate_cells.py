"""Procrastinate as a measured program: one worker, jobs as coroutines (those that block or compute, in its threads)."""

import asyncio
import logging
import time
from datetime import UTC, datetime

import procrastinate
import speak

given = speak.order()
logging.disable(logging.CRITICAL)
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=given.database))


@app.task(name="noop")
async def noop(number):
    pass


@app.task(name="large")
async def large(**args):
    pass


@app.task(name="clock")
async def clock(number, path):
    speak.note(number, path)


@app.task(name="sleep")
async def sleep(number):
    await asyncio.sleep(speak.SLEEP)


@app.task(name="nap")
def nap(number):
    time.sleep(speak.SLEEP)


@app.task(name="cpu")
def cpu(number):
    speak.spin()


@app.task(name="fail", retry=procrastinate.RetryStrategy(max_attempts=2, wait=0), pass_context=True)
async def fail(context, number):
    if not context.job.attempts:
        raise RuntimeError("not yet")


async def main():
    async with app.open_async():
        if given.verb == "setup":
            await app.schema_manager.apply_schema_async()
            speak.tell("done")
            return
        speak.tell("ready")
        if given.verb == "work":
            await asyncio.to_thread(speak.until, "go")
            worker = asyncio.create_task(
                app.run_worker_async(
                    queues=given.queues,
                    concurrency=speak.slots(given),
                    install_signal_handlers=False,
                    delete_jobs="successful",
                )
            )
            await asyncio.to_thread(speak.until_end)
            worker.cancel()
            return
        due = {"schedule_at": datetime.fromtimestamp(given.due, UTC)} if given.due else {}

        async def send(numbers, queue):
            task = app.tasks[given.job].configure(queue=queue, **due)
            args = [speak.args_of(given.job, number, given.path) for number in numbers]
            if given.batch == 1:
                await task.defer_async(**args[0])
            else:
                await task.batch_defer_async(*args)

        await speak.enqueue_async(given, send)
        await asyncio.to_thread(speak.until_end)


asyncio.run(main())
