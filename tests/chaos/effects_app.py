"""The app of the chaos of effects: jobs that append their numbers to lists, in the transactions in which they end.

Imported by the worker processes, by their supervisors and by the program that enqueues. A job has stages: each is a transaction
of its own that appends one number, and all but the last one snooze. Some enqueue a child in their last one.
"""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

from fastq import Args, AsyncClient, Client, Job, Registry, Snooze, Worker
from fastq.adapters import drivers, drivers_async

STAGES = 10  # more than any job has: a number is the job's id times this, and the stage
URL = os.environ.get("FASTQ_DATABASE_URL", "postgresql://nowhere")

TABLES = """
create table list (key int primary key, numbers bigint[] not null default '{}');
create table reading (transaction bigint not null, key int not null, seen bigint[] not null);
create table stage (job bigint primary key, reached int not null);
"""
STAGE = (
    "insert into stage values ($1::bigint, 1) on conflict (job) do update set reached = stage.reached + 1 returning stage.reached"
)
APPEND = """
with read as (select key, numbers from list where key = $1::int for update), written as (
    update list set numbers = list.numbers || $2::bigint from read where list.key = read.key
)
insert into reading select $2::bigint, key, numbers from read returning key
"""
READ = "insert into reading select $2::bigint, key, numbers from list where key = $1::int returning key"

registry = Registry()


@dataclass
class Append(Args, kind="chaos_append_psycopg", max_attempts=10_000):
    keys: list[int]
    stages: int
    child: bool
    seconds: float


class AppendAsync(Append, kind="chaos_append_psycopg_async", max_attempts=10_000):
    """The same in a coroutine."""


class AppendSession(Append, kind="chaos_append_sqlalchemy", max_attempts=10_000):
    """The same in a session of SQLAlchemy's."""


class AppendSessionAsync(Append, kind="chaos_append_sqlalchemy_async", max_attempts=10_000):
    """The same in one of its sessions for coroutines."""


@dataclass
class Child(Args, kind="chaos_append_child", max_attempts=10_000):
    parent: int


KINDS = (Append, AppendAsync, AppendSession, AppendSessionAsync)
engines: dict[int, Any] = {}  # by process and sort: none comes along from the fork server
clients: dict[int, Any] = {}


def dialect() -> str:
    return URL.replace("postgresql://", "postgresql+psycopg://")


def engine() -> Any:
    if os.getpid() not in engines:
        engines[os.getpid()] = sqlalchemy.create_engine(dialect())
    return engines[os.getpid()]


def engine_async() -> Any:
    if -os.getpid() not in engines:
        engines[-os.getpid()] = sqlalchemy_asyncio.create_async_engine(dialect())
    return engines[-os.getpid()]


def steps(job: Job[Any], end: Any) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield the statements of a transaction; it is sent the rows of each. `end` gets the outcome."""
    ((reached,),) = yield STAGE, (job.id,)  # type: ignore[misc]
    for key in sorted(set(job.args.keys)):
        yield APPEND, (key, job.id * STAGES + reached)
    if (beside := job.args.keys[0] + 1) not in job.args.keys:  # there may be none with this key
        yield READ, (beside, job.id * STAGES + reached)
    if reached < job.args.stages:
        end.outcome = Snooze(0)


def append(job: Job[Any], end: Any, conn: Any) -> None:
    """Run the statements, and nap in the middle of them."""
    going, rows = steps(job, end), None
    try:
        while True:
            text, values = going.send(rows)  # type: ignore[attr-defined]
            rows = drivers.run(conn, text, values)
            time.sleep(job.args.seconds)
    except StopIteration:
        pass
    if end.outcome is None and job.args.child:
        clients.setdefault(os.getpid(), Client(URL)).enqueue(Child(job.id), conn=conn)


async def append_async(job: Job[Any], end: Any, conn: Any) -> None:
    """Do the same in a coroutine."""
    going, rows = steps(job, end), None
    try:
        while True:
            text, values = going.send(rows)  # type: ignore[attr-defined]
            rows = await drivers_async.run(conn, text, values)
            await asyncio.sleep(job.args.seconds)
    except StopIteration:
        pass
    if end.outcome is None and job.args.child:
        await clients.setdefault(-os.getpid(), AsyncClient(URL)).enqueue(Child(job.id), conn=conn)


@contextmanager
def session() -> Iterator[orm.Session]:
    with orm.Session(engine()) as opened:
        yield opened


@registry.register
class AppendWorker(Worker[Append]):
    def work(self, job: Job[Append]) -> None:
        end = job.transaction()
        with end as conn:
            append(job, end, conn)


@registry.register
class AppendSessionWorker(Worker[AppendSession]):
    def work(self, job: Job[AppendSession]) -> None:
        with session() as opened:
            end = job.transaction(opened)
            with end as conn:
                append(job, end, conn)


@registry.register
class AppendAsyncWorker(Worker[AppendAsync]):
    async def work(self, job: Job[AppendAsync]) -> None:
        end = job.transaction()
        async with end as conn:
            await append_async(job, end, conn)


@registry.register
class AppendSessionAsyncWorker(Worker[AppendSessionAsync]):
    async def work(self, job: Job[AppendSessionAsync]) -> None:
        async with sqlalchemy_asyncio.AsyncSession(engine_async()) as opened:
            end = job.transaction(opened)
            async with end as conn:
                await append_async(job, end, conn)


@registry.register
class ChildWorker(Worker[Child]):
    def work(self, job: Job[Child]) -> None:
        """Have been enqueued is all it is for."""
