"""Statistics of real worker processes: what they did is what the client is told, in each way of executing."""

import asyncio
import signal

import pytest

from fastq import AsyncClient, Client
from fastq.statistics.bins import ERROR
from fastq.work.codec.timed import SHARE
from tests.helpers import execute, wait_for

pytestmark = [pytest.mark.process, pytest.mark.further]

APP = "tests.process.counted:registry"
SLEPT = 0.05  # s


def rows_of(client, count, by="kind", **which):
    """Wait until so many attempts have been counted; return the rows by name."""

    def counted():
        rows = client.stats(by=by, **which)
        return {row.kind or row.queue: row for row in rows} if sum(sum(row.outcomes.values()) for row in rows) == count else None

    return wait_for(counted, 30.0, f"{count} counted attempts")


def test_after_1_000_jobs_the_statistics_say_1_000(supervise, jobs, database):
    supervise(APP, procs=2, queues="default=4")
    jobs.add_all("plain", [{}] * 900)
    jobs.add_all("plain", [{"what": "raise"}] * 60 + [{"what": "cancel"}] * 40)

    with Client(database) as client:
        [row] = rows_of(client, 1_060).values()
        assert row.outcomes == {"completed": 960, "cancelled": 40, "retryable": 60}
        assert (row.ended, row.failed) == (1_000, 60)
        assert row.enqueued == pytest.approx(1_000, abs=2 * SHARE), (
            "as many as the timed ones stand for, of which some were tried again"
        )
        assert 0 < row.run.timed == row.wait.timed
        assert row.run.attempts == row.wait.attempts
        assert client.stats(by="queue")[0].queue == "default"
        assert client.living() == []


@pytest.mark.further
@pytest.mark.parametrize("kind", ["plain", "awaited", "bundled", "isolated", "transacted"])
def test_each_way_of_executing_is_counted_and_timed(supervise, jobs, database, kind):
    supervise(APP, queues="default=4")
    jobs.add_all(kind, [{"seconds": SLEPT}] * 20)

    with Client(database) as client:
        row = rows_of(client, 20)[kind]

    assert row.outcomes == {"completed": 20}
    assert row.run.attempts == row.wait.attempts == 20
    assert row.run.p50 >= SLEPT / (1 + ERROR)
    assert row.run.mean * row.run.attempts + 1e-6 >= SLEPT * 20


@pytest.mark.further
def test_jobs_that_were_delayed_and_jobs_that_are_tried_again_wait_from_when_they_are_due(supervise, jobs, database):
    supervise(APP, queues="default=4")
    jobs.add_all("plain", [{}] * 10, delay=2.0)
    jobs.add_all("plain", [{"what": "raise"}] * 5, queue="default")

    with Client(database) as client:
        row = rows_of(client, 20)["plain"]

    assert row.outcomes == {"completed": 15, "retryable": 5}
    assert row.wait.attempts == 20
    assert row.wait.p99 < 2.0, "the delay is no waiting"


@pytest.mark.further
def test_a_process_that_stops_writes_its_last_counts_and_one_that_is_killed_loses_them(supervise, jobs, database):
    stopped = supervise(APP, queues="default=4")
    jobs.add_all("plain", [{}] * 30)
    jobs.wait_until_none_is_left()
    stopped.stop()
    assert execute(database, "select sum(jobs)::int from fastq.stat where outcome = 'completed'") == [(30,)]

    killed = supervise(APP, queues="default=4")
    jobs.add_all("plain", [{}] * 30)
    jobs.wait_until_none_is_left()
    killed.send_all(signal.SIGKILL)
    killed.wait()
    [(counted,)] = execute(database, "select sum(jobs)::int from fastq.stat where outcome = 'completed'")
    assert counted <= 60


@pytest.mark.further
def test_with_the_statistics_off_nothing_is_counted(supervise, jobs, database):
    process = supervise(APP, queues="default=4", stats="off")
    jobs.add_all("plain", [{}] * 30)
    jobs.wait_until_none_is_left()
    process.stop()

    assert execute(database, "select count(*) from fastq.stat") == [(0,)]


@pytest.mark.further
def test_an_event_loop_is_told_the_same(database):
    execute(
        database,
        "insert into fastq.stat values (date_trunc('minute', now()), 0, 'q', 'k', 'completed', 7, 0, 0, 0, 0, '{}', '{}');"
        "insert into fastq.job (kind) values ('k')",
    )

    async def ask():
        async with AsyncClient(database) as client:
            return await client.stats(by="kind"), await client.living()

    rows, living = asyncio.run(ask())

    with Client(database) as client:
        told = client.stats(by="kind")
        assert [(row.kind, row.ended, row.run) for row in rows] == [(row.kind, row.ended, row.run) for row in told]
        assert living == client.living()
    assert (living[0].available, living[0].at_least) == (1, False)
