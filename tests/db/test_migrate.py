"""Migrations: all of a version or nothing of it, whoever else migrates and whoever is killed."""

import os
import shutil
import signal
import subprocess
import sys
import time

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from fastq.errors import DatabaseUnavailable, MigrationError
from fastq.postgres import db, embedded
from fastq.postgres.advisory import lock_key
from fastq.schema.migrate import check, migrate, migrations, script
from tests.helpers import execute, wait_for

NAMES = [migration.name for migration in migrations()]
PSQL = shutil.which("psql") or str(embedded._binaries(18) / "psql")  # the wheel has it too
DEFAULTS = {"default_transaction_isolation": "read\\ committed", "standard_conforming_strings": "on"}
PROGRAM = "import sys; from fastq.schema.migrate import migrate; print(*migrate(sys.argv[1]))"

OBJECTS = """
select 'column', table_name || '.' || column_name, data_type || coalesce(column_default, '') || is_nullable
from information_schema.columns where table_schema = %(schema)s
union all select 'index', indexname, indexdef from pg_indexes where schemaname = %(schema)s
union all select 'constraint', conname, pg_get_constraintdef(oid) from pg_constraint where connamespace = %(schema)s::regnamespace
union all select 'options', relname, reloptions::text from pg_class where relnamespace = %(schema)s::regnamespace
order by 1, 2, 3
"""


def objects(url, schema):
    with psycopg.connect(url) as connection:
        rows = connection.execute(OBJECTS, {"schema": schema}).fetchall()
    return [tuple(str(value).replace(f'"{schema}"', "S").replace(schema, "S") for value in row) for row in rows]


def checked(url, schema="fastq"):
    connection = db.connect(url, role="test", schema=schema)
    try:
        check(connection)
    finally:
        connection.close()


def program(url):
    return subprocess.Popen([sys.executable, "-c", PROGRAM, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_an_empty_database_gets_all_migrations_and_a_second_run_none(empty_database):
    assert migrate(empty_database) == NAMES
    assert migrate(empty_database) == []
    assert execute(empty_database, "select name from fastq.migration order by version") == [(name,) for name in NAMES]
    checked(empty_database)


def test_a_dry_run_names_what_it_would_apply_and_leaves_no_trace(empty_database):
    assert migrate(empty_database, dry_run=True) == NAMES
    assert execute(empty_database, "select to_regnamespace('fastq')") == [(None,)]


def test_the_script_makes_what_migrate_makes(empty_database):
    migrate(empty_database, "migrated")
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(script("scripted"))

    assert len(objects(empty_database, "migrated")) > 50
    assert objects(empty_database, "scripted") == objects(empty_database, "migrated")
    checked(empty_database, "scripted")


def test_the_script_run_a_second_time_changes_nothing(empty_database):
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(script())
        before = objects(empty_database, "fastq")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute(script())

    assert objects(empty_database, "fastq") == before


def test_a_script_from_the_last_version_on_is_empty():
    assert script(from_version=migrations()[-1].version) == ""


def test_ten_processes_at_once_apply_each_migration_once(empty_database):
    with psycopg.connect(empty_database) as holder:  # keeps the lock until all ten have come for it
        holder.execute("select pg_advisory_xact_lock(%s)", (lock_key("migrate", "fastq"),))
        running = [program(empty_database) for _ in range(10)]
        here = "select count(*) from pg_stat_activity where application_name = 'fastq migrate' and datname = current_database()"
        wait_for(lambda: execute(empty_database, here) == [(10,)], timeout=30, what="ten that migrate")

    answers = [process.communicate(timeout=30) for process in running]
    assert [process.returncode for process in running] == [0] * 10, answers
    assert sorted(name for out, _ in answers for name in out.split()) == NAMES
    checked(empty_database)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("default_transaction_isolation", "repeatable read"),
        ("default_transaction_isolation", "serializable"),
        ("standard_conforming_strings", "off"),
        ("transaction_timeout", "500ms"),
    ],
)
def test_four_programs_at_once_migrate_whatever_the_databases_defaults_are(empty_database, setting, value):
    with psycopg.connect(empty_database, autocommit=True) as connection:
        if not connection.execute("select 1 from pg_settings where name = %s", (setting,)).fetchone():
            pytest.skip(f"this server has no {setting}")
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("alter database {} set {} = {}").format(name, sql.Identifier(setting), value))

    with psycopg.connect(empty_database, options=f"-c {setting}={DEFAULTS.get(setting, '0')}") as holder:
        holder.execute("select pg_advisory_xact_lock(%s)", (lock_key("migrate", "fastq"),))
        running = [program(empty_database) for _ in range(4)]
        waiting = "select count(*) from pg_stat_activity where wait_event = 'advisory' and datname = current_database()"
        wait_for(lambda: execute(empty_database, waiting) == [(4,)], timeout=30, what="four that wait for the lock")
        if setting == "transaction_timeout":
            time.sleep(0.6)  # what the limit would not let them wait

    answers = [process.communicate(timeout=30) for process in running]
    assert [process.returncode for process in running] == [0] * 4, answers
    assert sorted(name for out, _ in answers for name in out.split()) == NAMES
    patterns = "select pg_get_constraintdef(oid) from pg_constraint where conrelid = 'fastq.lease'::regclass and contype = 'c'"
    assert r"\S" in str(execute(empty_database, patterns))


def test_the_script_means_the_same_where_a_backslash_is_an_escape(empty_database):
    environment = {**os.environ, "PGOPTIONS": "-c standard_conforming_strings=off -c default_transaction_isolation=serializable"}
    subprocess.run(
        [PSQL, "--no-psqlrc", "--quiet", "-v", "ON_ERROR_STOP=1", "-o", os.devnull, empty_database],
        input=script("scripted"),
        env=environment,
        check=True,
        text=True,
    )
    migrate(empty_database, "migrated")

    assert objects(empty_database, "scripted") == objects(empty_database, "migrated")


def test_a_program_killed_between_two_statements_leaves_nothing_and_the_next_one_starts_over(empty_database):
    # As soon as the index job_due exists the backend waits for us: the migration is half done.
    execute(empty_database, "create schema pause")
    execute(
        empty_database,
        """
        create function pause.wait() returns event_trigger language plpgsql as $$
        begin
            if to_regclass('fastq.job_due') is not null then perform pg_advisory_lock(7); end if;
        end $$;
        create event trigger pause on ddl_command_end execute function pause.wait();
        """,
    )
    with psycopg.connect(empty_database, autocommit=True) as holder:
        holder.execute("select pg_advisory_lock(7)")
        killed = program(empty_database)
        paused = "select pid from pg_stat_activity where application_name = 'fastq migrate' and wait_event = 'advisory'"
        [(backend,)] = wait_for(lambda: execute(empty_database, paused), timeout=30)
        os.kill(killed.pid, signal.SIGKILL)
        killed.communicate()
        execute(empty_database, "drop event trigger pause")
    gone = "select count(*) from pg_stat_activity where pid = %s"
    wait_for(lambda: execute(empty_database, gone, backend) == [(0,)])

    assert execute(empty_database, "select to_regnamespace('fastq')") == [(None,)]
    assert migrate(empty_database) == NAMES
    checked(empty_database)


def test_a_migration_waits_for_its_lock_in_short_attempts_and_says_so(empty_database, monkeypatch):
    monkeypatch.setattr("fastq.schema.migrate.LOCK_TIMEOUT", "50ms")
    monkeypatch.setattr("fastq.schema.migrate.PATIENCE", 0.3)
    told = []
    with psycopg.connect(empty_database) as holder:
        holder.execute("select pg_advisory_xact_lock(%s)", (lock_key("migrate", "fastq"),))
        with pytest.raises(MigrationError, match=r"0001_initial did not get its locks in 0.3 s .* run fastq migrate again"):
            migrate(empty_database, tell=told.append)

    waits = "0001_initial waits for its locks, for up to 0.3 s (canceling statement due to lock timeout)"
    assert told == ["applying 0001_initial", waits]
    assert migrate(empty_database) == NAMES


def test_schemas_of_one_database_are_migrated_apart(empty_database):
    migrate(empty_database, "one")
    assert migrate(empty_database, "two") == NAMES
    with pytest.raises(MigrationError, match="the schema 'three' has no fastq tables: run fastq migrate --schema three"):
        checked(empty_database, "three")


def test_an_owner_of_the_schema_who_may_not_create_schemas_can_migrate(empty_database):
    role = f"plain_{os.getpid()}"
    execute(empty_database, f"create role {role} login password 'plain'")
    try:
        execute(empty_database, f"create schema fastq authorization {role}")
        assert migrate(make_conninfo(empty_database, user=role, password="plain")) == NAMES
    finally:
        execute(empty_database, f"drop owned by {role}; drop role {role}")


def test_a_schema_of_an_older_or_newer_version_is_refused_with_the_remedy(database):
    execute(database, "update fastq.migration set version = version + 100")
    with pytest.raises(MigrationError, match=r"has version 1\d\d, this program knows \d+: upgrade fastq-jobs"):
        checked(database)
    with pytest.raises(MigrationError, match="upgrade fastq-jobs"):
        migrate(database)

    execute(database, "update fastq.migration set version = version - 101 - %s", int(NAMES[-1][:4]))
    with pytest.raises(MigrationError, match=r"has version -\d+, this program needs \d+: run fastq migrate"):
        checked(database)


def test_a_database_that_is_not_there_is_said_to_be_unavailable():
    with pytest.raises(DatabaseUnavailable):
        migrate("postgresql://nobody@127.0.0.1:1/nowhere")


def test_a_full_disk_while_migrating_is_not_called_a_lost_connection(empty_database):
    execute(
        empty_database,
        "create function full_disk() returns event_trigger language plpgsql as "
        "$$ begin raise exception 'no space left on device' using errcode = 'disk_full'; end $$",
    )
    execute(empty_database, "create event trigger full_disk on ddl_command_start execute function full_disk()")

    with pytest.raises(MigrationError, match="schema 'fastq' could not be migrated: no space left on device"):
        migrate(empty_database)
