"""Dramatiq on Redis as a measured program: one worker with as many threads as there are slots."""

import time

import dramatiq
import speak
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage

given = speak.order()
broker = RedisBroker(url=given.database)
broker.add_middleware(CurrentMessage())
dramatiq.set_broker(broker)
for name in given.queues:
    broker.declare_queue(name)


@dramatiq.actor
def noop(number):
    pass


@dramatiq.actor
def large(**args):
    pass


@dramatiq.actor
def clock(number, path):
    speak.note(number, path)


@dramatiq.actor
def nap(number):
    time.sleep(speak.SLEEP)


@dramatiq.actor
def cpu(number):
    speak.spin()


@dramatiq.actor(min_backoff=0, max_backoff=0, max_retries=1)
def fail(number):
    if not CurrentMessage.get_current_message().options.get("retries"):
        raise RuntimeError("not yet")


ACTORS = {"noop": noop, "large": large, "clock": clock, "nap": nap, "cpu": cpu, "fail": fail}

if given.verb == "setup":
    speak.tell("done")
elif given.verb == "work":
    worker = dramatiq.Worker(broker, worker_threads=speak.slots(given))
    speak.tell("ready")
    speak.until("go")
    worker.start()
    speak.until_end()
else:

    def send(numbers, queue):
        delay = max(0, int((given.due - time.time()) * 1e3)) if given.due else None
        for number in numbers:
            message = ACTORS[given.job].message(**speak.args_of(given.job, number, given.path))
            broker.enqueue(message.copy(queue_name=queue), delay=delay)

    speak.tell("ready")
    speak.enqueue(given, send)
    speak.until_end()
