"""Jobs as lines of JSON: exported whole and in their order, imported once each, whatever is interrupted, repeated or wrong."""

import asyncio
import json
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from fastq import Args, AsyncClient, Client, Job, Limit, Registry, Secret, Unique, admin, upgrade, use_keys
from fastq.admin.exports import exporting, importing
from fastq.admin.exports.exported import Head, Line, read
from fastq.args.secret import ring
from fastq.errors import OptionError
from fastq.jobs.job import State
from fastq.workflows.steps import chain
from tests.db.jobs import add, claim, count, living, session
from tests.db.test_search import put
from tests.helpers import create_database, drop_database, wait_for


@dataclass
class NoteArgs(Args, kind="note", queue="notes", tags=["a", "b"], priority=3):
    text: str


@dataclass
class SyncArgs(Args, kind="sync", unique=Unique("account"), gates=[Limit("api", at_most=2, by="account")]):
    account: int


@dataclass
class MailArgs(Args, kind="mail", version=2, aliases=["letter"]):
    to: list[str]


@upgrade(MailArgs, from_version=1)
def one_address_is_a_list(args):
    return {"to": [args["to"]]}


registry = Registry()


@registry.worker
def note(job: Job[NoteArgs]) -> None:
    """Do nothing."""


@registry.worker
def sync(job: Job[SyncArgs]) -> None:
    """Do nothing."""


@registry.worker
def mail(job: Job[MailArgs]) -> None:
    """Do nothing."""


@pytest.fixture
def client(database):
    """Give a client of the database from which jobs are exported."""
    with Client(database) as made:
        yield made


@pytest.fixture(scope="module")
def second(server, migrated_template):
    """Give the URL of another database with the same template, for this module."""
    name = f"{migrated_template}_second"
    yield create_database(server, name, migrated_template)
    drop_database(server, name)


@pytest.fixture
def other(second):
    """Give a client of the other database, which is empty."""
    with psycopg.connect(second, autocommit=True) as owner:
        owner.execute("truncate fastq.job, fastq.job_archive, fastq.once, fastq.unique_key, fastq.gate_event, fastq.dead")
    with Client(second) as made:
        yield made


def exported(client, which=""):
    """Return the jobs of an export, without its head and its end."""
    head, *jobs, end = [json.loads(line) for line in client.jobs.export(which)]
    assert (head["fastq_export"], end) == (1, {"fastq_export_end": len(jobs)})
    return jobs


def rows(url):
    """Return the living jobs of a database by column, in the order of their ids."""
    look = session(url)
    try:
        return [living(look, job) for (job,) in look.execute("select id from fastq.job order by id")]
    finally:
        look.close()


def lines(*jobs, source="there"):
    """Return the lines of an export, written by hand."""
    return [
        json.dumps({"fastq_export": 1, "source": source}),
        *map(json.dumps, jobs),
        json.dumps({"fastq_export_end": len(jobs)}),
    ]


def test_an_export_has_all_of_a_job_that_it_takes_to_enqueue_it_again(client, connection):
    due = datetime(2100, 1, 1, tzinfo=UTC)
    client.enqueue(NoteArgs("x"), at=due, expires=60.0)
    [failed] = put(connection, 1, kind="mail")
    connection.execute("update fastq.job_archive set args = '{\n \"n\": 1.50}', output = '[1,\n2]'")

    first, last = exported(client)

    assert (first["kind"], first["queue"], first["priority"], first["max_attempts"], first["tags"]) == (
        "note",
        "notes",
        3,
        25,
        ["a", "b"],
    )
    assert (first["args"], first["state"], first["scheduled_at"]) == ({"text": "x"}, "scheduled", "2100-01-01T00:00:00Z")
    assert first["meta"] == {"expires": "2100-01-01T00:01:00+00:00"}
    assert (last["id"], last["state"], last["args"], last["output"]) == (failed, "discarded", {"n": 1.5}, [1, 2])
    assert last["errors"]
    assert {"created_at", "finalized_at", "attempt"} <= last.keys()
    assert any('"n": 1.50}' in line for line in client.jobs.export()), "numbers are written as they are stored"


def test_living_jobs_come_in_the_order_of_their_ids_and_then_finished_ones_each_once(client, connection, monkeypatch):
    monkeypatch.setattr(exporting, "LOOK", 7)
    monkeypatch.setattr(exporting, "PAGE", 5)
    monkeypatch.setattr(exporting, "CHUNK", 3)
    ended = {*put(connection, 20)}
    alive = [*add(connection, 30), *add(connection, 1)]
    connection.execute("select setval('fastq.job_id_seq', 5000000)")
    alive += add(connection, 30)

    ids = [job["id"] for job in exported(client)]

    assert ids[: len(alive)] == alive
    assert sorted(ids[len(alive) :]) == sorted(ended)


def test_a_filter_says_which_jobs_are_exported(client, connection):
    add(connection, 3, kind="nap")
    client.enqueue_many([NoteArgs("x"), NoteArgs("y")])
    put(connection, 2, kind="note")

    assert [job["args"] for job in exported(client, "kind:note args.text:y")] == [{"text": "y"}]
    assert {job["state"] for job in exported(client, "kind:note -state:available")} == {"discarded"}
    assert exported(client, "kind:none") == []


def test_jobs_that_end_or_are_retried_while_an_export_runs_come_once(client, connection, monkeypatch):
    monkeypatch.setattr(exporting, "CHUNK", 2)
    alive = add(connection, 6)
    export = client.jobs.export()
    next(export)
    first = json.loads(next(export))  # all are found now, and two of them read
    admin.cancel_jobs(connection, alive)

    rest = [json.loads(line) for line in export]

    assert [job["id"] for job in (first, *rest[:-1])] == alive
    assert [job["state"] for job in rest[:-1]] == ["available", *["cancelled"] * 4]


def test_an_import_makes_new_jobs_of_those_that_have_not_ended(client, connection, other, second, events):
    due = datetime.now(UTC) + timedelta(hours=1)
    client.enqueue(NoteArgs("first"))
    client.enqueue(NoteArgs("later"), at=due)
    put(connection, 2)
    [running] = add(connection, 1, queue="q", kind="note", args='{"text": "r"}')
    claim(connection, queue="q")
    mapped = {}

    told = other.jobs.import_lines(client.jobs.export(), registry=registry, told=mapped.__setitem__)

    assert (told.jobs, told.finished, told.wrong, told.whole) == (3, 2, 0, True)
    first, later, again = rows(second)
    assert mapped == dict(zip([job["id"] for job in exported(client)], [first["id"], later["id"], again["id"]], strict=False))
    assert (first["kind"], first["queue"], first["priority"], first["tags"], first["args"]) == (
        "note", "notes", 3, ["a", "b"], {"text": "first"},
    )  # fmt: skip
    assert (first["state"], later["state"], later["scheduled_at"]) == ("available", "scheduled", due)
    assert (again["state"], again["attempt"], again["meta"]["imported"][1]) == ("available", 0, running)
    assert other.get(again["id"]).imported_from[1] == running
    assert [event.fields["jobs"] for event in events if event.name == "jobs.imported"] == [3]


def test_what_was_imported_before_is_not_enqueued_again_and_an_interrupted_import_goes_on(client, other, second, monkeypatch):
    monkeypatch.setattr(importing, "BATCH", 3)
    client.enqueue_many([NoteArgs(str(n)) for n in range(10)])
    file = [*client.jobs.export()]

    def cut():
        yield from file[:6]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        other.jobs.import_lines(cut())
    assert len(rows(second)) == 3, "whole transactions alone"

    told = other.jobs.import_lines(file)
    again = other.jobs.import_lines(file)
    twice = other.jobs.import_lines([*file, *file[1:]])

    assert (told.jobs, told.before) == (7, 3)
    assert (again.jobs, again.before) == (0, 10)
    assert (twice.jobs, twice.before) == (0, 20)
    assert [row["args"]["text"] for row in rows(second)] == [str(n) for n in range(10)]


def test_two_programs_that_import_the_same_file_at_once_enqueue_each_job_once(client, other, second, monkeypatch):
    monkeypatch.setattr(importing, "BATCH", 5)
    client.enqueue_many([NoteArgs(str(n)) for n in range(60)])
    file = [*client.jobs.export()]
    told = []

    def run():
        with Client(second) as own:
            told.append(own.jobs.import_lines(file))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(one.jobs for one in told) == 60
    assert sum(one.before for one in told) == 180
    assert len({row["args"]["text"] for row in rows(second)}) == len(rows(second)) == 60


def test_a_job_of_a_copy_of_a_database_is_another_one_though_it_has_the_same_id(client, other, second):
    job = {"id": 7, "kind": "note", "args": {}, "created_at": "2026-11-20T10:00:00.000001Z"}

    other.jobs.import_lines(lines(job))
    told = other.jobs.import_lines(lines({**job, "created_at": "2026-11-20T10:00:00.000002Z"}))

    assert (told.jobs, len(rows(second))) == (1, 2)
    assert other.jobs.import_lines(lines(job, source="elsewhere")).jobs == 1


def test_finished_jobs_are_imported_when_asked_for_as_new_ones(client, connection, other, second):
    put(connection, 2, kind="note")
    connection.execute(
        """update fastq.job_archive set meta = '{"cause": "failed", "steps": 3, "parked": ["go", 1], "replay_of": 4}'"""
    )

    told = other.jobs.import_lines(client.jobs.export(), finished=True)

    assert told.jobs == 2
    for row in rows(second):
        assert (row["state"], row["attempt"], row["errors"]) == ("available", 0, None)
        assert row["meta"].keys() == {"imported"}


def test_steps_of_workflows_and_jobs_that_were_asked_to_end_are_left_out(client, connection, other, second):
    client.enqueue_workflow(chain(NoteArgs("a"), NoteArgs("b")))
    add(connection, 1, queue="q")
    [running] = claim(connection, queue="q")
    admin.cancel_jobs(connection, [running.id])

    told = other.jobs.import_lines(client.jobs.export())

    assert (told.jobs, told.steps, told.cancelled, told.skipped) == (0, 2, 1, 3)
    assert rows(second) == []


def test_args_are_read_as_the_worker_will_read_them_and_upgraded(client, connection, other, second):
    add(connection, 1, kind="letter", args='{"to": "ada"}')
    add(connection, 1, kind="mail", args='{"to": ["ada",  "bob"]}', meta='{"version": 2}')
    add(connection, 1, kind="mail", args='{"to": 7}', meta='{"version": 2}')
    add(connection, 1, kind="mail", args="{}", meta='{"version": 3}')
    add(connection, 1, kind="nap")

    told = other.jobs.import_lines(client.jobs.export(), registry=registry)

    assert told.jobs == 2
    assert [(row["kind"], row["args"], row["meta"]["version"]) for row in rows(second)] == [
        ("mail", {"to": ["ada"]}, 2),
        ("mail", {"to": ["ada", "bob"]}, 2),
    ]
    assert [line for line, _ in told.faults] == [4, 5, 6]
    assert "field 'to'" in told.faults[0][1]
    assert "args of version 3: the registry knows kind 'mail' up to version 2" in told.faults[1][1]
    assert "no worker for kind 'nap'" in told.faults[2][1]


GOOD = {"id": 1, "kind": "note", "args": {"text": "x"}}


@pytest.mark.parametrize(
    ("job", "told"),
    [
        ({"id": 1, "kind": "note"}, "args"),
        ({**GOOD, "args": [1]}, "args: expected an object"),
        ({**GOOD, "kind": "no kind"}, "kind 'no kind': expected"),
        ({**GOOD, "queue": "No"}, "queue 'No': expected"),
        ({**GOOD, "priority": 0}, "priority 0: expected"),
        ({**GOOD, "priority": "1"}, "priority"),
        ({**GOOD, "max_attempts": 0}, "max_attempts 0: expected"),
        ({**GOOD, "tags": ["a,b"]}, "tag 'a,b': expected"),
        ({**GOOD, "tags": ["a\x1eb"]}, "tag"),
        ({**GOOD, "args": {"text": "a\0b"}}, "NUL"),
        ({**GOOD, "meta": {"carried": {"a": "a\0b"}}}, "NUL"),
        ({**GOOD, "state": "odd"}, "state"),
        ({**GOOD, "state": "scheduled", "scheduled_at": "soon"}, "scheduled_at"),
        ({**GOOD, "state": "scheduled", "scheduled_at": "2026-11-20T10:00:00"}, "time zone"),
        ({**GOOD, "meta": {"unique": ["x", "end", None]}}, "meta.unique"),
        ({**GOOD, "meta": {"unique": ["ab" * 32, "never", None]}}, "meta.unique"),
        ({**GOOD, "meta": {"gates": "no"}}, "meta.gates"),
        ({**GOOD, "meta": {"gates": 5}}, "meta.gates"),
        ({**GOOD, "meta": {"gates": "[]"}}, "meta.gates"),
        ({**GOOD, "meta": {"version": 0}}, "version 0"),
        ({**GOOD, "meta": {"attempts": "x"}}, "max_attempts 'x'"),
        ({**GOOD, "meta": {"expires": "soon"}, "created_at": "2026-11-20T10:00:00Z"}, "expires"),
        ({**GOOD, "meta": {"expires": {}}, "created_at": "2026-11-20T10:00:00Z"}, "expires"),
        ({**GOOD, "id": ""}, "id ''"),
        ({**GOOD, "id": "a\nb"}, "id 'a"),
        ([1], "expected a job"),
        ("text", "expected a job"),
        ({"fastq_export": 2, "source": "x"}, "format 1"),
        ({"fastq_export": 1, "source": ""}, "source ''"),
        ({"fastq_export": 1}, "source"),
        ({"fastq_export_end": "x"}, "expected a job"),
    ],
    ids=lambda value: json.dumps(value)[:60] if not isinstance(value, str) else "",
)
def test_a_line_that_is_wrong_is_told_with_its_number_and_takes_no_other_with_it(other, second, job, told):
    text = [*lines({**GOOD, "id": 2}), json.dumps(job), json.dumps({**GOOD, "id": 3})]

    dry = other.jobs.import_lines(text, dry_run=True)
    assert rows(second) == []
    done = other.jobs.import_lines(text)

    assert [(one.jobs, one.wrong) for one in (dry, done)] == [(2, 1), (2, 1)]
    assert [line for line, _ in done.faults] == [4]
    assert told in done.faults[0][1]
    assert dry.faults == done.faults


@pytest.mark.parametrize("text", [b"\xff\xfe", b"{", b'{"a":' + b"[" * 5_000, b'{"id": 1, "kind": "note", "args": {"n": 1e999}}'])
def test_a_line_that_is_no_json_is_told_too(other, text):
    told = other.jobs.import_lines([*lines(), text, b"", b"\n"])

    assert (told.wrong, [line for line, _ in told.faults]) == (1, [3])


def test_a_file_that_does_not_begin_as_an_export_is_refused(other):
    with pytest.raises(OptionError, match=r"line 1: expected \{\"fastq_export\": 1"):
        other.jobs.import_lines([json.dumps(GOOD)])
    with pytest.raises(OptionError, match="line 2: expected a job"):
        other.jobs.import_lines(["", "odd"])


def test_a_file_that_was_cut_says_so(other):
    assert other.jobs.import_lines(lines(GOOD)[:-1]).whole is False
    assert other.jobs.import_lines(lines(GOOD)).whole is True


def test_a_job_without_options_has_the_defaults(other, second):
    other.jobs.import_lines(lines({"id": "job-7", "kind": "note", "args": {"text": "x"}}))

    [row] = rows(second)
    assert (row["queue"], row["priority"], row["max_attempts"], row["tags"], row["state"]) == (
        "default",
        1,
        25,
        None,
        "available",
    )
    assert row["meta"] == {"imported": ["there", "job-7"]}


def test_a_unique_job_asks_for_its_key_and_one_whose_key_is_held_is_imported_later(client, other, second):
    client.enqueue(SyncArgs(1))
    client.enqueue(SyncArgs(2))
    file = [*client.jobs.export()]
    holder = other.enqueue(SyncArgs(1))

    first = other.jobs.import_lines(file)
    other.cancel(holder)
    then = other.jobs.import_lines(file)

    assert [(told.jobs, told.held, told.before) for told in (first, then)] == [(1, 1, 0), (1, 0, 1)]
    assert not other.enqueue(SyncArgs(2)).new
    look = session(second)
    assert {row.job_id for row in admin.list_keys(look)} == {row["id"] for row in rows(second)}
    look.close()


def test_of_two_lines_with_one_key_the_first_is_imported(other, second):
    meta = {"unique": ["ab" * 32, "end", None]}

    told = other.jobs.import_lines(lines({**GOOD, "meta": meta}, {**GOOD, "id": 2, "meta": meta}))

    assert (told.jobs, told.held) == (1, 1)
    look = session(second)
    look.execute("delete from fastq.job")
    look.close()
    assert other.jobs.import_lines(lines({**GOOD, "id": 3, "meta": meta}, {**GOOD, "id": 4, "meta": meta})).jobs == 1


def test_a_key_until_success_is_free_when_its_job_has_completed_alone(other, second):
    meta = {"unique": ["ab" * 32, "success", None]}
    look = session(second)
    [holder] = add(look)
    look.execute(
        "insert into fastq.unique_key (key, job_id, until, since) values (decode($1, 'hex'), $2, 'success', now())",
        "ab" * 32,
        holder,
    )
    admin.cancel_jobs(look, [holder])

    held = other.jobs.import_lines(lines({**GOOD, "meta": meta}))
    look.execute("update fastq.job_archive set state = 'completed'")
    free = other.jobs.import_lines(lines({**GOOD, "meta": meta}))
    look.close()

    assert [(told.jobs, told.held) for told in (held, free)] == [(0, 1), (1, 0)]


@pytest.mark.parametrize("of", [None, registry], ids=["raw", "by a registry"])
def test_a_job_with_gates_waits_there(client, other, second, of):
    client.enqueue(SyncArgs(1))

    assert other.jobs.import_lines(client.jobs.export(), registry=of).jobs == 1

    [row] = rows(second)
    assert (row["state"], row["seq"], json.loads(row["waits_for"])[0][:4]) == ("waiting", None, ["limit", "api", 1, 1])
    look = session(second)
    assert count(look, "gate_event") == 1
    look.close()


def test_moments_of_a_job_stay_where_they_are(client, other, second):
    client.enqueue(NoteArgs("x"), expires=3_600.0, deadline=7_200.0)
    client.enqueue(NoteArgs("y"), keep_trying_for=3_600.0)
    before = [client.get(job["id"]) for job in exported(client)]

    other.jobs.import_lines(client.jobs.export())

    after = [other.get(row["id"]) for row in rows(second)]
    for name in ("expires", "deadline", "keep_trying_until"):
        assert [getattr(job, name) for job in after] == [getattr(job, name) for job in before]
    assert after[1].max_attempts == before[1].max_attempts


def test_attempts_that_count_from_the_last_progress_begin_anew(client, connection, other, second):
    add(connection, 1, kind="note", max_attempts=30, meta='{"attempts": 5}')

    other.jobs.import_lines(client.jobs.export())

    [row] = rows(second)
    assert (row["max_attempts"], row["meta"]["attempts"]) == (5, 5)


def test_values_that_hooks_gave_a_job_travel_with_it(client, connection, other, second):
    add(connection, 1, kind="note", meta='{"carried": {"trace": "é\\u2028"}}')

    other.jobs.import_lines(client.jobs.export())

    assert rows(second)[0]["meta"]["carried"] == {"trace": "é\u2028"}


def test_encrypted_args_are_exported_as_they_are_stored_and_opened_to_be_checked_alone(client, other, second):
    @dataclass
    class PayArgs(Args, kind="pay"):
        card: Secret[str]

    paying = Registry()

    @paying.worker
    def pay(job: Job[PayArgs]) -> None:
        """Do nothing."""

    use_keys({"old": bytes(32)})
    try:
        client.enqueue(PayArgs(Secret("4711")))
        file = [*client.jobs.export()]
        use_keys({"none": bytes(range(32))})
        blind = other.jobs.import_lines(file, registry=paying)
        use_keys({"new": bytes(range(32)), "old": bytes(32)})
        told = other.jobs.import_lines(file, registry=paying)
        raw = other.jobs.import_lines([file[0].replace('"source":"', '"source":"x'), *file[1:]])
    finally:
        ring.forget()

    assert "4711" not in "".join(file)
    assert (blind.jobs, blind.wrong) == (0, 1)
    assert "4711" not in blind.faults[0][1]
    assert (told.jobs, raw.jobs) == (1, 1)
    assert {row["args"]["card"]["key"] for row in rows(second)} == {"old"}


def test_both_clients_export_and_import(client, other, second):
    client.enqueue_many([NoteArgs("x"), NoteArgs("y")])

    async def carry():
        async with AsyncClient(client.config.database_url) as source, AsyncClient(second) as target:
            file = [line async for line in source.jobs.export("kind:note")]
            told = await target.jobs.import_lines(file, registry=registry)
            return told, await target.jobs.import_lines(file, dry_run=True)

    told, again = asyncio.run(carry())

    assert (told.jobs, again.jobs, again.before) == (2, 0, 2)


def test_a_format_is_read_as_it_was_written(client):
    client.enqueue(NoteArgs("x"))
    head, job, end = (read(line.encode()) for line in client.jobs.export())

    assert isinstance(head, Head)
    assert isinstance(job, Line)
    assert (job.state, json.loads(bytes(job.args)), end) == (State.AVAILABLE, {"text": "x"}, 1)


def end_others(url):
    """End all other processes of a database, and wait until they are gone."""
    others = "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    with psycopg.connect(url, autocommit=True) as killer:
        killer.execute(f"select pg_terminate_backend(pid) {others}")
        wait_for(lambda: killer.execute(f"select {others}").fetchone() is None, what="the ends of the others")


def test_a_process_of_the_target_that_is_ended_between_two_batches_loses_nothing(client, other, second, monkeypatch):
    monkeypatch.setattr(importing, "BATCH", 2)
    client.enqueue_many([NoteArgs(str(n)) for n in range(6)])
    file = [*client.jobs.export()]

    def lines_and_an_outage():
        for number, line in enumerate(file):
            if number == 4:
                end_others(second)
            yield line

    told = other.jobs.import_lines(lines_and_an_outage())

    assert told.jobs == 6
    assert [row["args"]["text"] for row in rows(second)] == [str(n) for n in range(6)]
