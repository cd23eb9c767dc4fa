"""Enqueueing with `Client`: what is stored, what is refused, whose transaction it is in, and who is woken."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import TypedDict
from zoneinfo import ZoneInfo

import psycopg
import pydantic
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from fastq import Args, Client, Config, Enqueue, Kind, admin
from fastq.admin.search import list_jobs
from fastq.errors import ArgsError, ConfigError, DatabaseUnavailable, MigrationError, OptionError, UnknownKind
from fastq.jobs.job import EARLIEST, LATEST
from fastq.postgres.pool import pool, wake_limiter
from tests.helpers import Stopwatch, drop_database, execute, url_of, wait_for
from tests.proxy import Proxy

NASTY = 'back\\slash "quote" {brace} \\N NULL , $1 %s é 🦉 \n\t\r \x1f'
TAGS = ["plain", "NULL", 'q"uote', "back\\slash", "{brace}", "two words", "é🦉"]


@dataclass
class SortArgs(Args, kind="sort"):
    strings: list[str]


@dataclass
class SlowArgs(Args, kind="slow", queue="slow", priority=3, max_attempts=7, tags=["kind"]):
    n: int


class MailDict(TypedDict):
    to: str


MAIL = Kind("mail", MailDict, queue="mails")


@pytest.fixture
def client(database):
    with Client(database) as client:
        yield client


class Listener:
    """Hear who is woken."""

    def __init__(self, url, channel="fastq"):
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute(f'listen "{channel}"')

    def heard(self, timeout=5.0, stop_after=1):
        return [notify.payload for notify in self.connection.notifies(timeout=timeout, stop_after=stop_after)]

    def silent(self, url):
        """Tell that nothing comes: a mark that is sent now arrives first."""
        execute(url, "select pg_notify('fastq', '<mark>')")
        return self.heard() == ["<mark>"]


@pytest.fixture
def listener(database):
    listener = Listener(database)
    yield listener
    listener.connection.close()


def jobs(url, columns="kind, queue, priority, max_attempts, args, tags, state::text"):
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute(f"select id, {columns} from fastq.job order by id").fetchall()


def count(url):
    [(number,)] = execute(url, "select count(*) from fastq.job")
    return number


def enqueue_one(client, *items, **options):
    for item in items:
        client.enqueue(item, **options)


def enqueue_many(client, *items, **options):
    client.enqueue_many(items, **options)


def enqueue_copy(client, *items, **options):
    client.enqueue_copy(items, **options)


ways = pytest.mark.parametrize("enqueue", [enqueue_one, enqueue_many, enqueue_copy])


# What is stored


@ways
def test_a_job_is_stored_with_the_defaults(enqueue, client, database):
    enqueue(client, SortArgs(["whale", "tiger"]))

    [job] = jobs(database)
    del job["id"]
    assert job == {
        "kind": "sort",
        "queue": "default",
        "priority": 1,
        "max_attempts": 25,
        "args": {"strings": ["whale", "tiger"]},
        "tags": None,
        "state": "available",
    }


@ways
def test_an_option_of_the_call_comes_before_the_kinds(enqueue, client, database):
    enqueue(client, SlowArgs(1))
    enqueue(client, SlowArgs(2), queue="other", priority=4, max_attempts=1, tags=["call"])

    kinds, calls = jobs(database, "queue, priority, max_attempts, tags")
    assert list(kinds.values())[1:] == ["slow", 3, 7, ["kind"]]
    assert list(calls.values())[1:] == ["other", 4, 1, ["call"]]


@ways
def test_no_tags_at_all_is_a_choice_and_none_is_none(enqueue, client, database):
    enqueue(client, SlowArgs(1), tags=[])
    enqueue(client, SlowArgs(2), tags=None)

    assert [job["tags"] for job in jobs(database, "tags")] == [None, ["kind"]]


@pytest.mark.parametrize("enqueue", [enqueue_many, enqueue_copy])
def test_a_jobs_own_option_comes_before_the_calls(enqueue, client, database):
    enqueue(client, SlowArgs(1), Enqueue(SlowArgs(2), priority=2, tags=["own"]), priority=4, tags=["call"])

    rows = jobs(database, "queue, priority, tags")
    assert [list(row.values())[1:] for row in rows] == [["slow", 4, ["call"]], ["slow", 2, ["own"]]]


@ways
def test_every_character_of_args_and_tags_arrives(enqueue, client, database):
    enqueue(client, SortArgs([NASTY, ""]), SortArgs([]), tags=TAGS)

    first, second = jobs(database, "args, tags")
    assert first["args"] == {"strings": [NASTY, ""]}
    assert second["args"] == {"strings": []}
    assert first["tags"] == second["tags"] == TAGS


@ways
@pytest.mark.parametrize("poll_only", [False, True])
def test_every_character_arrives_whatever_encoding_the_environment_names(enqueue, poll_only, database, monkeypatch):
    with monkeypatch.context() as environment, Client(config=Config(database_url=database, poll_only=poll_only)) as client:
        environment.setenv("PGCLIENTENCODING", "LATIN1")
        enqueue(client, SortArgs(["é", "日本", NASTY]), tags=TAGS)

    [job] = jobs(database, "args, tags")
    assert (job["args"]["strings"], job["tags"]) == (["é", "日本", NASTY], TAGS)


@ways
def test_args_without_a_class_are_enqueued_by_their_kind(enqueue, client, database):
    enqueue(client, MailDict(to="a@b"), kind=MAIL)

    [job] = jobs(database)
    assert (job["kind"], job["queue"], job["args"]) == ("mail", "mails", {"to": "a@b"})


def test_the_ids_come_back_in_the_order_of_the_jobs(client, database):
    first = client.enqueue(SortArgs(["first"]))
    ids = client.enqueue_many(
        Enqueue(SlowArgs(n), priority=1 + n % 4, delay=n % 3 or None) if n % 2 else SlowArgs(n) for n in range(500)
    )

    stored = {job["id"]: job["args"] for job in jobs(database)}
    assert [stored[job_id] for job_id in [first, *ids]] == [{"strings": ["first"]}, *({"n": n} for n in range(500))]
    assert [stored[job_id]["n"] for job_id in sorted(ids)] == list(range(500))


def test_jobs_of_several_kinds_go_in_one_statement(client, database):
    client.enqueue_many([SortArgs(["a"]), Enqueue(MailDict(to="x"), kind=MAIL), SlowArgs(1)])

    assert [(job["kind"], job["queue"]) for job in jobs(database)] == [("sort", "default"), ("mail", "mails"), ("slow", "slow")]


def test_nothing_to_enqueue_is_nothing_done(client, database):
    assert client.enqueue_many([]) == []
    assert client.enqueue_copy([]) == 0
    assert count(database) == 0


# When


@ways
@pytest.mark.parametrize("delay", [3600, 3600.5, timedelta(hours=1)])
def test_a_delayed_job_is_scheduled_by_the_databases_clock(enqueue, delay, client, database):
    enqueue(client, SortArgs([]), delay=delay)

    [job] = jobs(database, "state::text, seq, scheduled_at - clock_timestamp() as left")
    assert (job["state"], job["seq"]) == ("scheduled", None)
    assert timedelta(minutes=59) < job["left"] <= timedelta(hours=1, seconds=1)


@ways
def test_a_job_for_a_time_is_scheduled_for_that_very_time(enqueue, client, database):
    at = datetime.now(UTC).replace(microsecond=123_456) + timedelta(days=1)
    enqueue(client, SortArgs([]), at=at)

    [job] = jobs(database, "state::text, seq, scheduled_at")
    assert (job["state"], job["seq"], job["scheduled_at"]) == ("scheduled", None, at)


@pytest.mark.parametrize("enqueue", [enqueue_one, enqueue_many])
def test_a_job_for_a_time_that_has_passed_is_available(enqueue, client, database, listener):
    enqueue(client, SortArgs([]), at=datetime.now(UTC) - timedelta(seconds=1))

    [job] = jobs(database, "state::text, seq, scheduled_at")
    assert (job["state"], job["scheduled_at"]) == ("available", None)
    assert job["seq"] is not None
    assert listener.heard() == ["default"]


FAR = [
    "infinity",
    "-infinity",
    "10000-01-01",
    "9999-12-31 23:59:59.9+00",
    "0001-01-01 00:00+00",
    "0044-03-15 BC",
    "4713-01-01 BC",
]


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/Adak"])
def test_a_job_is_read_whatever_times_it_has(zone, client, database):
    for at in FAR:
        insert = "insert into fastq.job (kind, args, state, seq, scheduled_at) values ('sort', '{}', 'scheduled', null, %s)"
        execute(database, insert, at)
    execute(database, f"alter database {conninfo_to_dict(database)['dbname']} set timezone to '{zone}'")
    ids = [job_id for (job_id,) in execute(database, "select id from fastq.job order by id")]

    told = [client.get(job_id).scheduled_at for job_id in ids]

    assert told == [LATEST, EARLIEST, LATEST, LATEST, EARLIEST, EARLIEST, EARLIEST]
    assert [at.astimezone(ZoneInfo("Pacific/Kiritimati")).year for at in told[:2]] == [9999, 1]
    connection = admin.connect(Config(database_url=database), database)
    assert [job.scheduled_at for job in list_jobs(connection).jobs] == told[::-1]
    connection.close()


@ways
def test_the_first_and_the_last_time_that_may_be_given_come_back(enqueue, client, database):
    enqueue(client, SortArgs([]), at=LATEST)
    [job] = jobs(database)

    assert client.get(job["id"]).scheduled_at == LATEST
    enqueue(client, SortArgs([]), at=EARLIEST)


def test_the_ids_are_numbers_whatever_the_callers_connection_makes_of_them(client, database):
    class AsText(psycopg.adapt.Loader):
        def load(self, data):
            return bytes(data).decode()

    with psycopg.connect(database) as connection:
        connection.adapters.register_loader("int8", AsText)
        ids = [client.enqueue(SortArgs([]), conn=connection), *client.enqueue_many([SortArgs([])] * 2, conn=connection)]
        assert client.enqueue_copy([SortArgs([])], conn=connection, delay=60) == 1

    assert ids == [1, 2, 3]


@ways
def test_no_delay_is_now(enqueue, client, database):
    enqueue(client, SortArgs([]), delay=0)

    assert [job["state"] for job in jobs(database)] == ["available"]


# What is refused


@ways
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue": "No Queue"}, "queue 'No Queue'"),
        ({"priority": 5}, "priority 5"),
        ({"max_attempts": 0}, "max_attempts 0"),
        ({"tags": "one"}, "expected a list of strings"),
        ({"tags": ""}, "expected a list of strings"),
        ({"tags": 0}, "expected a list of strings"),
        ({"delay": -1}, "delay -1: expected seconds from 0"),
        ({"delay": float("nan")}, "delay nan"),
        ({"delay": "60"}, "delay '60'"),
        ({"at": datetime(2030, 1, 1)}, "expected a datetime with a time zone"),  # noqa: DTZ001 - the very fault
        ({"delay": 10**5000}, "delay a number of 16610 bits: expected seconds from 0"),
        ({"delay": timedelta.max}, "delay datetime.timedelta"),
        ({"at": datetime.min.replace(tzinfo=UTC)}, "expected a time from 0001-01-02 to 9999-12-30"),
        ({"at": datetime.max.replace(tzinfo=UTC)}, "expected a time from 0001-01-02 to 9999-12-30"),
        ({"at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))}, "cannot be read back"),
        ({"at": datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))}, "cannot be read back"),
        ({"delay": 1, "at": datetime.now(UTC)}, "expected a delay or a time, got both"),
        (
            {"delays": 60, "bogus": 1},
            "unknown option bogus, delays; expected one of queue, priority, max_attempts, delay, at, tags",
        ),
    ],
)
def test_a_bad_option_is_refused_and_nothing_is_stored(enqueue, options, message, client, database):
    with pytest.raises(OptionError, match=message):
        enqueue(client, SortArgs([]), **options)

    assert count(database) == 0


@pytest.mark.parametrize("enqueue", [enqueue_many, enqueue_copy])
def test_an_unknown_option_is_refused_though_there_is_nothing_to_enqueue(enqueue, client):
    with pytest.raises(OptionError, match="unknown option delays"):
        enqueue(client, delays=60)


def test_an_unknown_option_of_one_job_is_refused_where_it_is_written():
    with pytest.raises(OptionError, match="unknown option delays"):
        Enqueue(SlowArgs(1), delays=60)


@pytest.mark.parametrize("enqueue", [enqueue_many, enqueue_copy])
def test_one_job_that_is_refused_refuses_them_all_and_is_named(enqueue, client, database):
    items = [SlowArgs(n) for n in range(30_000)]
    items[29_000] = SlowArgs(2**70)

    with pytest.raises(ArgsError, match="args of kind 'slow' at position 29000, field 'n'"):
        enqueue(client, *items)
    assert count(database) == 0
    enqueue(client, SlowArgs(1))
    assert count(database) == 1


@ways
def test_args_that_are_larger_than_allowed_are_refused(enqueue, database):
    with Client(config=Config(database_url=database, max_args_bytes=100)) as client:
        enqueue(client, SortArgs(["x" * 50]))
        with pytest.raises(ArgsError, match="100 allowed"):
            enqueue(client, SortArgs(["x" * 100]))

    assert count(database) == 1


@ways
def test_what_is_no_args_is_refused(enqueue, client, database):
    with pytest.raises(UnknownKind, match="str is no Args class"):
        enqueue(client, "sort")

    assert count(database) == 0


@pytest.mark.parametrize("enqueue", [enqueue_many, enqueue_copy])
def test_a_job_that_is_refused_for_its_options_or_its_kind_is_named(enqueue, client, database):
    with pytest.raises(OptionError, match="at position 1: priority 9: expected"):
        enqueue(client, SortArgs([]), Enqueue(SortArgs([]), priority=9))
    with pytest.raises(UnknownKind, match="at position 1: dict is no Args class"):
        enqueue(client, SortArgs([]), {"strings": []})
    with pytest.raises(OptionError, match=r"^priority 9: expected"):
        enqueue(client, SortArgs([]), priority=9)

    assert count(database) == 0


class PydanticArgs(Args, pydantic.BaseModel, kind="model"):
    n: int


async def asynchronous():
    yield SortArgs([])


@pytest.mark.parametrize("method", ["enqueue_many", "enqueue_copy"])
@pytest.mark.parametrize(
    ("items", "message"),
    [
        (SortArgs([]), r"expected an iterable of args, got one SortArgs; for one job: enqueue\(args\)"),
        (PydanticArgs(n=1), "expected an iterable of args, got one PydanticArgs; for one job"),
        (Enqueue(SortArgs([])), "expected an iterable of args, got one Enqueue; for one job"),
        (asynchronous(), "expected an iterable of args, got one async_generator; collect them first"),
    ],
)
def test_what_is_not_several_is_refused(method, items, message, client):
    with pytest.raises(OptionError, match=message):
        getattr(client, method)(items)


def test_several_jobs_are_not_one(client):
    with pytest.raises(UnknownKind, match="got a list: enqueue_many takes several"):
        client.enqueue([SortArgs([])])
    with pytest.raises(OptionError, match=r"got an Enqueue, which is for enqueue_many"):
        client.enqueue(Enqueue(SortArgs([])))


def test_a_copy_takes_one_time_for_all_its_jobs(client, database):
    with pytest.raises(OptionError, match="one delay or time for all"):
        client.enqueue_copy([SortArgs([]), Enqueue(SortArgs([]), delay=1)])

    assert count(database) == 0


# Whose transaction


@ways
def test_in_the_callers_transaction_a_job_comes_and_goes_with_it(enqueue, client, database):
    with psycopg.connect(database) as connection:
        enqueue(client, SortArgs(["gone"]), conn=connection)
        connection.rollback()
        assert count(database) == 0

        enqueue(client, SortArgs(["there"]), conn=connection)
        assert count(database) == 0
        connection.commit()
        assert count(database) == 1


@ways
def test_the_callers_listeners_are_woken_at_the_commit_and_once(enqueue, client, database, listener):
    with psycopg.connect(database) as connection:
        for _ in range(5):
            enqueue(client, SortArgs([]), conn=connection)
            enqueue(client, SlowArgs(1), conn=connection, delay=60)
        assert listener.silent(database)
        connection.commit()

    execute(database, "select pg_notify('fastq', '<mark>')")
    assert sorted(listener.heard(stop_after=3)) == ["<mark>", "@due", "default"]


@ways
def test_a_connection_that_its_owner_has_set_up_oddly_will_do(enqueue, client, database):
    with psycopg.connect(database, row_factory=dict_row, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute("set search_path = pg_temp")
        connection.execute("set datestyle = 'sql, dmy'")
        connection.execute("set timezone = 'Asia/Kolkata'")
        enqueue(client, SortArgs([NASTY]), conn=connection, tags=TAGS, at=datetime.now(UTC) + timedelta(days=1))

    [job] = jobs(database, "args, tags, state::text")
    assert (job["args"]["strings"], job["tags"], job["state"]) == ([NASTY], TAGS, "scheduled")


@pytest.mark.parametrize("enqueue", [enqueue_one, enqueue_many])
def test_a_connection_in_pipeline_mode_will_do(enqueue, client, database):
    with psycopg.connect(database) as connection, connection.pipeline():
        connection.execute("select 1")
        enqueue(client, SortArgs([]), conn=connection)

    assert count(database) == 1


@ways
def test_on_an_autocommit_connection_a_job_is_there_at_once(enqueue, client, database):
    with psycopg.connect(database, autocommit=True) as connection:
        enqueue(client, SortArgs([]), conn=connection)
        assert count(database) == 1


def test_a_savepoint_takes_its_jobs_back(client, database):
    with psycopg.connect(database) as connection:
        client.enqueue(SortArgs(["kept"]), conn=connection)
        with connection.transaction() as savepoint:
            client.enqueue(SortArgs(["taken back"]), conn=connection)
            raise psycopg.Rollback(savepoint)

    assert [job["args"]["strings"] for job in jobs(database)] == [["kept"]]


# Who is woken


@ways
def test_an_enqueue_wakes_its_queue_and_a_scheduled_job_the_promoter(enqueue, client, database, listener):
    enqueue(client, SortArgs([]))
    assert listener.heard() == ["default"]

    enqueue(client, SlowArgs(1), delay=60)
    assert "@due" in listener.heard(stop_after=1)


def test_many_enqueues_send_few_wake_ups_and_one_after_the_last(client, database, listener):
    begun = time.monotonic()
    for n in range(300):
        client.enqueue(SlowArgs(n))
    took = time.monotonic() - begun

    heard = len(listener.heard(timeout=0.5, stop_after=1_000))
    assert 2 <= heard <= took / 0.010 + 2
    assert count(database) == 300


def test_the_second_of_two_enqueues_is_followed_by_a_wake_up_soon(client, database, listener):
    for n in range(20):
        client.enqueue(SortArgs(["first"]), queue=f"q{n}")
        client.enqueue(SortArgs(["second"]), queue=f"q{n}")
        assert listener.heard(stop_after=2) == [f"q{n}", f"q{n}"]


def test_a_program_that_ends_at_once_still_sends_its_last_wake_up(database, listener):
    program = f"from tests.db.test_client import *; c = Client({database!r}); c.enqueue(SlowArgs(1)); c.enqueue(SlowArgs(2))"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)

    assert listener.heard(timeout=5, stop_after=2) == ["slow", "slow"]


def test_a_call_returns_when_its_wake_up_has_been_sent(database, listener):
    with Proxy(database, {"wake": Client(database)._settings.text("wake")}) as wire, Client(wire.url) as client:
        client.enqueue(SlowArgs(1))
        wire.hold("wake")
        calling = threading.Thread(target=client.enqueue, args=[SlowArgs(2)])
        calling.start()
        wait_for(wire.held)
        assert calling.is_alive()
        wire.release()
        calling.join()

    execute(database, "select pg_notify('fastq', '<mark>')")
    assert listener.heard(stop_after=3) == ["slow", "slow", "<mark>"]


def test_where_jobs_come_often_one_hint_says_so_and_no_more_are_sent(database, listener, monkeypatch):
    monkeypatch.setattr(wake_limiter, "INTERVAL", 60.0)  # what is often is not the machine's to say
    monkeypatch.setattr(wake_limiter, "LASTS", 60.0)
    with Client(database) as client:
        for number in range(20):
            client.enqueue(SlowArgs(number))

    execute(database, "select pg_notify('fastq', '<mark>')")
    often = wake_limiter.BURST + 1
    assert listener.heard(stop_after=often + 2) == [*["slow"] * often, "@often slow", "<mark>"]


def test_a_wake_up_that_was_lost_with_its_connection_costs_no_job_and_the_next_is_sent(database, listener):
    with Proxy(database, {"wake": Client(database)._settings.text("wake")}) as wire, Client(wire.url) as client:
        client.enqueue(SlowArgs(1))
        wire.hold("wake")
        calling = threading.Thread(target=client.enqueue, args=[SlowArgs(2)])
        calling.start()
        wait_for(wire.held)
        wire.sever()
        calling.join()
        client.enqueue(SlowArgs(3))

    assert count(database) == 3
    assert "slow" in listener.heard(timeout=0.5, stop_after=10_000)[1:]


# Connections


def test_threads_share_a_client(client, database):
    def run():
        for n in range(50):
            client.enqueue(SlowArgs(n))

    threads = [threading.Thread(target=run) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count(database) == 600


def test_a_client_works_in_a_forked_child_and_goes_on_in_its_parent(client, database):
    client.enqueue(SortArgs(["parent"]))

    def child():
        client.enqueue(SortArgs(["child"]))
        client.enqueue_many([SortArgs(["child"])] * 2)
        client.close()

    children = [multiprocessing.get_context("fork").Process(target=child) for _ in range(3)]
    for process in children:
        process.start()
    for process in children:
        process.join(20)
    assert [process.exitcode for process in children] == [0, 0, 0]
    backends = "select count(*) from pg_stat_activity where application_name = 'fastq client' and datname = current_database()"
    assert execute(database, backends) == [(1,)]
    client.enqueue(SortArgs(["parent"]))
    assert count(database) == 11


def test_a_connection_that_the_server_has_closed_is_replaced(client, database):
    client.enqueue(SortArgs([]))
    ended = "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity where application_name = 'fastq client'"
    execute(database, ended + " and datname = current_database()")

    client.enqueue(SortArgs([]))
    assert count(database) == 2


def test_a_closed_client_opens_again(client, database):
    client.enqueue(SortArgs([]))
    client.close()
    client.close()

    client.enqueue(SortArgs([]))
    assert count(database) == 2


def test_nothing_is_prepared_for_a_pooler(database):
    for poll_only, expected in ((True, 0), (False, 1)):
        with Client(config=Config(database_url=database, poll_only=poll_only)) as client:
            for _ in range(8):
                client.enqueue(SortArgs([]))
            with client._here().connection() as connection:
                prepared = connection.execute("select count(*) from pg_prepared_statements where statement like 'with enqueued%'")
                assert prepared.fetchone()[0] == expected


def test_another_schema_is_used_when_it_is_configured(empty_database):
    from fastq.schema.migrate import migrate

    migrate(empty_database, "other")
    listener = Listener(empty_database, "other")
    with Client(empty_database, schema="other") as client:
        client.enqueue(SortArgs([]))
        client.enqueue_many([SortArgs([])])
        client.enqueue_copy([SortArgs([])])
        assert listener.heard()[0] == "default"
    listener.connection.close()
    assert execute(empty_database, "select count(*) from other.job") == [(3,)]


def test_a_schema_that_is_missing_is_named_with_the_remedy(empty_database):
    with Client(empty_database) as client:
        for call in (lambda: client.enqueue(SortArgs([])), lambda: client.enqueue_copy([SortArgs([])])):
            with pytest.raises(MigrationError, match=r"the schema 'fastq' has no fastq tables.* run fastq migrate"):
                call()
    with (
        Client(empty_database, schema="other") as client,
        pytest.raises(MigrationError, match="run fastq migrate --schema other"),
    ):
        client.get(1)


def test_connections_that_are_all_in_use_are_told_as_that(database, monkeypatch):
    monkeypatch.setattr(pool, "WAIT", 0.3)
    monkeypatch.setattr(pool, "MAX_SIZE", 1)
    waiting = "select count(*) from pg_locks where not granted and relation = 'fastq.job'::regclass"
    with Client(database) as client:
        with psycopg.connect(database) as holder:
            holder.execute("lock table fastq.job in access exclusive mode")
            thread = threading.Thread(target=client.enqueue, args=(SortArgs([]),))
            thread.start()
            wait_for(lambda: execute(database, waiting) == [(1,)])
            with pytest.raises(DatabaseUnavailable, match=r"no connection within 0\.3 s: all 1 of this client are in use"):
                client.enqueue(SortArgs([]))
        thread.join(10)
    assert count(database) == 1


def test_a_database_that_is_not_there_is_told_at_once():
    watch = Stopwatch()
    with Client("postgresql://nobody@127.0.0.1:1/nowhere") as client, pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1"):
        client.enqueue(SortArgs([]))
    assert watch.idle() < 5


@pytest.mark.parametrize(
    "url", ["garbage", "postgresql://h/x?sslmoed=require", "postgresql://u:%ZZ@h/x", "postgresql://h/\udcff"]
)
def test_a_url_that_cannot_be_read_is_refused_with_what_would_do(url):
    with Client(url) as client, pytest.raises(ConfigError, match=r"the database's URL: expected postgresql://.*; "):
        client.enqueue(SortArgs([]))


def test_a_database_of_another_encoding_is_told_at_once(server):
    name = f"fastq_test_{os.getpid()}_ascii"
    execute(server, f"create database {name} encoding 'SQL_ASCII' locale 'C' template template0")
    expected = "encoded in SQL_ASCII.* expected UTF8: make another"
    with Client(url_of(server, name)) as client, pytest.raises(DatabaseUnavailable, match=expected):
        client.enqueue(SortArgs([]))
    drop_database(server, name)


def test_a_client_without_a_database_says_what_to_set():
    with pytest.raises(ConfigError, match="set FASTQ_DATABASE_URL"):
        Client()


def test_the_database_comes_from_the_environment(database, monkeypatch):
    monkeypatch.setenv("FASTQ_DATABASE_URL", database)
    with Client() as client:
        client.enqueue(SortArgs([]))

    assert count(database) == 1


# Bulk


@pytest.mark.slow
def test_a_copy_reads_its_jobs_as_it_goes_and_keeps_none(client, database):
    client.enqueue_copy([SlowArgs(0)])
    tracemalloc.start()
    number = client.enqueue_copy(SlowArgs(n) for n in range(100_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert number == 100_000
    assert execute(database, "select count(*), count(distinct seq), min(queue) from fastq.job") == [(100_001, 100_001, "slow")]
    assert peak < 5_000_000


def test_a_copy_that_ends_with_an_error_of_the_caller_stores_nothing(client, database):
    def items():
        for n in range(20_000):
            yield SlowArgs(n)
        raise LookupError("the source broke off")

    with pytest.raises(LookupError):
        client.enqueue_copy(items())
    assert count(database) == 0
    client.enqueue(SlowArgs(1))


# One job


def test_a_job_is_read_cancelled_and_retried(client):
    job_id = client.enqueue(SlowArgs(1), delay=60)

    assert client.get(job_id).args == {"n": 1}
    assert client.cancel(job_id)
    assert client.get(job_id).state == "cancelled"
    assert not client.cancel(job_id)
    assert client.retry(job_id)
    assert client.get(job_id).state == "available"


def test_a_job_that_does_not_exist_is_none_and_cannot_be_changed(client):
    assert client.get(1) is None
    assert not client.cancel(1)
    assert not client.retry(1)


@pytest.mark.parametrize("job_id", [0, -1, 2**63 - 1, 2**63, 10**30, -(10**30)])
def test_an_id_that_no_job_can_have_is_one_that_does_not_exist(job_id, client, database):
    assert client.get(job_id) is None
    with psycopg.connect(database) as connection:
        assert not client.cancel(job_id, conn=connection)
        assert not client.retry(job_id, conn=connection)
        assert connection.execute("select 'goes on'").fetchone() == ("goes on",)


@pytest.mark.parametrize("job_id", ["5", 5.0, None, [5]])
def test_what_is_no_id_is_refused(job_id, client):
    for use in (client.get, client.cancel, client.retry):
        with pytest.raises(OptionError, match=r"job_id .*: expected an integer, as enqueue returns it"):
            use(job_id)


def test_a_cancellation_in_the_callers_transaction_comes_and_goes_with_it(client, database):
    job_id = client.enqueue(SortArgs([]))
    with psycopg.connect(database) as connection:
        assert client.cancel(job_id, conn=connection)
        connection.rollback()
        assert client.get(job_id).state == "available"

        assert client.cancel(job_id, conn=connection)
    assert client.get(job_id).state == "cancelled"
