"""The fence: whatever a chore writes does nothing once its term is over, and nobody takes a lease while such a statement runs."""

import re
import threading
from pathlib import Path

import pytest

from fastq.errors import LeaseLost
from fastq.leases.lease import Fence, acquire, release, renew
from tests.db.jobs import CHANNEL, ERROR, add, claim_number
from tests.db.leases import LEASE, lead, site_on, take_over
from tests.helpers import wait_for

CHORES = Path(__file__).parent.parent.parent / "fastq" / "lead"
SQL = CHORES.parent / "sql"

SETUP = """
insert into fastq.job_progress (job, noted_at, fraction, attempt, text) values (1000000, '2000-01-01', 0.5, 1, '');
insert into fastq.job_step (job, sort, name, at) values (1000000, 'step', 'charge', '2000-01-01');
insert into fastq.job_log (job, claim, start_at, at, attempt, size, lines, ended, kind, text)
    values (66, 1, 0, '2000-01-01', 1, 9, 1, true, 'nap', '');
insert into fastq.process (id, host, pid, supervisor, queues, expires_at)
    values (3, 'h', 1, 'h:1:x', 'default', clock_timestamp() - interval '1 hour');
insert into fastq.pause (sort, name, key, paused_until) values ('kind', 'mail', '', '2000-01-01');
insert into fastq.queue (name, created_at) values ('unused', now() - interval '1 year');
insert into fastq.once (name, item, at) values ('n', 'i', now() - interval '1 year');
insert into fastq.job_archive (id, created_at, finalized_at, state, priority, attempt, max_attempts, crashes, queue, kind, args)
    values (77, now(), '2000-01-01 12:00Z', 'completed', 1, 1, 25, 0, 'default', 'nap', '{}');
insert into fastq.dead (id, finalized_at, priority, max_attempts, queue, kind, cause, args, error)
    values (78, '2000-01-01 13:00Z', 1, 25, 'default', 'nap', 'failed', '{}', '');
insert into fastq.lease (name, term, expires_at) values ('leader:gone', 1, '2000-01-01');
insert into fastq.chore (lease, name, term) values ('leader:gone', 'prune', 1);
insert into fastq.periodic (name, schedule, hash, kind, args, queue, priority, max_attempts, next_tick)
    values ('report', 'every 60', '0f', 'nap', '{}', 'default', 1, 25, '2000-01-02');
insert into fastq.periodic (name, schedule, hash, kind, args, queue, priority, max_attempts, last_tick, next_tick)
    values ('ahead', 'every 60', '0f', 'nap', '{}', 'default', 1, 25, '2100-01-01', '2100-01-02');
insert into fastq.periodic_tick (name, tick, job_id) values ('report', '2000-01-01', 66);
insert into fastq.gate_permit (job, queue, gates) values (66, 'default', '[]');
insert into fastq.gate_event (queue, gates, jobs) values ('default', '[]', 1);
insert into fastq.unique_key (key, job_id, since, until)
    values ('\\x01', 66, '2000-01-01', 'end'), ('\\x02', 66, '2000-01-01', 'success');
insert into fastq.workflow (name, ended_at) values ('w', null), ('v', '2000-01-01');
insert into fastq.workflow_step (workflow, step, job, kind, unmet, fate)
    values (1, 0, 66, 'nap', 0, 'go'), (1, 1, 66, 'nap', 0, null);
insert into fastq.workflow_event (workflow, step, state) values (1, 0, 'completed');
insert into fastq.stack (process, asked_at) values (1, '2000-01-01');
insert into fastq.subscription (filter, expires_at) values ('{}', '2000-01-01');
insert into fastq.event (subscription, source, number, start_at, size, events) values (66, 'h:1:x', 0, 0, 0, '[]');
insert into fastq.stat_due values (2, null, '2000-01-01');
insert into fastq.stat select '2000-01-01', grain, 'default', 'nap', 'completed', 1, 0, 0, 0, 0, '{}', '{}'
    from unnest(array[0, 3]) as grain;
insert into fastq.operation (verb, words, asked_by, expected, at_least, place) values ('retry', 'id:>0', 'me', 1, false, 'here');
insert into fastq.audit (asked_by, verb, jobs, at) values ('me', 'retry', 1, '2000-01-01')
"""
DAY = ("2000-01-01 00:00Z", "2000-01-02 00:00Z")
FENCED = {  # parameters after the fence, with which the statement would change something
    "archive_prune": (None, *DAY, [77], ["(0,1)"]),
    "archive_prune_default": (7, 100),
    "audit_prune": (10, 30.0),
    "dead_prune": (7, 10),
    "progress_forget": (0, 100, 3600.0),
    "domain_queues": ("default", ["late"]),
    "gate_admit": ([5], CHANNEL),
    "gate_begin": (),
    "gate_drop": ([5], CHANNEL),
    "gate_owe": (["mail-api"], ["1"], [30.0]),
    "gate_read": (0, 10),
    "gate_sweep": (),
    "index_note": ("job_ready", 1.0, None),
    "job_admit": (None, [4], CHANNEL),
    "job_promote": (None, [1], CHANNEL),
    "job_rescue": (None, "default", [2, 3], [claim_number(3, 1)] * 2, [1, 1], CHANNEL, ERROR),
    "lease_forget": ("", 10, 60.0),
    "lease_hold": (),
    "log_prune": ("2000-01-01", 10, 3.0),
    "once_forget": ("", "", 10, 30.0),
    "operation_hold": (1, "here"),
    "pause_over": (CHANNEL,),
    "periodic_enqueue": (["report"], ["0f"], ["2000-01-03"], ["report"], ["2000-01-02"], CHANNEL),
    "periodic_failed": ("report", "0f", "why"),
    "periodic_prune": (None, 60.0, 10),
    "periodic_rewind": (None,),
    "process_forget": (600.0,),
    "queue_forget": (60.0, 10),
    "stack_prune": (60.0,),
    "stat_note": (),
    "stat_prune": (400.0, 3600.0, 10),
    "stat_roll": (0, 1, "minute", 0.0, 10),
    "step_forget": (0, "", "", 100, 3600.0),
    "subscription_prune": (60.0, 60.0, 10),
    "unique_sweep": ("", 10),
    "unique_sweep_success": (0, 10),
    "workflow_audit": (0, -1, 10),
    "workflow_go": (10, CHANNEL, [1]),
    "workflow_hold": ([], 10, 0),
    "workflow_prune": (7, 10),
}
HARMLESS = {"lease_hold", "operation_hold", "workflow_hold"}  # they only look
TABLES = (
    "job",
    "job_archive",
    "job_log",
    "job_progress",
    "job_step",
    "dead",
    "dead_count",
    "process",
    "queue",
    "once",
    "chore",
    "periodic",
    "periodic_tick",
    "unique_key",
    "subscription",
    "event",
    "stack",
    "gate_permit",
    "pause",
    "gate_event",
    "gate_debt",
    "workflow",
    "workflow_step",
    "workflow_event",
    "stat",
    "stat_due",
    "operation",
    "audit",
)
LEASES = "select name, queues from fastq.lease order by name"  # what taking one over leaves as it is


@pytest.fixture
def site(database, connection):
    """Give a leader of a database in which every statement finds something to do."""
    for text in SETUP.split(";\n"):
        connection.execute(text)
    add(connection, state="scheduled", seq=None, scheduled_at="2000-01-01")
    add(connection, state="running", attempt=1, claim=claim_number(3, 1), attempted_at="2000-01-01")
    add(connection, state="running", attempt=1, claim=claim_number(3, 1), attempted_at="2000-01-01", max_attempts=1)
    add(connection, state="waiting", seq=None, waits_for="worker:nap")
    add(connection, state="waiting", seq=None, waits_for="[]", meta='{"gates": "[]"}')
    made = site_on(database)
    yield made
    made.connection.close()


def everything(connection):
    """Return all rows of all tables, as text, but for who holds which lease."""
    rows = {table: connection.execute(f"select t::text from fastq.{table} as t order by 1") for table in TABLES}
    return rows | {"lease": connection.execute(LEASES)}


def stale_fences(fence):
    return [
        Fence(fence.name, fence.holder, fence.term - 1),
        Fence(fence.name, "another", fence.term),
        Fence("leader:other", fence.holder, fence.term),
    ]


@pytest.mark.lease("L33")
@pytest.mark.parametrize("name", FENCED)
def test_a_statement_of_a_stale_term_changes_nothing_and_says_so(site, connection, name):
    before = everything(connection)

    for fence in stale_fences(site.fence):
        assert site.connection.run_one(name, *fence, *FENCED[name])[0] == 0
    expire(connection)
    assert site.connection.run_one(name, *site.fence, *FENCED[name])[0] == 0
    with pytest.raises(LeaseLost, match=f"{name} did nothing"):
        site.write(name, *FENCED[name])

    assert everything(connection) == before


@pytest.mark.lease("L33")
@pytest.mark.parametrize("name", FENCED)
def test_the_same_statement_of_the_present_term_does_its_work(site, connection, name):
    before = everything(connection)

    site.write(name, *FENCED[name])

    assert (everything(connection) != before) == (name not in HARMLESS)


@pytest.mark.lease("L20", "L33")
@pytest.mark.parametrize("name", FENCED)
def test_a_statement_during_which_another_takes_the_lease_changes_nothing(site, connection, other, name):
    before = everything(connection)
    other.execute("begin")
    take_over(other, site.fence)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(site.connection.run_one(name, *site.fence, *FENCED[name])))
    thread.start()
    wait_for(lambda: connection.execute("select pg_blocking_pids($1::int) <> '{}'", site.connection.backend_pid)[0][0])
    other.execute("commit")
    thread.join()

    assert [answer[0] for answer in answers] == [0]
    assert everything(connection) == before


@pytest.mark.lease("L33")
def test_every_statement_that_a_chore_writes_with_is_looked_at_here():
    call = r"(?:write\(\s*|_move\(site, )\"(\w+)\""  # the gatekeeper's is a call of `write` for two statements
    written = {path.stem: set(re.findall(call, path.read_text())) for path in CHORES.rglob("*.py")}

    assert set().union(*written.values()) == set(FENCED)
    for name in FENCED:
        text = (SQL / f"{name}.sql").read_text()
        assert (
            "name = $1::text and holder = $2::text and term = $3::bigint and expires_at > clock_timestamp()\n    for key share"
            in text
        )


def expire(connection):
    connection.execute("update fastq.lease set expires_at = clock_timestamp() - interval '1 ms' where name = $1", LEASE)


@pytest.mark.lease("L32", "L33")
def test_while_a_fenced_statement_runs_nobody_takes_the_lease_though_it_has_run_out(site, connection, other):
    site.connection.execute("begin")
    site.write("job_promote", None, [1], CHANNEL)
    expire(connection)
    other.execute("set lock_timeout = '1ms'")

    assert acquire(other, LEASE, "another", 10.0).term is None
    site.connection.execute("commit")
    term = acquire(other, LEASE, "another", 10.0).term
    assert term is not None
    assert term > site.fence.term


@pytest.mark.lease("L28", "L33")
def test_a_renewal_waits_for_no_fenced_statement(site, other):
    site.connection.execute("begin")
    site.write("job_promote", None, [1], CHANNEL)
    other.execute("set lock_timeout = '1ms'")

    assert renew(other, [site.fence], 20.0, 1.0) == {LEASE: False}
    site.connection.execute("commit")


@pytest.mark.lease("L14")
def test_a_release_of_an_old_term_frees_nothing_of_the_new_one(site, connection):
    expire(connection)
    fence = lead(connection, holder="another")

    assert not release(connection, site.fence)
    site.fence = fence
    site.write("lease_hold")
