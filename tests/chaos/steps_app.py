"""The app of the chaos of steps: jobs of several steps, cursors, sleeps and a signal; each run of a step is noted where it
begins.

Imported by the worker processes, by their supervisors and by the program that enqueues. A run notes itself in a transaction of
its own, and in it whether the record of its step was committed by then: such a run must never be.
"""

import asyncio
import os
import random
import threading
import time
from dataclasses import dataclass
from typing import Any

import psycopg

from fastq import Args, Job, Registry, Worker

URL = os.environ.get("FASTQ_DATABASE_URL", "postgresql://nowhere")
TABLES = """
create table run (token bigint generated always as identity, job bigint not null, step text not null, recorded boolean not null);
create table row_done (job bigint not null, number int not null, late boolean not null);
create table paid (token bigint generated always as identity, job bigint not null);
"""
RUN = """
insert into run (job, step, recorded)
select %(job)s, %(step)s, exists (select from fastq.job_step where job = %(job)s and sort = 'step' and name = %(step)s)
returning token
"""
ROW = """
insert into row_done (job, number, late)
select %(job)s, %(number)s, coalesce((
    select (output #>> '{}')::int > %(number)s from fastq.job_step where job = %(job)s and sort = 'cursor' and name = 'rows'
), false)
"""
PAY = "insert into paid (job) values (%s) returning token"
SIGNAL = "go"

registry = Registry()
connections: dict[tuple[int, int], psycopg.Connection[Any]] = {}  # by process and thread: none comes along from the fork server


@dataclass
class Walk(Args, kind="chaos_steps", max_attempts=10_000):
    steps: int
    rows: int
    naps: bool
    waits: bool
    seconds: float


class WalkAsync(Walk, kind="chaos_steps_async", max_attempts=10_000):
    """The same in a coroutine."""


KINDS = (Walk, WalkAsync)


def note(text: str, values: dict[str, object]) -> Any:
    """Commit a note, on a connection of this thread, whatever becomes of the wire."""
    home = (os.getpid(), threading.get_ident())
    for _ in range(100):
        try:
            found = connections.get(home)
            if found is None or found.closed:
                found = connections[home] = psycopg.connect(URL, autocommit=True)
            cursor = found.execute(text.encode(), values)
            return cursor.fetchone() if cursor.description else None
        except psycopg.OperationalError:
            time.sleep(0.05)
    raise AssertionError("no database for a note")


def run(job: int, step: str, seconds: float) -> int:
    """Note that a step runs; take a while; return the number of the run."""
    (token,) = note(RUN, {"job": job, "step": step})
    time.sleep(random.random() * seconds)
    return int(token)


async def run_async(job: int, step: str, seconds: float) -> int:
    """Do the same in a coroutine."""
    (token,) = note(RUN, {"job": job, "step": step})
    await asyncio.sleep(random.random() * seconds)
    return int(token)


def pay(conn: psycopg.Connection[Any], job: int) -> int:
    """Write a row for a job, and return its number."""
    [(token,)] = conn.execute(PAY, (job,)).fetchall()
    return int(token)


async def pay_async(conn: psycopg.AsyncConnection[Any], job: int) -> int:
    """Do the same in a coroutine."""
    [(token,)] = await (await conn.execute(PAY, (job,))).fetchall()
    return int(token)


@registry.register
class WalkWorker(Worker[Walk, list[int]]):
    def work(self, job: Job[Walk]) -> list[int]:
        args, tokens = job.args, []
        for number in range(args.steps):
            name = f"step:{number}"
            tokens.append(job.step(name, run, job.id, name, args.seconds))
            if args.naps and number == 0:
                job.sleep(0.1)
            if args.waits and number == 1:
                tokens.append(job.wait_for(SIGNAL, int).value)
        rows = job.cursor("rows", 0)
        for row in range(rows.value, args.rows):
            note(ROW, {"job": job.id, "number": row})
            rows.advance(row + 1)
        return [*tokens, job.step_transaction("tx:", pay, job.id)]


@registry.register
class WalkAsyncWorker(Worker[WalkAsync, list[int]]):
    async def work(self, job: Job[WalkAsync]) -> list[int]:
        args, tokens = job.args, []
        for number in range(args.steps):
            name = f"step:{number}"
            tokens.append(await job.step(name, run_async, job.id, name, args.seconds))
            if args.naps and number == 0:
                await job.sleep(0.1)
            if args.waits and number == 1:
                tokens.append((await job.wait_for(SIGNAL, int)).value)
        rows = await job.cursor("rows", 0)
        for row in range(rows.value, args.rows):
            note(ROW, {"job": job.id, "number": row})
            await rows.advance(row + 1)
        return [*tokens, await job.step_transaction("tx:", pay_async, job.id)]
