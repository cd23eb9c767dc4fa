"""Reindexing: bloated indexes are built anew, within limits, and what a build that was cut off leaves behind is cleaned."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fastq.lead.chores.reindex import LOOK, Reindex, connect, indexes, is_leftover
from tests.db.jobs import add
from tests.db.leases import run_out, site_on, take_over
from tests.helpers import Stopwatch, wait_for

REINDEX = "select pid from pg_stat_activity where query like 'reindex%' and state = 'active' and datname = current_database()"


@pytest.fixture
def ending():
    """Give the event that ends the term."""
    return threading.Event()


@pytest.fixture
def site(database, ending):
    """Give a leader of the schema."""
    made = site_on(database, name="schema", nap=ending.wait)
    yield made
    made.connection.close()


@pytest.fixture
def small(monkeypatch):
    """Let indexes be worth it that a test can make."""
    monkeypatch.setattr("fastq.lead.chores.reindex.WORTHWHILE", 100_000)
    monkeypatch.setattr("fastq.lead.chores.reindex.NAP", 0.0)


def bloat(connection):
    """Leave indexes of many pages with few entries."""
    add(connection, 20_000)
    connection.execute("delete from fastq.job where id % 200 <> 0")
    connection.execute("vacuum (analyze) fastq.job")


def sizes(site):
    return {index.name: index.bytes for index in indexes(site)}


def hold_snapshot(connection):
    connection.execute("begin isolation level repeatable read")
    connection.execute("select count(*) from fastq.job")


def leave_leftovers(site, database, other, count=1):
    """Cut builds off that wait for an old snapshot; return the names of what they leave."""
    for _ in range(count):
        hold_snapshot(other)
        builder = connect(site)
        builder.execute("set lock_timeout = '100ms'")
        with pytest.raises(Exception, match="lock timeout"):
            builder.execute("reindex index concurrently fastq.job_ready")
        builder.close()
        other.execute("rollback")
    return [index.name for index in indexes(site) if is_leftover(index)]


def test_bloated_indexes_are_built_anew_and_the_others_left_alone(site, connection, small, events):
    bloat(connection)
    before = sizes(site)

    assert run_out(Reindex(), site) == 2

    after = sizes(site)
    assert {name for name in before if after[name] < before[name] / 2} == {"job_pkey", "job_ready"}
    assert sorted(event.fields["index"] for event in events if event.name == "index.rebuilt") == ["job_pkey", "job_ready"]
    noted = connection.execute("select name, took > 0, error from fastq.chore where lease = 'schema' order by name")
    assert noted == [("reindex job_pkey", True, None), ("reindex job_ready", True, None)]


def test_an_index_full_of_entries_is_not_worth_it(site, connection, small):
    add(connection, 20_000)
    connection.execute("vacuum (analyze) fastq.job")

    assert run_out(Reindex(), site) == 0


def test_a_small_index_is_not_worth_it(site, connection):
    bloat(connection)

    assert run_out(Reindex(), site) == 0


def test_an_index_is_built_once_in_the_interval_whoever_leads(site, connection, small):
    bloat(connection)
    assert run_out(Reindex(), site) == 2
    bloat(connection)

    assert run_out(Reindex(), site) == 0
    connection.execute("update fastq.chore set ran_at = ran_at - interval '2 days'")
    assert run_out(Reindex(), site) == 2


def test_a_clock_that_was_set_back_keeps_no_index_from_being_built_anew(site, connection, small):
    bloat(connection)
    assert run_out(Reindex(), site) == 2
    bloat(connection)
    connection.execute("update fastq.chore set ran_at = ran_at + interval '1 year'")

    assert run_out(Reindex(), site) == 2


@pytest.mark.parametrize("settings", [{"reindex_interval": 0.0}, {"poll_only": True}])
def test_it_does_nothing_when_it_is_switched_off_or_sessions_are_shared(database, connection, small, settings):
    bloat(connection)
    site = site_on(database, name="schema", **settings)

    assert Reindex().run(site) == LOOK
    assert site.changed == 0
    site.connection.close()


@pytest.mark.lease("L33")
def test_a_stale_term_builds_nothing(site, connection, small):
    bloat(connection)
    before = sizes(site)
    take_over(connection, site.fence)

    with pytest.raises(Exception, match="lease_hold did nothing"):
        Reindex().run(site)
    assert sizes(site) == before


def test_what_builds_that_were_cut_off_left_is_dropped_numbered_ones_too(site, database, connection, other, events):
    left = leave_leftovers(site, database, other, 2)
    assert left == ["job_ready_ccnew", "job_ready_ccnew1"]

    assert run_out(Reindex(), site) == 2

    assert [index.name for index in indexes(site) if not index.valid] == []
    assert [event.fields["index"] for event in events if event.name == "index.leftover_dropped"] == left


def test_a_leader_that_builds_no_index_anew_drops_what_another_has_left(database, connection, other, small, events):
    bloat(connection)
    site = site_on(database, name="schema", reindex_interval=0.0)
    left = leave_leftovers(site, database, other)

    assert run_out(Reindex(), site) == 1

    assert [event.name for event in events] == ["index.leftover_dropped"]
    assert left == ["job_ready_ccnew"]
    assert [index.name for index in indexes(site) if not index.valid] == []
    site.connection.close()


def test_where_sessions_are_shared_it_is_told_once_and_what_removes_it(database, other, events):
    site = site_on(database, name="schema", poll_only=True, reindex_timeout=60.0)
    chore = Reindex()
    assert chore.run(site) == LOOK
    leave_leftovers(site, database, other)

    assert chore.run(site) == 60.0, "it may be a build that is under way"
    assert events == []
    assert [chore.run(site) for _ in range(2)] == [LOOK, LOOK]

    [told] = events
    assert (told.name, told.fields["index"]) == ("index.leftover", "job_ready_ccnew")
    site.connection.execute(told.fields["remedy"])
    assert [index.name for index in indexes(site) if is_leftover(index)] == []
    site.connection.close()


def test_an_invalid_index_of_somebody_else_is_left_alone(site, connection):
    connection.execute("create index mine on fastq.job (kind)")
    connection.execute("update pg_index set indisvalid = false where indexrelid = 'fastq.mine'::regclass")

    run_out(Reindex(), site)

    assert "mine" in sizes(site)


def test_a_build_that_waits_for_an_old_snapshot_gives_up_and_is_told(site, connection, other, small, events, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.reindex.LOCK_TIMEOUT", "100ms")
    bloat(connection)
    hold_snapshot(other)
    chore = Reindex()

    assert run_out(chore, site) == 0
    assert {event.fields["index"] for event in events if event.name == "index.not_rebuilt"} >= {"job_pkey", "job_ready"}
    assert connection.execute("select count(*) from fastq.chore where error like '%lock timeout%'") == [(2,)]
    other.execute("rollback")
    assert run_out(Reindex(), site) == 2, "the next leader drops what was left; it was tried today"
    assert [index.name for index in indexes(site) if not index.valid] == []


def test_a_build_ends_with_its_time(database, connection, other, small, events):
    bloat(connection)
    site = site_on(database, name="schema", reindex_timeout=1.0)
    hold_snapshot(other)

    run_out(Reindex(), site)

    assert {event.fields["error"] for event in events if event.name == "index.not_rebuilt"} == {
        "canceling statement due to statement timeout"
    }
    other.execute("rollback")
    site.connection.close()


@pytest.mark.lease("L37")
@pytest.mark.parametrize(("reason", "cleaned"), [("stop", True), ("resign", True), ("lost", False)])
def test_the_end_of_a_term_cuts_a_build_off_and_cleans_up_if_it_still_leads(
    site, ending, connection, other, small, reason, cleaned
):
    bloat(connection)
    hold_snapshot(other)
    chore = Reindex()
    thread = threading.Thread(target=chore.run, args=(site,))
    thread.start()
    wait_for(lambda: connection.execute(REINDEX), what="the build")
    wait_for(lambda: [index for index in indexes_seen(connection) if index.endswith("_ccnew")], what="its index")

    watch = Stopwatch()
    ending.set()
    wait_for(lambda: not thread.is_alive(), 3.0, "the end of the build")
    assert watch.idle() < 1.0
    other.execute("rollback")
    chore.end(site, reason)

    assert connection.execute(REINDEX) == []
    assert ([name for name in indexes_seen(connection) if name.endswith("_ccnew")] == []) == cleaned


def indexes_seen(connection):
    rows = connection.execute("select relname from pg_class where relkind = 'i' and relname like 'job%'")
    return [name for (name,) in rows]


@pytest.mark.lease("L37")
def test_who_lost_its_lease_while_stopping_leaves_the_cleaning_to_the_next_leader(site, database, connection, other):
    left = leave_leftovers(site, database, other)
    chore = Reindex()
    chore._cut_off = True
    take_over(connection, site.fence)

    chore.end(site, "stop")

    assert [index.name for index in indexes(site) if is_leftover(index)] == left


BUILD = """
import sys
from fastq.lead.chores.reindex import Reindex
import fastq.lead.chores.reindex as module
from tests.db.leases import site_on
module.WORTHWHILE, module.LOCK_TIMEOUT = 100_000, "60s"
Reindex().run(site_on(sys.argv[1], name="schema"))
"""


@pytest.mark.process
@pytest.mark.lease("L37")
def test_the_build_of_a_killed_leader_ends_within_three_seconds_and_the_next_one_heals(
    database, connection, other, small, monkeypatch
):
    bloat(connection)
    hold_snapshot(other)
    leader = subprocess.Popen([sys.executable, "-c", BUILD, database], cwd=Path.cwd())
    try:
        wait_for(lambda: connection.execute(REINDEX), what="the build")
        wait_for(lambda: [name for name in indexes_seen(connection) if name.endswith("_ccnew")], what="its index")
    finally:
        leader.send_signal(signal.SIGKILL)
        leader.wait()
    wait_for(lambda: connection.execute(REINDEX) == [], 3.0, "the end of the killed leader's backend")
    other.execute("rollback")
    take_over(connection, type("Old", (), {"name": "schema", "term": 0})())
    connection.execute("update fastq.lease set expires_at = '-infinity'")

    site = site_on(database, name="schema")
    run_out(Reindex(), site)

    assert [index.name for index in indexes(site) if not index.valid] == []
    assert sizes(site)["job_ready"] < 100_000
    site.connection.close()


def test_two_builds_at_once_are_kept_apart_by_the_tables_lock(site, connection, other, small, events, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.reindex.LOCK_TIMEOUT", "100ms")
    bloat(connection)
    other.execute("begin")
    other.execute("lock table fastq.job in share update exclusive mode")

    assert run_out(Reindex(), site) == 0
    assert [name for name in indexes_seen(connection) if "_cc" in name] == []
    other.execute("rollback")
