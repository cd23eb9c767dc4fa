"""Findings about fastq's tables: dead rows, indexes, autovacuum, the archive's days, sequences."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from fastq.admin.doctor import vacuuming
from fastq.schema.partitions import name_of
from tests.db.jobs import add, session
from tests.helpers import execute, wait_for

TODAY = datetime.now(UTC).date()


@pytest.fixture
def connection(database):
    """Give a session on the healthy database."""
    opened = session(database)
    yield opened
    opened.close()


def unvacuumed(connection, table):
    connection.execute(
        f"alter table fastq.{table} set (autovacuum_vacuum_threshold = 1000000000, autovacuum_vacuum_insert_threshold = -1)"
    )


def test_dead_rows_that_nobody_removes_are_told_of_and_the_remedy_removes_them(connection, database, found):
    unvacuumed(connection, "once")
    connection.execute("alter table fastq.once set (autovacuum_vacuum_threshold = 50, autovacuum_enabled = off)")
    connection.execute("insert into fastq.once (name, item) select 'x', n::text from generate_series(1, 110000) as n")
    connection.execute("delete from fastq.once")
    connection.execute("select pg_stat_force_next_flush()")
    [finding] = wait_for(lambda: found("rows")).values()
    execute(database, finding.remedy)

    assert (finding.level, finding.subject) == ("warn", "once")
    assert finding.found.startswith("once has 110,000 dead rows and 0 others; it was vacuumed never")
    wait_for(lambda: found("rows") == {}, what="the end of the dead rows")


def test_a_table_of_empty_pages_is_a_note(connection, database, found, monkeypatch):
    monkeypatch.setattr(vacuuming, "HOLLOW", 100_000)
    add(connection, 2_000, args='{"text": "' + "x" * 500 + '"}')
    connection.execute("delete from fastq.job where id < 2000")
    add(connection)
    connection.execute("vacuum (analyze, truncate off) fastq.job")
    [finding] = wait_for(lambda: found("rows")).values()
    execute(database, finding.remedy)

    assert (finding.level, finding.subject) == ("note", "job")
    assert "mostly empty pages" in finding.found
    wait_for(lambda: found("rows") == {}, what="the end of the empty pages")


def test_an_index_that_is_much_larger_than_its_entries_is_told_of_and_the_remedy_mends_it(
    connection, database, found, monkeypatch
):
    monkeypatch.setattr(vacuuming, "WORTHWHILE", 300_000)
    add(connection, 10_000)
    connection.execute("delete from fastq.job")
    connection.execute("vacuum (analyze) fastq.job")
    findings = found("indexes")
    for finding in findings.values():
        execute(database, finding.remedy)

    assert {"job_ready"} <= findings.keys() <= {"job_ready", "job_pkey"}
    assert {finding.level for finding in findings.values()} == {"note"}
    assert found("indexes") == {}


def test_an_index_that_a_build_has_left_is_told_of_and_the_remedy_removes_it(connection, database, found):
    connection.execute("create index left_over on fastq.job (id)")
    connection.execute("update pg_index set indisvalid = false where indexrelid = 'fastq.left_over'::regclass")
    [finding] = found("indexes").values()
    execute(database, finding.remedy)

    assert (finding.level, finding.subject) == ("warn", "left_over")
    assert found("indexes") == {}


@pytest.mark.parametrize("name", ["autovacuum", "track_counts"])
def test_autovacuum_that_is_off_is_bad_and_the_remedy_turns_it_on(clinic, set_server, found, name):
    set_server(name, "off")
    [finding] = wait_for(lambda: found("autovacuum")).values()
    for text in finding.remedy.split("; "):
        execute(clinic, text)

    assert (finding.level, finding.subject) == ("bad", name)
    wait_for(lambda: found("autovacuum") == {}, what="the setting")


def test_autovacuum_that_seldom_looks_is_told_of(set_server, found):
    set_server("autovacuum_naptime", "'1h'")

    [finding] = wait_for(lambda: found("autovacuum")).values()

    assert (finding.level, finding.subject) == ("warn", "autovacuum_naptime")


@pytest.mark.parametrize(
    ("change", "table", "level"),
    [
        ("alter table fastq.unique_key set (autovacuum_enabled = off)", "unique_key", "bad"),
        ("alter table fastq.job reset (fillfactor)", "job", "warn"),
        ("alter table fastq.job set (autovacuum_vacuum_threshold = 50)", "job", "warn"),
    ],
)
def test_a_table_whose_settings_were_changed_is_told_of_and_the_remedy_restores_them(database, found, change, table, level):
    execute(database, change)
    [finding] = found("autovacuum").values()
    execute(database, finding.remedy)

    assert (finding.level, finding.subject) == (level, table)
    assert found("autovacuum") == {}


def test_a_day_without_a_partition_is_told_of(database, found):
    execute(database, f"drop table fastq.{name_of(TODAY)}")
    execute(database, f"drop table fastq.{name_of(TODAY + timedelta(days=1))}")

    [finding] = found("archive").values()

    assert finding.level == "warn"
    assert name_of(TODAY + timedelta(days=1)) in finding.found


def test_days_that_should_be_gone_are_told_of(database, found):
    old = TODAY - timedelta(days=30)
    execute(
        database,
        f"create table fastq.{name_of(old)} partition of fastq.job_archive "
        f"for values from ('{old} 00:00Z') to ('{old + timedelta(days=1)} 00:00Z')",
    )
    [finding] = found("archive").values()

    assert (finding.level, finding.subject) == ("warn", name_of(old))
    assert "1 of the archive's partitions are older than the 7 days" in finding.found
    assert found("archive", archive_days=40) == {}
    assert found("archive", keep="discarded=40") == {}


def test_jobs_that_found_no_day_are_told_of(connection, found):
    connection.execute(
        "insert into fastq.job_archive "
        "(id, created_at, finalized_at, state, priority, attempt, max_attempts, crashes, queue, kind, args) "
        "values (1, now(), '2100-01-01', 'completed', 1, 1, 25, 0, 'default', 'nap', '{}')"
    )
    connection.execute("create table fastq.job_archive_rest (like fastq.job_archive including all)")
    connection.execute("insert into fastq.job_archive_rest select * from fastq.job_archive")

    findings = found("archive")

    assert {name: finding.level for name, finding in findings.items()} == {
        "job_archive_default": "note",
        "job_archive_rest": "note",
    }


@pytest.mark.parametrize(("share", "level"), [(0.6, "warn"), (0.95, "bad")])
def test_a_sequence_near_its_end_is_told_of(connection, found, share, level):
    connection.execute("select setval('fastq.job_seq', $1::bigint)", int((2**63 - 1) * share))

    [finding] = found("sequences").values()

    assert (finding.level, finding.subject) == (level, "job_seq")


def test_a_number_that_begins_again_at_its_end_is_none(connection, found):
    connection.execute("select setval('fastq.process_number', 2147483000)")

    assert found("sequences") == {}


def test_a_role_that_does_not_see_how_far_sequences_have_come_is_not_told_that_all_is_well(connection, database, found, role):
    connection.execute("select setval('fastq.job_seq', 9000000000000000000)")

    [finding] = found("sequences", url=psycopg.conninfo.make_conninfo(database, user=role)).values()

    assert finding.level == "note"
    assert finding.found.startswith("this role does not see how far ")
