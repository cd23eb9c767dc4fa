"""The archive's partitions: one per day, made ahead, dropped when old, whoever else is at it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from fastq import db
from fastq.partitions import drop_old_partitions, ensure_partitions, name_of, partitions
from tests.helpers import execute

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
    from fastq.migrate import migrate

    migrate(empty_database, "other")
    connection = db.connect(empty_database, role="test", schema="other")
    try:
        [name] = ensure_partitions(connection, days_ahead=0)
        assert connection.execute("select to_regclass($1::text) is null", f"other.{name}") == [(False,)]
    finally:
        connection.close()
