"""The census: the leader counts the jobs of each queue for its metrics, where somebody asks, and nobody else does."""

import pytest

from fastq.lead import census
from fastq.lead.census import Census, Counts
from fastq.lead.maintainer import Maintainer, schema_chores
from tests.db.jobs import add
from tests.db.leases import configured, site_on
from tests.helpers import wait_for


@pytest.fixture
def site(database):
    made = site_on(database, name="schema", health="127.0.0.1:9464")
    yield made
    made.connection.close()


def test_it_counts_the_jobs_of_each_queue_up_to_a_number(site, connection, monkeypatch):
    monkeypatch.setattr(census, "COUNT", 50)
    add(connection, 60)
    add(connection, 3, queue="emails")
    counts = Counts()

    assert Census(counts).run(site) == census.INTERVAL
    assert [(row.name, row.available) for row in counts.newest.queues] == [("default", 50), ("emails", 3)]


def test_a_count_that_takes_too_long_is_told_and_comes_again_later(site, connection, events):
    connection.execute("begin; lock table fastq.job in access exclusive mode")
    counts = Counts()
    site.connection.execute("set statement_timeout = '50ms'")

    assert Census(counts).run(site) == census.DETOUR
    connection.execute("rollback")
    assert counts.newest is None
    assert [event.name for event in events] == ["census.unseen"]


def test_the_end_of_its_term_leaves_nothing_counted(site):
    counts = Counts()
    chore = Census(counts)
    chore.run(site)
    chore.end(site, "lost")

    assert counts.newest is None


def test_a_supervisor_that_nobody_asks_does_not_count():
    chores = {chore.name for track in schema_chores(configured(), Counts()) for chore in track}
    asked = {chore.name for track in schema_chores(configured(health="127.0.0.1:9464"), Counts()) for chore in track}

    assert asked - chores == {"census"}


def test_the_maintainer_that_leads_has_counts_until_it_stops(database):
    made = Maintainer(configured(database_url=database, lease_ttl=2.0, health="127.0.0.1:9464"), database)
    made.start()
    wait_for(lambda: made.counts.newest, what="the first count")
    assert "schema" in made.leads()
    made.stop()
    wait_for(lambda: made.ended, what="its end")

    assert made.counts.newest is None
    assert made.leads() == []
