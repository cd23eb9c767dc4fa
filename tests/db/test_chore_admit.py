"""The sweep behind jobs that wait for a worker, and the report of those that wait in vain."""

import time

import pytest

from fastq.lead.chores.admit import BATCH, INTERVAL, NAP, Admit
from fastq.lead.chores.unworked import TOLD_EVERY, Unworked
from fastq.postgres import db
from tests.db.jobs import CHANNEL, add, claimed_ids, living
from tests.db.leases import run_out, site_on


@pytest.fixture
def site(database):
    """Give a leader of the default domain."""
    made = site_on(database)
    yield made
    made.connection.close()


def wait_for_worker(connection, count=1, **columns):
    return add(connection, count, state="waiting", seq=None, waits_for=f"worker:{columns.get('kind', 'nap')}", **columns)


def register(connection, number, kinds, *, queues="default", ttl=15.0):
    connection.run("process_beat", [number], [number], "h", f"h:0:x{number}", queues, ttl, "default", [], kinds, [None])
    if kinds is None:
        connection.execute("update fastq.process set kinds = null where id = $1", number)


def test_what_each_living_process_of_the_queue_has_a_worker_for_becomes_available(site, connection):
    known = wait_for_worker(connection, 3, kind="mail")
    unknown = wait_for_worker(connection, kind="sort")
    register(connection, 1, ["mail", "nap"])
    register(connection, 2, ["mail"], queues="emails,default")
    register(connection, 3, ["sort"], ttl=-1.0)
    register(connection, 4, ["sort"], queues="others")
    register(connection, 5, [])  # an app of singletons works no jobs
    connection.listen(CHANNEL)

    assert run_out(Admit(), site) == 3

    assert claimed_ids(connection) == known
    assert living(connection, known[0])["waits_for"] is None
    assert living(connection, unknown[0])["state"] == "waiting"
    assert list(connection.notifications(1.0)) == ["default"]


def test_what_a_living_process_of_the_queue_would_put_back_is_left_to_those_that_know_it(site, connection):
    wait_for_worker(connection, kind="mail")
    register(connection, 1, ["mail"])
    register(connection, 2, ["sort"])

    assert run_out(Admit(), site) == 0


def test_a_program_that_announces_no_kinds_is_offered_all_that_waits_in_its_queues(site, connection):
    mail = wait_for_worker(connection, kind="mail")
    wait_for_worker(connection, kind="mail", queue="emails")
    register(connection, 1, ["sort"], queues="default,emails")
    register(connection, 2, None)

    assert run_out(Admit(), site) == 1
    assert claimed_ids(connection) == mail


def test_a_named_domain_leaves_the_queues_of_others_alone(site, connection):
    wait_for_worker(connection, queue="mine")
    wait_for_worker(connection, queue="others")
    register(connection, 1, ["nap"], queues="mine,others")
    site.queues = ["mine"]

    assert run_out(Admit(), site) == 1
    assert claimed_ids(connection, queue="others") == []


def test_a_run_is_one_bounded_batch_and_a_nap_and_goes_on_while_there_is_more(site, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.admit.BATCH", 3)
    monkeypatch.setattr("fastq.lead.chores.admit.LOOK", 5)
    wait_for_worker(connection, 8)
    register(connection, 1, ["nap"])
    chore = Admit()

    def left():
        return connection.execute("select count(*) from fastq.job where state = 'waiting'")[0][0]

    assert [(chore.run(site), left()) for _ in range(4)] == [(NAP, 5), (NAP, 3), (INTERVAL, 0), (INTERVAL, 0)]
    assert BATCH > 3


def test_a_row_that_cannot_be_changed_holds_up_no_other(site, connection):
    ids = wait_for_worker(connection, 5)
    register(connection, 1, ["nap"])
    connection.execute(
        f"""create function public.refuse() returns trigger language plpgsql as $$ begin
        if new.id = {ids[2]} then raise 'not this one'; end if; return new; end $$"""
    )
    connection.execute("create trigger refuse before update on fastq.job for each row execute function public.refuse()")

    assert run_out(Admit(), site) == 4


def test_a_queue_that_nobody_works_and_a_kind_that_nobody_knows_are_reported_at_the_second_look(site, connection, events):
    add(connection, 3, queue="forgotten")
    wait_for_worker(connection, 2, queue="forgotten")
    wait_for_worker(connection, 4, kind="mail")
    wait_for_worker(connection, 1, kind="nap")
    add(connection, 1, queue="later", state="scheduled", seq=None, scheduled_at="2100-01-01")
    add(connection, 1, queue="paused")
    connection.execute("insert into fastq.queue (name, paused_at) values ('paused', now())")
    register(connection, 1, ["nap"])
    register(connection, 2, ["mail"], queues="forgotten", ttl=-1.0)
    register(connection, 3, [], queues="forgotten")
    chore = Unworked()

    def told():
        chore.run(site)
        found = [(event.name, dict(event.fields)) for event in events if event.name.endswith("unworked")]
        events.clear()
        return found

    forgotten = ("queue.unworked", {"queue": "forgotten", "available": 3, "waiting": 2})
    mail = ("kind.unworked", {"queue": "default", "kind": "mail", "jobs": 4})
    assert [told() for _ in range(3)] == [[], [forgotten, mail], []]
    register(connection, 4, ["mail"])
    assert told() == []
    chore._seen = {key: due - TOLD_EVERY for key, due in chore._seen.items()}
    assert told() == [forgotten]
    assert max(chore._seen.values()) > time.monotonic()
    register(connection, 5, ["nap"], queues="forgotten")
    assert told() == []
    connection.execute("delete from fastq.process")
    assert [len(told()) for _ in range(2)] == [0, 2]


def test_queues_are_looked_at_later_where_a_look_takes_too_long_and_kinds_all_the_same(database, connection, other, events):
    site = site_on(database, name="schema", statement_timeout=0.2)
    add(connection, 3, queue="forgotten")
    chore = Unworked()
    other.execute("begin")
    other.execute("lock table fastq.process in access exclusive mode")
    with pytest.raises(db.Error, match="statement timeout"):  # that of the kinds, which waits for the lock as well
        chore.run(site)
    other.execute("rollback")

    assert [event.name for event in events] == ["unworked.unseen"]
    chore.run(site)
    chore.run(site)
    assert [event.name for event in events] == ["unworked.unseen"]
    chore._look_at = 0.0
    chore.run(site)
    chore.run(site)
    assert [event.name for event in events] == ["unworked.unseen", "queue.unworked"]
    site.connection.close()
