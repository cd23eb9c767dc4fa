"""`job.step_transaction()`: a step in one transaction with its record, by any library; once in the life of the job, or never."""

import asyncio
from contextlib import suppress

import psycopg
import pytest
import sqlalchemy

from fastq import Config, FastqError, Job, JobLost
from fastq.adapters import drivers, drivers_async
from fastq.enqueue.settings import Settings
from fastq.errors import StepError
from fastq.postgres.pool.pool import MAX_SIZE
from fastq.results import transacting
from fastq.testing import steps, transactions
from fastq.work.effects.blocks import QUESTIONS
from fastq.work.effects.transaction import Transactions
from fastq.work.steps.reaching import Reaching
from tests.db.jobs import archived
from tests.db.test_effects import (  # noqa: F401 - the last one is a fixture
    AWAITING,
    BLOCKING,
    GONE,
    WRITE,
    Cut,
    awaiting,
    blocking,
    dialect,
    wire,
    written,
)
from tests.db.test_steps import TAKE_AWAY, Shop, SteppedArgs, failing
from tests.helpers import execute
from tests.proxy import Proxy

VALUE = {"number": 7, "text": "na\u00efve \u2603"}


class Till(Shop):
    """A shop whose jobs write to a table of the user's."""

    def __init__(self, url, connection):
        super().__init__(url, connection)
        self.transactions = Transactions(Settings(url, None, Config()))

    def through(self, url):
        """Have the transactions of jobs go another way to the database."""
        self.transactions = Transactions(Settings(url, None, Config()))
        return self

    def call(self, job, work):
        with transacting.beginning_by(self.transactions):
            return super().call(job, work)

    def pay(self, conn, number):
        """Be the function of a step that writes."""
        drivers.run(conn, WRITE, ())
        self.calls.append(number)
        return {**VALUE, "number": number}

    async def pay_async(self, conn, number):
        """Do the same in a coroutine."""
        await drivers_async.run(conn, WRITE, ())
        self.calls.append(number)
        return {**VALUE, "number": number}


@pytest.fixture
def effects(database):
    """Give the URL of a database with a table of the user's."""
    execute(database, "create table effect (name text)")
    return database


@pytest.fixture
def till(effects, connection):
    """Give a job whose attempts the test makes."""
    return Till(effects, connection)


def step(job, given, name, function, *args):
    """Do a step on a connection of the user's, or on one of fastq's."""
    return job.step_transaction(*([] if given is None else [given]), name, function, *args)


@blocking
def test_a_step_and_what_it_writes_are_committed_together_and_once(till, effects, way):
    values = []

    def work(job):
        with way(effects) as given:
            values.append(step(job, given, "pay", till.pay, 7))
        assert written(effects) == ["written"]
        job.step("mail", till.done, "mail")
        if job.attempt == 1:
            failing()

    till.attempt(work)
    till.due()
    till.attempt(work)

    assert archived(till.connection, till.id)["state"] == "completed"
    assert (till.calls, values) == ([7, "mail"], [VALUE, VALUE])
    assert written(effects) == ["written"]
    assert [name for _, name, _ in till.records()] == ["mail", "pay"]


@awaiting
def test_in_a_coroutine_a_step_and_what_it_writes_are_committed_together_and_once(till, effects, way):
    values = []

    async def work(job):
        async with way(effects) as given:
            values.append(await step(job, given, "pay", till.pay_async, 7))
        await job.step("mail", till.done, "mail")
        if job.attempt == 1:
            failing()

    till.attempt(lambda job: asyncio.run(work(job)))
    till.due()
    till.attempt(lambda job: asyncio.run(work(job)))

    assert archived(till.connection, till.id)["state"] == "completed"
    assert (till.calls, values) == ([7, "mail"], [VALUE, VALUE])
    assert written(effects) == ["written"]


def test_nothing_is_there_before_the_commit(till, effects):
    def pay(conn):
        till.pay(conn, 7)
        assert written(effects) == []
        assert till.records() == []

    till.attempt(lambda job: job.step_transaction("pay", pay))

    assert written(effects) == ["written"]


@blocking
def test_a_step_that_raises_writes_nothing_and_is_done_again(till, effects, way):
    def pay(conn, attempt):
        till.pay(conn, attempt)
        if attempt == 1:
            failing()

    def work(job):
        with way(effects) as given:
            step(job, given, "pay", pay, job.attempt)

    till.attempt(work)
    assert (written(effects), till.records()) == ([], [])
    till.due()
    till.attempt(work)

    assert (till.calls, written(effects)) == ([1, 2], ["written"])


def test_a_value_that_cannot_be_kept_rolls_all_back(till, effects):
    def pay(conn):
        till.pay(conn, 7)
        return object()

    error = till.call(till.claim(), lambda job: job.step_transaction("pay", pay))

    assert isinstance(error, StepError)
    assert (written(effects), till.records()) == ([], [])


@blocking
def test_what_a_step_writes_for_a_job_that_was_taken_away_is_rolled_back(till, effects, events, way):
    def pay(conn):
        till.pay(conn, 7)
        till.connection.execute(TAKE_AWAY)

    def work(job):
        with way(effects) as given:
            step(job, given, "pay", pay)

    job = till.claim()
    error = till.call(job, work)
    till.complete(job)

    assert isinstance(error, JobLost)
    assert (written(effects), till.records()) == ([], [])
    assert (till.row()["state"], till.row()["errors"]) == ("available", None)
    assert [event.name for event in events if event.name == "job.lost"] == ["job.lost"]


@awaiting
def test_in_a_coroutine_what_a_step_writes_for_a_job_that_was_taken_away_is_rolled_back(till, effects, way):
    async def pay(conn):
        await till.pay_async(conn, 7)
        till.connection.execute(TAKE_AWAY)

    async def work(job):
        async with way(effects) as given:
            await step(job, given, "pay", pay)

    assert isinstance(till.call(till.claim(), lambda job: asyncio.run(work(job))), JobLost)
    assert (written(effects), till.records()) == ([], [])


def test_a_connection_with_an_open_transaction_is_refused_before_the_step_is_done(till, effects):
    def work(job):
        with psycopg.connect(effects) as given:
            given.execute("select 1")
            job.step_transaction(given, "pay", till.pay, 7)

    error = till.call(till.claim(), work)

    assert "expected a connection on which no transaction is open" in str(error)
    assert (till.calls, written(effects)) == ([], [])


def test_a_connection_in_autocommit_is_refused(till, effects):
    engine = sqlalchemy.create_engine(dialect(effects, "psycopg"), isolation_level="AUTOCOMMIT")

    def work(job):
        with engine.connect() as given:
            job.step_transaction(given, "pay", till.pay, 7)

    error = till.call(till.claim(), work)
    engine.dispose()

    assert isinstance(error, FastqError)
    assert "step 'pay' of job 1: expected a connection on which statements share a transaction" in str(error)
    assert till.records() == []


def test_a_step_within_a_step_is_refused_and_rolls_the_outer_one_back(till, effects):
    def pay(conn, job):
        till.pay(conn, 7)
        job.step("inner", till.done, "inner")

    error = till.call(till.claim(), lambda job: job.step_transaction("pay", pay, job))

    assert "steps do not nest" in str(error)
    assert (till.calls, written(effects), till.records()) == ([7], [], [])


def test_a_step_that_was_done_without_a_transaction_is_done(till, effects):
    def first(job):
        job.step("pay", till.done, "pay")
        failing()

    till.attempt(first)
    till.due()
    till.attempt(lambda job: job.step_transaction("pay", till.pay, 7))

    assert (till.calls, written(effects)) == (["pay"], [])


@pytest.mark.parametrize("way", BLOCKING[:5])
def test_a_commit_whose_answer_is_lost_has_done_the_step(till, wire, effects, events, way):  # noqa: F811 - the fixture
    till.through(wire.url)

    def work(job):
        with way(wire.url) as given:
            assert step(job, given, "pay", till.pay, 7) == VALUE

    wire.cut = Cut("answer")
    job = till.attempt(work)

    assert job.outcome is None
    assert (written(effects), len(till.records())) == (["written"], 1)
    assert [event.fields["committed"] for event in events if event.name == "transaction.asked"] == [True]


@pytest.mark.parametrize("way", BLOCKING[:5])
def test_a_commit_that_never_arrived_has_failed_the_attempt_and_the_next_one_does_the_step(till, wire, effects, events, way):  # noqa: F811
    till.through(wire.url)

    def work(job):
        with way(wire.url) as given:
            step(job, given, "pay", till.pay, job.attempt)

    wire.cut = Cut("before")
    job = till.claim()
    error = till.call(job, work)
    till.complete(job)
    assert isinstance(error, Exception)
    assert (written(effects), till.records(), till.row()["state"]) == ([], [], "retryable")
    assert [event.fields["committed"] for event in events if event.name == "transaction.asked"] == [False]
    till.due()
    till.attempt(work)

    assert (till.calls, written(effects)) == ([1, 2], ["written"])


@pytest.mark.parametrize("way", ["psycopg", "asyncpg", "sqlalchemy_session_asyncpg", "own"])
@pytest.mark.parametrize("cut", ["answer", "before"])
def test_in_a_coroutine_a_lost_commit_of_a_step_is_asked_about(till, wire, effects, way, cut):  # noqa: F811 - the fixture
    till.through(wire.url)

    async def work(job):
        async with AWAITING[way](wire.url) as given:
            await step(job, given, "pay", till.pay_async, 7)

    wire.cut = Cut(cut)
    error = till.call(till.claim(), lambda job: asyncio.run(work(job)))

    assert (error is None) == (cut == "answer")
    assert (written(effects), len(till.records())) == ((["written"], 1) if cut == "answer" else ([], 0))


def test_a_session_that_hangs_before_its_commit_is_ended_before_the_answer(till, effects):
    with Proxy(effects, {"commit": "COMMIT"}) as hanging:
        hanging.lose("commit")
        pids = []
        till.transactions = Transactions(Settings(hanging.url, None, Config(statement_timeout=1.0)))

        def pay(conn):
            pids.append(conn.info.backend_pid)
            till.pay(conn, 7)

        error = till.call(till.claim(), lambda job: job.step_transaction("pay", pay))

        assert isinstance(error, psycopg.OperationalError)
        assert execute(effects, "select from pg_stat_activity where pid = %s", *pids) == []
    assert (written(effects), till.records()) == ([], [])


def test_a_number_that_another_transaction_has_is_not_ours(till, effects):
    """After a failover that has lost commits: the number has committed, and the record is missing."""
    [(number,)] = till.connection.execute("select pg_current_xact_id()::text")
    asked = [till.connection.run_one("step_outcome", number, till.id, "pay", 10) for _ in range(2)]

    assert asked == [("committed", True)] * 2  # as `has_committed` takes for no


def test_progress_in_a_transaction_counts_when_it_is_committed(till, effects):
    till.connection.execute("update fastq.job set max_attempts = 1, meta = '{\"attempts\": 1}'")
    seen = []

    def work(job):
        job.step_transaction("pay", till.pay, 7)
        seen.append(job.max_attempts)
        failing()

    till.attempt(work)

    assert seen == [2]
    assert (till.row()["state"], till.row()["max_attempts"]) == ("retryable", 2)


def test_a_progress_that_was_rolled_back_does_not_count(till, effects):
    till.connection.execute("update fastq.job set max_attempts = 1, meta = '{\"attempts\": 1}'")
    till.attempt(lambda job: job.step_transaction("pay", failing))

    assert archived(till.connection, till.id)["state"] == "discarded"


def test_a_worker_process_that_says_nothing_of_transactions_is_told_so(till):
    job = till.claim()
    Shop.call(till, job, lambda job: job.step_transaction("pay", till.pay, 7))

    assert "step 'pay' of job 1: expected a worker process" in job.outcome.error


@pytest.mark.parametrize("opened", [False, True])
def test_a_job_that_was_made_by_hand_writes_and_remembers_in_memory(effects, till, opened):
    with psycopg.connect(effects, autocommit=not opened) as given, transactions(effects), steps() as remembered:
        if opened:
            given.execute("select 1")  # the test may roll all back
        for _ in range(2):
            assert Job.of(SteppedArgs()).step_transaction(given, "pay", till.pay, 7) == VALUE
        assert remembered.done()["pay"] == VALUE
        assert till.calls == [7]
        given.rollback()

    assert written(effects) == ([] if opened else ["written"])


def test_in_a_coroutine_a_job_that_was_made_by_hand_writes_too(effects, till):
    async def work(job):
        return await job.step_transaction("pay", till.pay_async, 7)

    with transactions(effects):
        assert asyncio.run(work(Job.of(SteppedArgs()))) == VALUE
    assert written(effects) == ["written"]


def test_the_record_goes_through_another_pool_than_that_of_other_steps(till, effects):
    """So a step in a transaction never waits for connections that steps without one hold."""
    till.reaching = Reaching(Settings(effects, None, Config()))

    async def work(job):
        async def one(number):
            await job.step_transaction(f"pay {number}", till.pay_async, number)
            await job.step(f"mail {number}", till.done, number)

        await asyncio.gather(*(one(number) for number in range(20)))

    job = till.attempt(lambda job: asyncio.run(work(job)))

    assert job.outcome is None
    assert len(written(effects)) == 20
    assert len(till.records()) == 40


@pytest.mark.timeout(120)
def test_steps_within_open_transactions_of_jobs_wait_for_none_of_these(till, effects):
    """The blocks of six jobs take all connections that the process has for ends, and each does a step before its end."""

    async def work(job):
        opened = asyncio.Barrier(MAX_SIZE - QUESTIONS)

        async def one(number):
            with suppress(LookupError):
                async with job.transaction():
                    await opened.wait()
                    await job.step_transaction(f"pay {number}", till.pay_async, number)
                    raise LookupError  # or the job would end

        async with asyncio.timeout(60.0):
            await asyncio.gather(*(one(number) for number in range(opened.parties)))

    job = till.attempt(lambda job: asyncio.run(work(job)))

    assert job.outcome is None
    assert len(till.records()) == len(written(effects)) == MAX_SIZE - QUESTIONS
