"""The maintainer: which leases a supervisor stands for, which chores belong to each, and that terms share nothing."""

import threading

import pytest

from fastq.admin import leaders
from fastq.config import Config
from fastq.lead.maintainer import Maintainer
from fastq.postgres import hints
from tests.db.jobs import add, claim, claim_number, session
from tests.helpers import wait_for

GONE, AT_WORK = 3, 4  # numbers of processes
DOMAIN_CHORES = {"promote", "periodic", "admit", "rescue", "prune"}
SCHEMA_CHORES = {
    "subscriptions",
    "stacks",
    "partitions",
    "processes",
    "forget",
    "domains",
    "unled",
    "unworked",
    "gate",
    "pauses",
    "workflow",
    "unique",
    "bulk",
    "statistics",
    "reindex",
}


@pytest.fixture
def connection(database):
    made = session(database)
    yield made
    made.close()


@pytest.fixture
def maintain(database):
    """Give a function that starts a maintainer; all end with the test."""
    started = []

    def start(**settings):
        config = Config(database_url=database, **({"lease_ttl": 2.0, "beat_interval": 0.2, "queues": {"default": 1}} | settings))
        started.append(Maintainer(config, database))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        stop(one)


def stop(maintainer):
    maintainer.stop()
    wait_for(lambda: maintainer.ended, 10, "its threads to end")


def holds(connection, *names):
    """Tell whether somebody holds all these leases."""
    return {row.name for row in leaders.list_leases(connection) if row.held} >= set(names)


def know(connection, process, expires_in, domain, queues):
    connection.execute(
        "insert into fastq.process (id, host, pid, supervisor, queues, expires_at, domain) "
        "values ($1, 'h', 1, 'h:1:x', $3, clock_timestamp() + make_interval(secs => $2), $4)",
        process,
        expires_in,
        queues,
        domain,
    )


def states(connection, ids):
    rows = connection.execute("select id, state::text from fastq.job where id = any ($1) order by id", ids)
    return [state for _, state in rows]


@pytest.mark.lease("L47")
def test_a_named_leader_promotes_and_rescues_in_its_own_queues_only(connection, maintain):
    know(connection, AT_WORK, 600.0, "billing", "invoices")
    know(connection, GONE, -1.0, "billing", "invoices")
    own, others = ([*add(connection, 2, queue=queue), *add(connection, 1, queue=queue)] for queue in ("invoices", "default"))
    for queue in ("invoices", "default"):
        claim(connection, claim_number(GONE, 1), queue=queue, limit=2)
    connection.execute(
        "update fastq.job set state = 'scheduled', seq = null, scheduled_at = clock_timestamp() where state = 'available'"
    )
    assert states(connection, own) == states(connection, others) == ["running", "running", "scheduled"]

    maintainer = maintain(leader_domain="billing", queues={"invoices": 1})
    wait_for(lambda: states(connection, own) == ["available"] * 3, 10, "its own jobs")
    late = add(connection, 1, queue="invoices")  # what is done after them shows that there was time for the others
    connection.execute("update fastq.job set state = 'scheduled', seq = null, scheduled_at = now() where id = any ($1)", late)
    maintainer.hears()[hints.DUE]("")
    wait_for(lambda: states(connection, late) == ["available"], 10, "a later one")

    assert states(connection, others) == ["running", "running", "scheduled"]


@pytest.mark.lease("L48")
def test_each_chore_is_done_under_the_lease_that_it_belongs_to(connection, maintain):
    """Two domains: each leader does the chores of a domain, one of them those of the schema, nobody any other."""
    one, two = (maintain(leader_domain=domain, queues={domain: 1}) for domain in ("billing", "mail"))
    wait_for(lambda: holds(connection, "leader:billing", "leader:mail", "schema"), 10, "all leases")
    wait_for(lambda: all(term._tracks for each in (one, two) for term in each._terms), 10, "the terms' start")
    terms = {term.fence.name: term for each in (one, two) for term in each._terms}
    assert sorted(terms) == ["leader:billing", "leader:mail", "schema"]
    threads = [thread.name for thread in threading.enumerate()]
    assert sorted(name for name in threads if name.startswith("fastq schema ")) == [
        f"fastq schema {number}" for number in (1, 2, 3)
    ]

    wait_for(lambda: all(track._ran.keys() >= {c.name for c in track.chores} for t in terms.values() for track in t._tracks), 10)
    done = {name: {ran for track in term._tracks for ran in track._ran} for name, term in terms.items()}
    assert done["leader:mail"] == done["leader:billing"] == DOMAIN_CHORES | {"domain_queues"}
    assert done["schema"] == SCHEMA_CHORES


@pytest.mark.lease("L34")
def test_the_end_of_one_term_ends_no_other(connection, maintain):
    maintainer = maintain()
    wait_for(lambda: holds(connection, "leader:default", "schema"), 10, "both leases")
    wait_for(lambda: all(term._tracks for term in maintainer._terms), 10, "the terms' start")
    by_name = {term.fence.name: term for term in maintainer._terms}

    assert leaders.resign(connection, "leader:default")
    maintainer.hears()[hints.LEASE]("leader:default")

    wait_for(lambda: by_name["leader:default"].ended, 10, "the end of the term that was asked for")
    wait_for(lambda: holds(connection, "leader:default"), 10, "its next term")
    assert [term for term in maintainer._terms if term.fence.name == "schema"] == [by_name["schema"]]
    assert by_name["schema"]._ending.reason == ""
    assert all(track.thread.is_alive() for track in by_name["schema"]._tracks)
