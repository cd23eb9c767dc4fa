"""Celery on Redis as a measured program. The worker starts without a queue, and takes those of the order when told to go."""

import threading
import time

import speak
from celery import Celery, signals
from kombu import Queue

given = speak.order()
app = Celery("cells", broker=given.database)
app.conf.update(
    task_acks_late=True,  # a job is given up when it has ended, as elsewhere in this table
    task_ignore_result=True,
    worker_prefetch_multiplier=64,
    worker_redirect_stdouts=False,  # we answer there
    broker_connection_retry_on_startup=True,
    task_queues=[Queue("rest"), *map(Queue, given.queues)],
)


@app.task(name="noop")
def noop(number):
    pass


@app.task(name="large")
def large(**args):
    pass


@app.task(name="clock")
def clock(number, path):
    speak.note(number, path)


@app.task(name="nap")
def nap(number):
    time.sleep(speak.SLEEP)


@app.task(name="cpu")
def cpu(number):
    speak.spin()


@app.task(name="fail", bind=True)
def fail(self, number):
    if self.request.retries == 0:
        raise self.retry(countdown=0)


def begin(**_):
    """Say that the worker is ready, and give it its queues when told to go."""

    def listen():
        speak.tell("ready")
        speak.until("go")
        for queue in given.queues:
            app.control.add_consumer(queue)
        speak.until_end()

    threading.Thread(target=listen, daemon=True).start()


if given.verb == "setup":
    speak.tell("done")
elif given.verb == "work":
    signals.worker_ready.connect(begin, weak=False)
    pool = "threads" if given.job == "nap" else "prefork"
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR")
    app.worker_main(["worker", "--pool", pool, "--concurrency", str(given.slots), "--queues", "rest", *quiet])
else:
    tasks = {task.name: task for task in (noop, large, clock, nap, cpu, fail)}
    task, options = tasks[given.job], {"eta": None}
    if given.due:
        from datetime import UTC, datetime

        options["eta"] = datetime.fromtimestamp(given.due, UTC)

    def send(numbers, queue):
        with app.producer_pool.acquire(block=True) as producer:
            for number in numbers:
                args = speak.args_of(given.job, number, given.path)
                task.apply_async(kwargs=args, queue=queue, producer=producer, **options)

    with app.connection_for_write() as connection:
        connection.ensure_connection()
    speak.tell("ready")
    speak.enqueue(given, send)
    speak.until_end()
