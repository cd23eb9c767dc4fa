"""The examination as a whole: nothing is found in a healthy database, nothing is changed or waited for, no refusal stops it."""

import asyncio
import threading
from dataclasses import replace

import psycopg
import pytest

from fastq import AsyncClient, Client
from fastq.admin import doctor
from fastq.errors import OptionError
from fastq.postgres import db
from tests.db.jobs import session
from tests.db.leases import configured
from tests.helpers import create_database, drop_database, execute, wait_for
from tests.proxy import Proxy


@pytest.fixture
def config():
    return configured(procs=1)


def test_of_a_healthy_database_each_check_says_that_all_is_well(database, config):
    examination = doctor.examine(config, database)

    assert [finding for finding in examination.findings if finding.level != "ok"] == []
    assert [finding.check for finding in examination.findings] == list(doctor.CHECKS)
    assert (examination.level, examination.schema) == ("ok", "fastq")


def test_the_worst_finding_is_the_level_of_the_whole(database, config):
    execute(database, "alter table fastq.job set (fillfactor = 90)")
    assert doctor.examine(config, database).level == "warn"

    execute(database, "alter table fastq.job set (autovacuum_enabled = off)")
    assert doctor.examine(config, database).level == "bad"


def test_each_check_but_that_of_the_pooler_asks_in_a_transaction_that_cannot_write(database, config, monkeypatch):
    states = {}

    def spying(check):
        def look(patient):
            states[check.name] = patient.connection.execute(
                "select pg_catalog.current_setting('transaction_read_only'), pg_catalog.current_setting('statement_timeout'), "
                "pg_catalog.current_setting('lock_timeout'), pg_catalog.current_setting('search_path')"
            )[0]
            yield from check.look(patient)

        return replace(check, look=look)

    for name, check in doctor.CHECKS.items():
        monkeypatch.setitem(doctor.CHECKS, name, spying(check))
    doctor.examine(config, database)

    assert states.pop("pooler")[0] == "off"
    assert set(states.values()) == {("on", "3s", "200ms", "pg_catalog")}


def test_nothing_is_left_in_a_session_and_no_session_is_left(database, config):
    doctor.examine(config, database)

    sessions = "select count(*) from pg_stat_activity where application_name = 'fastq doctor' and datname = current_database()"
    wait_for(lambda: execute(database, sessions) == [(0,)], what="the end of its sessions")


def test_a_check_that_has_to_wait_for_a_lock_says_so_and_the_others_go_on(database, config):
    with psycopg.connect(database) as holder:
        holder.execute("lock table fastq.lease in access exclusive mode")
        findings = {finding.check: finding for finding in doctor.examine(config, database).findings}

    assert not findings["leader"].asked
    assert "lock timeout" in findings["leader"].found
    assert "waited for a lock" in findings["leader"].means
    assert {name for name, finding in findings.items() if not finding.asked} == {"leader"}


def test_a_role_without_rights_is_told_which_checks_it_may_not_ask(database, config, role):
    url = psycopg.conninfo.make_conninfo(database, user=role)
    findings = {finding.check: finding for finding in doctor.examine(config, url).findings}

    assert findings["grants"].level == "bad"
    assert findings["schema"].level == "note"
    assert findings["connections"].level == "ok"
    assert {"leader", "due", "queues"} <= {name for name, finding in findings.items() if not finding.asked}
    assert {findings[name].level for name in findings if not findings[name].asked} == {"note"}
    assert "permission denied" in findings["due"].found


def test_a_database_that_is_not_migrated_is_told_of_and_only_the_server_is_examined(clinic, config):
    url = create_database(clinic, "fastq_test_bare")
    try:
        examination = doctor.examine(config, url)
    finally:
        drop_database(clinic, "fastq_test_bare")

    findings = {finding.check: finding for finding in examination.findings}
    assert findings["schema"].level == "bad"
    assert findings["schema"].remedy == "fastq migrate"
    assert findings.keys() == {name for name, check in doctor.CHECKS.items() if not check.of_tables}
    assert examination.version == 0


def test_a_server_that_is_not_there_is_the_only_finding(config):
    examination = doctor.examine(config, "postgresql://nobody@127.0.0.1:1/nowhere")

    [finding] = examination.findings
    assert (finding.check, finding.level, examination.level, examination.version) == ("connection", "bad", "bad", None)
    assert "does not answer" in finding.found


def test_a_session_that_is_ended_in_the_middle_costs_one_check(database, config, monkeypatch):
    check = doctor.CHECKS["clock"]

    def ended(patient):
        execute(database, "select pg_terminate_backend(%s)", patient.connection.backend_pid)
        yield from check.look(patient)

    monkeypatch.setitem(doctor.CHECKS, "clock", replace(check, look=ended))
    findings = doctor.examine(config, database).findings

    assert [finding.check for finding in findings if not finding.asked] == ["clock"]
    assert [finding.check for finding in findings] == list(doctor.CHECKS)


def test_a_server_that_freezes_is_given_up_and_not_tried_again_by_each_check(database, config, monkeypatch):
    monkeypatch.setattr("fastq.admin.doctor.checks.CUT", 0.3)
    monkeypatch.setattr("fastq.postgres.db.CONNECT_TIMEOUT", 2)
    check = doctor.CHECKS["clock"]
    with Proxy(database) as wire:

        def frozen(patient):
            wire.black_hole()
            yield from check.look(patient)

        monkeypatch.setitem(doctor.CHECKS, "clock", replace(check, look=frozen))
        findings = doctor.examine(config, wire.url, ["clock", "rows", "due", "queues"]).findings

        assert [finding.asked for finding in findings] == [False] * 4
        assert wire.accepted == 2  # the first session, and one try to have another


def test_checks_are_chosen_by_name_and_an_unknown_name_is_refused(database, config):
    assert [finding.check for finding in doctor.examine(config, database, ["clock", "due"]).findings] == ["clock", "due"]
    with pytest.raises(OptionError, match="no check is called 'clocks'; there are connection, schema, pooler"):
        doctor.examine(config, database, ["clocks"])


def test_both_clients_examine(database):
    async def examine():
        async with AsyncClient(database) as client:
            examining, ticks = asyncio.ensure_future(client.doctor("clock", "schema")), 0
            while not examining.done():
                await asyncio.sleep(0)
                ticks += 1
            return examining.result(), ticks

    with Client(database) as client:
        told = client.doctor("clock", "schema")
    (awaited, ticks) = asyncio.run(examine())

    assert [finding.check for finding in told.findings] == ["schema", "clock"]
    assert awaited == told
    assert ticks > 1  # the loop went on meanwhile


def test_jobs_are_worked_and_enqueued_while_it_looks(database, config):
    stop, errors = threading.Event(), []

    def enqueue():
        connection = session(database)
        try:
            while not stop.is_set():
                connection.execute("insert into fastq.job (kind) values ('nap')")
        except db.Error as error:
            errors.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=enqueue)
    thread.start()
    for _ in range(3):
        assert all(finding.asked for finding in doctor.examine(config, database).findings)
    stop.set()
    thread.join()

    assert errors == []


def test_no_check_reads_the_jobs_or_the_archive_from_end_to_end(database, config):
    connection = session(database)
    connection.execute("alter table fastq.job set (autovacuum_enabled = off)")  # its statistics stay those of an empty table
    connection.execute("insert into fastq.job (kind) select 'nap' from generate_series(1, 20000)")
    connection.execute(
        "insert into fastq.job (kind, state, seq, waits_for) "
        "select 'nap', 'waiting', null, 'worker:nap' from generate_series(1, 20000)"
    )
    connection.execute(
        "insert into fastq.job (kind, state, seq, scheduled_at) "
        "select 'nap', 'scheduled', null, now() - interval '1 h' from generate_series(1, 20000)"
    )
    connection.execute(
        "insert into fastq.job_archive "
        "(id, created_at, finalized_at, state, priority, attempt, max_attempts, crashes, queue, kind, args) "
        "select n, now(), now(), 'completed', 1, 1, 25, 0, 'default', 'nap', '{}' from generate_series(100000, 120000) n"
    )
    connection.execute(
        "insert into fastq.gate_permit (job, queue, gates) select n, 'default', $1 from generate_series(100000, 100010) n",
        '[["order-hold","stream",7,1,1]]',
    )
    connection.execute(
        "select brin_summarize_new_values(indexrelid) from pg_index join pg_class on oid = indexrelid "
        "where relname like 'job_archive%' and relkind = 'i'"
    )
    before = walks(connection)

    doctor.examine(config, database)

    assert before.keys() >= {"job", "job_archive_default", "dead"}
    assert walks(connection) == before
    connection.close()


def walks(connection):
    """Return how often each large table has been read from end to end; a session tells the server of its own when it ends."""
    connection.execute("select pg_stat_force_next_flush()")
    return dict(
        connection.execute(
            "select relname::text, seq_scan from pg_stat_all_tables "
            "where schemaname = 'fastq' and (relname = any ('{job,dead,job_log,job_step}') or relname like 'job_archive%')"
        )
    )
