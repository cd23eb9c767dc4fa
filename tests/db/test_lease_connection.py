"""The connection of a lease: its own or one that was handed in, and no longer waited for than the lease is trusted."""

import time
from dataclasses import replace
from multiprocessing import get_context

import psycopg
import pytest
from psycopg.rows import dict_row

from fastq import Config, Lease
from fastq.errors import ConfigError, DatabaseUnavailable
from fastq.leases import lease
from fastq.leases.lease import boottime
from fastq.schema.migrate import migrate
from tests.db.lease_rows import row
from tests.helpers import execute


@pytest.mark.lease("L26")
def test_an_own_connection_that_failed_is_replaced_with_a_warning_that_tells_no_secrets(make, database, events):
    mine = make()
    assert mine.try_acquire()
    pids = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'fastq lease'"
    assert execute(database, pids + " and datname = current_database()") == [(True,)]

    with pytest.raises(DatabaseUnavailable):
        mine.renew()
    assert mine.renew()

    (warning,) = [event for event in events if event.name == "lease.connection_dropped"]
    assert warning.fields["lease"] == "report"
    assert warning.fields["error"] in {"AdminShutdown", "OperationalError"}
    assert set(warning.fields) == {"lease", "error"}, "no url"


@pytest.mark.lease("L26")
def test_a_lease_waits_for_a_server_that_is_away_and_comes_back(proxy, make):
    mine = make(url=proxy.url)
    proxy.close()
    with pytest.raises(DatabaseUnavailable, match="the lease 'report'"):
        mine.try_acquire()


@pytest.mark.lease("L27")
def test_a_connection_that_was_handed_in_is_neither_closed_nor_replaced(database, make, monkeypatch, events):
    monkeypatch.setenv("FASTQ_DATABASE_URL", database)
    with psycopg.connect(database, autocommit=True) as conn:
        mine = make(conn=conn)
        assert mine.try_acquire()
        mine.close()
        assert not conn.closed
        assert conn.execute("select 1").fetchone() == (1,)
        assert mine.try_acquire()
        conn.close()
        for act in (mine.renew, mine.release, mine.try_acquire):
            with pytest.raises(DatabaseUnavailable, match="closed"):
                act()

    assert execute(database, "select count(*) from pg_stat_activity where application_name = 'fastq lease'") == [(0,)]
    assert not [event for event in events if event.name == "lease.connection_dropped"]


@pytest.mark.lease("L27")
def test_a_connection_that_was_handed_in_may_have_rows_of_its_own_kind(database, make, connection):
    with psycopg.connect(database, autocommit=True, row_factory=dict_row) as conn:
        mine = make(conn=conn)
        assert mine.try_acquire()
        assert mine.term == row(connection, "user:report")[1]
        assert mine.renew()
        assert make(conn=conn).try_acquire() is False
        assert mine.release()


def test_a_url_and_a_schema_come_before_those_of_a_configuration(empty_database):
    migrate(empty_database, "other")
    config = Config(database_url="postgresql://nowhere", schema="elsewhere")
    with Lease("report", url=empty_database, schema="other", config=config) as mine:
        assert execute(empty_database, "select name from other.lease where holder <> ''") == [("user:report",)]
        assert mine.trusted()


@pytest.mark.lease("L27")
def test_without_a_database_a_lease_is_refused():
    with pytest.raises(ConfigError, match="a lease needs a database"):
        Lease("report")


@pytest.mark.lease("L29")
def test_no_statement_outlasts_the_trust_in_the_lease(proxy, make):
    mine = make(url=proxy.url, ttl=1.0)
    assert mine.try_acquire()
    sent = boottime()
    assert mine.renew()
    proxy.black_hole()
    with pytest.raises(DatabaseUnavailable):
        mine.renew()

    assert boottime() - sent < 1.0
    proxy.restore()


@pytest.mark.lease("L29")
def test_connecting_counts_too(proxy, make):
    mine = make(url=proxy.url, ttl=1.0)
    assert mine.try_acquire()
    proxy.black_hole()
    mine._drop()  # what an error of the statement before does

    sent = boottime()
    with pytest.raises(DatabaseUnavailable):
        mine.renew()
    assert boottime() - sent < 1.5
    sent = boottime()
    mine.close()
    assert boottime() - sent < lease.RELEASE_TIMEOUTS[0] + 0.5
    proxy.restore()


@pytest.mark.lease("L29")
def test_a_short_ttl_leaves_time_to_connect_over_a_slow_way(proxy, make):
    proxy.late = 0.6  # s; an answer to the statement has half of the ttl, and a second one would not be in time
    mine = make(url=proxy.url, ttl=2.0)
    began = time.monotonic()
    assert mine.try_acquire()
    assert time.monotonic() - began > mine.ttl  # so the ttl is not what connecting is allowed
    proxy.late = 0.0


@pytest.mark.lease("L29")
def test_a_long_ttl_does_not_make_a_statement_wait_longer_than_others_do(proxy, make):
    mine = make(url=proxy.url, ttl=3600.0, config=None)
    mine._config = replace(mine._config, statement_timeout=0.5)
    assert mine.try_acquire()
    proxy.black_hole()

    for act in (mine.renew, mine.try_acquire, lambda: mine.acquire(timeout=0.2)):
        sent = boottime()
        with pytest.raises(DatabaseUnavailable):
            act()
        assert boottime() - sent < 2.0
    proxy.restore()


@pytest.mark.lease("L23", "L24")
def test_a_fork_of_the_holder_holds_nothing_and_leaves_his_session_alone(make, database):
    mine = make(ttl=60.0)
    assert mine.try_acquire()
    term = mine.term
    context = get_context("fork")
    told = context.SimpleQueue()

    def use():
        held = [mine.trusted(), mine.term, mine.fence, mine.renew(), mine.release(), mine.try_acquire()]
        mine.close()
        told.put((held, mine.try_acquire()))
        mine.close()

    child = context.Process(target=use)
    child.start()
    child.join(60)
    assert child.exitcode == 0
    held, again = told.get()

    assert held == [False, None, None, False, False, False]
    assert not again
    assert mine.renew()
    assert mine.term == term
