"""Jobs that go through gates: how they come to wait there, who lets them go, and that each end tells the gatekeeper once."""

import asyncio
import json
import time
from dataclasses import dataclass

import psycopg
import pytest

from fastq import Args, AsyncClient, Client, Enqueue, Every, Kind, Rate, Registry
from fastq.args.gates import Fair, Limit, Ordered
from fastq.errors import LeaseLost, OptionError
from fastq.events import subscribe
from fastq.lead.chores.promote import Promote
from fastq.lead.gate.gatekeeper import Gatekeeper
from fastq.postgres.db import Error
from tests.db.jobs import CHANNEL, ERROR, add, archived, claim, claim_number, claimed_ids, count, living, session
from tests.db.leases import run_out, site_on

MINE = claim_number(1, 1)
GATES = '[["limit","api",42,1,2]]'
META = json.dumps({"gates": GATES})
EVENTS = "select queue, gates, jobs, priority, job from fastq.gate_event order by id"


@dataclass
class Mail(Args, kind="mail", gates=[Limit("api", at_most=2, by="account")]):
    account: int
    text: str = ""


@dataclass
class Heavy(Args, kind="heavy", gates=[Limit("api", at_most=2, by="account"), Limit("cpu", at_most=10, weight="cores")]):
    account: int
    cores: int


@dataclass
class Plain(Args, kind="plain"):
    text: str = ""


@pytest.fixture
def site(database):
    """Give a leader of the schema."""
    made = site_on(database)
    yield made
    made.connection.close()


@pytest.fixture
def events_told():
    """Give the events of this process that the test causes."""
    heard = []
    unsubscribe = subscribe(heard.append)
    yield heard
    unsubscribe()


@pytest.fixture
def client(database):
    """Give a client."""
    with Client(database) as made:
        yield made


def events(connection):
    return connection.execute(EVENTS)


def turn(keeper, site):
    """Run the chore until it has nothing to do for a while; return the seconds that it wants to rest."""
    while (rest := keeper.run(site)) < 1.0:
        time.sleep(rest)  # as its track does: a run before that is one upon a hint
    return rest


def at_gates(connection):
    """Return the ids of the jobs that wait at gates, and of those that were let go."""
    waiting = connection.execute("select id from fastq.job where starts_with(waits_for, '[') order by id")
    admitted = connection.execute("select job from fastq.gate_permit order by job")
    return [id_ for (id_,) in waiting], [id_ for (id_,) in admitted]


def permitted(connection, number=1, **columns):
    """Make jobs that were let go; return their ids."""
    ids = add(connection, number, meta=META, **columns)
    connection.execute("insert into fastq.gate_permit select unnest($1::bigint[]), 'default', $2", ids, GATES)
    return ids


def admitted(connection, number=1, **columns):
    """Make jobs that were let go, and claim them; return their ids."""
    ids = permitted(connection, number, **columns)
    assert claimed_ids(connection, MINE, limit=100) == ids
    return ids


def test_an_enqueued_job_waits_for_its_gates_and_the_gatekeeper_is_told_on_commit(client, connection, other):
    other.listen(CHANNEL)
    job = client.enqueue(Mail(42), queue="emails", priority=2)

    row = living(connection, job)
    assert (row["state"], row["seq"], row["scheduled_at"]) == ("waiting", None, None)
    assert (row["waits_for"], row["meta"]) == (GATES, {"gates": GATES})
    assert events(connection) == [("emails", GATES, 1, 2, job)]
    assert list(other.notifications(1.0)) == ["@gate"]
    assert claim(connection) == []


def test_of_many_jobs_the_gatekeeper_is_told_by_line_and_others_go_as_ever(client, connection):
    items = [Mail(1), Plain(), Mail(2), Enqueue(Mail(1), priority=3), Mail(1), Enqueue(Mail(2), delay=60)]

    ids = client.enqueue_many(items)

    one, two = (f'[["limit","api",{account},1,2]]' for account in (1, 2))
    told = sorted(event[1:4] for event in events(connection))
    assert told == [(one, 1, 3), (one, 2, 1), (two, 1, 1)]
    assert claimed_ids(connection) == [ids[1]]
    assert living(connection, ids[5])["state"] == "scheduled"


def test_jobs_of_a_transaction_that_is_rolled_back_were_never_told_of(client, connection, database):
    with psycopg.connect(database) as mine:
        client.enqueue(Mail(1), conn=mine)
        mine.rollback()

    assert events(connection) == []


def test_two_gates_a_weight_and_odd_keys_stand_in_the_line(client, connection):
    client.enqueue(Heavy(1, cores=3))
    assert living(connection, 1)["waits_for"] == '[["limit","api",1,1,2],["limit","cpu","",3,10]]'


def test_a_copy_waits_too_and_takes_no_jobs_without_gates_beside(client, connection, site):
    assert client.enqueue_copy([Mail(n % 3, 'tab\t"ü\\') for n in range(9)]) == 9
    with pytest.raises(OptionError, match="here are both"):
        client.enqueue_copy([Mail(1), Plain()])
    with pytest.raises(OptionError, match="here are both"):
        client.enqueue_copy([Plain(), Mail(1)])

    keeper = Gatekeeper()
    turn(keeper, site)

    assert at_gates(connection) == ([7, 8, 9], [1, 2, 3, 4, 5, 6])


def test_the_awaiting_client_does_the_same(connection, database):
    async def run():
        async with AsyncClient(database) as client:
            await client.enqueue(Mail(42))
            await client.enqueue_many([Mail(42), Plain()])
            await client.enqueue_copy([Mail(42)])

    asyncio.run(run())
    assert [living(connection, id_)["waits_for"] for id_ in (1, 2, 3, 4)] == [GATES, GATES, None, GATES]
    assert [event[2] for event in events(connection)] == [1, 1, 2]


@pytest.mark.parametrize("state", ["scheduled", "retryable"])
def test_a_job_that_becomes_due_waits_for_its_gates_unless_it_kept_its_room(state, site, connection, monkeypatch):
    columns = {"state": state, "seq": None, "scheduled_at": "2000-01-01", "meta": META}
    waits = add(connection, **columns)
    keeps = permitted(connection, **{name: value for name, value in columns.items() if name != "meta"})

    monkeypatch.setattr("fastq.lead.chores.promote.REST", 0.0)
    run_out(Promote(), site)

    assert living(connection, waits[0])["waits_for"] == GATES
    assert events(connection) == [("default", GATES, 1, 1, waits[0])]
    assert claimed_ids(connection) == keeps


ENDS = {
    "a success": lambda run, ids: run("job_complete_tied", ids, [MINE], CHANNEL),
    "a success that is kept": lambda run, ids: run("job_complete_tied_archive", ids, [MINE], CHANNEL),
    "a success with an output": lambda run, ids: run("job_finish", ids, [MINE], ["completed"], [None], ["1"], CHANNEL),
    "the last failure": lambda run, ids: run("job_finish", ids, [MINE], ["discarded"], [ERROR], [None], CHANNEL),
    "a turn too late": lambda run, ids: run("job_finish_late", ids, [MINE], ["cancelled"], [None], ["expired"], [False], CHANNEL),
    "a failure": lambda run, ids: run("job_retry", ids, [MINE], [60.0], [True], [ERROR], CHANNEL),
    "a crash of its process": lambda run, ids: run("job_crashed", ids, [MINE], [60.0], [ERROR], [ERROR], CHANNEL),
    "a snooze": lambda run, ids: run("job_retry", ids, [MINE], [60.0], [False], [None], CHANNEL),
    "a rescue of the last attempt": lambda run, ids: run(
        "job_rescue", *run.fence, None, "default", ids, [MINE], [1], CHANNEL, ERROR
    ),
    "a death that was the last": lambda run, ids: run("job_recover", ids, 0, 0, "default", ids, 1, 1, CHANNEL, ERROR, [], ERROR),
}
STAYS = {
    "a retry at once": lambda run, ids: run("job_retry", ids, [MINE], [0.0], [True], [ERROR], CHANNEL),
    "a rest for want of a worker": lambda run, ids: run("job_retry", ids, [MINE], [float("inf")], [False], [None], CHANNEL),
    "a release": lambda run, ids: run("job_release", ids, [MINE], CHANNEL),
    "a death": lambda run, ids: run("job_recover", ids, 0, 0, "default", ids, 3, 1, CHANNEL, ERROR, [], ERROR),
}


class Run:
    """Run statements on a session, fenced ones with the fence of a leader."""

    def __init__(self, site):
        self.fence = site.fence
        self._run = site.connection.run_one

    def __call__(self, name, *params):
        return self._run(name, *params)


@pytest.mark.parametrize("end", ENDS)
def test_each_way_of_leaving_tells_the_gatekeeper_once(end, site, connection, other):
    """Solid Queue #761: an owner that was taken for dead released its place a second time, and the limit was passed for good."""
    columns = {"max_attempts": 1} if "last" in end else {}
    (job,) = admitted(connection, **columns)
    other.listen(CHANNEL)

    ENDS[end](Run(site), [job])

    assert events(connection) == [("default", GATES, 1, None, None)]
    assert "@gate" in list(other.notifications(1.0)) + list(other.notifications(0.1))
    assert at_gates(connection) == ([], [])
    ENDS[end](Run(site), [job])  # it is not ours any more
    assert len(events(connection)) == 1


@pytest.mark.parametrize("end", STAYS)
def test_a_job_that_may_run_again_at_once_keeps_its_room(end, site, connection):
    (job,) = admitted(connection)

    STAYS[end](Run(site), [job])

    assert events(connection) == []
    assert at_gates(connection) == ([], [job])


@pytest.mark.parametrize("end", [end for end in [*ENDS, *STAYS] if not end.startswith(("a success", "the last"))])
def test_a_running_job_whose_cancellation_was_asked_for_leaves(end, site, connection):
    (job,) = admitted(connection, cancel_requested=True)

    (ENDS | STAYS)[end](Run(site), [job])

    assert archived(connection, job)["state"] == "cancelled"
    assert events(connection) == [("default", GATES, 1, None, None)]


def test_an_operator_ends_waiting_jobs_without_a_word_and_admitted_ones_with_one(client, connection):
    waiting = client.enqueue_many([Mail(42), Mail(42)])
    there = permitted(connection, 2)
    connection.execute("delete from fastq.gate_event")

    assert client.cancel(waiting[0])
    assert client.cancel(there[0])
    connection.run("job_delete", [waiting[1], there[1]])

    assert events(connection) == [("default", GATES, 1, None, None)] * 2


def test_a_retry_by_hand_waits_for_the_gates_again(client, connection):
    (job,) = admitted(connection)
    connection.run("job_complete_tied_archive", [job], [MINE], CHANNEL)
    connection.execute("delete from fastq.gate_event")

    assert client.retry(job)

    assert living(connection, job)["waits_for"] == GATES
    assert events(connection) == [("default", GATES, 1, 1, job)]
    assert claim(connection) == []


def test_a_periodic_job_goes_through_the_gates_of_its_kind(connection):
    registry = Registry()
    registry.periodic("mails", Every(60), Mail(42))
    spec = registry.periodics["mails"].spec()
    connection.execute(
        "insert into fastq.periodic (name, schedule, hash, kind, args, queue, priority, max_attempts, meta)"
        " values ('mails', 'every 60', 'x', $1, '{}', 'default', 1, 25, $2::text::jsonb)",
        spec.kind,
        spec.meta,
    )

    connection.run("periodic_run", "mails", CHANNEL)

    assert living(connection, 1)["waits_for"] == GATES
    assert events(connection) == [("default", GATES, 1, 1, 1)]


def test_as_many_go_as_have_room_by_key_and_the_next_when_one_leaves(client, site, connection):
    ids = client.enqueue_many([Mail(n % 2) for n in range(8)])
    keeper = Gatekeeper()
    turn(keeper, site)
    assert at_gates(connection) == (ids[4:], ids[:4])

    jobs = claimed_ids(connection, MINE)
    assert sorted(jobs) == ids[:4]
    connection.run("job_complete_tied", [ids[0], ids[3]], [MINE], CHANNEL)
    turn(keeper, site)

    assert at_gates(connection) == (ids[6:], [ids[1], ids[2], ids[4], ids[5]])
    assert events(connection) == []


def test_the_more_urgent_goes_first_though_it_came_last(client, site, connection):
    ids = client.enqueue_many([Mail(1)] * 4)
    keeper = Gatekeeper()
    turn(keeper, site)
    urgent = client.enqueue(Mail(1), priority=1)
    late = [client.enqueue(Mail(1), priority=2), client.enqueue(Mail(1))]
    claim(connection, MINE)
    connection.run("job_complete_tied", ids[:2], [MINE], CHANNEL)
    turn(keeper, site)

    assert at_gates(connection) == ([urgent, *late], ids[2:])


def test_a_job_that_needs_room_at_two_gates_waits_for_both(client, site, connection):
    heavy = client.enqueue_many([Heavy(1, cores=6), Heavy(2, cores=6), Heavy(3, cores=4), Heavy(4, cores=11)])
    keeper = Gatekeeper()
    turn(keeper, site)
    assert at_gates(connection)[1] == heavy[:1]  # the second does not fit, and nobody passes it

    claim(connection, MINE)
    connection.run("job_complete_tied", heavy[:1], [MINE], CHANNEL)
    turn(keeper, site)
    assert at_gates(connection)[1] == heavy[1:3]

    claim(connection, MINE)
    connection.run("job_complete_tied", heavy[1:3], [MINE], CHANNEL)
    turn(keeper, site)
    assert at_gates(connection)[1] == heavy[3:]  # heavier than all the room: alone


def test_a_new_leader_counts_those_that_were_let_go_and_an_old_one_lets_nobody_go(client, site, connection, database):
    ids = client.enqueue_many([Mail(1)] * 6)
    first = Gatekeeper()
    turn(first, site)
    claim(connection, MINE)
    connection.run("job_complete_tied", ids[:1], [MINE], CHANNEL)

    connection.execute("update fastq.lease set expires_at = '-infinity'")
    second = site_on(database)
    turn(Gatekeeper(), second)
    assert at_gates(connection) == (ids[3:], ids[1:3])

    connection.run("job_complete_tied", ids[1:2], [MINE], CHANNEL)
    with pytest.raises(LeaseLost):
        first.run(site)
    assert len(events(connection)) == 1
    second.connection.close()


def test_the_ends_of_jobs_of_one_key_wait_for_no_other_row(client, site, connection, database):
    """Solid Queue #630: each end locked the semaphore of its key, and the job that it let go: they waited for each other."""
    running = admitted(connection, 11)
    keeper = Gatekeeper()
    turn(keeper, site)
    ends = [session(database, settings={"lock_timeout": "200"}) for _ in running[1:]]  # ms: of a wait for a lock, not of work
    with psycopg.connect(database) as locker:
        locker.execute("select from fastq.job join fastq.gate_permit on job = id where id = %s for update", running[:1])
        for end, job in zip(ends, running[1:], strict=True):
            end.execute("begin")
            assert end.run_one("job_complete_tied", [job], [MINE], CHANNEL)[0] == 1  # while those before have not committed
        waiting = client.enqueue_many([Mail(42), Mail(42)])
        turn(keeper, site)
        assert at_gates(connection) == (waiting, running)
        for end in reversed(ends):
            end.execute("commit")
            end.close()
        turn(keeper, site)
        assert at_gates(connection) == (waiting[1:], [running[0], waiting[0]])
    assert events(connection) == []


def test_a_job_keeps_its_place_however_long_it_runs(client, site, connection, database):
    """Solid Queue #689: a job ran for longer than the duration of its semaphore, and the next one started beside it."""
    ids = client.enqueue_many([Mail(42)] * 3)
    keeper = Gatekeeper()
    turn(keeper, site)
    assert claimed_ids(connection, MINE) == ids[:2]
    connection.execute("update fastq.job set created_at = '2000-01-01', attempted_at = '2000-01-01'")

    keeper._compare_at = 0.0
    turn(keeper, site)
    assert at_gates(connection) == (ids[2:], ids[:2])
    connection.execute("update fastq.lease set expires_at = '-infinity'")
    second = site_on(database)
    turn(Gatekeeper(), second)
    second.connection.close()
    assert at_gates(connection) == (ids[2:], ids[:2])


def test_the_jobs_of_a_gate_that_no_code_declares_any_more_all_go(client, site, connection, database):
    """Solid Queue #478: the limit was taken out of the code, and the jobs that it had blocked stayed so."""
    former = Kind("mail", Plain, gates=[Limit("former", at_most=1)])
    ids = client.enqueue_many([Plain() for _ in range(4)], kind=former)
    del former
    first = Gatekeeper()
    turn(first, site)
    went = claimed_ids(connection, MINE)
    connection.run("job_complete_tied", went, [MINE], CHANNEL)
    turn(first, site)
    went += claimed_ids(connection, MINE)
    assert (went, at_gates(connection)) == (ids[:2], (ids[2:], ids[1:2]))

    connection.execute("update fastq.lease set expires_at = '-infinity'")
    second, keeper = site_on(database), Gatekeeper()
    for job in ids[1:]:
        connection.run("job_complete_tied", [job], [MINE], CHANNEL)
        turn(keeper, second)
        went += claimed_ids(connection, MINE)
    second.connection.close()
    assert went == ids
    assert (count(connection, "job"), at_gates(connection)) == (0, ([], []))


def test_a_job_whose_row_is_locked_goes_when_the_lock_is_gone(client, site, connection, database):
    ids = client.enqueue_many([Mail(1)] * 3)
    other_line = client.enqueue(Mail(2))
    keeper = Gatekeeper()
    with psycopg.connect(database) as locker:
        locker.execute("select from fastq.job where id = %s for update", [ids[0]])
        while not keeper._locked:
            keeper.run(site)
        assert at_gates(connection) == ([ids[0], ids[2]], [ids[1], other_line])
    turn(keeper, site)

    assert at_gates(connection) == (ids[2:], [*ids[:2], other_line])


def test_what_a_transaction_commits_late_is_read(client, site, connection, database):
    """Solid Queue #689: a job that was committed after the end of the job before it was never let go."""
    keeper = Gatekeeper()
    with psycopg.connect(database) as slow:
        late = client.enqueue(Mail(1), conn=slow)
        ids = client.enqueue_many([Mail(2), Mail(3)])
        turn(keeper, site)
        assert at_gates(connection)[1] == ids
    turn(keeper, site)

    assert at_gates(connection)[1] == [late, *ids]
    assert events(connection) == []


def test_an_end_without_a_word_is_found_repaired_and_reported(client, site, connection, events_told):
    ids = client.enqueue_many([Mail(42)] * 3)
    keeper = Gatekeeper()
    turn(keeper, site)
    claim(connection, MINE)
    connection.run("job_complete", ids[:1], [MINE])  # a program that is older than gates

    keeper._compare_at = 0.0
    turn(keeper, site)

    assert at_gates(connection) == ([], ids[1:])
    (told,) = [event for event in events_told if event.name == "gate.repaired"]
    assert told.fields == {"queue": "default", "gates": GATES, "permits": 1}


def test_a_comparison_that_takes_too_long_is_put_off_and_the_memory_stays(client, site, connection, database):
    """Under an old snapshot it walks over all permits there have been; to make the memory anew takes longer still."""
    site.connection.execute("set lock_timeout = '100ms'")
    ids = client.enqueue_many([Mail(1)] * 3)
    keeper = Gatekeeper()
    turn(keeper, site)
    known = keeper._keeper
    with psycopg.connect(database) as other:
        other.execute("lock table fastq.gate_permit in access exclusive mode")
        keeper._compare_at = 0.0
        while not keeper._compare_at:
            keeper.run(site)

    assert keeper._keeper is known
    assert at_gates(connection) == (ids[2:], ids[:2])


def test_jobs_that_could_not_be_let_go_in_time_go_later_and_the_memory_stays(client, site, connection, database):
    site.connection.execute("set lock_timeout = '100ms'")
    keeper = Gatekeeper()
    turn(keeper, site)
    known = keeper._keeper
    ids = client.enqueue_many([Mail(1)] * 3)
    with psycopg.connect(database) as other:
        other.execute("lock table fastq.gate_permit in exclusive mode")
        while not keeper._locked:
            keeper.run(site)
        assert at_gates(connection) == (ids, [])
    while not at_gates(connection)[1]:
        turn(keeper, site)

    assert keeper._keeper is known
    assert at_gates(connection) == (ids[2:], ids[:2])


def test_after_a_statement_that_failed_the_memory_is_made_anew(client, site, connection, database):
    ids = client.enqueue_many([Mail(1)] * 3)
    keeper = Gatekeeper()
    turn(keeper, site)
    connection.execute("select pg_terminate_backend($1)", site.connection.backend_pid)
    claim(connection, MINE)
    connection.run("job_complete_tied", ids[:2], [MINE], CHANNEL)
    with pytest.raises(Error):
        keeper.run(site)

    site.connection = session(database)
    turn(keeper, site)
    assert at_gates(connection) == ([], ids[2:])


def test_what_a_crash_has_forgotten_is_done_again_though_another_chore_found_the_session_lost(client, site, connection, database):
    """An admission does not wait for the disk. A server that crashes may forget it, and no job that started."""
    first, second, third = (client.enqueue(Mail(42)) for _ in range(3))
    keeper = Gatekeeper()
    turn(keeper, site)
    assert at_gates(connection) == ([third], [first, second])
    claim(connection, MINE, limit=1)  # this commit waits for the disk, and all before it with it

    connection.execute("update fastq.job set state = 'waiting', seq = null, waits_for = $1 where id = $2", GATES, second)
    connection.execute("delete from fastq.gate_permit where job = $1", second)
    assert turn(keeper, site)
    assert at_gates(connection) == ([second, third], [first])  # it does not know, and no event will tell it
    site.connection.close()
    site.connection = session(database)  # as the track does when the statement of another chore has failed
    turn(keeper, site)

    assert at_gates(connection) == ([third], [first, second])


def test_a_job_that_came_past_its_gates_is_put_before_them_without_a_charge(connection, site):
    """Solid Queue #221: beside code with a limit ran older code without it, and the dispatcher failed."""
    ids = add(connection, 3, kind="mail")
    cancelled = add(connection, kind="mail", cancel_requested=True)
    claim(connection, MINE)

    assert connection.run_one("job_bar", [*ids, *cancelled], [MINE] * 4, [GATES] * 4, CHANNEL)[0] == 4

    row = living(connection, ids[0])
    assert (row["state"], row["attempt"], row["claim"]) == ("waiting", 0, None)
    assert (row["waits_for"], row["meta"]) == (GATES, {"gates": GATES})
    assert archived(connection, cancelled[0])["state"] == "cancelled"
    turn(Gatekeeper(), site)
    assert at_gates(connection) == (ids[2:], ids[:2])
    assert count(connection, "job_archive") == 1


@dataclass
class Step(Args, kind="step", priority=2, gates=[Limit("steps", at_most=10), Ordered("stream", by="stream")]):
    stream: int


ORDERED = '[["order","stream",1,1,1],["limit","steps","",1,10]]'


def test_jobs_in_order_go_one_after_the_other_and_a_retry_holds_up_those_behind_it(client, site, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.promote.REST", 0.0)
    ids = client.enqueue_many([Step(1), Step(2), Step(1)])
    assert living(connection, ids[0])["waits_for"] == ORDERED
    keeper = Gatekeeper()
    turn(keeper, site)
    assert at_gates(connection) == (ids[2:], ids[:2])

    claim(connection, MINE)
    connection.run("job_retry", ids[:1], [MINE], [60.0], [True], [ERROR], CHANNEL)
    turn(keeper, site)
    assert at_gates(connection) == (ids[2:], ids[:2])  # it keeps its room

    connection.execute("update fastq.job set scheduled_at = '2000-01-01' where id = $1", ids[0])
    run_out(Promote(), site)
    assert claimed_ids(connection, MINE + 1) == ids[:1]
    connection.run("job_complete_tied", ids[:1], [MINE + 1], CHANNEL)
    turn(keeper, site)
    assert at_gates(connection) == ([], ids[1:])


def test_nobody_can_set_more_than_one_job_at_once_for_jobs_in_order(client, site, connection):
    connection.execute("insert into fastq.gate (name, at_most) values ('stream', 5)")
    ids = client.enqueue_many([Step(1), Step(1), Step(2)])

    turn(Gatekeeper(), site)

    assert at_gates(connection) == (ids[1:2], [ids[0], ids[2]])


def test_a_job_in_order_has_the_priority_of_its_kind(client):
    client.enqueue(Step(1), priority=2)
    with pytest.raises(OptionError, match=r"the jobs of kind 'step' are in order .*, so all have its priority, 2"):
        client.enqueue(Step(1), priority=1)


@dataclass
class Report(Args, kind="report", gates=[Limit("reports", at_most=500), Fair("tenants", by="tenant", window=10, share="plan")]):
    tenant: str
    plan: int = 1


def rounds(connection, keeper, site, most):
    """Have the gatekeeper let jobs go, end them, and so on; return the tenants of the jobs as they went, window by window."""
    went = []
    while len(went) < most:
        turn(keeper, site)
        ids = claimed_ids(connection, MINE, limit=100)
        if not ids:
            break
        tenants = connection.execute("select args ->> 'tenant' from fastq.job where id = any ($1) order by seq", ids)
        went += [tenant for (tenant,) in tenants]
        connection.run("job_complete_tied", ids, [MINE], CHANNEL)
    return went


def test_a_tenant_that_comes_late_is_served_in_two_rounds_before_the_backlog_of_another(client, site, connection):
    client.enqueue_copy([Report("large") for _ in range(20_000)])
    keeper = Gatekeeper()
    turn(keeper, site)
    assert len(at_gates(connection)[1]) == 10

    client.enqueue_many([Report(f"late {number}") for _ in range(2) for number in range(10)])
    went = rounds(connection, keeper, site, 40)

    assert went[:10] == ["large"] * 10  # these had been let go
    late = [tenant for tenant in went if tenant != "large"]
    assert sorted(late[:10]) == sorted(late[10:20]) == sorted(f"late {number}" for number in range(10))
    assert went.index("late 0") < 21
    assert max(at for at, tenant in enumerate(went) if tenant != "large") < 10 + 2 * 11


def test_a_share_stands_in_the_line_and_rounds_go_by_it(client, site, connection):
    (job, *_) = client.enqueue_many([Report("a", plan=2), *[Report("b") for _ in range(60)], *[Report("a", plan=2)] * 60])
    assert living(connection, job)["waits_for"] == '[["fair","tenants","a",1,10,[2]],["limit","reports","",1,500]]'

    went = rounds(connection, Gatekeeper(), site, 60)

    assert went[:60].count("a") == pytest.approx(40, abs=3)


def test_a_line_that_nobody_can_read_waits_alone_and_is_told_of_once(client, site, connection, events_told):
    (odd,) = add(connection, state="waiting", seq=None, waits_for='[["toll","api","",1,1]]')
    job = client.enqueue(Mail(1))
    keeper = Gatekeeper()

    turn(keeper, site)
    turn(keeper, site)

    assert at_gates(connection) == ([odd], [job])
    (told,) = [event for event in events_told if event.name == "gate.unreadable"]
    assert told.fields == {"queue": "default", "gates": '[["toll","api","",1,1]]'}


def declared(**options):
    """Return a kind with a limit, as a program of some version declares it."""
    return Kind("mail", Plain, gates=[Limit("drifting", **options)])


def test_another_number_for_a_gate_in_a_new_line_is_told_of_once(client, site, connection, events_told):
    keeper = Gatekeeper()
    for at_most, by in [
        (2, None),
        (2, "text"),
        (5, None),
        (2, lambda _: "old"),
        (5, lambda _: "new"),
        (2, lambda _: "old again"),
    ]:
        client.enqueue(Plain("x"), kind=declared(at_most=at_most, by=by))
        turn(keeper, site)

    told = [event for event in events_told if event.name == "gate.differs"]
    assert [event.fields for event in told] == [
        {"gate": "drifting", "number": "5", "before": "2"},
        {"gate": "drifting", "number": "2", "before": "5"},
    ]


def test_a_new_term_tells_of_the_numbers_that_it_finds_to_differ(client, site, connection, events_told):
    for at_most in (2, 5):
        client.enqueue(Plain("x"), kind=declared(at_most=at_most))

    turn(Gatekeeper(), site)

    (told,) = [event.fields for event in events_told if event.name == "gate.differs"]
    assert (told["gate"], {told["number"], told["before"]}) == ("drifting", {"2", "5"})


def test_programs_that_make_numbers_up_do_not_fill_the_log(client, site, connection, events_told, monkeypatch):
    monkeypatch.setattr("fastq.lead.gate.gatekeeper.TOLD", 3)
    for at_most in range(1, 9):
        client.enqueue(Plain("x"), kind=declared(at_most=at_most))

    turn(Gatekeeper(), site)

    assert len([event for event in events_told if event.name == "gate.differs"]) == 3


def test_a_rate_differs_by_its_time_and_its_burst_too(client, site, connection, events_told):
    keeper = Gatekeeper()
    for more in ({"per": 60}, {"per": 30}, {"per": 30, "burst": 5}, {"per": 30, "burst": 5, "over": "drop"}):
        client.enqueue(Plain("x"), kind=Kind("mail", Plain, gates=[Rate("drifting", 60, **more)]))
        keeper.run(site)

    told = [event.fields["number"] for event in events_told if event.name == "gate.differs"]
    assert told == ["60 per 30 s, burst 0", "60 per 30 s, burst 5", "60 per 30 s, burst 5, drops"]


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: Fair("tenants", by=None), r"Fair\('tenants'\): expected by=, the field that says whose turn it is"),
        (lambda: Fair("tenants", by="tenant", window=0), "window=0: expected a whole number from 1 on"),
        (lambda: Fair("tenants", by="tenant", share=0.5), "share=0.5: expected a whole number from 1 on, the name of a field"),
        (lambda: Fair("tenants", by="tenant", share="plan").check(Mail, "mail"), "Mail has no field 'tenant'"),
        (lambda: Fair("tenants", by="account", share="plan").check(Mail, "mail"), "Mail has no field 'plan'"),
    ],
)
def test_a_fair_gate_that_cannot_be_is_refused_with_the_rule(make, rule):
    with pytest.raises(OptionError, match=rule):
        make()


def test_a_fair_gate_is_written_as_one_would_make_it():
    gate = Fair("tenants", by="tenant", window=10, share="plan", weight=2)

    assert repr(gate) == "Fair('tenants', by='tenant', window=10, share='plan', weight=2)"
    assert eval(repr(gate)) == gate
