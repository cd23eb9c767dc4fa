"""RQ on Redis as a measured program: a SimpleWorker, which works jobs in its own process, one at a time."""

from datetime import UTC, datetime

import redis
import speak
from rq import Queue, Retry, SimpleWorker, get_current_job


def noop(number):
    pass


def large(**args):
    pass


def clock(number, path):
    speak.note(number, path)


def cpu(number):
    speak.spin()


def fail(number):
    if get_current_job().retries_left:
        raise RuntimeError("not yet")


def send(numbers, name):
    queue = queues[name]
    options = {"result_ttl": 0, "retry": Retry(max=1) if given.job == "fail" else None}
    for number in numbers:
        args = speak.args_of(given.job, number, given.path)
        if given.due:
            queue.enqueue_at(datetime.fromtimestamp(given.due, UTC), f"rq_cells.{given.job}", kwargs=args, **options)
            continue
        data = Queue.prepare_data(f"rq_cells.{given.job}", kwargs=args, **options)
        queue.enqueue_many([data]) if given.batch == 1 else batch.append(data)
    if given.batch > 1 and not given.due:
        queue.enqueue_many(batch)
        batch.clear()


if __name__ == "__main__":
    given = speak.order()
    connection = redis.Redis.from_url(given.database)
    queues = {name: Queue(name, connection=connection) for name in given.queues}
    batch = []
    if given.verb == "setup":
        speak.tell("done")
    elif given.verb == "work":
        worker = SimpleWorker(list(queues.values()), connection=connection)
        speak.tell("ready")
        speak.until("go")
        worker.work(logging_level="ERROR", with_scheduler=True)
    else:
        speak.tell("ready")
        speak.enqueue(given, send)
        speak.until_end()
