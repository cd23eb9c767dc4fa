"""The id that `enqueue` returns is a number wherever a number goes, and says whether the job is new."""

import asyncio
import copy
import json
import pickle
from dataclasses import dataclass

import asyncpg
import attrs
import msgspec
import psycopg
import pydantic
import pytest
import sqlalchemy

from fastq import Args, AsyncClient, Client, Enqueued, kind
from fastq.errors import ArgsError
from fastq.jobs.outcome import Output, of_value


@dataclass
class DataArgs(Args, kind="data"):
    parent: int
    by_id: dict[int, list[int]]


@attrs.define
class AttrsArgs(Args, kind="attrs"):
    parent: int
    by_id: dict[int, list[int]]


@kind("struct")
class StructArgs(Args, msgspec.Struct):
    parent: int
    by_id: dict[int, list[int]]


class ModelArgs(Args, pydantic.BaseModel, kind="model"):
    parent: int
    by_id: dict[int, list[int]]


@pytest.fixture
def client(database):
    with Client(database) as opened:
        yield opened


def test_both_clients_say_that_a_job_is_new(client, database):
    async def enqueue():
        async with AsyncClient(database) as other:
            return await other.enqueue(DataArgs(1, {}))

    first, second = client.enqueue(DataArgs(1, {})), asyncio.run(enqueue())

    assert (type(first), type(second)) == (Enqueued, Enqueued)
    assert (first, second, first.new, second.new) == (1, 2, True, True)


@pytest.mark.parametrize("cls", [DataArgs, AttrsArgs, StructArgs, ModelArgs], ids=lambda cls: cls.__name__)
def test_an_id_can_be_in_the_args_of_another_job(client, cls):
    parent = client.enqueue(cls(parent=1, by_id={}))
    child = client.enqueue(cls(parent=parent, by_id={parent: [parent, 2]}))

    assert client.get(child).args == {"parent": 1, "by_id": {"1": [1, 2]}}
    assert client.get(child).id == child


def test_an_id_beside_a_value_that_json_cannot_hold_takes_no_blame(client):
    with pytest.raises(ArgsError, match=r"field 'by_id.*object is unsupported"):
        client.enqueue(DataArgs(Enqueued(1), {1: [Enqueued(2), object()]}))


def test_an_id_can_be_what_a_worker_returns():
    assert of_value({"job": Enqueued(5)}) == (Output('{"job":5}'), None)


def test_an_id_is_a_plain_number_to_whoever_writes_or_stores_it(client, database):
    job_id = client.enqueue(DataArgs(1, {}))

    async def ask():
        connection = await asyncpg.connect(database)
        try:
            return await connection.fetchval("select $1::bigint + 1", job_id)
        finally:
            await connection.close()

    with psycopg.connect(database) as connection:
        assert connection.execute("select %s + 1", (job_id,)).fetchone() == (2,)
    engine = sqlalchemy.create_engine(database.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("select :id + 1"), {"id": job_id}).scalar() == 2
    engine.dispose()
    assert asyncio.run(ask()) == 2
    assert (json.dumps([job_id]), str(job_id), f"{job_id:03}", repr(job_id), {1: "x"}[job_id]) == ("[1]", "1", "001", "1", "x")
    for copied in (pickle.loads(pickle.dumps(job_id)), copy.deepcopy(job_id)):
        assert (type(copied), copied, copied.new) == (Enqueued, 1, True)
