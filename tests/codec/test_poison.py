"""Poison: args that plain SQL put past our checks cost their job an attempt with a clear error, and its neighbours nothing."""

import json
import struct
import sys
import time

import pytest
from psycopg import sql

from fastq.args.kinds import Kind
from fastq.config import Config
from fastq.jobs.outcome import failed
from fastq.postgres import db
from fastq.work.codec import codec as door
from fastq.work.codec.claimed import Claimed
from fastq.work.codec.twin import encode_ints as encode_ids
from fastq.work.complete.writer import Writer
from tests.codec.claims import TOKEN, Flat, Nested, workers_of

FLAT, NESTED = Kind("flat", Flat), Kind("nested", Nested)
WORKERS = workers_of(FLAT, NESTED)
DEEP = "[" * 3000 + "]" * 3000  # deeper than a recursive reader goes; Postgres takes it
POISON = {  # args and the field that the error names
    "a number beyond a double": ('{"n": 1, "f": 1e400}', "f"),
    "a number bomb": ('{"n": 1e131071}', "n"),
    "a whole number of 5,000 digits": (f'{{"n": 1, "o": {"9" * 5000}}}', None),
    "a float for a whole number": ('{"n": 1.5}', "n"),
    "a whole number as text": ('{"n": "1"}', "n"),
    "null": ('{"n": null}', "n"),
    "a missing field": ('{"s": "x"}', "n"),
    "no object": ("[1, 2]", ""),
    "only null": ("null", ""),
    "a lone surrogate": ('{"n": 1, "s": "a\\ud800"}', None),
    "a lone surrogate under an unknown key": ('{"n": 1, "x": "\\udc00"}', None),
    "deep nesting in a field": (f'{{"n": {DEEP}}}', None),
    "a megabyte of the wrong type": (f'{{"n": "{"x" * 2**20}"}}', "n"),
}
if sys.version_info < (3, 13):  # later ones go so deep, and skip what nobody asked for
    POISON["deep nesting"] = (f'{{"n": 1, "x": {DEEP}}}', None)
HARMLESS = {  # odd, and yet nothing is lost or changed by reading it
    "NUL": ('{"n": 1, "s": "a\\u0000b"}', Flat(1, s="a\0b")),
    "a whole number beyond 64 bits": ('{"n": 100000000000000000000}', Flat(10**20)),
    "a key twice": ('{"n": 1, "n": 2}', Flat(2)),  # the last one counts, as in jsonb
    "a megabyte of text": (f'{{"n": 1, "s": "{"x" * 2**20}"}}', Flat(1, s="x" * 2**20)),
    "an unknown key with a megabyte": (f'{{"n": 1, "x": "{"x" * 2**20}"}}', Flat(1)),
    "white space": ('\n\t{ "n" :\r 1 } ', Flat(1)),
}


@pytest.fixture
def connection(database):
    opened = db.connect(database, role="test")
    yield opened
    opened.close()


def insert(connection, rows):
    """Put jobs there as plain SQL can; return their ids."""
    text = sql.SQL("insert into fastq.job (kind, args) values ({}, {}) returning id")
    return [connection.execute(text.format(kind, args).as_string(connection.raw))[0][0] for kind, args in rows]


def claim(connection):
    numbers = (TOKEN, 0, 0, 0, 0, 10_000, *[2**62] * 6)
    params = [struct.pack(">q", number) for number in numbers]
    params.insert(1, b"default")
    params.append(encode_ids([]))
    return Claimed("default", TOKEN, connection.run_blobs("job_claim", params)[1])


@pytest.mark.parametrize("neighbour", ["flat", "nested"])
def test_poison_costs_its_job_an_attempt_and_its_neighbours_nothing(codec, connection, database, monkeypatch, neighbour):
    monkeypatch.setattr(door, "_twin", codec)
    good_args = '{"n": 7, "items": ["x"]}'
    rows = [row for args, _ in POISON.values() for row in (("flat", args), (neighbour, good_args), *[("flat", good_args)] * 4)]
    ids = insert(connection, rows)
    good, bad, unknown, _ = door.decode(claim(connection), WORKERS)

    assert unknown == []
    assert sorted(job.id for job in bad) == ids[::6]
    assert [job.id for job in good] == [job_id for place, job_id in enumerate(ids) if place % 6]
    assert {job.args.n for job in good} == {7}
    by_id = {job.id: job for job in bad}
    for (name, (_, field)), job_id in zip(POISON.items(), ids[::6], strict=True):
        assert field in (None, by_id[job_id].outcome.field), name
    complete(bad, good, database)
    states = dict(connection.execute("select id, (state, attempt, jsonb_array_length(errors))::text from fastq.job"))
    assert states == dict.fromkeys(ids[::6], "(retryable,1,1)")
    for job_id, error in connection.execute("select id, errors -> 0 ->> 'error' from fastq.job"):
        assert error.startswith("ArgsError: args of kind 'flat' at position"), job_id
        assert len(error) < 20_000


def complete(bad, good, database):
    """Write the outcomes as the runtime does; the neighbours have completed."""
    for job in bad:
        job.outcome = failed(job, f"ArgsError: {job.outcome}")
    writer = Writer(Config(archive=False), lambda: db.connect(database, role="completer"))
    started = time.monotonic()
    writer.write([*bad, *good])
    writer.session.drop()
    assert time.monotonic() - started < 10  # no batch had to be sent again and again


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_merely_odd_is_read_as_it_is(codec, connection, name):
    args, expected = HARMLESS[name]
    insert(connection, [("flat", '{"n":1}'), ("flat", args), ("flat", '{"n":2}')])
    good, bad, _, _ = door.decode(claim(connection), WORKERS, codec.read)

    assert bad == []
    assert [job.args for job in good] == [Flat(1), expected, Flat(2)]


def test_a_control_character_that_could_pass_for_a_separator_never_gets_in(connection):
    with pytest.raises(db.Error):
        insert(connection, [("flat", '{"n":1,"s":"\x1e"}')])
    with pytest.raises(db.Error):
        insert(connection, [("fl\x1eat", "{}")])
    (job_id,) = insert(connection, [("flat", json.dumps({"n": 1, "s": ",\x1e"}))])
    assert job_id
