"""A discarded job holds its keys where its gate says so, until somebody retries, deletes or releases it."""

import asyncio
import json
from dataclasses import dataclass

import pytest

from fastq import Args, AsyncClient, Client, Ordered, admin
from fastq.errors import OptionError
from fastq.events import subscribe
from fastq.lead.gate import holds
from fastq.lead.gate.gatekeeper import Gatekeeper
from fastq.lead.gate.holds import Holds
from fastq.lead.workflow.steward import Steward
from fastq.workflows.steps import Workflow, chain
from tests.db.jobs import CHANNEL, ERROR, add, archived, claim_number, claimed_ids, living
from tests.db.leases import run_until, site_on

MINE = claim_number(1, 1)
HELD = '[["order-hold","stream",7,1,1]]'


@dataclass
class Step(Args, kind="step", gates=[Ordered("stream", by="stream", when_discarded="hold")]):
    stream: int = 7


@pytest.fixture
def site(database):
    """Give a leader of the schema."""
    made = site_on(database)
    yield made
    made.connection.close()


@pytest.fixture
def client(database):
    """Give a client."""
    with Client(database) as made:
        yield made


def turn(site, keeper=None):
    """Have a gatekeeper, a new one unless one is given, let go what may."""
    run_until(keeper or Gatekeeper(), site, lambda rest: rest >= 1.0)


def permits(connection):
    return [job for (job,) in connection.execute("select job from fastq.gate_permit order by job")]


def discard(connection, job):
    """Have a job start and fail for good."""
    assert job in claimed_ids(connection, MINE)
    connection.run("job_finish", [job], [MINE], ["discarded"], [ERROR], [None], CHANNEL)


@pytest.fixture
def held(client, site, connection):
    """Give three jobs of a stream, of which the first was discarded, and a gatekeeper that knows of them."""
    jobs, keeper = client.enqueue_many([Step(), Step(), Step()]), Gatekeeper()
    turn(site, keeper)
    discard(connection, jobs[0])
    turn(site, keeper)
    return jobs, keeper


DISCARDS = {
    "a last failure": lambda run, site, job: run("job_finish", [job], [MINE], ["discarded"], [ERROR], [None], CHANNEL),
    "a deadline": lambda run, site, job: run(
        "job_finish_late", [job], [MINE], ["discarded"], [ERROR], ["deadline"], [True], CHANNEL
    ),
    "a rescue": lambda run, site, job: run("job_rescue", *site.fence, None, "default", [job], [MINE], [1], CHANNEL, ERROR),
    "a death": lambda run, site, job: run("job_recover", [job], 0, 0, "default", [job], 1, 1, CHANNEL, ERROR, [], ERROR),
}


ENDS = [*((end, False) for end in DISCARDS), ("a rescue", True), ("a death", True)]


@pytest.mark.parametrize(("end", "cancelled"), ENDS)
def test_a_discarded_job_holds_its_key_and_a_cancelled_one_does_not(end, cancelled, site, connection):
    meta = json.dumps({"gates": HELD})
    (job,) = add(connection, meta=meta, max_attempts=1, cancel_requested=cancelled)
    connection.execute("insert into fastq.gate_permit values ($1, 'default', $2)", job, HELD)
    assert claimed_ids(connection, MINE) == [job]

    DISCARDS[end](connection.run, site, job)

    assert archived(connection, job)["state"] == ("cancelled" if cancelled else "discarded")
    assert permits(connection) == ([] if cancelled else [job])


def test_nothing_behind_a_discarded_job_starts_under_new_leaders_either_nor_when_the_archive_is_empty(held, site, connection):
    jobs, keeper = held
    assert permits(connection) == jobs[:1]

    keeper._compare_at = 0.0
    turn(site, keeper)
    turn(site)
    for table in ("job_archive", "dead"):
        connection.execute(f"delete from fastq.{table}")
    turn(site)

    assert permits(connection) == jobs[:1]
    assert claimed_ids(connection, MINE) == []
    assert [(row.job, row.kind, row.since) for row in admin.list_held(connection)] == [(jobs[0], None, None)]


def test_a_held_key_is_listed_and_released_once(held, site, connection):
    jobs, keeper = held
    (row,) = admin.list_held(connection)
    assert (row.gate, row.key, row.job, row.kind, row.queue) == ("stream", "7", jobs[0], "step", "default")
    assert row.since == archived(connection, jobs[0])["finalized_at"]

    assert admin.release_held(connection, "stream", 8) == admin.release_held(connection, "stream", "7") == []
    assert admin.release_held(connection, "stream", 7) == jobs[:1]
    assert admin.release_held(connection, "stream", 7) == []
    turn(site, keeper)

    assert permits(connection) == jobs[1:2]
    assert admin.list_held(connection) == []


def test_a_retried_job_goes_first_and_holds_its_key_while_it_lives(held, client, site, connection):
    jobs, keeper = held

    assert client.retry(jobs[0])
    turn(site, keeper)

    assert permits(connection) == claimed_ids(connection, MINE) == jobs[:1]
    assert admin.list_held(connection) == []
    assert admin.release_held(connection, "stream", 7) == []
    connection.run("job_complete_tied_archive", jobs[:1], [MINE], CHANNEL)
    turn(site, keeper)
    assert permits(connection) == jobs[1:2]


def test_an_awaiting_client_retries_it_too(held, site, connection, database):
    jobs, keeper = held

    async def retry():
        async with AsyncClient(database) as client:
            return await client.retry(jobs[0])

    assert asyncio.run(retry())
    turn(site, keeper)
    assert permits(connection) == jobs[:1]


def lead(site, keeper):
    """Have a steward and the gatekeeper do all that there is to do now."""
    run_until(Steward(), site, lambda rest: rest > 0.0)
    turn(site, keeper)


def test_a_retried_step_of_a_workflow_goes_first_and_holds_its_key_while_it_lives(client, site, connection):
    started = client.enqueue_workflow(chain(Step()))
    behind, keeper = client.enqueue(Step()), Gatekeeper()
    turn(site, keeper)
    discard(connection, started.ids[0])
    lead(site, keeper)
    assert permits(connection) == [*started.ids]

    assert client.retry_workflow(started.id) == 1
    lead(site, keeper)

    assert permits(connection) == claimed_ids(connection, MINE) == [*started.ids]
    assert admin.list_held(connection) == []
    connection.run("job_complete_tied_archive", [*started.ids], [MINE], CHANNEL)
    lead(site, keeper)
    assert claimed_ids(connection, MINE) == permits(connection) == [behind]
    assert client.workflow(started.id).state == "completed"


def test_a_retried_step_that_waits_for_those_before_it_again_does_not_hold_its_key(client, site, connection):
    flow = Workflow("held")
    first = flow.add(Step(stream=1))
    flow.add(Step(), after=first.ended)
    started = client.enqueue_workflow(flow)
    behind, keeper = client.enqueue(Step()), Gatekeeper()
    turn(site, keeper)
    assert claimed_ids(connection, MINE) == [started.ids[0], behind]
    connection.run("job_complete_tied_archive", [behind], [MINE], CHANNEL)
    connection.run("job_finish", [started.ids[0]], [MINE], ["discarded"], [ERROR], [None], CHANNEL)
    lead(site, keeper)
    discard(connection, started.ids[1])
    lead(site, keeper)
    newer = client.enqueue(Step())
    assert permits(connection) == [*started.ids]

    assert client.retry_workflow(started.id) == 2
    lead(site, keeper)

    assert sorted(claimed_ids(connection, MINE)) == permits(connection) == [started.ids[0], newer]
    connection.run("job_complete_tied_archive", [started.ids[0], newer], [MINE, MINE], CHANNEL)
    lead(site, keeper)
    assert claimed_ids(connection, MINE) == permits(connection) == [started.ids[1]]


def test_a_retry_of_a_workflow_wakes_the_gatekeeper_and_the_steward(client, other, site, connection):
    started = client.enqueue_workflow(chain(Step()))
    keeper = Gatekeeper()
    turn(site, keeper)
    discard(connection, started.ids[0])
    lead(site, keeper)
    other.listen(CHANNEL)

    client.retry_workflow(started.id)

    assert {"@gate", "@workflow"} <= {*other.notifications(1.0)}


def test_a_deleted_job_holds_nothing(held, site, connection):
    jobs, keeper = held

    admin.delete_jobs(connection, jobs[:1])
    turn(site, keeper)

    assert permits(connection) == jobs[1:2]


def test_a_permit_that_an_old_program_has_left_behind_a_success_holds_nothing(client, site, connection):
    jobs = client.enqueue_many([Step(), Step()])
    turn(site)
    assert claimed_ids(connection, MINE) == jobs[:1]
    connection.run("job_complete_archive", jobs[:1], [MINE])
    turn(site)

    assert permits(connection) == jobs[1:]


def test_those_behind_and_the_discarded_one_say_why(held, client, connection):
    jobs, _ = held
    remedies = f"(fastq jobs retry {jobs[0]} runs it again, fastq gates release stream 7 goes on without it)"

    assert (
        f"waits at the gate 'stream' for key 7: job {jobs[0]} was discarded and holds it {remedies}, behind 1 job"
        in client.why(jobs[2])
    )
    assert client.why(jobs[0]).endswith(f"; it holds the gate 'stream' for key 7 {remedies}")


def test_the_leader_reports_a_held_key_at_once_and_again_now_and_then_and_a_released_one_no_more(
    held, site, connection, monkeypatch
):
    (first, *_), keeper = held
    told = []

    def compared():
        keeper._compare_at = 0.0
        turn(site, keeper)
        found = [event for event in told if event.name == "gate.held"]
        told.clear()
        return found

    unsubscribe = subscribe(told.append)
    (event,) = compared()
    assert {**event.fields, "age": None} == {
        "gate": "stream",
        "key": "7",
        "id": first,
        "kind": "step",
        "queue": "default",
        "age": None,
    }
    assert 0 <= event.fields["age"] < 60
    assert compared() == []
    monkeypatch.setattr(holds, "TOLD_EVERY", 0.0)
    keeper._holds._due = dict.fromkeys(keeper._holds._due, 0.0)  # as if that time were over
    assert len(compared()) == len(compared()) == 1
    admin.release_held(connection, "stream", 7)
    assert compared() == []
    unsubscribe()


def test_of_many_held_keys_a_look_reports_some_and_the_next_one_the_others(site, connection, monkeypatch):
    monkeypatch.setattr(holds, "AT_ONCE", 2)
    for key in (1, 2, 3):
        gates = HELD.replace("7", str(key))
        connection.execute("insert into fastq.gate_permit values ($1, 'default', $2)", key, gates)
    told, looks = [], Holds()
    unsubscribe = subscribe(lambda event: told.append((event.fields["key"], event.fields["age"])))
    for _ in range(3):
        looks.look(site, [("default", HELD, 3)])
    unsubscribe()
    assert told == [("1", None), ("2", None), ("3", None)]


def test_where_no_line_can_hold_its_key_nobody_looks():
    Holds().look(None, [("default", '[["order","stream",7,1,1]]', 3), ("default", '[["limit","order-hold",7,1,1]]', 3)])


def test_a_failed_attempt_keeps_the_room_as_in_any_order(client, site, connection):
    jobs = client.enqueue_many([Step(), Step()])
    keeper = Gatekeeper()
    turn(site, keeper)
    claimed_ids(connection, MINE)
    connection.run("job_retry", jobs[:1], [MINE], [60.0], [True], [ERROR], CHANNEL)
    turn(site, keeper)

    assert permits(connection) == jobs[:1]
    assert living(connection, jobs[0])["state"] == "retryable"


def test_a_gate_says_whether_it_holds():
    gate = Ordered("stream", by="stream", when_discarded="hold")
    assert eval(repr(gate)) == gate != Ordered("stream", by="stream")
    with pytest.raises(OptionError, match="when_discarded='stop': expected 'continue' or 'hold'"):
        Ordered("stream", when_discarded="stop")
