"""The numbers for autoscalers: how much there is to do in a queue, and for how long the first job has waited."""

import psycopg
import pytest

from fastq.schema.migrate import migrate
from tests.db.jobs import add, claimed_ids
from tests.helpers import execute


@pytest.fixture
def backlog(connection):
    return lambda queue="default": connection.execute("select fastq.backlog($1)", queue)[0][0]


@pytest.fixture
def lag(connection):
    return lambda queue="default": connection.execute("select fastq.lag($1)", queue)[0][0]


def test_a_queue_without_jobs_has_neither(backlog, lag):
    assert (backlog(), lag(), backlog("nobody's"), lag("nobody's")) == (0, 0.0, 0, 0.0)


def test_the_backlog_has_the_jobs_that_run_or_could_and_no_others(connection, backlog):
    add(connection, 5)
    add(connection, 3, queue="emails")
    assert len(claimed_ids(connection, limit=2)) == 2
    add(connection, 2, state="scheduled", seq=None, scheduled_at="2000-01-01")
    add(connection, 2, state="scheduled", seq=None, scheduled_at="2100-01-01")
    add(connection, 2, state="waiting", seq=None, waits_for="signal:go")

    assert (backlog(), backlog("emails")) == (7, 3)


@pytest.mark.parametrize("name", ["default", "*"])
def test_of_a_paused_queue_only_the_jobs_that_run_count(connection, backlog, lag, name):
    add(connection, 5)
    assert len(claimed_ids(connection, limit=2)) == 2
    connection.execute("update fastq.job set created_at = now() - interval '1 h'")
    connection.execute(
        "insert into fastq.queue (name, paused_at) values ($1, now()) on conflict (name) do update set paused_at = now()", name
    )

    assert (backlog(), lag()) == (2, 0.0)


def test_the_backlog_stops_at_ten_thousand(connection, backlog):
    add(connection, 10_500)

    assert backlog() == 10_000


def test_the_lag_is_that_of_the_first_job_that_waits(connection, lag):
    add(connection, 3)
    claimed_ids(connection, limit=1)
    connection.execute("update fastq.job set created_at = now() - interval '1 d' where state = 'running'")
    connection.execute(
        "update fastq.job set created_at = now() - interval '1 h' "
        "where state = 'available' and id = (select max(id) from fastq.job)"
    )
    add(connection, 1, priority=4)

    assert 3_600 <= lag() < 3_700


def test_a_job_that_is_due_counts_from_its_time(connection, lag):
    add(connection)
    connection.execute(
        "insert into fastq.job (kind, state, seq, scheduled_at) "
        "values ('nap', 'scheduled', null, clock_timestamp() - interval '90 s')"
    )

    assert 90 <= lag() < 100


def test_a_job_that_was_delayed_or_tried_does_not_count_from_its_enqueue(connection, lag):
    [late] = add(connection, state="scheduled", seq=None, scheduled_at="2100-01-01", created_at="2000-01-01")
    [tried] = add(connection, attempt=1, created_at="2000-01-01")
    add(connection, 2)
    connection.execute(
        "update fastq.job set state = 'available', seq = nextval('fastq.job_seq'), scheduled_at = null where id = $1", late
    )

    assert late < tried
    assert lag() < 60


def test_neither_reads_the_table_from_end_to_end_whatever_the_statistics_say(connection, backlog, lag):
    connection.execute("alter table fastq.job set (autovacuum_enabled = off)")
    connection.execute("vacuum (analyze) fastq.job")  # of an empty table
    add(connection, 20_000, queue="others")
    add(connection, 10)
    plain = psycopg.connect(connection.raw.info.dsn, autocommit=True)
    walks = "select seq_scan from pg_stat_all_tables where schemaname = 'fastq' and relname = 'job'"
    connection.execute("select pg_stat_force_next_flush()")
    before = connection.execute(walks)
    assert plain.execute("select fastq.backlog('default'), fastq.lag('default') < 60").fetchall() == [(10, True)]
    plain.close()
    connection.execute("select pg_stat_force_next_flush()")

    assert connection.execute(walks) == before


def test_nobody_may_call_them_without_a_grant_and_names_of_others_are_not_found_first(database):
    with psycopg.connect(database) as owner:
        owner.execute("create role test_scaler_of_nobody")
        owner.execute("grant usage on schema fastq to test_scaler_of_nobody")
        owner.execute("create schema rivals; grant usage on schema rivals to public")
        owner.execute(
            "create function rivals.statement_timestamp() returns timestamptz language sql "
            "as $$ select 'infinity'::timestamptz $$"
        )
        owner.execute("set local search_path = rivals, pg_catalog")
        owner.execute("insert into fastq.job (kind, state, seq, scheduled_at) values ('nap', 'scheduled', null, '2100-01-01')")
        assert owner.execute("select fastq.backlog('default')").fetchall() == [(0,)]
        owner.execute("set local role test_scaler_of_nobody")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for function backlog"):
            owner.execute("select fastq.backlog('default')")
        owner.rollback()


def test_they_are_there_in_another_schema(empty_database):
    migrate(empty_database, "shop_jobs")

    assert execute(empty_database, "select shop_jobs.backlog('default'), shop_jobs.lag('default')") == [(0, 0.0)]
