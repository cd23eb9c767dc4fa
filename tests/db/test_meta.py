"""What features keep with a job goes with it: from each way to enqueue it to each claim, to the archive, and back."""

import asyncio
import json
import struct
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg
import pytest

from fastq import Args, AsyncClient, Client, Enqueue, Every, Registry, Worker, admin
from fastq.admin import periodic
from fastq.args import meta
from fastq.args.meta import Key
from fastq.cli import main as command
from fastq.errors import FastqError, OptionError
from fastq.jobs import spec
from fastq.lead import definitions
from fastq.schema.migrate import migrate, migrations
from fastq.work.codec import codec
from fastq.work.codec.claimed import Claimed
from tests.db.jobs import CHANNEL, END, ERROR, NO_BOUND, START, add, archived, claim, claim_number, living
from tests.helpers import execute

DEAD = 5
MINE = claim_number(DEAD, 1)
FENCE = ("leader:default", "me", 1)
ODD = 'ü \\ \n\t" \x1e €'
KEPT = {"source": ODD}


@dataclass
class SortArgs(Args, kind="sort"):
    word: str = ""


class SortWorker(Worker[SortArgs]):
    def work(self, job):
        return None


@pytest.fixture
def source(monkeypatch):
    """Declare a key that is an option of `enqueue`, as a feature would."""
    monkeypatch.setattr(meta, "KEYS", dict(meta.KEYS))
    monkeypatch.setattr(meta, "OPTIONS", {})
    monkeypatch.setattr(spec, "OPTIONS", spec.OPTIONS | {"source"})
    return Key("source", str, option=True)


@pytest.fixture
def client(database):
    with Client(database) as opened:
        yield opened


def metas(connection, *ids):
    return [living(connection, job_id)["meta"] for job_id in ids]


def test_a_key_is_enqueued_with_one_job_and_with_none_of_its_neighbours(connection, client, source):
    one, plain = client.enqueue(SortArgs(), source=ODD, tags=["t"]), client.enqueue(SortArgs())

    assert metas(connection, one, plain) == [KEPT, None]


def test_a_key_of_many_jobs_is_the_calls_or_their_own(connection, client, source):
    some = client.enqueue_many([SortArgs(), Enqueue(SortArgs(), source="mail")], source=ODD)
    mixed = client.enqueue_many([SortArgs(), Enqueue(SortArgs(), source=ODD), SortArgs()])
    plain = client.enqueue_many([SortArgs()])

    assert metas(connection, *some) == [KEPT, {"source": "mail"}]
    assert metas(connection, *mixed) == [None, KEPT, None]
    assert metas(connection, *plain) == [None]


def test_a_copy_carries_the_keys(connection, client, source):
    assert client.enqueue_copy([SortArgs("a"), Enqueue(SortArgs("b"), source=ODD), SortArgs("c")]) == 3
    assert client.enqueue_copy([SortArgs("d")], source=ODD, delay=60) == 1

    rows = connection.execute("select args ->> 'word', meta from fastq.job order by id")
    assert rows == [("a", None), ("b", KEPT), ("c", None), ("d", KEPT)]


def test_the_asynchronous_client_and_a_connection_in_another_encoding_carry_the_keys(connection, database, source):
    async def enqueue():
        async with AsyncClient(database) as client:
            return await client.enqueue(SortArgs(), source=ODD)

    with psycopg.connect(database, client_encoding="SJIS") as conn, Client(database) as client:
        other = client.enqueue(SortArgs(), source=ODD, conn=conn)
    assert metas(connection, asyncio.run(enqueue()), other) == [KEPT, KEPT]


@pytest.mark.parametrize(("value", "why"), [(5, "expected str, got int"), ("\0", "NUL"), ("\ud800", "surrogate")])
def test_a_value_that_would_not_come_back_is_refused_before_anything_is_stored(connection, client, source, value, why):
    with pytest.raises(OptionError, match=f"^source .*{why}"):
        client.enqueue(SortArgs(), source=value)
    assert connection.execute("select count(*) from fastq.job") == [(0,)]


def test_a_periodic_job_is_defined_with_its_meta_and_each_of_its_jobs_has_it(connection, monkeypatch):
    registry = Registry()
    registry.periodic("daily", Every(3600), SortArgs())
    kept = registry.periodics["daily"]
    plain = kept.hash
    assert plain == "1c26ca842530d461", "the hash of a definition without meta is what it was before there was any"
    assert definitions.define(connection, registry) == ["daily"]
    with_meta = kept.spec()._replace(meta=json.dumps(KEPT))
    monkeypatch.setattr(kept, "spec", lambda: with_meta)
    assert kept.hash != plain
    assert definitions.define(connection, registry) == ["daily"]
    connection.execute("update fastq.lease set holder = $2, term = $3, expires_at = 'infinity' where name = $1", *FENCE)

    by_hand = periodic.run_periodic(connection, "daily")
    tick = datetime.now(UTC).replace(year=2099)
    connection.run("periodic_enqueue", *FENCE, ["daily"], [kept.hash], [tick], ["daily"], [tick], CHANNEL)

    rows = connection.execute("select id = $1, meta from fastq.job order by id", by_hand)
    assert rows == [(True, KEPT), (False, KEPT)]


def jobs_of(row):
    """Make the jobs of a claim's answer."""
    registry = Registry()
    registry.register(SortWorker)
    good, [], [], [] = codec.decode(Claimed("default", MINE, row), registry.workers)
    return good


def by_turn(connection):
    numbers = [MINE, "default", *START, 100, *[END] * 4, *NO_BOUND]
    packed = [value.encode() if isinstance(value, str) else struct.pack(">q", value) for value in numbers]
    return connection.run_blobs("job_claim", [*packed, codec.encode_ids([])])[1]


def by_part(connection):
    numbers = [MINE, "default", 0, END, *NO_BOUND]
    packed = [value.encode() if isinstance(value, str) else struct.pack(">q", value) for value in numbers]
    return connection.run_blobs("job_claim_part", packed)[1]


def from_waiting(connection):
    connection.execute("update fastq.job set state = 'waiting', seq = null, waits_for = 'worker:sort'")
    ids = [job_id for (job_id,) in connection.execute("select id from fastq.job order by id")]
    return connection.run_blobs("job_claim_waiting", [struct.pack(">q", MINE), codec.encode_ids(ids), b"default"])[1]


@pytest.mark.parametrize("ask", [by_turn, by_part, from_waiting], ids=lambda ask: ask.__name__)
def test_each_claim_tells_tags_and_meta_of_the_jobs_that_have_them(connection, ask):
    both = {"tags": ["a", "b"], "meta": json.dumps(KEPT)}
    for columns in ({}, {"tags": ["t"]}, {"meta": json.dumps(KEPT)}, both, {}):
        add(connection, kind="sort", **columns)

    jobs = jobs_of(ask(connection))

    assert [job.tags for job in jobs] == [(), ("t",), (), ("a", "b"), ()]
    assert [dict(job.meta) for job in jobs] == [{}, {}, KEPT, KEPT, {}]
    for job in jobs:
        with pytest.raises(TypeError):
            job.meta["source"] = "another"


@pytest.mark.parametrize("ask", [by_turn, by_part, from_waiting], ids=lambda ask: ask.__name__)
def test_each_claim_tells_each_column_in_its_place(connection, ask):
    (job_id,) = add(connection, kind="sort", attempt=3, max_attempts=7, args='{"word": "x"}', created_at="2026-01-02 03:04:05.6Z")

    (job,) = jobs_of(answer := ask(connection))

    row = living(connection, job_id)
    assert (job.id, job.attempt, job.max_attempts, job.priority) == (job_id, 4, 7, 1)
    assert (job.kind, job.queue, job.args, job.created_at) == ("sort", "default", SortArgs("x"), row["created_at"])
    assert list(Claimed("default", MINE, answer).seqs) == [row["seq"]]


def test_a_key_is_read_as_an_attribute_of_whatever_has_meta(connection, source):
    class Seen:
        def __init__(self, kept):
            self.meta = kept

        page = source

    add(connection, kind="sort", meta=json.dumps(KEPT))
    (job,) = jobs_of(by_turn(connection))

    assert (Seen(job.meta).page, Seen({}).page, Seen.page) == (ODD, None, source)
    with pytest.raises(FastqError, match="meta key 'source': expected <class 'str'>, got 5"):
        _ = Seen({"source": 5}).page


def test_a_name_in_meta_is_declared_once(source):
    with pytest.raises(ValueError, match="meta key 'source': expected a name of its own"):
        Key("source", int)


@pytest.fixture
def kept(connection):
    """Give the id of a job that has meta and is claimed, while we hold the lease of a leader."""
    connection.execute("update fastq.lease set holder = $2, term = $3, expires_at = 'infinity' where name = $1", *FENCE)
    (job_id,) = add(connection, kind="sort", meta=json.dumps(KEPT))
    claim(connection, MINE)
    return job_id


def retry(connection, job_id, delay=0.0):
    connection.run("job_retry", [job_id], [MINE], [delay], [True], [ERROR], CHANNEL)


def release(connection, job_id):
    connection.run("job_release", [job_id], [MINE], CHANNEL)


def recover(connection, job_id):
    connection.run("job_recover", [job_id], 0, 0, "default", [job_id], 9, DEAD, CHANNEL, ERROR, [], ERROR)


def rescue(connection, job_id):
    attempt = living(connection, job_id)["attempt"]
    connection.run("job_rescue", *FENCE, None, "default", [job_id], [MINE], [attempt], CHANNEL, ERROR)


def wait_and_promote(connection, job_id):
    retry(connection, job_id, 60.0)
    connection.execute("update fastq.job set scheduled_at = clock_timestamp() - interval '1 s'")
    connection.run("job_promote", *FENCE, None, [job_id], CHANNEL)


def wait_and_admit(connection, job_id):
    retry(connection, job_id, float("inf"))
    connection.run("job_admit", *FENCE, None, [job_id], CHANNEL)


@pytest.mark.parametrize(
    "back", [retry, release, recover, rescue, wait_and_promote, wait_and_admit], ids=lambda back: back.__name__
)
def test_a_job_that_comes_back_keeps_its_meta(connection, kept, back):
    back(connection, kept)

    row = living(connection, kept)
    row["meta"].pop("crashed", None)  # a note of its own, for the application's handler of crashes
    assert (row["state"], row["meta"]) == ("available", KEPT)


def complete(connection, job_id):
    connection.run("job_complete_archive", [job_id], [MINE])


def finish(state):
    def end(connection, job_id):
        connection.run("job_finish", [job_id], [MINE], [state], [None], [None], None)

    end.__name__ = state
    return end


def late(connection, job_id):
    connection.run("job_finish_late", [job_id], [MINE], ["cancelled"], [None], ["expired"], [False], None)


def last(end):
    def end_the_last_attempt(connection, job_id):
        connection.execute("update fastq.job set max_attempts = attempt")
        end(connection, job_id)

    end_the_last_attempt.__name__ = f"last_{end.__name__}"
    return end_the_last_attempt


def asked(end):
    def end_what_was_to_be_cancelled(connection, job_id):
        connection.run("job_cancel", [job_id], CHANNEL)
        end(connection, job_id)

    end_what_was_to_be_cancelled.__name__ = f"asked_{end.__name__}"
    return end_what_was_to_be_cancelled


def cancel(connection, job_id):
    release(connection, job_id)
    connection.run("job_cancel", [job_id], CHANNEL)


ENDS = [
    *[(complete, None), (finish("completed"), None), (finish("discarded"), "failed"), (finish("cancelled"), "worker")],
    *[(asked(finish("cancelled")), "asked"), (asked(retry), "asked"), (asked(release), "asked"), (cancel, "asked")],
    *[(late, "expired"), (last(recover), "crashed"), (asked(recover), "asked"), (last(rescue), "lost"), (asked(rescue), "asked")],
]


@pytest.mark.parametrize(("end", "cause"), ENDS, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("before", [None, KEPT], ids=["plain", "kept"])
def test_the_archive_keeps_meta_and_the_cause_of_an_end_that_is_no_success(connection, kept, end, cause, before):
    connection.execute("update fastq.job set meta = $1::text::jsonb", before and json.dumps(before))

    end(connection, kept)

    detail = admin.show_job(connection, kept)
    wanted = {**(before or {}), **({"cause": cause} if cause else {})}
    assert archived(connection, kept)["meta"] == (wanted or None)
    assert (dict(detail.meta), detail.cause) == (wanted, cause)


@pytest.mark.parametrize("before", [None, KEPT], ids=["plain", "kept"])
@pytest.mark.parametrize("end", [complete, finish("discarded")], ids=lambda end: end.__name__)
def test_a_job_that_runs_again_has_its_meta_and_not_the_cause_of_its_end(connection, kept, end, before):
    connection.execute("update fastq.job set meta = $1::text::jsonb", before and json.dumps(before))
    end(connection, kept)

    connection.run("job_rerun", [kept], CHANNEL)

    assert metas(connection, kept) == [before]


def test_the_command_shows_meta_where_there_is_any(connection, database, kept, capsys):
    finish("discarded")(connection, kept)
    (plain,) = add(connection, kind="sort")

    assert command(["jobs", "show", str(kept), "--database", database]) == 0
    assert "\ncause     failed\n" in (shown := capsys.readouterr().out)
    assert "\nmeta      {" in shown
    assert command(["jobs", "show", str(plain), "--database", database]) == 0
    assert "meta" not in capsys.readouterr().out


def test_the_migration_rewrites_no_table_and_keeps_each_row(empty_database, monkeypatch):
    every = migrations()
    monkeypatch.setattr("fastq.schema.migrate.migrations", lambda: [each for each in every if each.version < 5])
    migrate(empty_database)
    execute(empty_database, "insert into fastq.job (kind, tags) values ('sort', '{t}')")
    archive = (
        "fastq.job_archive (id, created_at, finalized_at, state, priority, attempt, max_attempts, crashes, queue, kind, args)"
    )
    execute(
        empty_database, f"insert into {archive} values (7, now(), now(), 'completed', 1, 1, 25, 0, 'default', 'sort', '{{}}')"
    )
    files = "select relname, pg_relation_filenode(oid) from pg_class where relname in ('job', 'job_archive_default', 'periodic')"
    before = execute(empty_database, f"{files} order by 1")

    monkeypatch.undo()
    assert "0005_meta" in migrate(empty_database)

    assert execute(empty_database, f"{files} order by 1") == before
    assert execute(empty_database, "select tags, meta from fastq.job") == [(["t"], None)]
    assert execute(empty_database, "select id, meta from fastq.job_archive") == [(7, None)]
