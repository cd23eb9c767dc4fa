"""`fastq periodic` as a user and as a script see it."""

import json

import pytest

from fastq.lead import definitions
from fastq.leases.lease import acquire
from tests.db.jobs import session
from tests.db.test_periodic import declare, registry_of
from tests.helpers import execute

pytestmark = pytest.mark.further


@pytest.fixture
def schedules(database):
    """Store three periodic jobs: one that ticks, one whose queue is in no domain, and one that no living process declares."""
    from fastq import Backfill, Cron, Every

    connection = session(database)
    registry = registry_of(
        report=(Cron("0 9 * * mon-fri", "Europe/Berlin"), {"missed": Backfill(3), "queue": "slow"}),
        unled=(Every(30), {"queue": "nobodys"}),
    )
    definitions.define(connection, registry)
    definitions.define(connection, registry_of(gone=Every(30)))
    declare(connection, registry)
    acquire(connection, "leader:batch", "somebody", 600.0, ["slow"])
    connection.close()


def test_periodic_jobs_are_listed_for_people_and_for_scripts(on_database, schedules):
    header, *lines = on_database("periodic", "list").splitlines()

    words = "name schedule tz queue kind missed last tick next tick state error"
    assert header.split() == words.split()
    assert [line.split()[0] for line in lines] == ["gone", "report", "unled"]
    assert lines[0].split()[1:7] == ["every", "30", "UTC", "default", "report", "once"]
    assert lines[0].endswith("undeclared")
    assert lines[2].endswith("no leader")
    assert "cron 0 9 * * mon-fri  Europe/Berlin  slow     report  backfill 3" in lines[1]
    listed = json.loads(on_database("periodic", "list", "--json"))
    assert [(row["name"], row["state"], row["paused_at"], row["backfill"]) for row in listed] == [
        ("gone", "undeclared", None, 0),
        ("report", "on", None, 3),
        ("unled", "no leader", None, 0),
    ]


def test_nothing_to_list_is_told(fastq, on_database, database):
    assert "no periodic jobs: registry.periodic(...)" in fastq("periodic", "list", FASTQ_DATABASE_URL=database).stderr
    assert json.loads(on_database("periodic", "list", "--json")) == []


def test_a_periodic_job_is_paused_resumed_and_run(on_database, database, schedules):
    assert on_database("periodic", "pause", "report") == "periodic job 'report' is paused\n"
    assert json.loads(on_database("periodic", "pause", "report", "--json")) == {"name": "report", "paused": True, "changed": True}
    assert " paused" in on_database("periodic", "list")
    assert on_database("periodic", "resume", "report").startswith("periodic job 'report' is resumed; next tick 20")
    assert on_database("periodic", "resume", "report") == "periodic job 'report' was not paused\n"
    assert on_database("periodic", "run", "report") == "enqueued job 1\n"
    assert json.loads(on_database("periodic", "run", "gone", "--json")) == {"name": "gone", "id": 2}
    assert execute(database, "select kind, queue from fastq.job order by id") == [("report", "slow"), ("report", "default")]


def test_a_periodic_job_that_nobody_declares_is_deleted(on_database, database, schedules):
    on_database("periodic", "run", "gone")
    assert on_database("periodic", "delete", "gone") == "periodic job 'gone' is deleted; its jobs stay\n"
    refused = on_database("periodic", "delete", "report", code=1)
    assert "'report' is declared by a living process, which would write it again: take it out of the code first" in refused
    assert [row["name"] for row in json.loads(on_database("periodic", "list", "--json"))] == ["report", "unled"]
    assert execute(database, "select kind from fastq.job") == [("report",)]


@pytest.mark.parametrize("action", ["pause", "resume", "run", "delete"])
def test_a_name_that_is_not_there_is_told(on_database, action):
    assert "there is no periodic job 'nothing'; fastq periodic list shows them" in on_database(
        "periodic", action, "nothing", code=1
    )
    assert "name 'a=b': expected 1 to 127" in on_database("periodic", action, "a=b", code=2)


def test_two_definitions_of_one_name_end_the_start_with_both_places(fastq, folder, database):
    lines = "from fastq import Every\nregistry.periodic('note', Every(3600), NoteArgs('x'))\n"
    (folder / "app.py").write_text(
        (folder / "app.py").read_text() + lines + "registry.periodic('note', Every(1), NoteArgs('y'))\n"
    )

    told = fastq("run", "app:registry", FASTQ_DATABASE_URL=database)

    assert told.returncode == 2
    assert "periodic job 'note' is defined twice: app, line" in told.stderr
    assert execute(database, "select count(*) from fastq.periodic") == [(0,)]
