"""What users write, right and wrong: test_types.py runs mypy and pyright over it and compares with the marks.

A line that must be refused has a mark at its end, "wrong", with a checker's name where only that one refuses this line.
It is never executed.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict, assert_type

import asyncpg
import attrs
import django.db
import msgspec
import psycopg
import pydantic
import sqlalchemy.ext.asyncio
import sqlalchemy.orm

from fastq import Crash, Enqueuing, Finished, Hook, JobDetail, JobProgress, LogLine, State, current_job
from fastq.admin import GateRow, HeldRow, KeyRow, PauseRow
from fastq.args.kinds import Args, Kind, kind
from fastq.args.unique import Unique
from fastq.enqueue.client import Client
from fastq.enqueue.client_async import AsyncClient
from fastq.enqueue.items import Enqueue, Enqueued
from fastq.jobs.deps import Dep
from fastq.jobs.job import Job
from fastq.jobs.outcome import Cancel, Discard, Retry, Snooze
from fastq.jobs.periodic import Backfill
from fastq.jobs.registry import Registry
from fastq.jobs.schedule import Cron, Every
from fastq.jobs.worker import Worker

client = Client()
registry = Registry()


@dataclass
class SortArgs(Args, kind="sort", queue="slow", priority=2, tags=["a"]):
    strings: list[str]


@dataclass(slots=True, frozen=True)
class FrozenArgs(Args, kind="frozen"):
    n: int


@attrs.define
class AttrsArgs(Args, kind="attrs"):
    n: int


class ModelArgs(Args, pydantic.BaseModel, kind="model"):
    n: int


@kind("struct", max_attempts=3)
class StructArgs(Args, msgspec.Struct, frozen=True):
    n: int


class MailDict(TypedDict):
    to: str


class PlainStruct(msgspec.Struct):
    n: int


class Receipt(msgspec.Struct):
    number: int


MAIL = Kind("mail", MailDict)
RECEIPT = Kind("receipt", MailDict, result=Receipt)
PLAIN = Kind("plain", PlainStruct, queue="slow")

# Options

Kind("mail", MailDict, queue=3)  # wrong
Kind("mail", MailDict, quue="slow")  # wrong


class BadOption(Args, kind="bad", priority="high"):  # wrong
    pass


class UnknownOption(Args, kind="bad", quue="slow"):  # wrong
    pass


@kind("bad", max_attempts="many")  # wrong
class BadDecorated(Args, msgspec.Struct):
    pass


@kind("bad")  # wrong: pyright
class NoArgs(msgspec.Struct):  # wrong: mypy
    pass


# Enqueue

client.enqueue(SortArgs(["whale"]))
client.enqueue(FrozenArgs(1))
client.enqueue(AttrsArgs(1))
client.enqueue(ModelArgs(n=1))
client.enqueue(StructArgs(1))
client.enqueue(MailDict(to="x"), kind=MAIL)
client.enqueue(PlainStruct(1), kind=PLAIN, delay=60)
client.enqueue_many([SortArgs(["whale"]), FrozenArgs(1)])
client.enqueue_many([MailDict(to="x")], kind=MAIL)

client.enqueue(SortArgs([1]))  # wrong
client.enqueue(SortArgs("whale"))  # wrong
client.enqueue(SortArgs())  # wrong
client.enqueue(FrozenArgs("1"))  # wrong
client.enqueue(AttrsArgs("1"))  # wrong
client.enqueue(ModelArgs(m=1))  # wrong
client.enqueue(StructArgs("1"))  # wrong
client.enqueue(MailDict(to=1), kind=MAIL)  # wrong
client.enqueue({"to": 1}, kind=MAIL)  # wrong
client.enqueue({"from": "x"}, kind=MAIL)  # wrong
client.enqueue(MailDict(to="x"))  # wrong
client.enqueue(PlainStruct(1))  # wrong
client.enqueue(PlainStruct(1), kind=MAIL)  # wrong
client.enqueue(SortArgs, priority=1)  # wrong
client.enqueue("sort")  # wrong
client.enqueue(SortArgs(["whale"]), priority="high")  # wrong
client.enqueue_many([SortArgs(["whale"]), "sort"])  # wrong
assert_type(client.enqueue(SortArgs(["whale"])), Enqueued)
assert_type(client.enqueue(SortArgs(["whale"])).new, bool)
client.enqueue_many([PlainStruct(1)], kind=MAIL)  # wrong

# Results

Kind("mail", MailDict, result=Receipt, queue=3)  # wrong
assert_type(client.wait(client.enqueue(MailDict(to="x"), kind=RECEIPT)).output, Receipt)
assert_type(client.wait(client.enqueue(MailDict(to="x"), kind=RECEIPT), timeout=3).unwrap(), Receipt)
assert_type(client.wait(1, result=Receipt), Finished[Receipt])
assert_type(client.wait(client.enqueue(SortArgs(["whale"])), result=list[str]).output, list[str])
assert_type(client.wait_many([1, 2], result=Receipt), list[Finished[Receipt]])
assert_type(client.wait(1).ok, bool)
assert_type(client.progress(1), JobProgress | None)
assert_type(client.logs(1, attempt=2), list[LogLine])
assert_type(next(client.follow_logs(1)).left_out, int)
client.logs("1")  # wrong
Registry(logs="info")  # wrong
client.wait("1")  # wrong
client.wait(1, 3)  # wrong
client.wait(1, timeout="3")  # wrong


async def wait_async(async_client: AsyncClient) -> None:
    assert_type((await async_client.wait(await async_client.enqueue(MailDict(to="x"), kind=RECEIPT))).output, Receipt)
    async_client.wait(1).output  # wrong  # noqa: B018 - not awaited


@registry.register
class ReceiptWorker(Worker[MailDict, Receipt], kind=RECEIPT):
    def work(self, job: Job[MailDict]) -> Receipt | Snooze:
        job.progress(0.5, "half")
        job.progress("half")  # wrong
        return Receipt(1)


class AsyncReceiptWorker(Worker[SortArgs, list[Receipt]]):
    async def work(self, job: Job[SortArgs]) -> list[Receipt]:
        return [Receipt(1)]


class ReturnsOther(Worker[SortArgs, Receipt]):
    def work(self, job: Job[SortArgs]) -> str: ...  # wrong


class ReturnsOtherAsync(Worker[SortArgs, Receipt]):
    async def work(self, job: Job[SortArgs]) -> str: ...  # wrong


client.enqueue(SortArgs(["whale"]), unique=Unique("strings", until="start"))
client.enqueue_many([Enqueue(SortArgs(["whale"]), unique=Unique())], unique=Unique(()))
client.enqueue(SortArgs(["whale"]), unique="strings")  # wrong
Unique(until="time")  # wrong
Unique(then="skip")  # wrong
Unique(by=1)  # wrong
client.enqueue(SortArgs(["whale"]), tags=("a", "b"))
client.enqueue(SortArgs(["whale"]), tags={"a"})
client.enqueue(SortArgs(["whale"]), tags="abc")  # wrong
Enqueue(SortArgs(["whale"]), tags="abc")  # wrong
Kind("mail", MailDict, tags="abc")  # wrong

Job.of(MailDict(to="x"), kind=MAIL, tags=["a"])
Job.of(MailDict(to="x"), kind="mail")
Job.of(MailDict(to="x"), kind=7)  # wrong
Job.of(SortArgs(["whale"]), tags="abc")  # wrong

# Periodic

registry.periodic("sort", Cron("0 9 * * mon-fri", tz="Europe/Berlin"), SortArgs(["whale"]), missed="skip", run_on_start=True)
registry.periodic("mail", Every(30), MailDict(to="x"), kind=MAIL, missed=Backfill(3), queue="slow", tags=["a"])

registry.periodic("sort", "0 9 * * *", SortArgs(["whale"]))  # wrong
registry.periodic("sort", Every("30"), SortArgs(["whale"]))  # wrong
registry.periodic("sort", Every(30), SortArgs([1]))  # wrong
registry.periodic("sort", Every(30), SortArgs(["whale"]), missed="never")  # wrong
registry.periodic("sort", Every(30), SortArgs(["whale"]), delay=3)  # wrong
registry.periodic("mail", Every(30), MailDict(to="x"))  # wrong
registry.periodic("mail", Every(30), PlainStruct(1), kind=MAIL)  # wrong

# Work


@registry.register
class SortWorker(Worker[SortArgs]):
    queue = "default"
    timeout = 30.0
    archive = False

    def work(self, job: Job[SortArgs]) -> None:
        assert_type(job.args.strings, list[str])
        assert_type(job.id, int)
        assert_type(job.tags, tuple[str, ...])
        assert_type(job.tick, datetime | None)
        job.args.string  # wrong  # noqa: B018 - the mistake itself


@registry.register
class AsyncMailWorker(Worker[MailDict], kind=MAIL):
    timeout = None

    async def work(self, job: Job[MailDict]) -> Snooze | Cancel | None:
        job.args["from"]  # wrong
        return Snooze(3) if job.attempt < 3 else Cancel("no such user")


class WorksOtherArgs(Worker[SortArgs]):
    def work(self, job: Job[FrozenArgs]) -> None: ...  # wrong


class WorksNoJob(Worker[SortArgs]):
    def work(self, job: SortArgs) -> None: ...  # wrong


class WorksOtherKind(Worker[SortArgs], kind=MAIL):  # wrong: pyright
    def work(self, job: Job[SortArgs]) -> None: ...


class BadTimeout(Worker[SortArgs]):
    timeout = "30"  # wrong

    def work(self, job: Job[SortArgs]) -> None: ...


# Hooks and functions


class Tenant(Hook):
    def work(self, job: Job[Any], proceed: Callable[[], object]) -> object:
        assert_type(job.carried["tenant"], Any)
        return proceed()

    async def work_async(self, job: Job[Any], proceed: Callable[[], Awaitable[object]]) -> object:
        return await proceed()

    def enqueue(self, enqueuing: Enqueuing) -> None:
        enqueuing.carry(tenant="acme")
        enqueuing.options["queue"] = "slow"


class Opening(Hook):
    def around(self, job: Job[Any]) -> Iterator[None]:
        yield


class WorksWithoutProceeding(Hook):
    def work(self, job: Job[Any]) -> object: ...  # wrong


Registry(hooks=[Tenant(), Opening()])
Registry(hooks=[Tenant])  # wrong
Client(hooks=[Tenant()])
AsyncClient(hooks=(Tenant(),))
Kind("mail", MailDict, hooks=[Opening()])
Kind("mail", MailDict, hooks=Opening())  # wrong


class HookedArgs(Args, kind="hooked", hooks=[Opening()]):
    pass


class HookedWorker(Worker[SortArgs]):
    hooks = (Opening(),)

    def work(self, job: Job[SortArgs]) -> Discard | Retry | None: ...


@registry.worker
def sort(job: Job[SortArgs]) -> int:
    assert_type(job.args.strings, list[str])
    return len(job.args.strings)


@registry.worker(queue="slow", timeout=None, hooks=[Opening()], retry_delay=lambda attempt, error: 1.0)
async def sort_slowly(job: Job[SortArgs]) -> Snooze | None: ...


assert_type(sort(Job.of(SortArgs(["b"]))), int)
sort(SortArgs(["b"]))  # wrong


@registry.worker
def sort_many(jobs: Sequence[Job[SortArgs]]) -> list[int | Snooze | ValueError]:
    assert_type(jobs[0].args.strings, list[str])
    return [len(job.args.strings) for job in jobs]


@registry.worker(up_to=10, within=1, same=("strings", "other"))
async def sort_many_slowly(jobs: Sequence[Job[SortArgs]]) -> None: ...


assert_type(sort_many([Job.of(SortArgs(["b"]))]), list[int | Snooze | ValueError])
sort_many(Job.of(SortArgs(["b"])))  # wrong


@registry.worker  # wrong
def sort_a_list(jobs: list[Job[SortArgs]]) -> None: ...


registry.worker(up_to="10")  # wrong
registry.worker(same=7)  # wrong


registry.worker(queu="slow")  # wrong
registry.worker(timeout="30")  # wrong


@registry.on_error
def handle(job: Job[Any], error: BaseException) -> Snooze | Cancel | None:
    return Snooze(3) if isinstance(error, TimeoutError) else None


@registry.on_error
async def handle_async(job: Job[Any], error: BaseException) -> Discard | None: ...


@registry.on_crash
def handle_crash(job: Job[Any], crash: Crash) -> Retry | None:
    assert_type(crash.signal, int | None)
    return None


@registry.on_error  # wrong
def handle_nothing(job: Job[Any]) -> None: ...


@registry.on_error  # wrong
def handle_by_number(job: Job[Any], error: BaseException) -> int:
    return 3


assert_type(current_job(), Job[Any] | None)

registry.register(SortArgs)  # wrong
registry.register(3)  # wrong


def state_of(job_id: int) -> State | None:
    found = client.get(job_id)
    assert_type(found, JobDetail | None)
    return found.state if found is not None else None


# Operate

assert_type(client.gates(), list[GateRow])
assert_type(client.set_gate("mail-api", 5), int | None)
assert_type(client.remove_gate("mail-api"), int | None)
assert_type(client.held_keys(), list[HeldRow])
assert_type(client.release_key("stream", 42), list[int])
assert_type(client.unique_keys(limit=10), list[KeyRow])
assert_type(client.release_unique("3f9a0c"), KeyRow | None)
assert_type(client.pauses(), list[PauseRow])
client.set_gate("sms-api", 100, per=60, burst=10)
client.set_gate("mail-api", "5")  # wrong
client.set_gate("mail-api", 5, every=60)  # wrong
client.pause(queues="mails")  # wrong

# Test

assert_type(Job.of(SortArgs(["b"]), attempt=2), Job[SortArgs])
SortWorker().work(Job.of(SortArgs(["b"])))
SortWorker().work(Job.of(FrozenArgs(1)))  # wrong
assert_type(Job.of(SortArgs(["b"]), deps={"fetch": [1]}, workflow=1, workflow_step=2), Job[SortArgs])
assert_type(Job.of(SortArgs(["b"]), deps={"fetch": Dep(1, "discarded", None)}).deps["fetch"], Dep)
Job.of(SortArgs(["b"]), deps=[1])  # wrong
Snooze("30")  # wrong


def enqueue_with_connections_of_ones_own(
    psycopg_connection: psycopg.Connection[dict[str, int]],
    psycopg_async: psycopg.AsyncConnection,
    connection: sqlalchemy.Connection,
    session: sqlalchemy.orm.Session,
    scoped: sqlalchemy.orm.scoped_session[sqlalchemy.orm.Session],
    engine: sqlalchemy.Engine,
    async_connection: sqlalchemy.ext.asyncio.AsyncConnection,
) -> None:
    client.enqueue(SortArgs([]), conn=psycopg_connection)
    client.enqueue(SortArgs([]), conn=connection)
    client.enqueue_many([SortArgs([])], conn=session)
    client.enqueue_copy([SortArgs([])], conn=scoped)
    client.cancel(1, conn=django.db.connection)
    client.retry(1, conn=django.db.connections["other"])
    client.get(1, conn=session)
    client.why(1, conn=django.db.connection)
    client.gates(conn=psycopg_connection)
    client.release_key("stream", 42, conn=connection)
    client.workflow(1, conn=scoped)
    client.unique_keys(conn=engine)  # wrong
    client.enqueue(SortArgs([]), conn="postgresql://")  # wrong
    client.enqueue(SortArgs([]), conn=engine)  # wrong
    client.enqueue(SortArgs([]), conn=psycopg_connection.cursor())  # wrong
    client.enqueue(SortArgs([]), conn=psycopg_async)  # wrong
    client.enqueue_many([SortArgs([])], conn=async_connection)  # wrong


async def enqueue_with_asynchronous_connections(
    psycopg_async: psycopg.AsyncConnection,
    connection: sqlalchemy.ext.asyncio.AsyncConnection,
    session: sqlalchemy.ext.asyncio.AsyncSession,
    scoped: sqlalchemy.ext.asyncio.async_scoped_session[sqlalchemy.ext.asyncio.AsyncSession],
    asyncpg_connection: asyncpg.Connection,
    pool: asyncpg.Pool,
    sync: sqlalchemy.Connection,
    sync_session: sqlalchemy.orm.Session,
) -> None:
    client = AsyncClient()
    await client.enqueue(SortArgs([]), conn=psycopg_async)
    await client.enqueue(SortArgs([]), conn=connection)
    await client.enqueue_many([SortArgs([])], conn=session)
    await client.enqueue_copy([SortArgs([])], conn=scoped)
    await client.cancel(1, conn=asyncpg_connection)
    async with pool.acquire() as lent:
        await client.retry(1, conn=lent)
        assert_type(await client.held_keys(conn=lent), list[HeldRow])
    assert_type(await client.set_gate("mail-api", 5, conn=asyncpg_connection), int | None)
    await client.get(1, conn=session)
    await client.gates(conn=sync)  # wrong
    await client.enqueue(SortArgs([]), conn="postgresql://")  # wrong
    await client.enqueue(SortArgs([]), conn=sync)  # wrong
    await client.enqueue(SortArgs([]), conn=sync_session)  # wrong


def end_in_a_transaction(
    job: Job[SortArgs], conn: psycopg.Connection[tuple[int]], session: sqlalchemy.orm.Session, engine: sqlalchemy.Engine
) -> None:
    with job.transaction() as own:
        assert_type(own, psycopg.Connection[tuple[Any, ...]])
    with job.transaction(conn, outcome=Snooze(60)) as same:
        assert_type(same, psycopg.Connection[tuple[int]])
    with job.transaction(session) as given:
        assert_type(given, sqlalchemy.orm.Session)
        client.enqueue(SortArgs([]), conn=given)
    with job.transaction(django.db.connection):
        pass
    end = job.transaction()
    with end:
        end.outcome = Cancel("enough")
    job.transaction("postgresql://")  # wrong
    job.transaction(engine)  # wrong
    job.transaction(conn, Snooze(60))  # wrong


async def end_in_a_transaction_in_a_coroutine(
    job: Job[SortArgs], conn: asyncpg.Connection, session: sqlalchemy.ext.asyncio.AsyncSession
) -> None:
    async with job.transaction() as own:
        assert_type(own, psycopg.AsyncConnection[tuple[Any, ...]])
    async with job.transaction(session) as given:
        assert_type(given, sqlalchemy.ext.asyncio.AsyncSession)
    async with job.transaction(conn):
        pass


# Steps


@dataclass
class Paid:
    number: int


def pay(number: int, *, twice: bool = False) -> Paid:
    return Paid(number)


async def pay_async(number: int) -> Paid:
    return Paid(number)


def takes_steps(job: Job[SortArgs]) -> None:
    assert_type(job.step("charge", pay, 7, twice=True), Paid)
    job.step("charge", pay, "7")  # wrong
    job.step("charge", pay)  # wrong

    @job.step("decorated")
    def decorated(number: int) -> Paid:
        return Paid(number)

    assert_type(decorated(7), Paid)
    decorated("7")  # wrong
    rows = job.cursor("rows", 0)
    assert_type(rows.value, int)
    rows.advance(rows.value + 1)
    rows.advance("1")  # wrong
    job.sleep(60)
    job.sleep("60")  # wrong
    assert_type(job.wait_for("approved", Paid, timeout=60).value, Paid)
    assert_type(job.wait_for("approved").value, Any)
    assert_type(job.workflow_step, int | None)


def pay_in(conn: psycopg.Connection[Any], number: int, *, twice: bool = False) -> Paid:
    return Paid(number)


def pay_in_session(session: sqlalchemy.orm.Session, number: int) -> Paid:
    return Paid(number)


async def pay_in_async(conn: psycopg.AsyncConnection[Any], number: int) -> Paid:
    return Paid(number)


async def pay_in_asyncpg(conn: asyncpg.Connection, number: int) -> Paid:
    return Paid(number)


def takes_steps_in_transactions(job: Job[SortArgs], session: sqlalchemy.orm.Session) -> None:
    assert_type(job.step_transaction("charge", pay_in, 7, twice=True), Paid)
    assert_type(job.step_transaction(session, "charge", pay_in_session, 7), Paid)
    job.step_transaction("charge", pay_in, "7")  # wrong
    job.step_transaction("charge", pay_in_session, 7)  # wrong
    job.step_transaction(session, "charge", pay_in, 7)  # wrong


async def takes_steps_in_transactions_async(job: Job[SortArgs], conn: asyncpg.Connection) -> None:
    assert_type(await job.step_transaction("charge", pay_in_async, 7), Paid)
    assert_type(await job.step_transaction(conn, "charge", pay_in_asyncpg, 7), Paid)
    await job.step_transaction("charge", pay_in_async, "7")  # wrong


async def takes_steps_async(job: Job[SortArgs]) -> None:
    assert_type(await job.step("charge", pay_async, 7), Paid)
    await job.step("charge", pay_async, "7")  # wrong
    rows = await job.cursor("rows", "")
    assert_type(rows.value, str)
    await rows.advance("b")
    await job.sleep(60)
    assert_type((await job.wait_for("approved", Paid)).value, Paid)


assert_type(client.signal(1, "approved", Paid(7)), bool)
assert_type([step.output for step in client.steps(1)], list[Any])
client.signal(1, 2)  # wrong
