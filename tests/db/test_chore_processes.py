"""What concerns no domain alone: rows of processes, queues and items that say nothing any more."""

import pytest

from fastq.chores.processes import EXPIRED, Processes
from fastq.chores.queues import INTERVAL, UNUSED, Queues
from tests.db.jobs import add
from tests.db.leases import run_out, site_on


@pytest.fixture
def site(database):
    """Give a leader of the schema."""
    made = site_on(database, name="schema")
    yield made
    made.connection.close()


def know(connection, process, expires_in, queues="default", domain="default"):
    connection.execute(
        "insert into fastq.process (id, host, pid, supervisor, queues, expires_at, domain) "
        "values ($1, 'h', 1, 'h:1:x', $3, clock_timestamp() + make_interval(secs => $2), $4)",
        process,
        float(expires_in),
        queues,
        domain,
    )


def name_queue(connection, name, age=2 * UNUSED, paused=False):
    connection.execute(
        "insert into fastq.queue (name, created_at, paused_at) "
        "values ($1, now() - make_interval(secs => $2), case when $3 then now() end)",
        name,
        float(age),
        paused,
    )


def queues(connection):
    return [name for (name,) in connection.execute("select name from fastq.queue order by name")]


@pytest.mark.lease("L48")
def test_processes_that_expired_a_while_ago_are_deleted_whatever_their_domain(site, connection):
    know(connection, 1, 10)
    know(connection, 2, -EXPIRED / 2)
    know(connection, 3, -EXPIRED * 2)
    know(connection, 4, -EXPIRED * 2, domain="billing")

    assert run_out(Processes(), site) == 2
    assert connection.execute("select id from fastq.process order by id") == [(1,), (2,)]


def test_a_queue_is_forgotten_when_its_row_says_nothing(site, connection):
    name_queue(connection, "unused")
    name_queue(connection, "young", age=UNUSED / 2)
    name_queue(connection, "paused", paused=True)
    name_queue(connection, "worked")
    know(connection, 1, 10, queues="other=4,worked=2")
    name_queue(connection, "was_worked")
    know(connection, 2, -10, queues="was_worked=2")
    name_queue(connection, "ready")
    add(connection, queue="ready")
    name_queue(connection, "waiting")
    add(connection, queue="waiting", state="scheduled", seq=None, scheduled_at="2100-01-01")

    assert run_out(Queues(), site) == 2
    assert queues(connection) == ["paused", "ready", "waiting", "worked", "young"]


def test_a_paused_queue_is_never_resumed_or_forgotten(site, connection):
    name_queue(connection, "paused", age=1_000 * UNUSED, paused=True)
    before = connection.execute("select * from fastq.queue")

    run_out(Queues(), site)

    assert connection.execute("select * from fastq.queue") == before


def test_queues_are_forgotten_by_the_batch(site, connection, monkeypatch):
    monkeypatch.setattr("fastq.chores.queues.BATCH", 3)
    for number in range(7):
        name_queue(connection, f"unused{number}")
    chore = Queues()

    chore.run(site)
    assert site.changed == 3
    run_out(chore, site)
    assert queues(connection) == []


def note(connection, count, days, name):
    connection.execute(
        "insert into fastq.once (name, item, at) select $1, 'i' || n, now() - make_interval(secs => 86400 * $2::float8) "
        "from generate_series(1, $3::int) as n",
        name,
        float(days),
        count,
    )


def test_items_of_the_guard_are_kept_for_their_days_and_deleted_by_windows(site, connection, monkeypatch):
    monkeypatch.setattr("fastq.chores.queues.WINDOW", 7)
    note(connection, 20, 31, "mail")
    note(connection, 20, 29, "paid")
    note(connection, 14, 31, "z")
    chore = Queues()

    assert run_out(chore, site) == 34
    assert connection.execute("select distinct name from fastq.once") == [("paid",)]
    assert chore.run(site) <= INTERVAL
