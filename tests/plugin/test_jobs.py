"""`fastq.testing.Jobs`: a test asks which jobs are enqueued, and has them worked by the real route."""

import asyncio
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from unittest.mock import ANY
from urllib.parse import urlsplit

import psycopg
import pytest

from fastq import Args, AsyncClient, Client, Cron, FastqError, Job, Kind, Limit, Rate, Registry, Worker, Workflow
from fastq.errors import OptionError
from fastq.events import subscribe
from fastq.sql.statements import statement
from fastq.testing import AsyncJobs, Jobs, clock, inline, prepare
from fastq.testing import database as make_database
from tests.helpers import execute
from tests.plugin import app
from tests.plugin.app import AsyncRowArgs, HeavyArgs, MailArgs, PollArgs, RowArgs, registry

THEN = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def prepared(module_database):
    prepare(module_database)
    return module_database


@pytest.fixture
def url(prepared):
    app.TOLD.clear()
    yield prepared
    with psycopg.connect(prepared, autocommit=True) as conn:
        clock.empty(clock.db.Connection(conn, "fastq", prepare=False, timeout=30.0))


@pytest.fixture
def jobs(url):
    made = Jobs(registry, url)
    yield made
    made.close()


@pytest.fixture
def client(url):
    with Client(url) as made:
        yield made


def states(results):
    return [(ran.kind, ran.state) for ran in results]


# What is enqueued.


def test_a_job_is_found_by_its_kind_and_the_fields_of_its_args(jobs, client):
    number = client.enqueue(MailArgs("ada"), priority=2, tags=["vip"])

    found = jobs.assert_enqueued(MailArgs, to="ada", subject=ANY, queue="default", priority=2, tags=["vip"])

    assert (found.id, found.args, found.state) == (number, MailArgs("ada"), "available")
    assert [job.id for job in jobs.enqueued("mail")] == [number]
    assert jobs.assert_enqueued(MailArgs("ada"), count=1).id == number
    assert jobs.enqueued(MailArgs, to="bob") == []
    jobs.assert_not_enqueued(MailArgs, to="bob")


def test_a_job_that_is_missing_is_answered_by_those_that_are_there_the_nearest_first(jobs, client):
    client.enqueue(MailArgs("bob", "bye"))
    client.enqueue(MailArgs("ada", "bye"), priority=3)
    client.enqueue(PollArgs())

    with pytest.raises(AssertionError) as refused:
        jobs.assert_enqueued(MailArgs, to="ada", subject="hello")

    lines = str(refused.value).splitlines()
    assert lines[0] == "expected a job of kind 'mail' with to='ada', subject='hello'; found none"
    assert re.match(r"  job \d+  available  queue='default'  MailArgs\(to='ada', subject='bye'\)", lines[2])
    assert lines[3].strip() == "subject='bye', expected 'hello'"
    assert "MailArgs(to='bob'" in lines[4]
    assert lines[-1] == "of other kinds: 1 of 'poll'"


def test_a_job_that_is_there_and_was_not_to_be_is_shown(jobs, client):
    client.enqueue(MailArgs("ada"))

    with pytest.raises(AssertionError, match=r"expected no job of kind 'mail' with to='ada'; found 1:\n  job \d+"):
        jobs.assert_not_enqueued(MailArgs, to="ada")


def test_a_field_that_the_args_have_not_is_a_mistake_of_the_test(jobs):
    with pytest.raises(OptionError, match=r"too: the args of kind 'mail' have no such field; did you mean to\?"):
        jobs.assert_not_enqueued(MailArgs, too="ada")


def test_a_field_by_the_name_of_a_column_is_given_as_args(jobs, client):
    @dataclass
    class MoveArgs(Args, kind="move"):
        queue: str

    client.enqueue(MoveArgs("left"), queue="right")

    jobs.assert_enqueued(MoveArgs, args={"queue": "left"}, queue="right")
    assert jobs.enqueued(MoveArgs, queue="left") == []


def test_a_job_that_has_ended_is_found_by_its_state_alone(jobs, client):
    client.enqueue(MailArgs("ada"))
    jobs.drain()

    jobs.assert_not_enqueued(MailArgs)
    jobs.assert_enqueued(MailArgs, state="completed")
    with pytest.raises(AssertionError, match="it has ended; ask for state='completed'"):
        jobs.assert_enqueued(MailArgs)


# Jobs at work.


def test_one_job_is_worked_at_a_time_in_the_order_of_priority_and_number(jobs, client):
    for to, priority in (("ada", 2), ("bob", 1), ("cyd", 1)):
        client.enqueue(MailArgs(to), priority=priority)

    first = jobs.work_one()

    assert (first.args, first.state, first.attempt, first.output) == (MailArgs("bob"), "completed", 1, {"sent": "bob"})
    assert [job.args.to for job in jobs.enqueued(MailArgs)] == ["ada", "cyd"]
    assert [ran.args.to for ran in jobs.drain()] == ["cyd", "ada"]
    assert jobs.work_one() is None
    assert app.TOLD == ["before mail", "mail bob", "before mail", "mail cyd", "before mail", "mail ada"]


def test_each_outcome_goes_where_a_worker_process_would_put_it(jobs, client):
    ids = [client.enqueue(PollArgs(url)) for url in ("x", "busy", "gone", "refused", "later", "broken")]

    results = jobs.drain(raising=False)

    assert [ran.state for ran in results] == ["completed", "scheduled", "discarded", "cancelled", "retryable", "retryable"]
    assert [client.get(id_).state for id_ in ids] == [ran.state for ran in results]
    assert client.get(ids[0]).output == "x"
    assert client.get(ids[5]).errors[0]["error"] == results[5].error == "ConnectionError: broken"
    assert isinstance(results[5].exception, ConnectionError)


def test_the_exception_of_a_failed_attempt_is_raised_once_its_outcome_is_written(jobs, client):
    number = client.enqueue(MailArgs("nobody"))

    with pytest.raises(LookupError, match="no such person"):
        jobs.drain()

    assert client.get(number).state == "retryable"


def test_a_decision_that_a_worker_raises_is_no_failure_of_the_test(jobs, client):
    client.enqueue(PollArgs("gone"))

    assert jobs.work_one().state == "discarded"


def test_the_last_attempt_of_a_job_discards_it(jobs, client):
    number = client.enqueue(PollArgs("broken"))

    results = jobs.drain(until=timedelta(days=1), raising=False)

    assert [(ran.attempt, ran.state) for ran in results] == [(1, "retryable"), (2, "retryable"), (3, "discarded")]
    assert client.get(number).state == "discarded"


def test_the_jobs_of_a_batch_worker_come_in_one_call_and_end_each_for_itself(jobs, client):
    client.enqueue_many([RowArgs(1), MailArgs("ada"), RowArgs(7), AsyncRowArgs(3), RowArgs(2), AsyncRowArgs(4)])

    results = jobs.drain(raising=False)

    assert [told for told in app.TOLD if isinstance(told, list)] == [[1, 7, 2], [3, 4]]
    assert sorted(states(results)) == [
        ("async_row", "completed"), ("async_row", "completed"),
        ("mail", "completed"),
        ("row", "completed"), ("row", "completed"), ("row", "retryable"),
    ]  # fmt: skip
    assert [str(ran.exception) for ran in results if ran.exception] == ["seven"]


def test_a_job_that_was_claimed_beside_a_bundle_is_handed_back_uncharged(jobs, client):
    client.enqueue_many([RowArgs(1), MailArgs("ada"), RowArgs(2)])

    assert jobs.work_one().kind == "row"

    assert jobs.assert_enqueued(MailArgs, state="available").attempt == 0


def test_an_isolated_job_runs_in_the_test(jobs, client):
    client.enqueue(HeavyArgs(21))

    assert jobs.work_one().output == 42


def test_a_job_that_a_job_enqueues_is_worked_too_and_a_chain_without_end_is_told(jobs, client, url):
    own = Registry()

    @dataclass
    class LoopArgs(Args, kind="loop"):
        left: int

    @own.register
    class LoopWorker(Worker[LoopArgs]):
        def work(self, job: Job[LoopArgs]) -> None:
            if job.args.left:
                client.enqueue(LoopArgs(job.args.left - 1))

    client.enqueue(LoopArgs(2))
    assert [ran.args.left for ran in jobs.drain(registry=own)] == [2, 1, 0]

    client.enqueue(LoopArgs(1_000))
    with pytest.raises(AssertionError, match="5 attempts have been made and there is still more to do"):
        jobs.drain(registry=own, limit=5)


def test_a_job_without_a_worker_waits_for_one(jobs, client):
    client.enqueue({"x": 1}, kind=Kind("unknown", dict))

    assert jobs.drain() == []
    jobs.assert_enqueued("unknown", state="waiting")


def test_args_that_do_not_decode_fail_their_job_alone(jobs, client, url):
    execute(url, "insert into fastq.job (kind, args) values ('mail', '{}')")
    client.enqueue(MailArgs("ada"))

    assert states(jobs.drain(raising=False)) == [("mail", "retryable"), ("mail", "completed")]


def test_what_pytest_raises_in_a_worker_ends_the_test_in_any_case(jobs, client):
    own = Registry()

    @own.register
    class MailFails(Worker[MailArgs]):
        def work(self, job: Job[MailArgs]) -> None:
            pytest.fail("not so")

    client.enqueue(MailArgs("ada"))
    with pytest.raises(pytest.fail.Exception, match="not so"):
        jobs.drain(registry=own, raising=False)


def test_a_job_cannot_ask_for_jobs_to_be_worked(jobs, client):
    own = Registry()

    @own.register
    class MailDrains(Worker[MailArgs]):
        def work(self, job: Job[MailArgs]) -> None:
            jobs.drain(registry=own)

    client.enqueue(MailArgs("ada"))
    with pytest.raises(FastqError, match="a job has asked for jobs to be worked"):
        jobs.work_one(registry=own)


def test_the_claim_and_the_completion_are_those_of_a_worker_process(jobs, client, monkeypatch):
    sent = []
    real = clock.db.Connection.run_blobs

    def run_blobs(connection, name, params):
        sent.append(name)
        return real(connection, name, params)

    monkeypatch.setattr(clock.db.Connection, "run_blobs", run_blobs)
    client.enqueue(PollArgs("x"))
    jobs.work_one()

    assert "job_claim" in sent
    assert "job_finish" in sent


def test_events_are_those_of_a_worker_process(jobs, client):
    heard = []
    end = subscribe(heard.append)
    client.enqueue(PollArgs("gone"))
    jobs.work_one()
    end()

    assert "job.discarded" in [event.name for event in heard]


# Steps, transactions, notes, logs.


@dataclass
class StepArgs(Args, kind="step"):
    name: str


def test_steps_notes_logs_and_transactions_reach_the_database(jobs, client, url):
    own, told = Registry(logs=True), []

    @own.register
    class StepWorker(Worker[StepArgs]):
        def work(self, job: Job[StepArgs]) -> None:
            job.step("charge", told.append, "charged")
            job.progress(0.5, "half")
            print("said")
            job.sleep(3600)
            with job.transaction() as conn:
                conn.execute("create table effect_of_a_test ()")

    number = client.enqueue(StepArgs("ada"))
    try:
        assert states(jobs.drain(registry=own)) == [("step", "scheduled")]
        assert client.progress(number).fraction == 0.5
        assert states(jobs.drain(registry=own, until=7200)) == [("step", "completed")]
        assert told == ["charged"]
        assert "said" in [line.text for line in client.logs(number)]
        assert execute(url, "select to_regclass('effect_of_a_test') is not null") == [(True,)]
    finally:
        execute(url, "drop table if exists effect_of_a_test")


def test_what_each_job_of_a_drain_prints_is_kept_and_what_the_test_prints_is_not(jobs, client):
    own = Registry(logs=True)

    @own.register
    class MailPrints(Worker[MailArgs]):
        def work(self, job: Job[MailArgs]) -> None:
            print("mail to", job.args.to)

    ids = client.enqueue_many([MailArgs("ada"), MailArgs("bob")])
    print("not of a job")
    jobs.drain(registry=own)

    assert [[line.text for line in client.logs(id_)] for id_ in ids] == [["mail to ada"], ["mail to bob"]]


def test_a_job_that_waits_for_a_signal_goes_on_when_it_has_come(jobs, client):
    own = Registry()

    @own.register
    class StepWaits(Worker[StepArgs]):
        def work(self, job: Job[StepArgs]) -> object:
            return job.wait_for("approved", str).value

    number = client.enqueue(StepArgs("ada"))
    assert states(jobs.drain(registry=own)) == [("step", "waiting")]
    client.signal(number, "approved", "by bob")

    assert [ran.output for ran in jobs.drain(registry=own)] == ["by bob"]


# What a leader does.


@dataclass
class LimitedArgs(Args, kind="limited", gates=[Limit("narrow", at_most=1)]):
    number: int


@dataclass
class RatedArgs(Args, kind="rated", gates=[Rate("slow", at_most=1, per=60)]):
    number: int


def gated(kind):
    own = Registry()

    @own.register
    class GatedWorker(Worker[kind]):
        def work(self, job) -> int:
            return job.args.number

    return own


def test_jobs_go_through_their_gates(jobs, client):
    client.enqueue_many([LimitedArgs(number) for number in range(3)])

    assert [ran.output for ran in jobs.drain(registry=gated(LimitedArgs))] == [0, 1, 2]


def test_a_workflow_is_led_on_and_its_jobs_see_those_before(jobs, client):
    own = Registry()

    @own.register
    class MailTells(Worker[MailArgs]):
        def work(self, job: Job[MailArgs]) -> object:
            return [*(dep.output for dep in job.deps.values()), job.args.to]

    flow = Workflow("mails")
    first = flow.add(MailArgs("ada"), name="first")
    flow.add(MailArgs("bob"), after=[first], name="second")
    client.enqueue_workflow(flow)

    assert [ran.output for ran in jobs.drain(registry=own)] == [["ada"], [["ada"], "bob"]]


def test_periodic_jobs_are_enqueued_when_their_time_has_come(jobs, client):
    own = Registry()

    @own.register
    class MailDaily(Worker[MailArgs]):
        def work(self, job: Job[MailArgs]) -> object:
            return str(job.tick)

    own.periodic("daily", Cron("0 9 * * *"), MailArgs("all"))
    with jobs.frozen(THEN) as now:
        assert jobs.tick(registry=own) == 0
        now.forward(timedelta(days=1))
        assert jobs.tick(registry=own) == 1
        assert [ran.output for ran in jobs.drain(registry=own)] == ["2030-01-02 09:00:00+00:00"]


# The clock.


def test_a_frozen_clock_stands_for_all_that_fastq_asks_it(jobs, client):
    with jobs.frozen(THEN) as now:
        number = client.enqueue(MailArgs("ada"), delay=60)
        assert client.get(number).created_at == THEN
        assert jobs.drain() == []
        now.forward(59)
        assert jobs.drain() == []
        now.forward(1)
        assert states(jobs.drain()) == [("mail", "completed")]
        detail = client.get(number)
        assert detail.attempted_at == detail.finalized_at == now.now == THEN + timedelta(seconds=60)

    assert statement("job_claim") == statement("job_claim")
    assert "test_clock" not in statement("job_claim")
    assert client.get(client.enqueue(MailArgs("bob"))).created_at.year < 2030


def test_a_clock_that_is_ahead_goes_on(jobs, client):
    client.enqueue(MailArgs("ada"), delay=3600)
    assert jobs.drain() == []

    with jobs.travel(timedelta(hours=2)):
        assert states(jobs.drain()) == [("mail", "completed")]


def test_a_rate_goes_by_the_moved_clock(jobs, client):
    own = gated(RatedArgs)
    client.enqueue_many([RatedArgs(number) for number in range(3)])
    with jobs.frozen(THEN) as now:
        assert [ran.output for ran in jobs.drain(registry=own)] == [0]
        now.forward(90)
        assert [ran.output for ran in jobs.drain(registry=own)] == [1]


def test_until_works_each_job_at_its_time(jobs, client):
    client.enqueue(MailArgs("late"), delay=7200)
    client.enqueue(MailArgs("soon"), delay=60)
    client.enqueue(MailArgs("never"), delay=100_000)

    assert [ran.args.to for ran in jobs.drain(until=timedelta(hours=3))] == ["soon", "late"]
    jobs.assert_enqueued(MailArgs, to="never", state="scheduled")


def test_a_time_without_a_zone_is_refused(jobs):
    naive = THEN.replace(tzinfo=None)
    with pytest.raises(OptionError, match="expected a datetime with a time zone"):
        jobs.drain(until=naive)
    with pytest.raises(OptionError, match="expected a datetime with a time zone"), jobs.frozen(naive):
        pass


def test_a_database_that_was_not_prepared_says_so(database):
    jobs = Jobs(registry, database)
    with pytest.raises(FastqError, match=r"call fastq.testing.prepare"), jobs.frozen(THEN):
        pass
    jobs.close()


# Inline, and the event loop.


def test_inline_works_a_job_before_its_enqueue_returns(jobs, client):
    with jobs.inline():
        client.enqueue(MailArgs("ada"))
        assert app.TOLD[-1] == "mail ada"
        client.enqueue_many([MailArgs("bob"), MailArgs("cyd")])
        assert app.TOLD[-1] == "mail cyd"

    client.enqueue(MailArgs("dan"))
    assert app.TOLD[-1] == "mail cyd"


def test_inline_ends_with_its_block_and_with_an_error(url, client):
    before = Client.enqueue
    with pytest.raises(LookupError), inline(registry, url):
        client.enqueue(MailArgs("nobody"))

    assert Client.enqueue is before
    assert "enqueue_workflow" not in vars(Client)


def test_inline_works_the_jobs_of_clients_on_an_event_loop_too(url):
    async def test():
        jobs = AsyncJobs(registry, url)
        async with AsyncClient(url) as client:
            with jobs.inline():
                number = await client.enqueue(PollArgs("x"))
                state = (await client.get(number)).state
        jobs.close()
        return state

    assert asyncio.run(test()) == "completed"


def test_a_test_that_awaits_works_jobs_on_its_own_loop(url):
    async def test():
        jobs = AsyncJobs(registry, url)
        async with AsyncClient(url) as client:
            await client.enqueue_many([PollArgs("x"), MailArgs("ada"), AsyncRowArgs(1), HeavyArgs(2)])
            await jobs.assert_enqueued(PollArgs, url="x")
            with pytest.raises(AssertionError):
                await jobs.assert_not_enqueued(PollArgs)
            first = await jobs.work_one()
            results = await jobs.drain()
            await jobs.assert_not_enqueued(PollArgs)
        jobs.close()
        return [first.state, *(ran.state for ran in results)]

    assert asyncio.run(test()) == ["completed"] * 4


def test_async_jobs_in_a_thread_with_a_running_loop_are_refused(jobs, client):
    client.enqueue(PollArgs("x"))

    async def test():
        jobs.drain()

    with pytest.raises(FastqError, match="expected AsyncJobs"):
        asyncio.run(test())
    assert jobs.assert_enqueued(PollArgs, state="available").attempt == 0
    assert states(jobs.drain()) == [("poll", "completed")]


def test_a_client_of_the_applications_own_leads_to_the_test_for_a_while(jobs, url):
    elsewhere = Client("postgresql://nobody@localhost:1/nowhere")
    jobs.redirect(elsewhere)
    elsewhere.enqueue(MailArgs("ada"))
    jobs.assert_enqueued(MailArgs, to="ada")
    jobs.close()

    assert elsewhere.config.database_url == "postgresql://nobody@localhost:1/nowhere"


def test_a_database_with_jobs_that_was_never_one_of_tests_is_not_emptied(database):
    with Client(database) as client:
        client.enqueue(MailArgs("ada"))

    with pytest.raises(FastqError, match="was never prepared for tests, which delete them all"):
        prepare(database)
    assert execute(database, "select count(*) from fastq.job") == [(1,)]


def test_a_program_without_pytest_gets_a_database_on_a_server(server):
    with make_database(server) as url, Client(url) as client:
        client.enqueue(MailArgs("ada"))
        jobs = Jobs(registry, url)
        assert states(jobs.drain()) == [("mail", "completed")]
        jobs.close()

    assert execute(server, "select count(*) from pg_database where datname = %s", urlsplit(url).path[1:]) == [(0,)]
