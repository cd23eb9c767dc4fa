"""The door to psycopg: what a session is, whatever the URL, the environment and the defaults of the database say."""

import asyncio
import os
import threading
from datetime import UTC, datetime

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from fastq import AsyncClient, Client, Config, Kind
from fastq.errors import ConfigError, DatabaseUnavailable
from fastq.lead.term import term
from fastq.postgres import connecting, db, sqlstate
from fastq.postgres.urls import check_url
from fastq.schema.migrate import migrate
from fastq.sql import statements
from tests.db import jobs
from tests.helpers import Stopwatch, descriptors_left, drop_database, execute, url_of
from tests.pgbouncer import pgbouncer

DATE = datetime(2126, 2, 3, 4, 5, 6, tzinfo=UTC)
TEXTS = ["é", "日本", "🦉"]  # one that Latin-1 has, too, and two that it has not


def encoded_by_url(url, monkeypatch):
    return make_conninfo(url, client_encoding="LATIN1")


def encoded_by_environment(url, monkeypatch):
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    return url


def encoded_by_database(url, monkeypatch):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'alter database "{connection.info.dbname}" set client_encoding = latin1')
    return url


ENCODED = [encoded_by_url, encoded_by_environment, encoded_by_database]


@pytest.fixture
def latin_database(server):
    """Give the URL of an empty database that cannot hold every character."""
    name = f"fastq_test_{os.getpid()}_latin1"
    execute(server, f"create database {name} encoding 'LATIN1' locale 'C' template template0")
    yield url_of(server, name)
    drop_database(server, name)


# Encoding


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("encode", ENCODED)
def test_a_session_speaks_utf8_whatever_it_is_told(encode, pinned, database, monkeypatch):
    for text in TEXTS:
        execute(database, "insert into fastq.job (kind, args) values ('nap', json_build_array(%s::text))", text)
    connection = jobs.session(encode(database, monkeypatch), pinned=pinned)

    assert connection.execute("show client_encoding") == [("UTF8",)]
    assert [job.args for job in jobs.claim(connection)] == [f'["{text}"]' for text in TEXTS]
    connection.close()


def test_a_session_through_a_pooler_speaks_utf8_too(database, tmp_path, monkeypatch):
    encoded_by_environment(encoded_by_database(database, monkeypatch), monkeypatch)
    with pgbouncer(database, tmp_path) as through:
        connection = jobs.session(through, pinned=False, prepare=False)

        assert connection.execute("show client_encoding") == [("UTF8",)]
        assert connection.execute("select $1::text", "日本") == [("日本",)]
        connection.close()


def test_a_database_of_another_encoding_is_refused_with_what_to_do(latin_database):
    expected = (
        r"_latin1' is encoded in LATIN1.* expected UTF8: make another, `create database NAME encoding 'UTF8' template template0`"
    )
    for use in (migrate, jobs.session):
        with pytest.raises(DatabaseUnavailable, match=expected):
            use(latin_database)

    assert execute(latin_database, "select 1 from pg_namespace where nspname = 'fastq'") == []


# URLs


@pytest.mark.parametrize("url", ["postgresql://u:se%zzcret@h/x", "host=h password='se cret", "host=h password=abc se%cret"])
def test_a_url_that_cannot_be_read_is_told_without_its_password(url):
    with pytest.raises(ConfigError, match="expected postgresql://USER@HOST/NAME") as refused:
        check_url(url)

    assert "cret" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql+psycopg://u:secret@h/x", "; leave '+psycopg' out, which is SQLAlchemy's"),
        ("postgresql://u:se@cret@h/x", "; write an '@' in the user or the password as %40"),
        ("postgres+asyncpg://h/x", "; leave '+asyncpg' out, which is SQLAlchemy's"),
        ("mysql://u:secret@h/x", "; this begins with no postgresql:// and has no '='"),
    ],
)
def test_a_url_of_something_else_is_told_what_is_wrong_with_it(url, why):
    with pytest.raises(ConfigError) as refused:
        check_url(url)

    assert str(refused.value).endswith(why)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("url", ["garbage", "postgresql://h/x?sslmoed=require", "postgresql://h/\udcff"])
def test_a_url_that_cannot_be_read_is_refused_as_a_setting(url, pinned):
    with pytest.raises(ConfigError, match=r"the database's URL: expected postgresql://.*; "):
        jobs.session(url, pinned=pinned)


def test_a_url_that_cannot_be_read_is_not_waited_for():
    watch = Stopwatch()
    with pytest.raises(ConfigError, match="the database's URL"):
        connecting.session_within(5.0, Config(), "garbage", "test")
    assert watch.idle() < 1


# Options


def options_in_url(url, monkeypatch):
    return make_conninfo(url, options=OPTIONS)


def options_in_environment(url, monkeypatch):
    monkeypatch.setenv("PGOPTIONS", OPTIONS)
    return url


OPTIONS = r"-c work_mem=77MB -c statement_timeout=5s -c myapp.name=a\ b"
SHOWN = "select name, current_setting(name) from unnest($1::text[]) as name"


@pytest.mark.parametrize("say", [options_in_url, options_in_environment])
def test_the_options_of_the_url_hold_but_where_ours_must(say, database, monkeypatch):
    url = say(database, monkeypatch)
    connection = jobs.session(url, settings={"lock_timeout": "3s"})

    expected = {"work_mem": "77MB", "statement_timeout": "0", "myapp.name": "a b", "enable_seqscan": "off", "lock_timeout": "3s"}
    assert dict(connection.execute(SHOWN, list(expected))) == expected
    connection.close()


def test_the_options_of_the_url_come_before_those_of_the_environment(database, monkeypatch):
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=66MB -c temp_buffers=10MB")
    connection = jobs.session(make_conninfo(database, options="-c work_mem=77MB"))

    assert connection.execute("select current_setting('work_mem'), current_setting('temp_buffers')") == [("77MB", "8MB")]
    connection.close()


def test_a_session_that_is_not_pinned_has_the_options_of_the_url_alone(database):
    connection = jobs.session(make_conninfo(database, options=OPTIONS), pinned=False)

    assert connection.execute("select current_setting('work_mem'), current_setting('statement_timeout')") == [("77MB", "5s")]
    connection.close()


# Dates


@pytest.fixture
def odd_dates(database):
    """Give the URL of a database that writes dates as the driver does not read them."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"alter database {connection.info.dbname} set datestyle = 'SQL, DMY'")
    return database


@pytest.mark.parametrize("pinned", [True, False])
def test_a_session_reads_dates_whatever_the_databases_way_to_write_them(pinned, odd_dates):
    connection = jobs.session(odd_dates, pinned=pinned)

    assert connection.execute("select $1::text::timestamptz", f"{DATE}") == [(DATE,)]
    connection.close()


def test_sessions_through_a_pooler_read_dates_too(odd_dates, tmp_path):
    with pgbouncer(odd_dates, tmp_path) as through:
        connections = [jobs.session(through, pinned=False, prepare=False) for _ in range(2)]
        for connection in connections * 2:
            assert connection.execute("select $1::text::timestamptz", f"{DATE}") == [(DATE,)]
        for connection in connections:
            connection.close()


def test_the_connections_of_clients_read_dates_too(odd_dates):
    async def get(id_):
        async with AsyncClient(odd_dates) as client:
            return await client.get(id_)

    with Client(odd_dates) as client:
        id_ = client.enqueue({}, kind=Kind("nap", dict), at=DATE)
        assert client.get(id_).scheduled_at == DATE
    assert asyncio.run(get(id_)).scheduled_at == DATE


# Time limits


def test_a_statement_that_waits_is_ended_by_the_server_before_we_cut_it_off_and_leaves_nobody_waiting(database):
    session = db.session(Config(statement_timeout=0.5), database, "test")
    with psycopg.connect(database) as other:
        other.execute("lock table fastq.job in access exclusive mode")
        cut = threading.Timer(5.0, session.cut)  # a late watchdog
        cut.start()
        with pytest.raises(db.Error) as ended:
            session.execute("select from fastq.job")
        cut.cancel()

        assert sqlstate.too_slow(ended.value)
        assert session.execute("show statement_timeout") == [("450ms",)]
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        assert execute(database, waiting) == [(0,)]
    session.close()


def test_a_session_of_chores_has_its_own_limit(database):
    session = term.connect(Config(lease_ttl=3.0), database, "test")

    assert session.timeout > 1.5
    assert session.execute("show statement_timeout") == [("1500ms",)]
    session.close()


@pytest.mark.parametrize("connect", [db.connect, lambda url, role: connecting.session_within(5.0, Config(), url, role)])
def test_a_process_without_descriptors_has_no_database_for_a_while(connect, database):
    with descriptors_left(1), pytest.raises(DatabaseUnavailable, match="Too many open files"):  # for the socket, not for the wait
        connect(database, role="test")

    connect(database, role="test").close()


def test_a_session_may_idle_whatever_the_databases_limit_is(database):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"alter database {connection.info.dbname} set idle_session_timeout = '50ms'")
    session = db.session(Config(), database, "test")

    assert list(session.notifications(0.3)) == []
    assert session.execute("select 1") == [(1,)]
    session.close()


@pytest.mark.parametrize(("chosen", "ours"), [("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")])
def test_a_session_waits_for_its_commits_whatever_the_database_says_and_as_it_says_otherwise(database, chosen, ours):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"alter database {connection.info.dbname} set synchronous_commit = '{chosen}'")
    for config in (Config(), Config(poll_only=True)):  # a pooler's sessions are not ours alone
        session = db.session(config, database, "test")
        assert session.execute("show synchronous_commit") == [(chosen if config.poll_only else ours,)]
        session.close()


def test_statements_that_were_read_need_no_file_any_more():
    statements.read_statements()

    with descriptors_left(0):
        assert statements.statement("snapshot", "elsewhere").startswith("select")
        assert '"elsewhere".job' in statements.statement("job_claim", "elsewhere")
