"""`job.transaction()`: a job ends in one transaction with what is written there, by any library, or not at all."""

import asyncio
import socket
import struct
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

from fastq import Args, AsyncClient, Cancel, Client, Config, FastqError, JobLost, RateLimited, Registry, Snooze, Worker
from fastq.adapters import drivers, drivers_async
from fastq.enqueue.settings import Settings
from fastq.jobs.outcome import fate_of
from fastq.postgres import db
from fastq.postgres.pool import pool
from fastq.work.codec.claimed import Claimed
from fastq.work.codec.codec import decode, encode_ids
from fastq.work.complete.writer import Writer
from fastq.work.effects import blocks
from fastq.work.effects.ending import has_committed
from fastq.work.effects.transaction import Transactions
from fastq.work.execute.settle import settle
from tests.db.jobs import add, archived, claim_number, count, living
from tests.db.test_adapters import django_connection as in_django
from tests.helpers import execute
from tests.proxy import Proxy

CLAIM = claim_number(1, 1)
WRITE = "insert into effect values ('written') returning name"
GONE = r"(?i)connection|closed|terminat"
GATED = '{"gates": [["limit", "mail-api", 1, 1, 20]]}'

registry = Registry()


@dataclass
class KeptArgs(Args, kind="kept"):
    pass


@dataclass
class UnkeptArgs(Args, kind="unkept"):
    pass


@registry.register
class KeptWorker(Worker[KeptArgs]):
    def work(self, job):
        pass


@registry.register
class UnkeptWorker(Worker[UnkeptArgs]):
    archive = False

    def work(self, job):
        pass


@pytest.fixture
def effects(database):
    """Give the URL of a database with a table of the user's."""
    execute(database, "create table effect (name text)")
    return database


@pytest.fixture
def claimed(connection):
    """Give a function that puts a job there, and claims it."""

    def job_of(kind="kept", **columns):
        add(connection, kind=kind, **columns)
        numbers = [struct.pack(">q", number) for number in (CLAIM, 0, 0, 0, 0, 100, *[2**62] * 6)]
        row = connection.run_blobs("job_claim", [numbers[0], b"default", *numbers[1:], encode_ids([])])[1]
        (job,) = decode(Claimed("default", CLAIM, row), registry.workers)[0]
        return job

    return job_of


def transaction(url, job, conn=None, outcome=None, **settings):
    """Begin a transaction of a job as a worker process does."""
    return Transactions(Settings(url, None, Config(**settings))).begin(job, conn, outcome)


def complete(url, job):
    """Write the outcome of a job as the completer does."""
    writer = Writer(Config(), lambda: db.connect(url, role="completer"))
    writer.write([job])
    writer.session.drop()


def write(url, job, given, then):
    """Write something in the transaction of a job, then call a function there."""
    with transaction(url, job, given) as conn:
        drivers.run(conn, WRITE, ())
        then(conn)


async def write_async(url, job, given, then):
    """Do the same in a coroutine."""
    async with transaction(url, job, given) as conn:
        await drivers_async.run(conn, WRITE, ())
        then(conn)


def nothing(conn):
    """Do nothing more."""


def written(url):
    return [name for (name,) in execute(url, "select name from effect")]


def dialect(url, driver):
    return url.replace("postgresql://", f"postgresql+{driver}://")


# Connections of each library


@contextmanager
def own(url):
    yield None


@contextmanager
def psycopg_connection(url):
    with psycopg.connect(url) as conn:
        yield conn


@contextmanager
def psycopg_autocommit(url):
    with psycopg.connect(url, autocommit=True) as conn:
        yield conn


@contextmanager
def sqlalchemy_connection(url):
    engine = sqlalchemy.create_engine(dialect(url, "psycopg"))
    with engine.connect() as conn:
        yield conn
    engine.dispose()


@contextmanager
def sqlalchemy_session(url):
    engine = sqlalchemy.create_engine(dialect(url, "psycopg"))
    with orm.Session(engine) as session:
        yield session
    engine.dispose()


@contextmanager
def sqlalchemy_scoped_session(url):
    engine = sqlalchemy.create_engine(dialect(url, "psycopg"))
    session = orm.scoped_session(orm.sessionmaker(engine))
    yield session
    session.remove()
    engine.dispose()


@contextmanager
def django_connection(url):
    with in_django(url) as (conn, *_):
        conn.set_autocommit(True)
        yield conn


@asynccontextmanager
async def own_async(url):
    yield None


@asynccontextmanager
async def psycopg_async_connection(url):
    async with await psycopg.AsyncConnection.connect(url) as conn:
        yield conn


@asynccontextmanager
async def asyncpg_connection(url):
    conn = await asyncpg.connect(url)
    yield conn
    await conn.close()


@asynccontextmanager
async def asyncpg_lent(url):
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as conn:
        yield conn


def sqlalchemy_async(driver, make):
    @asynccontextmanager
    async def opened(url):
        engine = sqlalchemy_asyncio.create_async_engine(dialect(url, driver))
        async with make(engine) as conn:
            yield conn
        await engine.dispose()

    return opened


BLOCKING = [
    own,
    psycopg_connection,
    psycopg_autocommit,
    sqlalchemy_connection,
    sqlalchemy_session,
    sqlalchemy_scoped_session,
    django_connection,
]
AWAITING = {
    "own": own_async,
    "psycopg": psycopg_async_connection,
    "asyncpg": asyncpg_connection,
    "asyncpg_pool": asyncpg_lent,
    "sqlalchemy_connection": sqlalchemy_async("psycopg", lambda engine: engine.connect()),
    "sqlalchemy_session": sqlalchemy_async("psycopg", sqlalchemy_asyncio.AsyncSession),
    "sqlalchemy_session_asyncpg": sqlalchemy_async("asyncpg", sqlalchemy_asyncio.AsyncSession),
}
blocking = pytest.mark.parametrize("way", BLOCKING)
awaiting = pytest.mark.parametrize("way", AWAITING.values(), ids=AWAITING)


@blocking
@pytest.mark.parametrize("outcome", [None, {"café": 1}, Snooze(60), Cancel("enough")], ids=repr)
def test_a_job_ends_in_one_transaction_with_what_is_written_there(effects, claimed, connection, way, outcome):
    job = claimed()
    with way(effects) as given:
        with transaction(effects, job, given, outcome) as conn:
            drivers.run(conn, WRITE, ())
            assert written(effects) == []
            assert living(connection, job.id)["state"] == "running"
            assert given is None or conn is given

        check_ended(effects, connection, job, outcome)


@awaiting
@pytest.mark.parametrize("outcome", [None, {"café": 1}, Snooze(60), Cancel("enough")], ids=repr)
def test_in_a_coroutine_a_job_ends_in_one_transaction_with_what_is_written_there(effects, claimed, connection, way, outcome):
    job = claimed()

    async def run():
        async with way(effects) as given:
            async with transaction(effects, job, given, outcome) as conn:
                await drivers_async.run(conn, WRITE, ())
                assert written(effects) == []
            check_ended(effects, connection, job, outcome)

    asyncio.run(run())


def check_ended(url, connection, job, outcome):
    assert written(url) == ["written"]
    assert fate_of(job.outcome).elsewhere
    if isinstance(outcome, Snooze):
        row = living(connection, job.id)
        assert (row["state"], row["attempt"], row["claim"]) == ("scheduled", 0, None)
        return
    row = archived(connection, job.id)
    assert row["state"] == ("cancelled" if isinstance(outcome, Cancel) else "completed")
    assert row["output"] == (outcome if isinstance(outcome, dict) else None)
    assert living(connection, job.id) is None


@blocking
def test_an_exception_rolls_all_back_and_leaves_the_attempt_as_it_was(effects, claimed, connection, way):
    job = claimed()
    with way(effects) as given, pytest.raises(ZeroDivisionError):
        write(effects, job, given, lambda _: 1 / 0)

    assert (written(effects), job.outcome, living(connection, job.id)["claim"]) == ([], None, CLAIM)


@blocking
def test_what_is_written_for_a_job_that_was_taken_away_is_rolled_back(effects, claimed, connection, events, way):
    job = claimed()
    with way(effects) as given, pytest.raises(JobLost, match="taken away"):
        write(effects, job, given, lambda _: connection.run("job_release", [job.id], [CLAIM], None))

    assert written(effects) == []
    assert living(connection, job.id)["state"] == "available"
    job.outcome = settle(job, None, JobLost("lost"))
    complete(effects, job)
    assert [event.name for event in events] == ["job.lost"]
    assert living(connection, job.id)["errors"] is None


@awaiting
def test_in_a_coroutine_what_is_written_for_a_job_that_was_taken_away_is_rolled_back(effects, claimed, connection, way):
    job = claimed()

    async def run():
        async with way(effects) as given:
            with pytest.raises(JobLost, match="taken away"):
                await write_async(effects, job, given, lambda _: connection.run("job_release", [job.id], [CLAIM], None))

    asyncio.run(run())
    assert written(effects) == []


def test_a_job_whose_worker_asks_for_no_archive_leaves_no_row(effects, claimed, connection):
    job = claimed("unkept")
    with transaction(effects, job):
        pass

    assert (count(connection, "job"), count(connection, "job_archive")) == (0, 0)


def test_a_rate_that_was_exceeded_may_be_told_in_the_transaction(effects, claimed, connection):
    job = claimed(meta='{"gates": [["rate", "sms", 1, 10, 1, 10]]}')
    with transaction(effects, job, None, RateLimited(30)):
        pass

    assert living(connection, job.id)["state"] == "waiting"
    assert connection.execute("select count(*) from fastq.gate_event where until is not null") == [(1,)]


def test_the_outcome_may_be_chosen_in_the_block(effects, claimed, connection):
    job = claimed()
    end = transaction(effects, job)
    with end as conn:
        drivers.run(conn, WRITE, ())
        end.outcome = Snooze(60)

    assert living(connection, job.id)["state"] == "scheduled"


@pytest.mark.parametrize("outcome", [object(), Snooze], ids=["object", "class"])
def test_an_outcome_that_cannot_be_kept_rolls_all_back(effects, claimed, connection, outcome):
    job = claimed()
    with pytest.raises((ValueError, TypeError)), transaction(effects, job, None, outcome) as conn:
        drivers.run(conn, WRITE, ())

    assert (written(effects), job.outcome, living(connection, job.id)["state"]) == ([], None, "running")


@pytest.mark.parametrize(("kind", "outcome"), [("kept", None), ("unkept", None), ("kept", 1), ("kept", Cancel())])
def test_the_gatekeeper_and_the_steward_hear_of_the_end(effects, claimed, connection, kind, outcome):
    execute(effects, "insert into fastq.workflow (id, name) overriding system value values (7, 'report')")
    job = claimed(kind, meta='{"gates": [["limit", "mail-api", 1, 1, 20]], "workflow": [7, 3]}')
    connection.execute("insert into fastq.gate_permit select id, queue, meta ->> 'gates' from fastq.job")
    with psycopg.connect(effects, autocommit=True) as listening:
        listening.execute("listen fastq")
        with transaction(effects, job, None, outcome):
            pass
        heard = {note.payload for note in listening.notifies(timeout=5, stop_after=2)}

    assert heard == {"@gate", "@workflow"}
    assert count(connection, "gate_permit") == 0
    assert connection.execute("select queue, jobs from fastq.gate_event") == [("default", 1)]
    state = "cancelled" if isinstance(outcome, Cancel) else "completed"
    assert connection.execute("select workflow, step, state::text from fastq.workflow_event") == [(7, 3, state)]


def test_jobs_are_enqueued_in_the_transaction(effects, claimed, connection):
    job = claimed()
    with Client(effects) as client, transaction(effects, job) as conn:
        child = client.enqueue(KeptArgs(), conn=conn)
        assert living(connection, child) is None

    assert living(connection, child)["state"] == "available"


def test_in_a_coroutine_jobs_are_enqueued_in_the_transaction(effects, claimed, connection):
    job = claimed()

    async def run():
        async with AsyncClient(effects) as client, transaction(effects, job) as conn:
            return await client.enqueue(KeptArgs(), conn=conn)

    assert living(connection, asyncio.run(run()))["state"] == "available"


def test_a_job_ends_once_in_an_attempt(effects, claimed):
    job = claimed()
    with transaction(effects, job):
        pass
    with pytest.raises(FastqError, match="has ended in another transaction"), transaction(effects, job) as conn:
        drivers.run(conn, WRITE, ())

    assert written(effects) == []
    assert fate_of(job.outcome).elsewhere


def test_a_connection_in_autocommit_is_refused_before_the_job_ends(effects, claimed, connection):
    job = claimed()
    engine = sqlalchemy.create_engine(dialect(effects, "psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as given, pytest.raises(FastqError, match="got one in autocommit"), transaction(effects, job, given):
        pass
    engine.dispose()

    assert living(connection, job.id)["claim"] == CLAIM


# A transaction that was open before


def test_in_an_open_transaction_the_job_ends_when_the_caller_commits(effects, claimed, connection, events):
    job = claimed()
    with psycopg.connect(effects) as given:
        given.execute("select 1")
        with transaction(effects, job, given) as conn:
            drivers.run(conn, WRITE, ())
        assert (written(effects), living(connection, job.id)["state"]) == ([], "running")
    assert (written(effects), archived(connection, job.id)["state"]) == (["written"], "completed")

    complete(effects, job)
    assert events == []
    assert archived(connection, job.id)["errors"] is None


@pytest.mark.parametrize("last", [False, True])
def test_where_the_caller_rolls_back_the_attempt_has_failed(effects, claimed, connection, last):
    job = claimed(max_attempts=1 if last else 25)
    with psycopg.connect(effects) as given:
        given.execute("select 1")
        with transaction(effects, job, given) as conn:
            drivers.run(conn, WRITE, ())
        given.rollback()
    complete(effects, job)

    row = archived(connection, job.id) if last else living(connection, job.id)
    assert row["state"] == ("discarded" if last else "retryable")
    assert "has not committed" in row["errors"][0]["error"]
    assert written(effects) == []


def test_the_error_of_the_callers_commit_is_that_of_the_attempt(effects, claimed, connection):
    job = claimed()
    with psycopg.connect(effects) as given:
        given.execute("select 1")
        with transaction(effects, job, given):
            pass
        given.rollback()
    job.outcome = settle(job, None, ValueError("no commit today"))
    complete(effects, job)

    assert living(connection, job.id)["errors"][0]["error"] == "ValueError: no commit today"


# What the attempt comes to after its job has ended


@pytest.mark.parametrize(
    ("value", "error", "told"),
    [
        (None, ZeroDivisionError("late"), ["job.failed_after_end"]),
        ({"rows": 2}, None, ["outcome.ignored"]),
        (None, Snooze(5), ["outcome.ignored"]),
        ({"rows": 1}, None, []),
    ],
)
def test_what_an_attempt_comes_to_after_the_end_of_its_job_is_told_and_does_not_count(
    effects, claimed, connection, events, value, error, told
):
    job = claimed()
    with transaction(effects, job, None, {"rows": 1}):
        pass
    job.outcome = settle(job, value, error)
    complete(effects, job)

    assert [event.name for event in events] == told
    assert archived(connection, job.id)["output"] == {"rows": 1}


# A COMMIT without an answer


class Cut:
    """Cut a connection at its first COMMITs, one after the other, as told."""

    def __init__(self, *ways):
        self.left = list(ways)

    def __call__(self, chunk):
        return self.left.pop(0) if b"COMMIT" in chunk and self.left else None


@pytest.fixture
def wire(effects):
    with Proxy(effects) as proxy:
        yield proxy


@pytest.mark.parametrize("kind", ["kept", "unkept"])
@pytest.mark.parametrize("way", BLOCKING[:5])
def test_a_commit_whose_answer_is_lost_has_ended_the_job(effects, wire, claimed, connection, events, way, kind):
    job = claimed(kind)
    wire.cut = Cut("answer")
    with way(wire.url) as given, transaction(wire.url, job, given) as conn:
        drivers.run(conn, WRITE, ())

    assert (written(effects), living(connection, job.id)) == (["written"], None)
    assert fate_of(job.outcome).elsewhere
    assert [(event.name, event.fields["committed"]) for event in events] == [("transaction.asked", True)]


@pytest.mark.parametrize("way", BLOCKING[:5])
def test_a_commit_that_never_arrived_has_failed_the_attempt(effects, wire, claimed, connection, events, way):
    job = claimed()
    wire.cut = Cut("before")
    with pytest.raises(Exception, match=GONE), way(wire.url) as given:
        write(wire.url, job, given, nothing)

    assert (written(effects), living(connection, job.id)["claim"], job.outcome) == ([], CLAIM, None)
    assert [(event.name, event.fields["committed"]) for event in events] == [("transaction.asked", False)]


@pytest.mark.parametrize("way", ["psycopg", "asyncpg", "sqlalchemy_session", "sqlalchemy_session_asyncpg", "own"])
@pytest.mark.parametrize("cut", ["answer", "before"])
def test_in_a_coroutine_a_lost_commit_is_asked_about(effects, wire, claimed, connection, way, cut):
    job = claimed()
    wire.cut = Cut(cut)

    async def run():
        async with AWAITING[way](wire.url) as given:
            await write_async(wire.url, job, given, nothing)

    if cut == "before":
        with pytest.raises(Exception, match=GONE):
            asyncio.run(run())
        assert (written(effects), living(connection, job.id)["claim"], job.outcome) == ([], CLAIM, None)
    else:
        asyncio.run(run())
        assert (written(effects), living(connection, job.id)) == (["written"], None)


def test_a_session_that_hangs_before_its_commit_is_ended_before_the_answer(effects, claimed, connection):
    job = claimed()
    with Proxy(effects, {"commit": "COMMIT"}) as wire:
        wire.lose("commit")
        pids = []
        begun = Transactions(Settings(wire.url, None, Config(statement_timeout=1.0)))
        with pytest.raises(psycopg.OperationalError), begun.begin(job, None, None) as conn:
            pids += drivers.run(conn, "select pg_backend_pid()", ())[0]

        assert execute(effects, "select from pg_stat_activity where pid = %s", *pids) == []
    assert (written(effects), living(connection, job.id)["claim"], job.outcome) == ([], CLAIM, None)


@pytest.mark.parametrize(("way", "state"), [("answer", "completed"), ("before", "retryable")])
def test_where_nobody_answers_the_row_decides(effects, claimed, connection, monkeypatch, way, state):
    monkeypatch.setattr(blocks, "ASKED", 0.0)
    monkeypatch.setattr(pool, "WAIT", 0.2)
    job, cut = claimed(), Cut(way)

    def cut_for_good(chunk):
        told = cut(chunk)
        if told:
            wire._listening.shutdown(socket.SHUT_RDWR)  # nobody can be asked
        return told

    with Proxy(effects) as wire:
        wire.cut = cut_for_good
        with pytest.raises(psycopg.OperationalError), transaction(wire.url, job):
            pass
    assert fate_of(job.outcome).unsure
    complete(effects, job)

    assert (living(connection, job.id) or archived(connection, job.id))["state"] == state


@pytest.mark.parametrize(
    ("status", "before", "ours", "committed"),
    [
        ("in progress", None, True, None),
        ("aborted", None, True, False),
        ("aborted", "in progress", False, False),
        ("committed", None, False, True),
        ("committed", "in progress", True, None),  # the row was looked up a moment earlier
        ("committed", "committed", False, True),
        ("committed", "committed", True, False),  # another transaction has that number, after a failover
        (None, None, True, False),
        (None, None, False, None),
    ],
)
def test_a_transaction_has_committed_if_its_number_and_the_row_say_so(status, before, ours, committed):
    assert has_committed(status, before, ours=ours) is committed


def test_a_number_that_is_yet_to_come_is_that_of_a_transaction_that_was_lost(effects, claimed):
    begun = Transactions(Settings(effects, None, Config()))
    end = begun.begin(claimed(), None, None)._end()
    end.number = str(2**62)

    assert begun.blocks._ask(end) is False
    assert asyncio.run(begun.blocks_async._ask(end)) is False


def test_a_queue_of_notifications_that_is_full_costs_one_attempt_at_most(effects, claimed, connection, full_queue):
    job = claimed(meta=GATED)
    connection.execute("insert into fastq.gate_permit select id, queue, meta ->> 'gates' from fastq.job")
    begun = Transactions(Settings(effects, None, Config()))
    full_queue()
    with pytest.raises(psycopg.Error), begun.begin(job, None, None):
        pass
    with begun.begin(job, None, None):
        pass

    assert archived(connection, job.id)["state"] == "completed"
