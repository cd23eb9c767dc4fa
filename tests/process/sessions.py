"""An application whose jobs write rows with sessions of SQLAlchemy's, made for each of them by hooks of the registry."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

from fastq import Args, Discard, Job, Registry, Worker
from fastq.integrations.orm import AsyncSessionPerJob, SessionPerJob
from tests.process.jobs import tell

URL = os.environ["FASTQ_DATABASE_URL"].replace("postgresql:", "postgresql+psycopg:", 1)
SESSIONS = SessionPerJob(orm.sessionmaker(sqlalchemy.create_engine(URL)))
ASYNC_SESSIONS = AsyncSessionPerJob(sqlalchemy_asyncio.async_sessionmaker(sqlalchemy_asyncio.create_async_engine(URL)))
WRITE = sqlalchemy.text("insert into written (job) values (:job)")

registry = Registry(hooks=[SESSIONS, ASYNC_SESSIONS])


@dataclass
class WriteArgs(Args, kind="write"):
    what: str = "return"


@dataclass
class AsyncWriteArgs(Args, kind="async_write"):
    what: str = "return"


@dataclass
class WriteManyArgs(Args, kind="write_many"):
    pass


@dataclass
class WrongArgs(Args, kind="wrong"):
    pass


def decide(what):
    """Return or raise what the job is to end with."""
    if what == "raise":
        raise ValueError("raised behind a statement")
    return Discard("decided behind a statement") if what == "discard" else None


@registry.register
class WriteWorker(Worker[WriteArgs]):
    def work(self, job: Job[WriteArgs]) -> object:
        tell(job, f"session {id(SESSIONS.session)}")
        if job.args.what != "nothing":
            SESSIONS.session.execute(WRITE, {"job": job.id})
        return decide(job.args.what)


@registry.register
class AsyncWriteWorker(Worker[AsyncWriteArgs]):
    async def work(self, job: Job[AsyncWriteArgs]) -> object:
        tell(job, f"session {id(ASYNC_SESSIONS.session)}")
        if job.args.what != "nothing":
            await ASYNC_SESSIONS.session.execute(WRITE, {"job": job.id})
        return decide(job.args.what)


@registry.register
class WriteManyWorker(Worker[WriteManyArgs]):
    up_to = 10

    def work_many(self, jobs: Sequence[Job[WriteManyArgs]]) -> None:
        for job in jobs:
            SESSIONS.session.execute(WRITE, {"job": job.id})


@registry.register
class WrongWorker(Worker[WrongArgs]):
    async def work(self, job: Job[WrongArgs]) -> None:
        SESSIONS.session.execute(WRITE, {"job": job.id})
