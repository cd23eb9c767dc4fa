"""The clients' methods for operators: gates, keys that stand still, unique keys, pauses; and reads in a transaction."""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass

import pytest

from fastq import Args, AsyncClient, Client, Limit, Ordered, Rate, Unique, admin
from fastq.errors import DatabaseUnavailable, OptionError
from fastq.events import subscribe
from fastq.jobs.job import State
from fastq.workflows.steps import chain
from tests.db.jobs import CHANNEL, ERROR, add
from tests.db.test_adapters import AWAITED, BLOCKING

HELD = '[["order-hold","stream",7,1,1]]'
RETRIED = '[["order","steps","a b",1,1]]'


@dataclass
class MailArgs(Args, kind="mail", gates=[Limit("mail-api", at_most=20, by="account")]):
    account: int


@dataclass
class SyncArgs(Args, kind="sync", unique=Unique("account")):
    account: int


@dataclass
class NapArgs(Args, kind="nap"):
    pass


class InThreads:
    """A client that blocks, with methods to be awaited: so that one test is for both."""

    def __init__(self, client):
        self._client = client

    def __getattr__(self, name):
        method = getattr(self._client, name)

        async def awaited(*given, **named):
            return method(*given, **named)

        return awaited


@pytest.fixture(params=[Client, AsyncClient])
def run(request, database):
    """Give a function that runs a coroutine of a client, with either client."""

    async def with_client(use):
        if request.param is AsyncClient:
            async with AsyncClient(database) as client:
                return await use(client)
        with Client(database) as client:
            return await use(InThreads(client))

    return lambda use: asyncio.run(with_client(use))


@pytest.fixture
def told():
    """Give the lines of the events that this process emits."""
    lines = []
    unsubscribe = subscribe(lambda event: lines.append(str(event)))
    yield lines
    unsubscribe()


def hold(connection):
    """Have a discarded job hold a key, and one that waits for its next attempt hold up another behind it."""
    (discarded,) = add(connection, kind="step", meta=json.dumps({"gates": HELD}))
    connection.execute("insert into fastq.gate_permit values ($1, 'default', $2)", discarded, HELD)
    claim = 1 << 32 | 1
    connection.execute(
        "update fastq.job set state = 'running', claim = $2, attempt = 1, seq = null where id = $1", discarded, claim
    )
    connection.run("job_finish", [discarded], [claim], ["discarded"], [ERROR], [None], CHANNEL)
    later = {"attempted_at": "2026-01-01 12:00Z", "scheduled_at": "2100-01-01 12:00Z", "seq": None, "state": "retryable"}
    (retried,) = add(connection, kind="step", meta=json.dumps({"gates": RETRIED}), **later)
    connection.execute("insert into fastq.gate_permit values ($1, 'default', $2)", retried, RETRIED)
    return discarded, retried


def put_behind(connection):
    return add(connection, state="waiting", seq=None, waits_for=RETRIED, meta=json.dumps({"gates": RETRIED}))


def test_a_program_sets_and_removes_the_number_of_a_gate_and_sees_it(run, told):
    async def use(client):
        await client.enqueue(MailArgs(42))
        assert await client.set_gate("mail-api", 5) is None
        assert await client.set_gate("mail-api", 0) == 5
        [row] = await client.gates()
        assert (row.name, row.state, row.at_most, row.defaults, row.waiting, row.keys) == ("mail-api", "closed", 0, [20], 1, 1)
        assert await client.remove_gate("mail-api") == 0
        assert await client.remove_gate("mail-api") is None
        assert (await client.gates())[0].state == "open"

    run(use)
    assert [line for line in told if line.startswith("gate.")] == [
        "gate.set gate=mail-api at_most=5",
        "gate.set gate=mail-api at_most=0 before=5",
        "gate.removed gate=mail-api before=0",
    ]


def test_a_program_sets_the_time_and_the_burst_of_a_rate_and_each_call_says_all_of_them(run, told):
    async def use(client):
        await client.set_gate("sms-api", 100, per=60, burst=10)
        [first] = await client.gates()
        await client.set_gate("sms-api", 50, burst=0)
        [second] = await client.gates()
        return first, second

    first, second = run(use)
    assert (first.at_most, first.per, first.burst) == (100, 60.0, 10)
    assert (second.at_most, second.per, second.burst) == (50, None, 0)
    assert "gate.set gate=sms-api at_most=100 per=60 burst=10" in told


def test_a_program_lists_the_keys_that_stand_still_and_releases_one(run, connection, told):
    discarded, retried = hold(connection)

    async def use(client):
        [held] = await client.held_keys()  # nobody waits behind the other
        put_behind(connection)
        assert [(row.gate, row.key, row.job, row.state) for row in await client.held_keys()] == [
            ("stream", "7", discarded, State.DISCARDED),
            ("steps", '"a b"', retried, State.RETRYABLE),
        ]
        waits = (await client.held_keys())[1]
        assert (f"{waits.since:%Y}", f"{waits.until:%Y}", waits.kind) == ("2026", "2100", "step")
        assert held.until is None
        assert await client.release_key("stream", 8) == []
        assert await client.release_key("steps", "a b") == []
        assert await client.release_key("stream", 7) == [discarded]
        assert await client.release_key("stream", 7) == []

    run(use)
    assert [line for line in told if line.startswith("gate.")] == [f"gate.released gate=stream key=7 jobs={discarded}"]
    assert admin.list_held(connection)[0].job == retried


def test_a_program_lists_the_keys_of_unique_jobs_and_gives_one_up(run):
    async def use(client):
        first, other = await client.enqueue(SyncArgs(1)), await client.enqueue(SyncArgs(2))
        rows = await client.unique_keys()
        assert [row.job_id for row in rows] == [first, other]
        assert [row.job_id for row in await client.unique_keys(limit=1)] == [first]
        assert await client.release_unique(rows[0].key[:8]) == rows[0]
        assert await client.release_unique(rows[0].key[:8]) is None
        assert (await client.enqueue(SyncArgs(1))).new
        with pytest.raises(OptionError, match="expected 6 to 64 hexadecimal digits"):
            await client.release_unique("xyz")

    run(use)


def test_a_pause_and_its_end_are_events_of_the_program_that_makes_them(run, told):
    async def use(client):
        await client.pause(gate="mail-api", key=42, until=60, reason="they asked")
        assert await client.resume(gate="mail-api", key=42)
        assert not await client.resume(gate="mail-api", key=42)

    run(use)
    assert [line for line in told if line.startswith("pause.")] == [
        'pause.set subject="gate \'mail-api\' for key 42" until=60 reason="they asked"',
        "pause.resumed subject=\"gate 'mail-api' for key 42\"",
    ]


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (lambda client: client.set_gate("mail api", 1), "expected a name like 'mail-api'"),
        (lambda client: client.set_gate("mail-api", -1), "expected a whole number from 0 to"),
        (lambda client: client.set_gate("sms-api", 1, per=0.5), "per=0.5: expected seconds from 1 to"),
        (lambda client: client.set_gate("sms-api", 1, burst=True), "burst=True: expected a whole number from 0 to"),
        (lambda client: client.release_key("stream", object()), "object"),
    ],
)
def test_a_value_that_is_wrong_is_refused_before_a_connection_is_asked_for(wrong, rule):
    with Client("postgresql://nobody@127.0.0.1:1/nowhere") as client, pytest.raises(Exception, match=rule) as refused:
        wrong(client)
    assert not isinstance(refused.value, DatabaseUnavailable)


async def use_within(client, conn, commit, rollback, connection):
    """Make jobs, numbers and pauses in a transaction and look at them there; nobody else sees them."""
    for end in (rollback, commit):
        job = await client.enqueue(MailArgs(42), conn=conn, tags=["a", "b"])
        unique = await client.enqueue(SyncArgs(1), conn=conn)
        flow = (await client.enqueue_workflow(chain(NapArgs(), NapArgs()), conn=conn)).id
        await client.set_gate("mail-api", 5, per=60, conn=conn)
        await client.pause(gate="mail-api", reason="down", conn=conn)

        found = await client.get(job, conn=conn)
        assert (found.id, found.state, found.args, found.tags) == (job, State.WAITING, {"account": 42}, ["a", "b"])
        assert found.meta["gates"].startswith("[[")
        assert (found.errors, (await client.get(unique, conn=conn)).unique[1]) == ([], "end")
        assert (await client.why(job, conn=conn)).startswith(f"job {job} waits because gate 'mail-api' is paused since ")
        assert [row.reason for row in await client.pauses(conn=conn)] == ["down"]
        [gate] = await client.gates(conn=conn)
        assert (gate.at_most, gate.per, gate.waiting, gate.oldest == found.created_at) == (5, 60.0, 1, True)
        assert [row.job_id for row in await client.unique_keys(conn=conn)] == [unique]
        assert (await client.workflow(flow, conn=conn)).steps == 2
        assert [row.id for row in await client.workflows(conn=conn)] == [flow]
        assert [step.kind for step in await client.workflow_steps(flow, conn=conn)] == ["nap", "nap"]
        assert connection.execute("select count(*) from fastq.job") == [(0,)]
        assert await client.held_keys(conn=conn) == []
        if end is rollback:
            assert await client.remove_gate("mail-api", conn=conn) == 5
            assert (await client.release_unique((await client.unique_keys(conn=conn))[0].key, conn=conn)).job_id == unique
            assert await client.resume(gate="mail-api", conn=conn)
        await end()

    assert [(await client.get(job)).id, (await client.gates())[0].set_to] == [job, 5]


@pytest.mark.parametrize("library", BLOCKING)
def test_a_transaction_sees_what_it_has_made_through_every_library(library, database, connection):
    async def end(how):
        how()

    with library(database) as (conn, commit, rollback), Client(database) as client:
        looks = use_within(InThreads(client), conn, lambda: end(commit), lambda: end(rollback), connection)
        with suppress(StopIteration):  # nothing in it waits: it ends at once, and without an event loop, where Django refuses
            looks.send(None)
            raise AssertionError("it waits")


@pytest.mark.parametrize("library", AWAITED)
def test_a_transaction_of_an_event_loop_sees_what_it_has_made_through_every_library(library, database, connection):
    async def use():
        async with library(database) as (conn, commit, rollback), AsyncClient(database) as client:
            await use_within(client, conn, commit, rollback, connection)

    asyncio.run(use())


@pytest.mark.parametrize("library", [*BLOCKING])
def test_a_held_key_is_released_in_the_callers_transaction_and_a_failed_job_read_there(library, database, connection):
    discarded, _ = hold(connection)
    with library(database) as (conn, _, rollback), Client(database) as client:
        assert client.get(discarded, conn=conn).errors[0]["error"] == json.loads(ERROR)["error"]
        assert client.release_key("stream", 7, conn=conn) == [discarded]
        rollback()
        assert client.release_key("stream", 7) == [discarded]


def test_an_operators_time_shows_in_the_reason_for_which_a_job_waits(database):
    @dataclass
    class SmsArgs(Args, kind="sms", gates=[Rate("sms-api", at_most=10, per=2)]):
        pass

    with Client(database) as client:
        job = client.enqueue(SmsArgs())
        assert "10 may start in 2 s" in client.why(job)
        client.set_gate("sms-api", 7, per=90)
        assert "7 may start in 90 s" in client.why(job)


def test_a_key_of_a_gate_without_by_is_released_without_naming_it(database, connection):
    assert Ordered("all", when_discarded="hold").sort == "order-hold"
    connection.execute("""insert into fastq.gate_permit values (5, 'default', '[["order-hold","all","",1,1]]')""")
    with Client(database) as client:
        assert client.release_key("all") == [5]
