"""`with client.batch(...)`: all jobs of the block or none, enqueued at its end as one workflow."""

import asyncio
from dataclasses import dataclass

import psycopg
import pytest

from fastq import Args, AsyncClient, Client, Enqueue, chain
from fastq.errors import ArgsError, OptionError, WorkflowError
from tests.helpers import execute


@dataclass
class MailArgs(Args, kind="mail"):
    to: str


def test_the_jobs_of_a_block_are_one_workflow(database):
    with Client(database) as client:
        with client.batch("mails", on_finish=MailArgs("ops")) as batch:
            batch.add(MailArgs("ada"), name="first")
            batch.add(Enqueue(MailArgs("grace"), priority=3))
            batch.add(chain(MailArgs("a"), MailArgs("b")))
            assert execute(database, "select count(*) from fastq.job") == [(0,)]
        row = client.workflow(batch.started.id)

    assert (row.name, row.steps, row.state) == ("mails", 4, "running")
    assert batch.started.jobs == {"first": batch.started.ids[0]}
    assert execute(database, "select args ->> 'to', state::text, priority from fastq.job order by id") == [
        ("ada", "available", 1),
        ("grace", "available", 3),
        ("a", "available", 1),
        ("b", "waiting", 1),
    ]


@pytest.mark.parametrize(("second", "error"), [(None, OptionError), (MailArgs("\0"), ArgsError)])
def test_a_block_that_raises_enqueues_nothing(database, second, error):
    def enqueue(client):
        with client.batch() as batch:
            batch.add(MailArgs("ada"))
            batch.add(second)

    with Client(database) as client, pytest.raises(error):
        enqueue(client)

    assert execute(database, "select (select count(*) from fastq.job) + (select count(*) from fastq.workflow)") == [(0,)]


def test_a_batch_is_part_of_the_caller_s_transaction(database):
    with Client(database) as client, psycopg.connect(database) as conn:
        with client.batch(conn=conn) as batch:
            batch.add(MailArgs("ada"))
        assert execute(database, "select count(*) from fastq.job") == [(0,)]
        conn.rollback()

        assert client.workflow(batch.started.id) is None


def test_an_empty_batch_has_ended_and_calls_back(database):
    with Client(database) as client:
        with client.batch(on_success=MailArgs("done"), on_finish=MailArgs("over"), on_discard=MailArgs("bad")) as batch:
            pass
        row = client.workflow(batch.started.id)

    assert (row.steps, row.state, row.ended_at is not None) == (0, "completed", True)
    assert sorted(execute(database, "select args ->> 'to' from fastq.job")) == [("done",), ("over",)]


def test_a_batch_in_an_event_loop_is_the_same(database):
    async def enqueue():
        async with AsyncClient(database) as client:
            async with client.batch("mails") as batch:
                batch.add(MailArgs("ada"))
            return await client.workflow(batch.started.id)

    assert asyncio.run(enqueue()).steps == 1


def test_a_job_without_a_workflow_has_none_to_add_to(database):
    with Client(database) as client:
        with pytest.raises(WorkflowError, match=r"job\.workflow is None in a job that is in none"):
            client.add_to_workflow(None, [MailArgs("ada")])
        assert client.workflow(None) is None
