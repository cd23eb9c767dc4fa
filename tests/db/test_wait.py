"""Waiting for jobs: the value that a wait returns, when it does, and how it goes on while the database is away; on both sides."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psycopg
import pytest

from fastq import Args, AsyncClient, Client, Config, Kind, State
from fastq.awaiting import ends, ends_async
from fastq.awaiting.finished import LONGEST, SHORTEST, Looks
from fastq.errors import DatabaseUnavailable, JobFailed, JobNotFound, OptionError, ResultError
from fastq.postgres import embedded
from tests.db.jobs import claim
from tests.db.test_client_waits import end as end_server
from tests.db.test_client_waits import own_server  # noqa: F401 - a fixture
from tests.helpers import wait_for


@dataclass
class Sum:
    total: int


@dataclass
class SumArgs(Args, kind="sum", result=Sum):
    numbers: list[int]


@dataclass
class NapArgs(Args, kind="nap"):
    seconds: float = 0.0


SUM = Kind("sum-kind", dict, result=list[int])


class Awaited:
    """An AsyncClient on an event loop in a thread of its own, so that many threads may call it like a Client."""

    def __init__(self, url):
        self._client = AsyncClient(url)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def __getattr__(self, name):
        def call(*args, **options):
            return asyncio.run_coroutine_threadsafe(getattr(self._client, name)(*args, **options), self._loop).result()

        return call

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.aclose()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(params=[Client, Awaited], ids=["blocking", "async"])
def make_client(request):
    return request.param


@pytest.fixture
def client(make_client, database):
    with make_client(database) as made:
        yield made


@pytest.fixture
def looked(monkeypatch):
    """Give the statements that waits have run."""
    seen = []
    for module, name in ((ends, "Ends"), (ends_async, "AsyncEnds")):
        monkeypatch.setattr(getattr(module, name), "__init__", counting(getattr(module, name).__init__, seen))
    return seen


def counting(begin, seen):
    """Return an `__init__` that notes the names of the statements."""

    def counted(self, read, reached):
        begin(self, lambda name, parameters: (seen.append(name), read(name, parameters))[1], reached)

    return counted


def finish(connection, *ids, state="completed", output=None, error=None):
    """End jobs as a worker process does."""
    claims = {job.id for job in claim(connection)}
    assert claims >= set(ids)
    connection.run(
        "job_finish", sorted(ids), [1 << 32 | 1] * len(ids), [state] * len(ids), [error] * len(ids), [output] * len(ids), None
    )


def later(function):
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def test_a_wait_returns_how_a_job_has_ended_that_had_ended_before(client, connection):
    job = client.enqueue(NapArgs())
    finish(connection, job, output='{"total": 3}')

    ended = client.wait(job, timeout=20)

    assert (ended.id, ended.kind, ended.state, ended.ok, ended.attempt, ended.error) == (
        job,
        "nap",
        State.COMPLETED,
        True,
        1,
        None,
    )
    assert (ended.output, ended.unwrap(), ended.output_json) == ({"total": 3}, {"total": 3}, '{"total": 3}')


def test_a_wait_returns_when_another_process_has_ended_the_job(client, connection):
    job = client.enqueue(NapArgs())
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, job, timeout=20)
        wait_for(lambda: connection.execute("select 1 from pg_stat_activity where application_name = 'fastq client'"))
        assert not waiting.done()

        finish(connection, job, output="7")

        assert waiting.result().unwrap() == 7


def test_a_job_that_was_discarded_or_cancelled_has_ended_and_has_no_output(client, connection):
    lost, stopped = client.enqueue_many([NapArgs(), NapArgs()])
    client.cancel(stopped)
    finish(connection, lost, state="discarded", error='{"error": "boom"}')

    first, second = client.wait_many([lost, stopped], timeout=20)

    assert [(each.state, each.ok, each.output, each.cause) for each in (first, second)] == [
        (State.DISCARDED, False, None, "failed"),
        (State.CANCELLED, False, None, "asked"),
    ]
    with pytest.raises(JobFailed, match=f"job {lost} of kind 'nap' has no output, it was discarded: boom"):
        first.unwrap()


def test_the_output_has_the_type_that_the_kind_declares_or_the_caller_names(client, connection):
    by_class, by_kind, plain = client.enqueue(SumArgs([1])), client.enqueue({}, kind=SUM), client.enqueue(NapArgs())
    finish(connection, by_class, by_kind, plain, output='{"total": 3}')

    assert client.wait(by_class, timeout=20).output == Sum(3)
    assert client.wait(int(by_class), timeout=20).output == {"total": 3}
    assert client.wait(plain, result=Sum, timeout=20).output == Sum(3)
    with pytest.raises(
        ResultError, match=r"the output of job \d+ of kind 'sum-kind' is no list\[int\]: .*output_json has it as it is"
    ):
        _ = client.wait(by_kind, timeout=20).output


def test_the_time_that_is_up_is_a_timeout_and_the_job_goes_on(client, connection):
    job = client.enqueue(NapArgs())

    with pytest.raises(TimeoutError, match=rf"1 of 1 jobs have not ended in 0\.05 s, the first is {job}; they go on"):
        client.wait(job, timeout=0.05)

    assert client.get(job).state is State.AVAILABLE


@pytest.mark.parametrize("job_id", [4711, -1, 2**63])
def test_a_job_that_never_was_is_not_waited_for(client, job_id):
    with pytest.raises(JobNotFound, match=rf"job {job_id}: there is none with this id, or no longer"):
        client.wait(job_id)


@pytest.mark.parametrize("timeout", ["3", True, float("nan")])
def test_a_timeout_is_a_number(client, timeout):
    with pytest.raises(OptionError, match="expected seconds, or None"):
        client.wait(1, timeout=timeout)


def test_a_job_that_is_deleted_while_somebody_waits_is_missing(client, connection):
    job = client.enqueue(NapArgs())
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, job, timeout=20)
        wait_for(lambda: connection.execute("select 1 from pg_stat_activity where application_name = 'fastq client'"))
        connection.execute("delete from fastq.job")

        with pytest.raises(JobNotFound):
            waiting.result()


def test_a_job_of_a_transaction_that_has_not_committed_is_refused_at_once(database):
    with Client(database) as client, psycopg.connect(database) as own:
        job = client.enqueue(NapArgs(), conn=own)

        with pytest.raises(JobNotFound, match=r"enqueued in a transaction of yours .* commit first, then wait"):
            client.wait(job)

        own.commit()
        with pytest.raises(TimeoutError):
            client.wait(job, timeout=0.01)


def test_no_jobs_are_waited_for_without_a_statement(client, looked):
    assert client.wait_many([]) == []
    assert looked == []


def test_an_end_that_bears_an_old_time_is_found(client, connection):
    """As that of a job which a long transaction has ended."""
    job = client.enqueue(NapArgs())
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.wait, job, timeout=20)
        wait_for(lambda: connection.execute("select 1 from pg_stat_activity where application_name = 'fastq client'"))
        claim(connection)
        connection.execute("begin")
        connection.run("job_finish", [job], [1 << 32 | 1], ["completed"], [None], ["1"], None)
        connection.execute("update fastq.job_archive set finalized_at = finalized_at - interval '1 hour'")
        connection.execute("commit")

        assert waiting.result().unwrap() == 1


def test_many_callers_are_served_by_one_that_looks(client, connection, looked):
    ids = client.enqueue_many([NapArgs()] * 40)
    with ThreadPoolExecutor(40) as pool:
        waiting = {job: pool.submit(client.wait, job, timeout=30) for job in ids}
        wait_for(lambda: len(looked) > 10)
        before, began = len(looked), time.monotonic()
        wait_for(lambda: time.monotonic() - began > 0.3, what="some looks to pass")
        assert len(looked) - before <= (time.monotonic() - began) / SHORTEST + 1  # as many as one caller alone makes
        for job in ids:
            finish(connection, job, output=str(int(job))) if job == ids[0] else connection.run(
                "job_finish", [job], [1 << 32 | 1], ["completed"], [None], [str(int(job))], None
            )

        assert {job: each.result().output for job, each in waiting.items()} == {job: job for job in ids}


def test_a_caller_that_gives_up_hands_the_looking_on(client, connection):
    first, second = client.enqueue_many([NapArgs(), NapArgs()])
    with ThreadPoolExecutor(2) as pool:
        brief = pool.submit(client.wait, first, timeout=0.3)
        long = pool.submit(client.wait, second, timeout=30)
        assert isinstance(brief.exception(), TimeoutError)

        finish(connection, second, output="2")

        assert long.result().output == 2


def test_a_task_that_is_cancelled_hands_the_looking_on(database, connection):
    async def run():
        async with AsyncClient(database) as client:
            first, second = await client.enqueue_many([NapArgs(), NapArgs()])
            looking = asyncio.create_task(client.wait(first))
            waiting = asyncio.create_task(client.wait(second, timeout=20))
            await asyncio.sleep(0.05)
            looking.cancel()
            await asyncio.to_thread(finish, connection, second, output="2")
            return (await waiting).output

    assert asyncio.run(run()) == 2


def test_a_wait_goes_on_through_a_restart_of_the_server(make_client, own_server, events):  # noqa: F811 - the fixture
    with make_client(own_server.url) as client:
        job = client.enqueue(NapArgs())
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.wait, job, timeout=60)
            with psycopg.connect(own_server.url, autocommit=True) as looker:
                idle = "select 1 from pg_stat_activity where application_name = 'fastq client'"
                wait_for(lambda: looker.execute(idle).fetchall())
            end_server(own_server)
            wait_for(lambda: [event for event in events if event.name == "wait.interrupted"])
            with embedded.start(own_server.folder) as back:
                with Client(back.url) as operator:
                    operator.cancel(job)

                assert waiting.result().state is State.CANCELLED


def test_the_time_is_up_while_the_server_is_away_too(make_client, own_server):  # noqa: F811 - the fixture
    with make_client(own_server.url) as client:
        job = client.enqueue(NapArgs())
        with pytest.raises(TimeoutError):
            client.wait(job, timeout=0.01)
        end_server(own_server)

        with pytest.raises(TimeoutError):
            client.wait(job, timeout=0.5)


def test_a_server_that_was_never_reached_is_told_at_once(make_client):
    with make_client("postgresql://127.0.0.1:1/none") as client, pytest.raises(DatabaseUnavailable):
        client.wait(1, timeout=60)


def test_looks_become_rare_while_nothing_happens_and_frequent_when_something_has(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("fastq.awaiting.finished.time.monotonic", lambda: now[0])
    looks = Looks()

    assert looks.pause(now[0]) == SHORTEST
    now[0] += 0.16
    assert looks.pause(now[0]) == pytest.approx(0.01)
    now[0] += 60
    assert looks.pause(now[0]) == LONGEST
    looks.took({1}, {1: ()})
    assert looks.pause(now[0]) == SHORTEST
    assert looks.pause(now[0] - 0.2) == pytest.approx(0.2), "a look that takes long is not followed by the next at once"


def test_a_job_is_missing_when_two_looks_have_found_it_nowhere():
    looks = Looks()

    assert looks.took({1, 2}, {1: ()}) == set()
    assert looks.took({2, 3}, {}) == {2}


def test_a_settings_object_is_enough(database):
    with Client(config=Config(database_url=database)) as client, pytest.raises(JobNotFound):
        client.wait(1)
