"""An application with a Django: jobs that ask its database, in threads and on the event loop, and tell which session answered."""

import asyncio
import os
import time
from dataclasses import dataclass

import django
from asgiref.sync import sync_to_async
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

from fastq import Args, Job, Registry, Worker
from tests.process.jobs import tell

info = conninfo_to_dict(os.environ["FASTQ_DATABASE_URL"])
max_age = os.environ.get("SHOP_MAX_AGE", "0")
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": info["dbname"],
            "USER": info.get("user", ""),
            "PASSWORD": info.get("password", ""),
            "HOST": info.get("host", ""),
            "PORT": str(info.get("port", "")),
            "OPTIONS": {"application_name": "shop"},
            "CONN_MAX_AGE": None if max_age == "none" else int(max_age),
            "CONN_HEALTH_CHECKS": "SHOP_HEALTH_CHECKS" in os.environ,
        }
    }
)
django.setup()

from django.db import connection  # noqa: E402 - once Django is set up

registry = Registry()


def ask(sql):
    """Run a statement of one value on the thread's connection of Django's."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


@dataclass
class AskArgs(Args, kind="ask"):
    sql: str = "select pg_backend_pid()"


@registry.register
class AskWorker(Worker[AskArgs]):
    def work(self, job: Job[AskArgs]) -> None:
        tell(job, f"answered {ask(job.args.sql)}")


@dataclass
class AsyncAskArgs(Args, kind="async_ask"):
    sql: str = "select pg_backend_pid()"
    times: int = 1


@registry.register
class AsyncAskWorker(Worker[AsyncAskArgs]):
    async def work(self, job: Job[AsyncAskArgs]) -> None:
        for _ in range(job.args.times):
            tell(job, f"answered {await sync_to_async(ask)(job.args.sql)}")


@dataclass
class WaitArgs(Args, kind="wait"):
    pass


@registry.register
class WaitWorker(Worker[WaitArgs]):
    """Asks once, and once again when another job has come and gone."""

    async def work(self, job: Job[WaitArgs]) -> None:
        before = await sync_to_async(ask)("select pg_backend_pid()")
        tell(job, "waits")
        await asyncio.to_thread(self._wait_for_another)
        tell(job, "same" if before == await sync_to_async(ask)("select pg_backend_pid()") else "another")

    def _wait_for_another(self) -> None:
        try:
            while not ask("select exists (select from fastq.job_archive)"):
                time.sleep(0.01)
        finally:
            connection.close()


@dataclass
class ForkArgs(Args, kind="fork"):
    pass


@registry.register
class ForkWorker(Worker[ForkArgs]):
    """Forks with a connection, and asks on it when the child has ended as it likes."""

    def work(self, job: Job[ForkArgs]) -> None:
        before = ask("select pg_backend_pid()")
        child = os.fork()
        if child == 0:
            return
        os.waitpid(child, 0)
        tell(job, "same" if before == ask("select pg_backend_pid()") else "another")
