"""Results in a running cluster: typed outputs, arrays, progress, and waits that survive the death of whoever works the job."""

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal

import psycopg
import pytest

from fastq import AsyncClient, Client, State
from fastq.awaiting.finished import JobProgress
from fastq.errors import ResultError
from tests.helpers import execute, wait_for
from tests.process.results import ArrayArgs, AwaitingCountArgs, Bill, BillArgs, CountArgs, OddArgs

pytestmark = [pytest.mark.process, pytest.mark.further]

APP = "tests.process.results:registry"


@pytest.fixture
def running(supervise):
    return supervise(APP, queues="default=4")


def test_a_program_that_waits_gets_the_type_that_the_worker_has_returned(running, database):
    with Client(database) as client:
        ended = client.wait(client.enqueue(BillArgs([Decimal("1.10"), Decimal("2.20")])), timeout=20)

        assert ended.unwrap() == Bill(Decimal("3.30"), datetime(2026, 11, 19, tzinfo=UTC))
        assert ended.output_json == '{"total":"3.30","at":"2026-11-19T00:00:00Z"}'


def test_arrays_and_scalars_of_numpy_are_kept(running, database):
    with Client(database) as client:
        assert client.wait(client.enqueue(ArrayArgs(3)), timeout=20).output == {"of": [0, 1, 2], "mean": 1.5}


def test_an_output_that_does_not_fit_its_type_is_kept_and_told(running, database):
    with Client(database) as client:
        ended = client.wait(client.enqueue(OddArgs()), timeout=20)

        with pytest.raises(ResultError, match=rf"the output of job {ended.id} of kind 'odd' is no list\[int\]: expected"):
            _ = ended.output
        plain = client.wait(ended.id)  # a number alone knows no type
        assert (plain.state, plain.output) == (State.COMPLETED, {"not": "a list"})
    wait_for(lambda: "output.unfit" in running.log.read_text(), what="the event")


def test_the_last_note_of_a_job_is_written_though_it_has_told_much_more_often_than_once_a_second(running, database):
    with Client(database) as client:
        job = client.enqueue(CountArgs(2_000))
        client.wait(job, timeout=20)

        told = wait_for(lambda: (now := client.progress(job)) and now.fraction == 1.0 and now)
        assert (told.text, told.attempt) == ("at 2000", 1)
        assert client.get(job).progress == told
    [(versions,)] = execute(database, "select n_tup_ins + n_tup_upd from pg_stat_user_tables where relname = 'job_progress'")
    assert versions <= 3


def test_progress_is_seen_while_the_job_runs_and_stays_when_its_process_dies(running, jobs, database):
    with Client(database) as client:
        job = client.enqueue(AwaitingCountArgs(1), max_attempts=3)
        told = wait_for(lambda: client.progress(job))
        assert isinstance(told, JobProgress)
        assert (told.fraction, told.text, told.attempt) == (0.5, "half", 1)
        [line] = jobs.wait_until_told("half")

        os.kill(line.pid, signal.SIGKILL)

        wait_for(lambda: client.progress(job).attempt == 2)


def test_a_wait_survives_the_death_of_the_process_that_works_the_job(running, jobs, database):
    with Client(database) as client, ThreadPoolExecutor(1) as pool:
        job = client.enqueue(AwaitingCountArgs(1), max_attempts=3)
        waiting = pool.submit(client.wait, job, timeout=60)
        [line] = jobs.wait_until_told("half")

        os.kill(line.pid, signal.SIGKILL)
        wait_for(lambda: len(jobs.wait_until_told("half")) == 2)
        client.cancel(job)

        assert waiting.result().state is State.CANCELLED


def test_a_process_whose_jobs_tell_nothing_has_no_session_for_it(running, database):
    with Client(database) as client, psycopg.connect(database, autocommit=True) as connection:
        client.wait(client.enqueue(ArrayArgs(1)), timeout=20)
        sessions = "select count(*) from pg_stat_activity where application_name like '%progress%'"
        assert connection.execute(sessions).fetchone() == (0,)

        client.wait(client.enqueue(CountArgs(1)), timeout=20)
        wait_for(lambda: connection.execute(sessions).fetchone() == (1,))


def test_an_event_loop_sees_it_too(running, database):
    async def look(job):
        async with AsyncClient(database) as client:
            return await client.progress(job), await client.progress(4711)

    with Client(database) as client:
        job = client.enqueue(CountArgs(1))
        wait_for(lambda: client.progress(job))
        told, none = asyncio.run(look(job))

        assert (told.fraction, none) == (1.0, None)
