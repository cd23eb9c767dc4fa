"""Changes of single jobs and of many: by operations that the leader works through, each with a record of who asked for it."""

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from fastq import Args, AsyncClient, Client, JobFilter
from fastq.admin.bulk import at_once
from fastq.admin.search import walks
from fastq.errors import ArgsError, LeaseLost, OptionError
from fastq.lead.bulk import chunks
from fastq.lead.bulk.chunks import Bulk
from fastq.schema.partitions import ensure_partitions
from tests.db.jobs import add, archived, claim, count, living
from tests.db.leases import run_out, site_on, take_over
from tests.db.test_search import put

GATES = '[["limit","mail-api",1,1,20]]'


@dataclass
class NoteArgs(Args, kind="note"):
    text: str


@pytest.fixture
def site(database):
    """Give the place of a leader."""
    made = site_on(database, name="schema")
    yield made
    made.connection.close()


def work(site, verb, words, changes=None, **options):
    """Make an operation and have it worked through; return its row as it has ended."""
    row = at_once.make_operation(site.connection, verb, words, changes, "ada", **options)
    run_out(Bulk(), site)
    [ended] = at_once.list_operations(site.connection, number=row.id)
    return ended


def states(connection):
    """Return how many jobs there are of each state."""
    every = "select state from fastq.job union all select state from fastq.job_archive"
    return dict(connection.execute(f"select state::text, count(*) from ({every}) as job group by 1"))


def test_a_retry_by_a_filter_runs_finished_jobs_once_more(connection, site):
    ensure_partitions(connection)
    dead = [*put(connection, 5, kind="mail", ago=2 * 86_400.0), *put(connection, 5, kind="mail")]
    put(connection, 3, kind="sort")
    add(connection, 2, kind="mail")

    ended = work(site, "retry", "state:discarded kind:mail")

    assert (ended.state, ended.done, ended.expected, ended.at_least, ended.skipped) == ("done", 10, 10, False, {})
    assert states(connection) == {"available": 12, "discarded": 3}
    row = living(connection, dead[0])
    assert (row["state"], row["attempt"], row["max_attempts"], row["crashes"], row["meta"]) == ("available", 3, 4, 0, None)
    assert row["seq"] is not None


def test_a_retry_of_living_jobs_makes_them_available_and_counts_the_others(connection, site):
    add(connection, 3, state="retryable", seq=None, scheduled_at="2100-01-01", queue="mails")
    add(connection, 2, state="waiting", seq=None, waits_for="workflow", queue="mails")
    add(connection, 1, queue="mails")
    (running,) = add(connection, 1, queue="runs")
    claim(connection, queue="runs")

    ended = work(site, "retry", "queue:mails queue:runs")

    assert (ended.done, ended.skipped) == (3, {"waiting": 2, "already": 1, "running": 1})
    assert living(connection, running)["state"] == "running"


def test_a_cancellation_by_a_filter_ends_waiting_jobs_and_asks_running_ones(connection, site):
    (running,) = add(connection, 1, queue="runs")
    claim(connection, queue="runs")
    waiting = add(connection, 4)
    done = put(connection, 2)

    ended = work(site, "cancel", "kind:nap")

    assert (ended.done, ended.skipped) == (5, {})
    assert "state:waiting" in ended.filter
    assert living(connection, running)["cancel_requested"]
    assert {archived(connection, job)["meta"]["cause"] for job in waiting} == {"asked"}
    assert archived(connection, done[0])["state"] == "discarded"


def test_a_deletion_by_a_filter_removes_living_and_finished_jobs_and_what_tells_of_them(connection, site):
    (running,) = add(connection, 1, queue="runs")
    claim(connection, queue="runs")
    add(connection, 4)
    finished = put(connection, 4)
    connection.execute("update fastq.job_archive set meta = $1::jsonb where id = $2", json.dumps({"gates": GATES}), finished[0])
    connection.execute("insert into fastq.gate_permit values ($1, 'default', $2)", finished[0], GATES)

    ended = work(site, "delete", "kind:nap")

    assert (ended.done, ended.skipped) == (8, {"running": 1})
    assert [count(connection, table) for table in ("job", "job_archive", "gate_permit")] == [1, 0, 0]
    assert connection.execute("select queue, gates, jobs from fastq.gate_event") == [("default", GATES, 1)]
    assert living(connection, running) is not None


def test_a_move_changes_the_queue_of_jobs_that_do_not_run(connection, site):
    first, second = add(connection, 2)
    (later,) = add(connection, 1, state="scheduled", seq=None, scheduled_at="2100-01-01")
    (resting,) = add(connection, 1, state="waiting", seq=None, waits_for="worker:nap")
    (gated,) = add(connection, 1, state="waiting", seq=None, waits_for=GATES, meta=json.dumps({"gates": GATES}))
    before = living(connection, first)["seq"]

    ended = work(site, "move", "queue:default", {"queue": "slow"})

    assert (ended.done, ended.skipped, ended.change) == (4, {"gated": 1}, {"queue": "slow"})
    assert [living(connection, job)["queue"] for job in (first, second, later, resting, gated)] == ["slow"] * 4 + ["default"]
    assert living(connection, first)["seq"] > before  # no process of the new queue has passed it by
    assert (living(connection, later)["state"], living(connection, later)["seq"]) == ("scheduled", None)
    assert (living(connection, resting)["state"], living(connection, resting)["waits_for"]) == ("available", None)
    assert [job.id for job in claim(connection, queue="slow")] == [second, first, resting] or len(ended.filter)


def test_an_edit_changes_priority_attempts_and_time(connection, site):
    (plain,) = add(connection)
    (tried,) = add(connection, 1, state="retryable", seq=None, scheduled_at="2100-01-01", attempt=5)
    soon = datetime.now(UTC) + timedelta(hours=1)

    assert work(site, "edit", "id:>0", {"priority": 4, "max_attempts": 3, "at": soon}).done == 2

    row, other = living(connection, plain), living(connection, tried)
    assert (row["priority"], row["max_attempts"], row["state"], row["seq"], row["scheduled_at"]) == (
        4,
        3,
        "scheduled",
        None,
        soon,
    )
    assert (other["max_attempts"], other["state"], other["scheduled_at"]) == (6, "retryable", soon)

    assert work(site, "edit", "state:scheduled", {"at": datetime.now(UTC)}).done == 1
    row = living(connection, plain)
    assert (row["state"], row["scheduled_at"], row["seq"] is not None) == ("available", None, True)


def test_jobs_that_come_or_end_later_are_none_of_an_operation(connection, site, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", 2)
    dead = put(connection, 6)
    row = at_once.make_operation(site.connection, "retry", "state:discarded")
    chore = Bulk()
    chore.run(site)
    later = put(connection, 2)
    again = [job for job in dead if living(connection, job)]
    connection.run("job_delete", again)
    connection.execute("update fastq.job_archive set finalized_at = now() + interval '1 s' where id = any ($1::bigint[])", later)

    run_out(chore, site)

    assert at_once.list_operations(connection, number=row.id)[0].done == 6
    assert [archived(connection, job)["state"] for job in later] == ["discarded"] * 2


@pytest.mark.parametrize("verb", ["retry", "delete", "move"])
def test_a_leader_goes_on_where_another_was_and_changes_each_job_once(connection, site, monkeypatch, verb):
    monkeypatch.setattr(chunks, "CHUNK", 3)
    for name in ("FEWEST", "FIRST", "MOST"):
        monkeypatch.setattr(walks, name, 4)
    jobs = add(connection, 10, state="retryable", seq=None, scheduled_at="2100-01-01") if verb == "move" else put(connection, 10)
    row = at_once.make_operation(site.connection, verb, "kind:nap", {"queue": "slow"} if verb == "move" else None)

    for _ in range(40):
        Bulk().run(site)  # each of them a leader that dies after its chunk

    [ended] = at_once.list_operations(connection, number=row.id)
    assert (ended.state, ended.done, ended.skipped) == ("done", len(jobs), {})


def test_a_statement_of_a_leader_of_the_past_does_nothing(connection, site):
    dead = put(connection, 3)
    row = at_once.make_operation(site.connection, "retry", "state:discarded")
    take_over(connection, site.fence)

    with pytest.raises(LeaseLost):
        Bulk().run(site)

    assert [archived(connection, job)["state"] for job in dead] == ["discarded"] * 3
    assert at_once.list_operations(connection, number=row.id)[0].state == "waiting"


def test_a_job_that_cannot_be_changed_is_skipped_with_the_reason_and_the_others_are_changed(connection, site, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", 8)
    jobs = add(connection, 30, state="retryable", seq=None, scheduled_at="2100-01-01")
    bad = jobs[13]
    connection.execute(
        "create function public.no() returns trigger language plpgsql as 'begin raise exception ''not this one''; end';"
        f"create trigger no before update on fastq.job for each row when (old.id = {bad}) execute function public.no()"
    )

    ended = work(site, "retry", "kind:nap")

    assert (ended.state, ended.done) == ("done", 29)
    assert ended.skipped == {"refused: not this one": 1}
    assert living(connection, bad)["state"] == "retryable"


def test_an_operation_ends_before_its_next_chunk_when_somebody_asks_for_it(connection, site, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", 2)
    put(connection, 6)
    row = at_once.make_operation(site.connection, "retry", "state:discarded")
    chore = Bulk()
    chore.run(site)

    assert at_once.cancel_operation(connection, row.id)
    run_out(chore, site)

    [ended] = at_once.list_operations(connection, number=row.id)
    assert (ended.state, ended.done, ended.cancel_requested) == ("cancelled", 2, True)
    assert states(connection) == {"available": 2, "discarded": 4}
    assert not at_once.cancel_operation(connection, row.id)
    assert at_once.list_audit(connection)[0].jobs == 2


def test_a_unique_job_whose_key_another_one_holds_is_skipped(connection, site):
    meta = '{"unique": ["aa", "end", null]}'
    dead = put(connection, 2)
    connection.execute("update fastq.job_archive set meta = $1::jsonb where id = any ($2::bigint[])", meta, dead)
    (holder,) = add(connection, meta=meta)
    connection.execute(
        "insert into fastq.unique_key (key, job_id, since, until) values (decode('aa', 'hex'), $1, now(), 'end')", holder
    )

    assert work(site, "retry", "state:discarded").skipped == {"held": 2}

    connection.run("job_delete", [holder])
    ended = work(site, "retry", "state:discarded")

    assert (ended.done, ended.skipped) == (1, {"held": 1})  # one of them has it now


def test_gates_and_workflows_hear_of_an_operation_as_of_a_single_change(connection, site):
    (gated,) = put(connection, 1)
    (step,) = put(connection, 1)
    connection.execute("update fastq.job_archive set meta = $1::jsonb where id = $2", json.dumps({"gates": GATES}), gated)
    connection.execute("update fastq.job_archive set meta = '{\"workflow\": [7, 1]}' where id = $1", step)
    connection.execute("insert into fastq.gate_permit values ($1, 'default', $2)", gated, GATES)

    assert work(site, "retry", "state:discarded").done == 2

    assert living(connection, gated)["waits_for"] == GATES
    assert connection.execute("select jobs, priority, job from fastq.gate_event order by id") == [(1, 1, gated), (1, None, None)]
    assert connection.execute("select workflow, step, state from fastq.workflow_event") == [(7, 1, None)]

    assert work(site, "cancel", "kind:nap").done == 2
    assert connection.execute("select workflow, step, state::text from fastq.workflow_event order by id")[1:] == [
        (7, 1, "cancelled")
    ]


def test_a_preview_counts_and_shows_the_newest_and_changes_nothing(connection, site):
    put(connection, 12)
    add(connection, 3)

    preview = at_once.preview_operation(connection, "cancel", "kind:nap")

    assert (preview.verb, preview.jobs, preview.at_least, len(preview.sample)) == ("cancel", 3, False, 3)
    assert at_once.preview_operation(connection, "retry", "state:discarded").jobs == 12
    assert (count(connection, "operation"), count(connection, "audit")) == (0, 0)


@pytest.mark.parametrize(
    ("verb", "words", "changes", "said"),
    [
        ("retry", "", None, "retry: expected a filter with one word at least, got none"),
        ("explode", "kind:a", None, "verb 'explode': expected one of retry, delete, cancel, move, edit"),
        ("edit", "kind:a", {"args": {}}, "args: expected them for a single job, got a filter"),
        ("edit", "kind:a", {"prio": 1}, "unknown option prio; expected one of queue, priority"),
        ("edit", "kind:a", {"priority": 9}, "priority 9: expected a whole number from 1"),
        ("edit", "kind:a", {"at": "soon"}, "at 'soon': expected a time with a zone"),
    ],
)
def test_an_operation_that_nobody_can_have_meant_is_refused(connection, verb, words, changes, said):
    with pytest.raises(OptionError) as refused:
        at_once.make_operation(connection, verb, words, changes)

    assert said in str(refused.value)


def test_old_records_and_operations_are_deleted(connection, site):
    put(connection, 1)
    work(site, "retry", "state:discarded")
    at_once.change_jobs(connection, "delete", [1], "ada")
    connection.execute("update fastq.audit set at = now() - interval '1 year' where verb = 'retry'")
    connection.execute("update fastq.operation set ended_at = now() - interval '1 year'")

    Bulk().run(site)

    assert [row.verb for row in at_once.list_audit(connection)] == ["delete"]
    assert at_once.list_operations(connection) == []


def test_both_clients_change_single_jobs_and_record_who_did(connection, database):
    first, second, third, fourth = add(connection, 4)
    (note,) = add(connection, 1, kind="note", args='{"text": "a"}')
    put(connection, 2, kind="mail")

    async def run():
        async with AsyncClient(database) as client:
            outcomes = [change.outcome for change in await client.jobs.delete([first, 99], by="ada")]
            row = await client.jobs.retry(JobFilter(kinds=["mail"]), by="ada")
            cancelled = await client.jobs.cancel_operation(row.id)
            again = await client.jobs.operation(row.id)
            preview = await client.jobs.preview("delete", "kind:mail")
            rows = [(row.verb, row.by, row.job, row.operation, row.jobs) for row in await client.jobs.audit(limit=2)]
            return outcomes, row.state, cancelled, again.cancel_requested, preview.jobs, rows, await client.jobs.operation(99)

    with Client(database) as client:
        assert [(change.id, change.outcome) for change in client.jobs.cancel(first)] == [(first, "cancelled")]
        assert [change.outcome for change in client.jobs.retry([first, second])] == ["available", "available"]
        assert [change.outcome for change in client.jobs.move([second, 99], "slow", by="bob")] == ["edited", "gone"]
        assert [change.outcome for change in client.jobs.edit(third, priority=3, by="bob")] == ["edited"]
        assert [change.outcome for change in client.jobs.edit([note, fourth], args=NoteArgs("b"))] == ["edited", "other"]
        assert client.jobs.edit(fourth, args={"n": 1})[0].outcome == "edited"
        with pytest.raises(ArgsError):
            client.jobs.edit(note, args=NoteArgs(float("nan")))
        audit = [(row.verb, row.job, row.jobs, row.change) for row in reversed(client.jobs.audit())]
        assert client.jobs.audit()[-1].by.count("@") == 1
        assert client.jobs.operations() == []
    assert audit == [
        ("cancel", first, 1, None),
        ("retry", first, 1, None),
        ("retry", second, 1, None),
        ("move", second, 1, {"queue": "slow"}),
        ("edit", third, 1, {"priority": 3}),
        ("edit", note, 1, {"args": '{"text":"b"}', "kind": "note"}),
        ("edit", fourth, 1, {"args": '{"n":1}'}),
    ]
    assert living(connection, note)["args"] == {"text": "b"}
    assert asyncio.run(run()) == (
        ["deleted", "missing"],
        "waiting",
        True,
        True,
        2,
        [("retry", "ada", None, 1, 0), ("delete", "ada", first, None, 1)],
        None,
    )


def test_a_change_and_its_record_hold_with_the_transaction_of_the_caller(connection, database):
    (job,) = add(connection)
    with Client(database) as client:
        connection.execute("begin")
        client.jobs.cancel(job, by="ada", conn=connection.raw)
        assert len(client.jobs.audit(conn=connection.raw)) == 1
        connection.execute("rollback")

        assert client.jobs.audit() == []
    assert living(connection, job) is not None


def test_args_that_are_encrypted_or_of_a_version_are_not_edited_by_hand(connection, database):
    (sealed,) = add(connection, args='{"$fq": 1, "key": "k", "nonce": "", "data": ""}')
    (versioned,) = add(connection, meta='{"version": 2}')
    with Client(database) as client:
        assert [change.outcome for change in client.jobs.edit([sealed, versioned], args={"a": 1})] == ["encrypted", "versioned"]
        assert client.jobs.audit() == []
