"""Findings about the server: its state, its sessions, its clock, its notifications, its settings, and the way to it."""

import os
import re
import time

import psycopg
import pytest

from fastq.admin import doctor
from fastq.admin.doctor import server, sessions
from tests.conftest import SMALL_QUEUE, VERSION
from tests.db.leases import configured
from tests.full_queue import FullQueue
from tests.helpers import execute, wait_for
from tests.pgbouncer import pgbouncer


def name_of(database):
    return psycopg.conninfo.conninfo_to_dict(database)["dbname"]


def test_a_server_that_is_too_old_is_told_of(found, monkeypatch):
    monkeypatch.setattr(server, "OLDEST_POSTGRES", VERSION + 1)

    [finding] = found("connection").values()

    assert finding.level == "bad"
    assert f"needs Postgres {VERSION + 1} or later" in finding.means


@pytest.mark.parametrize(("version", "remedy"), [(-1, "fastq migrate"), (1, "pip install --upgrade fastq-jobs")])
def test_a_schema_of_another_version_is_told_of_with_the_command_that_mends_it(database, found, version, remedy):
    execute(
        database,
        "update fastq.migration set version = version + %s where version = (select max(version) from fastq.migration)",
        version * 100,
    )
    if version < 0:
        execute(database, "delete from fastq.migration where version > 5")

    [finding] = found("schema").values()

    assert (finding.level, finding.remedy) == ("bad", remedy)


def test_the_remedy_names_another_schema(clinic):
    examination = doctor.examine(configured(schema="shop_jobs"), clinic, ["schema"])

    assert [finding.remedy for finding in examination.findings] == ["fastq migrate --schema shop_jobs"]


@pytest.mark.parametrize(
    ("mode", "others", "poll_only", "level", "said"),
    [
        ("transaction", {}, False, "bad", "set FASTQ_POLL_ONLY=1 (--poll-only), or use a URL"),
        (
            "transaction",
            {"ignore_startup_parameters": "options"},
            False,
            "bad",
            "set FASTQ_POLL_ONLY=1 (--poll-only), or use a URL",
        ),
        ("transaction", {}, True, "ok", ""),
        ("session", {}, False, "bad", "set FASTQ_POLL_ONLY=1 (--poll-only), or use a URL"),
        ("session", {"ignore_startup_parameters": "options"}, False, "bad", "set FASTQ_POLL_ONLY=1 (--poll-only), or use a URL"),
        ("session", {}, True, "ok", ""),
        ("statement", {}, False, "bad", "pool_mode = transaction, and FASTQ_POLL_ONLY=1"),
        ("statement", {}, True, "bad", "pool_mode = transaction, and FASTQ_POLL_ONLY=1"),
    ],
)
def test_the_way_of_pooling_is_found_out(database, tmp_path, mode, others, poll_only, level, said):
    with pgbouncer(database, tmp_path, pool_mode=mode, **others) as through:
        [finding] = doctor.examine(configured(poll_only=poll_only), through, ["pooler"]).findings

    assert (finding.level, finding.subject) == (level, mode)
    assert said in finding.remedy


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_all_that_can_be_asked_through_a_pooler_is(database, tmp_path, mode):
    with pgbouncer(database, tmp_path, pool_mode=mode) as through:
        examination = doctor.examine(configured(poll_only=True, procs=1), through)

    worse = {finding.check: finding for finding in examination.findings if finding.level != "ok"}
    assert worse.keys() == {"settings"}  # the role has no statement_timeout of its own
    assert all(finding.asked for finding in examination.findings)


def test_through_a_pooler_for_statements_each_check_says_that_it_cannot_be_asked(database, tmp_path):
    with pgbouncer(database, tmp_path, pool_mode="statement") as through:
        findings = doctor.examine(configured(poll_only=True), through).findings

    assert {finding.check for finding in findings if finding.asked} == {"pooler"}


def test_polling_without_a_pooler_is_told_of(found):
    [finding] = found("pooler", poll_only=True).values()

    assert (finding.level, finding.subject) == ("note", "none")


def test_room_for_no_further_run_is_a_warning_and_no_room_at_all_is_bad(database, clinic, found):
    need = sessions.needed(configured(procs=1))
    [(most, kept, used)] = execute(
        clinic,
        "select current_setting('max_connections')::int, current_setting('superuser_reserved_connections')::int + "
        "coalesce(current_setting('reserved_connections', true), '0')::int, "
        "(select count(*) from pg_stat_activity where backend_type = 'client backend') - 1",
    )
    assert found("connections") == {}
    opened = [psycopg.connect(database) for _ in range(most - kept - used - need)]  # the examination's own is one more
    try:
        [warned] = found("connections").values()
        opened += [psycopg.connect(database) for _ in range(need - 3)]
        [full] = found("connections").values()
    finally:
        for connection in opened:
            connection.close()

    assert (warned.level, warned.subject) == ("warn", "the server")
    assert f"takes {need}" in warned.means
    assert (full.level, full.subject) == ("bad", "the server")
    assert re.match(r"alter system set max_connections = \d+;  -- and restart the server", full.remedy)
    wait_for(lambda: found("connections") == {}, what="the end of the sessions")


def test_a_limit_of_the_database_or_of_the_role_counts_too(database, found, role):
    name = name_of(database)
    execute(database, f'alter database "{name}" connection limit 2')
    [of_database] = found("connections").values()
    execute(database, f'alter database "{name}" connection limit -1')
    execute(database, f"alter role {role} connection limit 2")
    [of_role] = found("connections", url=psycopg.conninfo.make_conninfo(database, user=role)).values()

    assert (of_database.level, of_database.subject) == ("bad", f"the database '{name}'")
    assert of_database.remedy.startswith(f'alter database "{name}" connection limit ')
    assert (of_role.level, of_role.subject) == ("bad", f"the role '{role}'")
    assert of_role.remedy.startswith(f'alter role "{role}" connection limit ')


@pytest.mark.parametrize(("off", "level", "said"), [(90.0, "bad", "90 s ahead of"), (-5.0, "warn", "5 s behind")])
def test_a_clock_that_is_wrong_is_told_of(found, monkeypatch, off, level, said):
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + off)

    [finding] = found("clock").values()

    assert finding.level == level
    assert f"the clock of this machine is {said} the database's" in finding.found


def test_a_full_queue_of_notifications_is_told_of_with_the_session_to_end(clinic, database, found):
    if VERSION < SMALL_QUEUE:
        pytest.skip("it takes a server whose queue is small")
    queue = FullQueue(clinic)
    try:
        [finding] = found("notifications").values()
    finally:
        queue.empty()

    assert finding.level == "bad"
    assert finding.remedy == f"select pg_terminate_backend({queue.pid});"
    assert found("notifications") == {}  # to ask drops the notifications that all have taken


@pytest.mark.parametrize(
    ("name", "value", "level"),
    [
        ("synchronous_commit", "off", "warn"),
        ("default_transaction_read_only", "on", "bad"),
        ("idle_in_transaction_session_timeout", "0", "note"),
    ],
)
def test_a_setting_of_the_database_is_told_of_and_its_remedy_mends_it(clinic, database, found, name, value, level):
    execute(database, f'alter database "{name_of(database)}" set {name} = {value}')
    [finding] = found("settings").values()
    execute(clinic, finding.remedy)

    assert (finding.level, finding.subject) == (level, name)
    assert found("settings") == {}


@pytest.mark.parametrize(("name", "level"), [("fsync", "bad"), ("full_page_writes", "warn")])
def test_a_setting_of_the_server_is_told_of_and_its_remedy_mends_it(clinic, set_server, found, name, level):
    set_server(name, "off")
    [finding] = wait_for(lambda: found("settings")).values()
    for text in finding.remedy.split("; "):
        execute(clinic, text)

    assert (finding.level, finding.subject) == (level, name)
    wait_for(lambda: found("settings") == {}, what="the setting")


@pytest.mark.parametrize(
    ("setting", "level"),
    [("statement_timeout = '9s'", None), ("statement_timeout = 0", "note"), ("statement_timeout = '20s'", "note"),
     ("statement_timeout = '100ms'", "warn"), ("idle_session_timeout = '1min'", "note"),
     ("default_transaction_isolation = 'serializable'", "warn")],
)  # fmt: skip
def test_settings_that_a_pooler_keeps_us_from_pinning_count_behind_one_alone(database, found, setting, level):
    name = name_of(database)
    execute(database, f"alter database \"{name}\" set statement_timeout = '9s'")
    execute(database, f'alter database "{name}" set {setting}')

    pooled, direct = found("settings", poll_only=True), found("settings")

    assert [finding.level for finding in pooled.values()] == ([level] if level else [])
    assert direct == {}


def test_a_setting_of_the_role_is_mended_at_the_role(database, found, role):
    execute(database, f"alter role {role} set synchronous_commit = off")

    [finding] = found("settings", url=psycopg.conninfo.make_conninfo(database, user=role)).values()

    assert finding.remedy == f'alter role "{role}" set synchronous_commit = on;'


def test_variables_that_are_no_settings_and_settings_that_contradict_each_other_are_told_of(found, monkeypatch):
    monkeypatch.setenv("FASTQ_PROC", "2")
    findings = found("settings", job_log_days=9.0, archive=False, keep="completed=1")

    assert {subject: finding.level for subject, finding in findings.items()} == {
        "FASTQ_PROC": "warn",
        "job_log_days": "note",
        "keep": "note",
    }
    assert "did you mean FASTQ_PROCS?" in findings["FASTQ_PROC"].found
    assert findings["job_log_days"].remedy == "FASTQ_JOB_LOG_DAYS=7"
    assert os.environ["FASTQ_PROC"] == "2"
