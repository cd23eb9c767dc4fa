"""A full queue of notifications decides over no statement of ours, and hints come again when there is room."""

import math
import re
from importlib import resources

import psycopg
import pytest

from fastq import Config, admin
from fastq.admin import leaders, periodic
from fastq.events import Seldom
from fastq.jobs.outcome import Snooze, failed
from fastq.lead import definitions
from fastq.lead.chores.admit import Admit
from fastq.lead.chores.periodic import Periodic
from fastq.lead.chores.promote import Promote
from fastq.lead.rescue.rescue import Rescue
from fastq.leases import lease
from fastq.leases.lease import Fence
from fastq.postgres import db, hints, sqlstate
from fastq.work.complete.writer import Writer
from tests.db.jobs import CHANNEL, ERROR, add, claim, claim_number, living
from tests.db.leases import run_out, site_on
from tests.db.test_completer import claimed
from tests.db.test_periodic import HOURLY, define, hours_ago, pending, registry_of
from tests.full_queue import NAME

MINE = claim_number(5, 1)
NEVER = "2100-01-01"


@pytest.fixture(autouse=True)
def _nothing_was_told_yet(monkeypatch):
    """Let what earlier tests have caused to be told be told again."""
    monkeypatch.setattr(hints, "_seldom", Seldom())
    monkeypatch.setattr("fastq.lead.chores.promote.REST", 0.0)


@pytest.fixture
def site(database):
    """Give a leader of the default domain."""
    made = site_on(database)
    yield made
    made.connection.close()


@pytest.fixture
def operator(database):
    """Give a connection as the CLI opens it."""
    opened = admin.connect(Config(), database)
    yield opened
    opened.close()


def test_only_a_full_queue_is_taken_for_one_and_it_is_no_rows_fault(database, full_queue, connection):
    def error_of(statement):
        with pytest.raises(psycopg.Error) as raised:
            connection.execute(statement)
        return raised.value

    rows_own = error_of("select jsonb_object_agg(n, repeat('x', 3000000)) from generate_series(1, 90) n")
    connection.execute("create table public.narrow (name text primary key)")
    too_large = error_of("insert into public.narrow select string_agg(md5(n::text), '') from generate_series(1, 300) n")
    full_queue()
    full = error_of("select pg_notify('fastq', 'x')")

    assert [error.sqlstate for error in (rows_own, too_large, full)] == ["54000"] * 3
    assert [hints.refused(error) for error in (rows_own, too_large, full)] == [False, False, True]
    assert [sqlstate.row_refused(error) for error in (rows_own, too_large, full)] == [True, True, False]


def test_completions_are_written_while_the_queue_is_full(database, connection, full_queue, events):
    jobs = claimed(connection, *["kept"] * 60)
    for number, job in enumerate(jobs):
        job.outcome = failed(job, "boom") if number % 2 else Snooze(60)
    writer = Writer(Config(), lambda: db.connect(database, role="completer"))
    full_queue()

    writer.write(jobs)
    writer.session.drop()

    states = [living(connection, job.id)["state"] for job in jobs]
    assert states == ["scheduled", "retryable"] * 30
    assert [event.name for event in events] == ["hints.refused"]


def test_every_statement_that_notifies_can_be_run_without():
    told = {}
    for file in resources.files("fastq").joinpath("sql").iterdir():
        if file.is_file() and (channels := re.findall(r"pg_notify\(\s*(\$\d+|\S+)", text := file.read_text())):
            asked = sum(text.count(f"{channel}::text is not null") for channel in set(channels)) + text.count("$10::boolean")
            told[file.name] = asked == len(channels)

    assert {name for name, can in told.items() if not can} == {"wake.sql"}  # which does nothing else
    assert len(told) > 15


def promote(site):
    ids = add(site.connection, 3, state="scheduled", scheduled_at="2000-01-01", seq=None)
    return lambda: run_out(Promote(), site), lambda: [living(site.connection, id_)["state"] for id_ in ids] == ["available"] * 3


def rescue(site):
    ids = add(site.connection, 3)
    claim(site.connection, MINE)
    site.connection.execute("update fastq.job set attempted_at = now() - interval '1 day'")
    return lambda: run_out(
        Rescue(0.0, 1e6), site
    ), lambda: [living(site.connection, id_)["state"] for id_ in ids] == ["available"] * 3


def admit(site):
    ids = add(site.connection, 3, state="waiting", seq=None, waits_for="worker:nap")
    site.connection.execute(
        "insert into fastq.process (id, host, pid, supervisor, queues, kinds, expires_at) "
        "values (9, 'h', 1, 'h:1:x', 'default', array['nap'], clock_timestamp() + interval '1 hour')"
    )
    return lambda: run_out(Admit(), site), lambda: [living(site.connection, id_)["state"] for id_ in ids] == ["available"] * 3


def enqueue_ticks(site):
    define(site.connection, report=HOURLY)
    pending(site.connection, "report", hours_ago(site.connection, 0))
    return lambda: run_out(Periodic(), site), lambda: site.connection.execute("select kind from fastq.job") == [("report",)]


@pytest.mark.parametrize("chore", [promote, rescue, admit, enqueue_ticks], ids=lambda chore: chore.__name__)
def test_a_leaders_chores_go_on_while_the_queue_is_full(site, full_queue, events, chore):
    run, done = chore(site)
    full_queue()

    run()

    assert done()
    assert [event.name for event in events if "skip" in event.name or "fail" in event.name] == []
    assert "hints.refused" in [event.name for event in events]


def test_an_operator_can_do_everything_while_the_queue_is_full(connection, operator, full_queue):
    running, finished = add(connection), add(connection)
    claim(connection, MINE, limit=1)
    admin.cancel_jobs(operator, finished)
    define(connection, report=HOURLY)
    fence = Fence("leader:x", "somebody", lease.acquire(connection, "leader:x", "somebody", 60.0).term)
    admin.pause_queue(operator, "default")
    full_queue()

    def afresh(done):
        operator.no_hints_until = 0.0
        return done

    assert afresh(admin.resume_queue(operator, "default"))
    assert afresh(admin.cancel_jobs(operator, running)[0].outcome) == "asked"
    assert afresh(admin.retry_jobs(operator, finished)[0].outcome) == "available"
    assert afresh(leaders.resign(operator, "leader:x")).name == "leader:x"
    assert afresh(periodic.pause_periodic(operator, "report"))
    assert afresh(periodic.resume_periodic(operator, "report"))
    assert living(connection, afresh(periodic.run_periodic(operator, "report")))["kind"] == "report"
    assert afresh(definitions.define(operator, registry_of(report=HOURLY, other=HOURLY))) == ["other"]
    connection.no_hints_until = 0.0
    assert lease.release(connection, fence)


@pytest.mark.parametrize("statement", ["job_release", "job_recover", "lease_release_all"])
def test_what_a_supervisor_gives_back_is_given_back_while_the_queue_is_full(connection, full_queue, statement):
    ids = add(connection, 2)
    claim(connection, MINE)
    execute_ = {
        "job_release": lambda channel: connection.run("job_release", ids, [MINE], channel),
        "job_recover": lambda channel: connection.run("job_recover", ids, 0, 0, "default", ids, 3, 5, channel, ERROR, [], ERROR),
        "lease_release_all": lambda channel: connection.run("lease_release_all", "me", channel),
    }[statement]
    if statement == "lease_release_all":
        assert lease.acquire(connection, "singleton:x", "me", 60.0).term
    full_queue()

    hints.sending(connection, execute_)

    if statement == "lease_release_all":
        assert connection.execute("select holder from fastq.lease where name = 'singleton:x'") == [("",)]
    else:
        assert [living(connection, id_)["state"] for id_ in ids] == ["available"] * 2


def test_once_refused_a_session_sends_no_hint_until_it_has_rested_or_there_is_room(connection, other, full_queue, monkeypatch):
    monkeypatch.setattr(hints, "REST", 3_600.0)
    (job,) = add(connection)
    tried = []
    queue = full_queue()

    def release(channel):
        tried.append(channel)
        claim(connection, MINE)
        return connection.run("job_release", [job], [MINE], channel)

    hints.sending(connection, release)
    hints.sending(connection, release)
    assert tried == [CHANNEL, None, None]

    queue.empty()
    other.listen(CHANNEL)
    connection.no_hints_until = 0.0  # as if it had rested
    hints.sending(connection, release)
    assert tried[3:] == [CHANNEL, None], "nobody has told the server to look, so the queue is still full"
    hints.sending(connection, release)
    assert tried[5:] == [CHANNEL], "there is room, and it is known"
    assert list(other.notifications(5)) == ["default"]


def test_it_is_told_who_keeps_the_queue_full_and_what_to_do(connection, full_queue, events):
    queue = full_queue()
    hints.sending(connection, lambda channel: connection.run("wake", channel, "default") if channel else None)

    (event,) = [event for event in events if event.name == "hints.refused"]
    assert f"pid {queue.pid} (user " in event.fields["held_by"]
    assert f"application {NAME}): idle in transaction, its transaction began" in event.fields["held_by"]
    assert "pg_terminate_backend" in event.fields["advice"]
    assert "NOTIFY" in event.fields["error"]
    assert event.fields["used"] > 0.9


def test_without_listeners_no_hint_is_sent_at_all(database, connection, full_queue):
    quiet = db.session(Config(poll_only=True), database, "test")
    tried = []
    full_queue()

    hints.sending(quiet, tried.append)
    quiet.close()

    assert tried == [None]
    assert quiet.no_hints_until == math.inf
