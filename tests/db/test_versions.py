"""The version of a job's args: it stays with the job whatever an operator or an enqueue does, and old programs do not hide it."""

from dataclasses import dataclass

import pytest

from fastq import Args, Client, Cron, Registry, Unique
from fastq.events import subscribe
from fastq.lead.chores.unworked import Unworked
from tests.db.jobs import CHANNEL, add, claim, claim_number
from tests.db.test_dead import put
from tests.db.test_waiting import register
from tests.helpers import execute

MINE = claim_number(1, 1)
FOREVER = float("inf")


@dataclass
class OldArgs(Args, kind="mail", unique=Unique((), then="replace")):
    address: str


@dataclass
class NewArgs(Args, kind="mail", version=2, unique=Unique((), then="replace")):
    to: list[str]


@dataclass
class OldList(Args, kind="list", unique=Unique((), then="collect", into="to")):
    to: list[str]


@dataclass
class NewList(Args, kind="list", version=2, unique=Unique((), then="collect", into="to")):
    to: list[dict[str, str]]


class Site:
    """The part of a chore's site that this one needs."""

    def __init__(self, connection):
        self.connection = connection


@pytest.fixture
def client(database):
    with Client(database) as opened:
        yield opened


def rows(database):
    return execute(database, "select args::text, meta ->> 'version' from fastq.job order by id")


def rested(connection, version):
    """Make a job with args of a version that a process has claimed and could not read; return its id."""
    (job,) = add(connection, 1, meta=f'{{"version": {version}}}')
    claim(connection, MINE)
    connection.run_one("job_retry", [job], [MINE], [FOREVER], [False], [None], CHANNEL)
    return job


def test_a_job_of_a_newer_version_waits_under_the_name_of_its_version(connection, database):
    rested(connection, 3)

    assert execute(database, "select waits_for from fastq.job") == [("worker:nap@3",)]


def test_a_queue_with_old_programs_alone_is_reported_by_kind_and_version_until_a_newer_one_lives(connection):
    rested(connection, 3)
    register(connection, 5, ["nap"])
    heard, chore = [], Unworked()
    unsubscribe = subscribe(lambda event: heard.append((event.name, event.fields)))
    try:
        chore.run(Site(connection))
        chore.run(Site(connection))
        register(connection, 6, ["nap", "nap@1", "nap@2", "nap@3"])
        chore.run(Site(connection))
    finally:
        unsubscribe()

    assert [(name, fields["kind"], fields["jobs"]) for name, fields in heard] == [("kind.unworked", "nap@3", 1)]


def test_a_sweep_makes_such_a_job_available_once_all_programs_know_its_version_and_its_kind_is_not_paused(
    connection, client, database
):
    job = rested(connection, 2)
    register(connection, 5, ["nap"])
    register(connection, 6, ["nap", "nap@1", "nap@2"])
    known = lambda: connection.run_one("waiting_known", None, 10, [])[0]  # noqa: E731 - said thrice

    assert known() == []
    execute(database, "delete from fastq.process where id = 5")
    assert known() == [job]
    client.pause(kind="nap")
    assert known() == []


def test_a_look_ahead_puts_to_waiting_what_no_program_knows_and_leaves_versions_that_one_does(connection, database):
    add(connection, 1)
    add(connection, 1, meta='{"version": 2}')
    add(connection, 1, meta='{"version": 3}')
    register(connection, 5, ["nap"])
    register(connection, 6, ["nap", "nap@1", "nap@2"])

    _, _, names, _, _ = connection.run_one("job_rest", "default", ["nap"], 0, 0, 0, 0, 100, CHANNEL)

    assert names == ["nap@3"]
    assert execute(database, "select state::text, waits_for from fastq.job order by id") == [
        ("available", None),
        ("available", None),
        ("waiting", "worker:nap@3"),
    ]


def test_a_job_that_is_replaced_has_the_version_of_its_new_args(client, database):
    client.enqueue(OldArgs("a"), delay=60)
    client.enqueue(NewArgs(["b"]), delay=60)
    assert rows(database) == [('{"to":["b"]}', "2")]

    client.enqueue(OldArgs("c"), delay=60)
    assert rows(database) == [('{"address":"c"}', None)]


def test_args_of_two_versions_are_not_collected_in_one_job(client, database):
    for address in ("a", "b"):
        client.enqueue(OldList([address]), delay=60)
        client.enqueue(NewList([{"address": address}]), delay=60)

    assert rows(database) == [('{"to":["a","b"]}', None), ('{"to":[{"address":"a"},{"address":"b"}]}', "2")]


def test_a_discarded_job_keeps_its_version_when_it_runs_again_or_is_replayed(client, connection, database):
    retried, replayed = put(connection, 2, meta={"version": 2})

    client.retry(retried)
    assert client.replay(kind="mail").jobs == 1
    assert replayed

    versions = execute(database, "select meta ->> 'version' from fastq.job")
    assert versions == [("2",), ("2",)]


def test_a_tick_of_a_periodic_job_has_the_version_of_its_args():
    registry = Registry()
    registry.periodic("nightly", Cron("0 3 * * *", tz="UTC"), NewArgs(["a"]))

    assert '"version":2' in registry.periodics["nightly"].spec().meta
