"""The floor: raw SQL that any queue needs, and no queue. An insert and a notification; a claim and a delete, by the batch.

It has no retries, no records, no timeouts, no second thread: what it does in a second is about the most that such statements
allow from Python. A ratio to it, of the same run, tells more about a queue than a number of jobs.
"""

import json
import os
import threading

import psycopg
import speak

SETUP = """
create table job (id bigint generated always as identity primary key, queue text not null, args json not null, claimed bool);
create index job_ready on job (queue, id);
"""
INSERT = "insert into job (queue, args) values (%s, %s)"
CLAIM = """
update job set claimed = true
where id = any (array(
    select id from job where queue = any (%s) and claimed is null order by id limit %s for update skip locked))
returning id, args::text"""
DELETE = "delete from job where id = any (%s)"
BATCH = 5_000  # fastq's
POLL = 1.0  # s
given = speak.order()


def work(connection):
    connection.execute("listen job")
    while True:
        rows = connection.execute(CLAIM, [given.queues, BATCH]).fetchall()
        if not rows:
            for _ in connection.notifies(timeout=POLL, stop_after=1):
                pass
            continue
        for _, text in rows:
            args = json.loads(text)
            if given.job == "clock":
                speak.note(**args)
        connection.execute(DELETE, [[number for number, _ in rows]])


def text(number):
    return json.dumps(speak.args_of(given.job, number, given.path))


def sender():
    """Return a function that enqueues; each thread has a connection, as a pool would give it one."""
    here = threading.local()

    def send(numbers, queue):
        if not hasattr(here, "connection"):
            here.connection = psycopg.connect(given.database, autocommit=True)
        if given.batch > 1:
            with here.connection.transaction(), here.connection.cursor() as cursor:
                with cursor.copy("copy job (queue, args) from stdin") as copy:
                    for number in numbers:
                        copy.write_row((queue, text(number)))
                cursor.execute("notify job")
            return
        with here.connection.pipeline():
            here.connection.execute(INSERT, (queue, text(numbers[0])))
            here.connection.execute("notify job")

    return send


with psycopg.connect(given.database, autocommit=True) as connection:
    if given.verb == "setup":
        connection.execute(SETUP)
        speak.tell("done")
    else:
        speak.tell("ready")
        if given.verb == "work":
            speak.until("go")
            threading.Thread(target=lambda: (speak.until_end(), os._exit(0)), daemon=True).start()
            work(connection)
        else:
            speak.enqueue(given, sender())
            speak.until_end()
