"""Gates of a queue: all its jobs go through them, of whatever kind, however they are enqueued."""

from dataclasses import dataclass

import pytest

from fastq import Args, Client, Enqueue, Every, Kind, Limit, Ordered, Queue, Registry, Unique, admin
from fastq.args.queues import QUEUES
from fastq.config import Config
from fastq.errors import ArgsError, OptionError
from fastq.lead import definitions
from tests.db.jobs import add, living

BULK = Queue("bulk.here", gates=[Limit("bulk.here", at_most=2)])
BY_ACCOUNT = Queue("by_account.here", gates=[Limit("accounts", at_most=1, by="account")])
GATES = '[["limit","bulk.here","",1,2]]'


@dataclass
class MailArgs(Args, kind="mail", queue=BULK):
    account: int = 1


@dataclass
class CallArgs(Args, kind="call", gates=[Limit("phone", at_most=1, by="account"), Limit("bulk.here", at_most=5)]):
    account: int = 1


@dataclass
class NoteArgs(Args, kind="note"):
    text: str = ""


@pytest.fixture
def client(database):
    with Client(database) as opened:
        yield opened


def gates_of(connection, job):
    row = living(connection, job)
    assert (row["state"], row["queue"]) == ("waiting", "bulk.here")
    assert row["waits_for"] == row["meta"]["gates"]
    return row["waits_for"]


def test_every_way_to_enqueue_takes_a_job_of_the_queue_to_its_gates(client, connection):
    ids = [
        client.enqueue(MailArgs()),
        client.enqueue(NoteArgs(), queue="bulk.here"),
        client.enqueue(NoteArgs(), queue=BULK),
        client.enqueue(NoteArgs(), queue=BULK, unique=Unique()),
        *client.enqueue_many([MailArgs(), Enqueue(NoteArgs(), queue="bulk.here")]),
        *client.enqueue_many([NoteArgs()], queue=BULK),
        client.enqueue({}, kind=Kind("any", dict, queue=BULK)),
    ]
    last = ids[-1]
    assert client.enqueue_copy([NoteArgs(), MailArgs()], queue=BULK) == 2
    assert client.enqueue_copy([Enqueue(NoteArgs(), queue="bulk.here")]) == 1

    assert {gates_of(connection, job) for job in [*ids, last + 1, last + 2, last + 3]} == {GATES}
    assert living(connection, client.enqueue(NoteArgs()))["state"] == "available"


def test_a_job_goes_through_the_gates_of_its_kind_and_of_its_queue_and_through_a_gate_of_both_once(client, connection):
    job = client.enqueue(CallArgs(7), queue="bulk.here")

    assert gates_of(connection, job) == '[["limit","phone",7,1,1],["limit","bulk.here","",1,5]]'


def test_a_periodic_job_and_one_that_is_run_again_by_hand_wait_at_the_gates_of_the_queue(client, connection, database):
    registry = Registry()
    registry.periodic("nightly", Every(3600), NoteArgs(), queue=BULK)
    definitions.define(connection, registry)
    assert connection.execute("select meta ->> 'gates' from fastq.periodic") == [(GATES,)]

    job = client.enqueue(MailArgs())
    client.cancel(job)
    assert client.retry(job)
    assert gates_of(connection, job) == GATES


def test_the_key_of_a_queues_gate_is_a_field_of_each_kind_that_comes_there(client, connection):
    job = client.enqueue(CallArgs(7), queue=BY_ACCOUNT)
    assert living(connection, job)["waits_for"].endswith('["limit","accounts",7,1,1]]')
    with pytest.raises(ArgsError, match="'account': the args have no such field, and it is the key of a gate"):
        client.enqueue(NoteArgs(), queue=BY_ACCOUNT)
    with pytest.raises(OptionError, match="NoteArgs has no field 'account'"):
        client.enqueue(NoteArgs(), kind=Kind("n", NoteArgs, queue=BY_ACCOUNT))


def test_a_declared_queue_is_a_name(database, connection):
    add(connection, queue="bulk.here")
    operator = admin.connect(Config(), database)
    admin.pause_queue(operator, BULK)
    assert [row.name for row in admin.list_queues(operator) if row.paused_at] == ["bulk.here"]
    operator.close()
    assert BULK == "bulk.here"
    assert QUEUES["bulk.here"] is BULK
    assert repr(BULK) == "Queue('bulk.here', gates=[Limit('bulk.here', at_most=2)])"
    assert type(MailArgs.__fastq_kind__.queue) is str


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (
            lambda: Queue("bulk.here", gates=[Limit("bulk.here", at_most=3)]),
            "queue 'bulk.here' is declared twice: .*at_most=2.*at_most=3",
        ),
        (lambda: Queue("other", gates=[]), "queue 'other': expected gates"),
        (lambda: Queue("other", gates=[Ordered("x")]), r"queue 'other': Ordered\('x'\) is for kinds"),
        (lambda: Queue("Other", gates=[Limit("x", 1)]), "queue 'Other': expected 1 to 63 of"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused_with_the_rule(make, rule):
    with pytest.raises(OptionError, match=rule):
        make()
    assert "other" not in QUEUES
    assert (
        Queue("bulk.here", gates=[Limit("bulk.here", at_most=2)]) == BULK
    )  # the same once more, as a module that is imported again
