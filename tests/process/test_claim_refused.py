"""Claims that the database refuses: the jobs that it refuses them for are passed by, the others run."""

import pytest

from fastq.postgres import db
from fastq.work.claim import demand
from tests.db.jobs import add, living
from tests.helpers import wait_for
from tests.process.threads import TOLD, working

SHORT = '{"hold": false}'


@pytest.fixture
def connection(database):
    """Give a session of the test's own."""
    opened = db.connect(database, role="test")
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def _fresh():
    TOLD.clear()


def refuse(connection, when, errcode="P0001"):
    """Have a trigger refuse to change some rows."""
    connection.execute(f"""create function refuse() returns trigger language plpgsql as $$ begin
        raise exception 'not this one' using errcode = '{errcode}'; end $$""")
    connection.execute(f"create trigger refuse before update on fastq.job for each row when ({when}) execute function refuse()")


def names(events, name):
    return [event for event in events if event.name == name]


def test_a_job_that_cannot_be_claimed_holds_up_no_other_and_is_tried_again(database, connection, events, monkeypatch):
    monkeypatch.setattr(demand, "ASIDE", 0.5)
    refuse(connection, "new.state = 'running' and new.priority = 2", errcode="ZA001")
    first = add(connection, 30, kind="hold", args=SHORT)
    bad = add(connection, 2, kind="hold", args=SHORT, priority=2)
    last = add(connection, 30, kind="hold", args=SHORT, priority=3)

    with working(database, database, batch=100):
        wait_for(lambda: sorted(TOLD) == [*first, *last], 5.0, "the others to run")
        wait_for(
            lambda: {event.fields["id"] for event in names(events, "claim.job_skipped")} == set(bad), 5.0, "both to be told of"
        )
        assert names(events, "claim.shrunk")
        assert [living(connection, job)["state"] for job in bad] == ["available"] * 2
        later = add(connection, 30, kind="hold", args=SHORT)
        wait_for(lambda: set(later) <= set(TOLD), 5.0, "later ones to run")
        connection.execute("drop trigger refuse on fastq.job")
        wait_for(lambda: set(bad) <= set(TOLD), 5.0, "what was passed by to run")

    assert len(TOLD) == 92
    assert names(events, "producer.waits") == []


def test_claims_that_are_too_large_for_the_server_are_made_smaller(database, connection):
    connection.execute("""create function limit_claims() returns trigger language plpgsql as $$ begin
        if (select count(*) from claimed where state = 'running') > 3 then
            raise exception 'string buffer exceeds maximum allowed length' using errcode = '54000';
        end if; return null; end $$""")
    connection.execute("""create trigger limit_claims after update on fastq.job referencing new table as claimed
        for each statement execute function limit_claims()""")
    ids = add(connection, 50, kind="hold", args=SHORT)

    with working(database, database, slots=16, batch=64):
        wait_for(lambda: connection.execute("select count(*) from fastq.job") == [(0,)], 5.0, "all jobs to end")

    assert sorted(TOLD) == ids
