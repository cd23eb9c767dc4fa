"""Hooks around an enqueue: called once for each job by every way in, they change options, and give it values to carry."""

import asyncio
import struct
from dataclasses import dataclass
from datetime import datetime

import pytest

from fastq import Args, AsyncClient, Client, Enqueue, Hook, Limit, Unique, Workflow, chain
from fastq.errors import OptionError
from fastq.work.codec import codec
from fastq.work.codec.claimed import Claimed
from tests.db.jobs import END, NO_BOUND, START, claim_number, living


class Stamp(Hook):
    """Gives each job a tenant and a tag, and tells which jobs it has seen."""

    def __init__(self, tenant="acme"):
        self.tenant, self.seen = tenant, []

    def enqueue(self, enqueuing):
        self.seen.append((enqueuing.kind, enqueuing.args, dict(enqueuing.options)))
        enqueuing.carry(tenant=self.tenant)
        enqueuing.options["tags"] = [*enqueuing.options.get("tags", ()), "stamped"]


kind_hook = Stamp("of the kind ü €")


@dataclass
class HookedArgs(Args, kind="hooked", hooks=[kind_hook]):
    n: int = 0


@dataclass
class PlainArgs(Args, kind="plain"):
    n: int = 0


WAYS = {
    "one": lambda client, args, **more: [client.enqueue(args, **more)],
    "many": lambda client, args, **more: client.enqueue_many([args], **more),
    "many with their own": lambda client, args, **more: client.enqueue_many([Enqueue(args, **more)]),
    "a copy": lambda client, args, **more: range(1, client.enqueue_copy([args], **more) + 1),
    "unique": lambda client, args, **more: [client.enqueue(args, unique=Unique(), **more)],
    "a workflow": lambda client, args, **more: client.enqueue_workflow(chain(Enqueue(args, **more))).ids,
}


@pytest.fixture(autouse=True)
def forget():
    kind_hook.seen.clear()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", ["kind", "client"])
def test_a_hook_is_called_for_a_job_that_comes_in_by_any_way(connection, database, way, place):
    hook, args = (kind_hook, HookedArgs(3)) if place == "kind" else (Stamp(), PlainArgs(3))

    with Client(database, hooks=[hook] if place == "client" else []) as client:
        [job_id] = WAYS[way](client, args, tags=["t"], queue="slow")

    job = living(connection, job_id)
    assert (job["meta"]["carried"], job["tags"], job["queue"]) == ({"tenant": hook.tenant}, ["t", "stamped"], "slow")
    [(kind, seen, options)] = hook.seen
    assert (kind, seen) == (job["kind"], args)
    assert {name: options[name] for name in ("tags", "queue")} == {"tags": ["t"], "queue": "slow"}


@pytest.mark.parametrize("way", ["enqueue", "enqueue_many", "enqueue_copy", "enqueue_workflow"])
def test_the_client_that_awaits_calls_the_same_hooks(connection, database, way):
    async def enqueue():
        async with AsyncClient(database, hooks=[Stamp("of the client"), kind_hook]) as client:
            await getattr(client, way)(HookedArgs() if way in ("enqueue", "enqueue_workflow") else [HookedArgs()])

    asyncio.run(enqueue())

    job = living(connection, 1)
    assert job["meta"]["carried"] == {"tenant": kind_hook.tenant}, "the kind's comes after the client's"
    assert job["tags"] == ["stamped", "stamped"], "each is called once, though one is given twice"


def test_the_worker_reads_what_was_carried(connection, database):
    with Client(database) as client:
        client.enqueue_many([HookedArgs(), PlainArgs()])
    numbers = [struct.pack(">q", number) for number in (*START, 9, *[END] * 4, *NO_BOUND)]

    _, row = connection.run_blobs(
        "job_claim", [struct.pack(">q", claim_number(5, 1)), b"default", *numbers, codec.encode_ids([])]
    )

    jobs = {job.kind: job for job in codec.decode(Claimed("default", 1, row), {})[2]}
    assert jobs["hooked"].carried == {"tenant": kind_hook.tenant}
    assert jobs["plain"].carried == {}
    with pytest.raises(TypeError):
        jobs["hooked"].carried["tenant"] = "another"


class Changing(Hook):
    def __init__(self, **options):
        self.options = options

    def enqueue(self, enqueuing):
        enqueuing.options.update(self.options)


@pytest.mark.parametrize("way", ["one", "many", "many with their own", "unique", "a workflow"])
def test_a_hook_may_change_every_option(connection, database, way):
    with Client(database, hooks=[Changing(queue="late", priority=4, max_attempts=2, delay=3600)]) as client:
        [job_id] = WAYS[way](client, PlainArgs(), queue="slow")

    job = living(connection, job_id)
    assert (job["queue"], job["priority"], job["max_attempts"], job["state"]) == ("late", 4, 2, "scheduled")


def test_a_job_that_goes_through_gates_carries_values_too(connection, database):
    @dataclass
    class GatedArgs(Args, kind="gated", gates=[Limit("crm", 1)], unique=Unique()):
        n: int = 0

    with Client(database, hooks=[Stamp()]) as client:
        ids = [client.enqueue(GatedArgs(1)), *client.enqueue_many([GatedArgs(2)])]

    for job_id in ids:
        job = living(connection, job_id)
        assert (job["state"], set(job["meta"]), job["meta"]["carried"]) == (
            "waiting",
            {"gates", "carried", "unique"},
            {"tenant": "acme"},
        )


def test_a_copy_of_jobs_that_a_hook_sends_through_gates_waits_at_them(connection, database):
    @dataclass
    class CopiedArgs(Args, kind="copied", gates=[Limit("erp", 1)]):
        n: int = 0

    with Client(database, hooks=[Stamp()]) as client:
        assert client.enqueue_copy(CopiedArgs(n) for n in range(3)) == 3

    assert [living(connection, job_id)["state"] for job_id in (1, 2, 3)] == ["waiting"] * 3


@pytest.mark.parametrize("way", WAYS)
def test_a_hook_that_raises_leaves_nothing_behind(connection, database, way):
    class Refusing(Hook):
        def enqueue(self, enqueuing):
            raise LookupError("no tenant")

    with Client(database, hooks=[Refusing()]) as client, pytest.raises(LookupError, match="no tenant"):
        list(WAYS[way](client, PlainArgs()))

    assert connection.run_one("search_begin")[1] in (None, 0) or not connection.execute("select from fastq.job")


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (datetime.now(), "carried .*"),  # noqa: DTZ005 - its JSON is a text, which does not come back as a datetime
        ({1: 2}, "carried"),
        (float("nan"), "carried .*finite number"),
        (object(), "carried"),
        ("x" * 5_000, "expected 4096 bytes of JSON at most, got 5"),
    ],
)
def test_a_value_that_would_not_come_back_equal_or_is_large_is_refused(database, value, fault):
    class Carrying(Hook):
        def enqueue(self, enqueuing):
            enqueuing.carry(value=value)

    with Client(database, hooks=[Carrying()]) as client, pytest.raises(OptionError, match=fault):
        client.enqueue(PlainArgs())


def test_an_option_that_does_not_exist_is_refused(database):
    with Client(database, hooks=[Changing(delai=3)]) as client, pytest.raises(OptionError, match="unknown option delai"):
        client.enqueue(PlainArgs())


def test_the_callbacks_of_a_workflow_carry_values(connection, database):
    flow = Workflow("report", on_success=HookedArgs(7))
    flow.add(PlainArgs())

    with Client(database) as client:
        client.enqueue_workflow(flow)

    assert [seen[:2] for seen in kind_hook.seen] == [("hooked", HookedArgs(7))]
    [(callbacks,)] = connection.execute("select callbacks::text from fastq.workflow")
    assert '"tenant": "of the kind' in callbacks or '"tenant":"of the kind' in callbacks
