"""The archive's partitions: one per day, made ahead, dropped when old, whoever else is at it."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from fastq.postgres import db
from fastq.schema.migrate import migrate
from fastq.schema.partitions import (
    bring_back,
    drop_aside,
    drop_old_partitions,
    ensure_partitions,
    name_of,
    pages_aside,
    partitions,
)
from tests.helpers import Stopwatch, execute, wait_for

FINISH = """
insert into fastq.job_archive (id, created_at, finalized_at, state, priority, attempt, max_attempts, crashes, queue, kind, args)
select n, now(), %s::timestamptz, 'completed', 1, 1, 25, 0, 'default', 'sort', '{}' from generate_series(1, %s) as n
"""


@pytest.fixture
def connection(database):
    connection = db.connect(database, role="test")
    yield connection
    connection.close()


def today():
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def where_rows_are(url):
    return dict(execute(url, "select tableoid::regclass::text, count(*) from fastq.job_archive group by 1"))


def make_day(connection, day):
    """Make the partition of a day in the past, as a run of that day would have."""
    low, high = f"'{day.date()} 00:00+00'", f"'{day.date() + timedelta(days=1)} 00:00+00'"
    connection.execute(f"create table fastq.{name_of(day)} partition of fastq.job_archive for values from ({low}) to ({high})")


def test_today_and_the_days_ahead_get_a_partition_each(connection):
    expected = [name_of(today() + timedelta(days=number)) for number in range(4)]

    assert ensure_partitions(connection, days_ahead=3) == expected
    assert partitions(connection) == expected
    assert ensure_partitions(connection, days_ahead=3) == []


def test_partitions_are_filled_to_the_brim_and_have_the_indexes_of_the_archive(connection):
    [name] = ensure_partitions(connection, days_ahead=0)

    [(options,)] = connection.execute("select reloptions from pg_class where oid = $1::text::regclass", f"fastq.{name}")
    indexes = connection.execute("select count(*) from pg_index where indrelid = $1::text::regclass", f"fastq.{name}")
    assert "fillfactor=100" in options
    assert indexes == [(1,)]


def test_vacuum_summarises_the_block_ranges_of_a_day_and_comes_for_that_by_the_number_of_rows(connection, database):
    [name] = ensure_partitions(connection, days_ahead=0)
    execute(database, FINISH, today(), 20_000)
    index = f"fastq.{name}_id_finalized_at_idx"

    execute(database, f"vacuum fastq.{name}")

    [(left,)] = connection.execute("select brin_summarize_new_values($1::text::regclass)", index)
    assert left <= 1, "some twenty ranges, of which the last may not be full"
    [(options,)] = connection.execute("select reloptions from pg_class where oid = $1::text::regclass", f"fastq.{name}")
    assert {"autovacuum_vacuum_insert_scale_factor=0", "autovacuum_vacuum_insert_threshold=200000"} <= set(options)


def test_no_insert_asks_for_a_summary_since_the_server_logs_each_request_beyond_256(connection):
    [name] = ensure_partitions(connection, days_ahead=0)

    indexes = f"fastq.{name}_id_finalized_at_idx", "fastq.job_archive_default_id_finalized_at_idx", "fastq.job_archive_id"
    for index in indexes:
        [(options,)] = connection.execute("select reloptions from pg_class where oid = $1::text::regclass", index)
        assert options == ["pages_per_range=64"]


def test_a_day_begins_and_ends_at_midnight_utc(connection, database):
    ensure_partitions(connection, days_ahead=1)
    execute(database, FINISH, today(), 1)
    execute(database, FINISH, today() + timedelta(days=1) - timedelta(microseconds=1), 1)
    execute(database, FINISH, today() + timedelta(days=1), 1)

    tomorrow = name_of(today() + timedelta(days=1))
    assert where_rows_are(database) == {f"fastq.{name_of(today())}": 2, f"fastq.{tomorrow}": 1}


def test_rows_that_the_default_partition_holds_already_move_to_their_day(connection, database):
    execute(database, FINISH, today(), 7)
    execute(database, FINISH, today() - timedelta(days=1), 3)

    ensure_partitions(connection, days_ahead=0)

    assert where_rows_are(database) == {f"fastq.{name_of(today())}": 7, "fastq.job_archive_default": 3}


def test_ten_supervisors_that_make_partitions_at_once_make_each_one_once(database):
    start = threading.Barrier(10)

    def run(number):
        connection = db.connect(database, role=f"test {number}")
        start.wait()
        try:
            made = [name for _ in range(20) for name in ensure_partitions(connection, days_ahead=3)]
        finally:
            connection.close()
        return made

    with ThreadPoolExecutor(10) as threads:
        made = [name for names in threads.map(run, range(10)) for name in names]
    assert sorted(made) == [name_of(today() + timedelta(days=number)) for number in range(4)]


def test_partitions_older_than_what_is_kept_are_dropped_and_no_others(connection):
    days = [today() - timedelta(days=number) for number in (9, 8, 7, 1, 0)]
    for day in days:
        make_day(connection, day)

    assert drop_old_partitions(connection, keep_days=7) == [name_of(days[0]), name_of(days[1])]
    assert partitions(connection) == sorted(name_of(day) for day in days[2:])


def test_a_partition_that_somebody_reads_is_left_for_the_next_run_and_holds_up_no_completion(connection, database):
    old = today() - timedelta(days=9)
    make_day(connection, old)
    ensure_partitions(connection, days_ahead=0)
    with psycopg.connect(database) as reader:
        reader.execute("select count(*) from fastq.job_archive")

        assert drop_old_partitions(connection, keep_days=7) == []
        execute(database, "set lock_timeout = '1s'; " + FINISH.replace("%s::timestamptz", "now()").replace("%s", "1"))
    assert drop_old_partitions(connection, keep_days=7) == [name_of(old)]


def test_partitions_live_in_the_schema_that_is_configured(empty_database):
    migrate(empty_database, "other")
    connection = db.connect(empty_database, role="test", schema="other")
    try:
        [name] = ensure_partitions(connection, days_ahead=0)
        assert connection.execute("select to_regclass($1::text) is null", f"other.{name}") == [(False,)]
    finally:
        connection.close()


def test_a_day_that_cannot_be_made_keeps_no_other_day_from_being_made(connection):
    connection.execute(f"create table fastq.{name_of(today())} (id bigint)")

    with pytest.raises(db.Error):
        ensure_partitions(connection, days_ahead=3)

    assert partitions(connection) == [name_of(today() + timedelta(days=number)) for number in (1, 2, 3)]


def bring_all_back(connection, keep_days=7, blocks=128):
    """Bring back what was set aside; return in how many steps."""
    pages = pages_aside(connection)
    for page in range(0, pages, blocks):
        assert bring_back(connection, keep_days, (page, 0), (page + blocks, 0))
    assert drop_aside(connection, keep_days)
    return -(-pages // blocks)


def test_a_large_default_partition_is_set_aside_and_its_rows_come_back_to_their_days_by_the_batch(
    connection, database, monkeypatch
):
    monkeypatch.setattr("fastq.schema.partitions.LARGE", 8192)
    days = [today() - timedelta(days=number) for number in (0, 1, 2, 20)]
    for day in days:
        execute(database, FINISH, day, 200)

    assert len(ensure_partitions(connection, days_ahead=3)) == 4
    assert where_rows_are(database) == {}
    execute(database, FINISH, today(), 1)
    steps = bring_all_back(connection, blocks=2)

    expected = {f"fastq.{name_of(day)}": 200 for day in days[:3]}
    assert where_rows_are(database) == {**expected, f"fastq.{name_of(today())}": 201}, "what is too old does not come back"
    assert steps > 4
    assert execute(database, "select to_regclass('fastq.job_archive_rest') is null") == [(True,)]


def test_while_a_large_default_partition_gets_its_days_no_completion_waits_for_it_to_be_read(connection, database):
    execute(database, FINISH, today() - timedelta(hours=1), 150_000)
    took, stop = [], threading.Event()

    def complete():
        with psycopg.connect(database, autocommit=True) as completer:
            while not stop.is_set():
                began = time.monotonic()
                completer.execute(FINISH, [datetime.now(UTC), 1])
                took.append(time.monotonic() - began)

    with ThreadPoolExecutor(4) as threads:
        completers = [threads.submit(complete) for _ in range(4)]
        watch = Stopwatch()
        try:
            made = ensure_partitions(connection, days_ahead=3)
            bring_all_back(connection)
        finally:
            whole = watch.clock()
            stop.set()

    print(f"the longest of {len(took)} completions took {max(took) * 1000:.0f} ms of {whole * 1000:.0f}")
    assert len(made) == 4
    assert [completer.result() for completer in completers] == [None] * 4, "none was refused"
    assert max(took) < max(0.5, whole / 4), "it is read in many steps, and no completion waits for more than one"
    assert where_rows_are(database)[f"fastq.{name_of(today())}"] >= len(took)


def test_no_completion_is_refused_while_the_partition_of_today_is_made(connection, database):
    stop = threading.Event()

    def complete():
        with psycopg.connect(database, autocommit=True) as completer:
            while not stop.is_set():
                completer.execute(FINISH, [datetime.now(UTC), 1])

    with ThreadPoolExecutor(4) as threads:
        completers = [threads.submit(complete) for _ in range(4)]
        try:
            for _ in range(20):
                ensure_partitions(connection, days_ahead=0)
                connection.execute(f"drop table fastq.{name_of(today())}")
        finally:
            stop.set()
    assert [completer.result() for completer in completers] == [None] * 4


def test_new_partitions_belong_to_the_owner_of_the_archive(connection, database, monkeypatch):
    monkeypatch.setattr("fastq.schema.partitions.LARGE", 0)
    role = f"fastq_archivist_{os.getpid()}"
    connection.execute(f"create role {role}")
    try:
        connection.execute(f"grant all on schema fastq to {role}")
        connection.execute(f"alter table fastq.job_archive owner to {role}")
        execute(database, FINISH, today(), 1)

        ensure_partitions(connection, days_ahead=0)

        owners = "select tableowner from pg_tables where schemaname = 'fastq' and tablename in ($1, 'job_archive_default')"
        assert connection.execute(owners, name_of(today())) == [(role,), (role,)]
    finally:
        connection.execute(f"reassign owned by {role} to current_user")
        connection.execute(f"drop owned by {role}")
        connection.execute(f"drop role {role}")


def test_a_member_of_the_owners_role_drops_the_days_that_another_member_made(empty_database):
    owner, maker, dropper = (f"fastq_{role}_{os.getpid()}" for role in ("owner", "maker", "dropper"))
    execute(empty_database, f"create role {owner} login")
    execute(empty_database, "create schema fastq")  # by somebody else: its owner could drop what is in it
    try:
        execute(empty_database, f"grant usage, create on schema fastq to {owner}")
        migrate(make_conninfo(empty_database, user=owner))
        for member, change, days in ((maker, ensure_partitions, 0), (dropper, drop_old_partitions, -1)):
            execute(empty_database, f"create role {member} login in role {owner}")
            connection = db.connect(make_conninfo(empty_database, user=member), role="test")
            try:
                assert change(connection, days) == [name_of(today())]
            finally:
                connection.close()
    finally:
        for role in (maker, dropper, owner):
            if execute(empty_database, "select from pg_roles where rolname = %s", role):
                execute(empty_database, f"drop owned by {role} cascade")
                execute(empty_database, f"drop role {role}")


def wait_for_a_lock(connection):
    """Wait until somebody waits for a lock."""
    waiting = "select exists (select from pg_locks where not granted and locktype = 'relation')"
    wait_for(lambda: connection.execute(waiting).fetchone()[0], 2.0, "a session that waits for a lock")


def test_jobs_that_end_today_do_not_wait_while_the_partition_of_an_older_day_is_waited_for(connection, database, monkeypatch):
    monkeypatch.setattr("fastq.schema.partitions.LARGE", 0)
    monkeypatch.setattr("fastq.schema.partitions.LOCK_TIMEOUT", "600ms")
    execute(database, FINISH, today() - timedelta(days=3), 10)
    ensure_partitions(connection, days_ahead=0)

    with psycopg.connect(database) as reader, ThreadPoolExecutor(1) as thread, psycopg.connect(database) as completer:
        reader.execute("select count(*) from fastq.job_archive")
        back = thread.submit(bring_back, connection, 7, (0, 0), (1, 0))
        wait_for_a_lock(reader)
        completer.execute("set lock_timeout = '300ms'")
        completer.execute(FINISH, [datetime.now(UTC), 1])

        assert not back.result()
    assert execute(database, "select count(*) from fastq.job_archive_rest") == [(10,)], "nothing moved"
