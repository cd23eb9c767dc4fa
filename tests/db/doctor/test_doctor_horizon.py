"""Findings about old snapshots: sessions, prepared transactions, replication slots and standbys that keep dead rows."""

import uuid

import psycopg
import pytest

from fastq.admin import doctor
from fastq.admin.doctor import horizon
from tests.chaos.servers import Servers, scratch
from tests.db.leases import configured
from tests.helpers import execute, wait_for


@pytest.fixture
def soon(monkeypatch):
    """Have each transaction count as old at once."""
    monkeypatch.setattr(horizon, "OLD", 0.0)


def test_a_session_in_an_old_transaction_is_told_of_and_the_remedy_ends_it(database, found, soon):
    with psycopg.connect(database, application_name="a report") as holder:
        pid = holder.info.backend_pid
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select 1 from fastq.job")
        [finding] = wait_for(lambda: found("horizon")).values()
        execute(database, finding.remedy)
        with pytest.raises(psycopg.OperationalError):
            holder.execute("select 1")

    assert (finding.level, finding.subject) == ("warn", f"session {pid}")
    assert f"session {pid} (a report, role postgres) is in a transaction for" in finding.found
    assert found("horizon") == {}


def test_one_that_is_open_for_an_hour_is_bad_and_one_that_is_young_is_none(database, found, monkeypatch):
    with psycopg.connect(database) as holder:
        holder.execute("insert into fastq.job (kind) values ('nap')")  # a transaction with a number of its own
        young = found("horizon")
        monkeypatch.setattr(horizon, "TOO_OLD", 0.0)
        [old] = found("horizon").values()

    assert young == {}
    assert old.level == "bad"


def test_many_transactions_since_a_snapshot_count_as_a_long_time_does(database, found, monkeypatch):
    monkeypatch.setattr(horizon, "MANY", 20)
    with psycopg.connect(database) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select 1 from fastq.job")
        assert found("horizon") == {}
        with psycopg.connect(database, autocommit=True) as other:
            for _ in range(25):
                other.execute("select pg_current_xact_id()")
        [finding] = found("horizon").values()

    assert finding.level == "warn"
    assert "and keeps the dead rows of the last 2" in finding.found


def test_a_prepared_transaction_that_is_forgotten_is_told_of_and_the_remedy_ends_it(database, found, soon):
    name = f"o'brien {uuid.uuid4().hex}"
    with psycopg.connect(database) as connection:
        connection.execute("insert into fastq.job (kind) values ('nap')")
        connection.execute(f"prepare transaction '{name.replace(chr(39), chr(39) * 2)}'")
    [finding] = found("horizon").values()
    execute(database, finding.remedy)

    assert (finding.level, finding.subject) == ("warn", f"prepared {name}")
    assert found("horizon") == {}


def test_a_replication_slot_that_nobody_reads_is_told_of_and_the_remedy_ends_it(database, found):
    execute(database, "select pg_create_logical_replication_slot('forgotten', 'pgoutput')")
    try:
        [finding] = found("horizon").values()
    finally:
        execute(database, "select pg_drop_replication_slot('forgotten')")

    assert (finding.level, finding.subject) == ("warn", "slot forgotten")
    assert "the inactive replication slot 'forgotten'" in finding.found
    assert finding.remedy.startswith("select pg_drop_replication_slot('forgotten');")
    assert found("horizon") == {}


def test_a_role_that_does_not_see_the_others_is_told_how_to(database, found, role):
    url = psycopg.conninfo.make_conninfo(database, user=role)
    [finding] = found("horizon", url=url).values()
    execute(database, finding.remedy)

    assert finding.level == "note"
    assert found("horizon", url=url) == {}


@pytest.mark.further
def test_a_standby_is_told_of_by_itself_and_to_its_primary(monkeypatch):
    monkeypatch.setattr(horizon, "MANY", 0)
    with scratch() as folder, Servers(folder) as servers:
        execute(servers.primary.url, "alter system set hot_standby_feedback = on")  # the standby is a copy
        servers.add_standby()
        url = servers.standby_url
        wait_for(
            lambda: execute(servers.primary.url, "select 1 from pg_stat_replication where backend_xmin is not null"),
            30.0,
            "its feedback",
        )

        [to_primary] = [
            finding
            for finding in doctor.examine(configured(), servers.primary.url, ["horizon"]).findings
            if finding.subject.startswith("standby")
        ]
        [itself] = doctor.examine(configured(), url, ["connection"]).findings

    assert to_primary.level == "warn"
    assert "hot_standby_feedback = off" in to_primary.remedy
    assert itself.level == "bad"
    assert "which is a standby" in itself.found
