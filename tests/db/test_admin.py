"""What an operator does to jobs and queues."""

import json
import threading

import pytest

from fastq import admin
from fastq.admin import running, search
from fastq.admin.running import hosts
from fastq.config import Config
from fastq.errors import MigrationError, OptionError
from fastq.jobs.job import State
from fastq.sql.statements import qualified
from tests.db.jobs import CHANNEL, add, archived, claim, claimed_ids, count, living
from tests.db.test_plans import nodes
from tests.helpers import wait_for
from tests.pgbouncer import pgbouncer


@pytest.fixture
def operator(database):
    """Give a connection as the CLI opens it."""
    opened = admin.connect(Config(), database)
    yield opened
    opened.close()


def finish(connection, ids, state="completed", **columns):
    """Move jobs to the archive as the completer would."""
    names = "".join(f", {name}" for name in columns)
    values = "".join(f", ${place}" for place in range(3, 3 + len(columns)))
    connection.execute(
        "with done as (delete from fastq.job where id = any ($1::bigint[]) returning *) "
        "insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, "
        f"crashes, queue, kind, args, tags, errors{names}) "
        "select id, created_at, attempted_at, now(), $2::text::fastq.state, priority, attempt, max_attempts, crashes, "
        f"queue, kind, args, tags, errors{values} from done",
        ids,
        state,
        *columns.values(),
    )


def outcomes(changes):
    return [change.outcome for change in changes]


def test_show_tells_everything_of_a_living_job(connection, operator):
    (job_id,) = add(
        connection, args='{"b":1,  "a":2}', tags=["x"], attempt=1, errors=json.dumps([{"error": "boom", "attempt": 1}])
    )
    connection.execute(
        "insert into fastq.process values (7, 'host', 42, 'host:1:x', 'default', now(), now() + interval '1 minute')"
    )
    claim(connection, 7 << 32 | 1)

    shown = admin.show_job(operator, job_id)

    assert (shown.state, shown.attempt, shown.tags, shown.error) == (State.RUNNING, 2, ["x"], "boom")
    assert shown.args_json == '{"b":1,  "a":2}'
    assert shown.errors == [{"error": "boom", "attempt": 1}]
    assert (shown.host, shown.pid) == ("host", 42)


def test_show_tells_the_output_of_a_finished_job_and_nothing_of_one_that_is_not_there(connection, operator):
    (job_id,) = add(connection)
    finish(connection, [job_id], output="[1]")

    shown = admin.show_job(operator, job_id)
    assert (shown.output_json, shown.output) == ("[1]", [1])
    assert admin.show_job(operator, job_id + 1) is None


def test_cancel_archives_what_waits_and_asks_for_the_end_of_what_runs(connection, operator, other):
    available, running, finished = add(connection, 3)
    (waiting,) = add(connection, state="retryable", seq=None, scheduled_at="2100-01-01")
    finish(connection, [finished])
    claim(connection, after=(available, 0, 0, 0), limit=1)
    other.listen(CHANNEL)

    changes = admin.cancel_jobs(operator, [available, running, finished, waiting, 999])

    assert outcomes(changes) == ["cancelled", "asked", "finished", "cancelled", "missing"]
    assert [change.was for change in changes] == [State.AVAILABLE, State.RUNNING, State.COMPLETED, State.RETRYABLE, None]
    assert archived(connection, available)["state"] == archived(connection, waiting)["state"] == "cancelled"
    assert archived(connection, finished)["state"] == "completed"
    assert (living(connection, running)["cancel_requested"], living(connection, running)["state"]) == (True, "running")
    assert list(other.notifications(5)) == ["@cancel"]


def test_a_cancelled_running_job_that_fails_ends_cancelled(connection, operator):
    (job_id,) = add(connection)
    (job,) = claim(connection)
    number = living(connection, job_id)["claim"]
    admin.cancel_jobs(operator, [job.id])

    connection.run("job_retry", [job_id], [number], [5.0], [True], [None], CHANNEL)

    assert archived(connection, job_id)["state"] == "cancelled"


def test_retry_makes_waiting_jobs_available_and_wakes_their_queue(connection, operator, other):
    waiting = add(connection, 2, state="retryable", seq=None, scheduled_at="2100-01-01", attempt=1)
    (available,) = add(connection)
    other.listen(CHANNEL)

    assert outcomes(admin.retry_jobs(operator, [*waiting, available])) == ["available"] * 3
    assert sorted(claimed_ids(connection)) == sorted([*waiting, available])
    assert list(other.notifications(5)) == ["default"]


def test_retry_brings_a_finished_job_back_with_its_id_and_one_more_attempt(connection, operator):
    (job_id,) = add(connection, attempt=3, max_attempts=3, crashes=3, tags=["x"], errors='[{"error": "boom"}]', args='{ "a":1}')
    finish(connection, [job_id], "discarded")

    (change,) = admin.retry_jobs(operator, [job_id])

    assert (change.was, change.outcome) == (State.DISCARDED, "available")
    row = living(connection, job_id)
    assert (row["attempt"], row["max_attempts"], row["crashes"], row["tags"]) == (3, 4, 0, ["x"])
    assert archived(connection, job_id) is None
    assert [(job.id, job.attempt, job.args) for job in claim(connection)] == [(job_id, 4, '{ "a":1}')]


def test_retry_of_a_job_that_used_all_attempts_there_are_can_still_be_claimed(connection, operator):
    (job_id,) = add(connection, attempt=32767, max_attempts=32767)
    finish(connection, [job_id], "discarded")

    admin.retry_jobs(operator, [job_id])

    assert claimed_ids(connection) == [job_id]


def test_retry_refuses_a_running_job_and_tells_of_one_that_is_not_there(connection, operator):
    (job_id,) = add(connection)
    claim(connection)
    before = living(connection, job_id)

    assert outcomes(admin.retry_jobs(operator, [job_id, 999])) == ["running", "missing"]
    assert living(connection, job_id) == before


def test_delete_removes_waiting_and_finished_jobs_and_leaves_running_ones(connection, operator):
    finished, running, waiting = add(connection, 3)
    finish(connection, [finished])
    claim(connection, limit=1)

    changes = admin.delete_jobs(operator, [finished, running, waiting, 999, waiting])

    assert [(change.id, change.outcome) for change in changes] == [
        (finished, "deleted"),
        (running, "running"),
        (waiting, "deleted"),
        (999, "missing"),
    ]
    assert (count(connection, "job"), count(connection, "job_archive")) == (1, 0)


@pytest.mark.parametrize("change", [admin.retry_jobs, admin.cancel_jobs, admin.delete_jobs])
def test_a_job_that_somebody_is_claiming_is_waited_for_and_then_seen_as_running(connection, operator, other, change):
    (job_id,) = add(connection)
    connection.execute("begin")
    claim(connection)
    result = []
    thread = threading.Thread(target=lambda: result.extend(change(operator, [job_id])))
    thread.start()
    wait_for(
        lambda: other.execute("select 1 from pg_stat_activity where wait_event_type = 'Lock' and pid = $1", operator.backend_pid)
    )
    connection.execute("commit")
    thread.join()

    assert result[0].outcome in ("running", "asked")
    assert living(connection, job_id)["state"] == "running"


@pytest.mark.parametrize(
    ("change", "outcome"), [(admin.retry_jobs, "available"), (admin.cancel_jobs, "finished"), (admin.delete_jobs, "deleted")]
)
def test_a_job_that_ends_meanwhile_is_found_in_the_archive(connection, operator, other, change, outcome):
    (job_id,) = add(connection)
    connection.execute("begin")
    finish(connection, [job_id])
    result = []
    thread = threading.Thread(target=lambda: result.extend(change(operator, [job_id])))
    thread.start()
    wait_for(
        lambda: other.execute("select 1 from pg_stat_activity where wait_event_type = 'Lock' and pid = $1", operator.backend_pid)
    )
    connection.execute("commit")
    thread.join()

    assert [(found.was, found.outcome) for found in result] == [(State.COMPLETED, outcome)]


def test_a_paused_queue_is_not_claimed_from_until_it_is_resumed(connection, operator, other):
    ids = add(connection, 2)
    other.listen(CHANNEL)

    since = admin.pause_queue(operator, "default")
    assert admin.pause_queue(operator, "default") == since
    assert claimed_ids(connection) == []

    assert admin.resume_queue(operator, "default")
    heard = set()
    wait_for(lambda: heard.update(other.notifications(1)) or {"@waiting default", "default"} <= heard, what="the hints")
    assert heard - {"@waiting default", "default"} == {"@pause"}  # the leader ends a pause at its time, if it has one
    assert claimed_ids(connection) == ids
    assert not admin.resume_queue(operator, "default")


def test_pause_refuses_what_cannot_be_a_queue(operator):
    with pytest.raises(OptionError, match="queue 'Über'"):
        admin.pause_queue(operator, "Über")


def test_queues_are_listed_with_what_is_in_them_and_who_works_them(connection, operator):
    add(connection, 3)
    add(connection, 1, queue="emails", state="scheduled", seq=None, scheduled_at="2100-01-01")
    add(connection, 2, queue="emails", state="retryable", seq=None, scheduled_at="2100-01-01")
    add(connection, 1, queue="zzz")
    claim(connection, limit=1)
    admin.pause_queue(operator, "paused")
    connection.execute(
        "insert into fastq.process values (7, 'h', 1, 's', 'default,idle', now(), now() + interval '1 minute'), "
        "(8, 'h', 2, 's', 'default', now(), now() + interval '1 minute'), (9, 'h', 3, 's', 'default', now(), '-infinity'), "
        "(10, 'h', 4, 'h:4:x', 'default', now(), 'infinity')"
    )

    queues = {
        row.name: (row.available, row.claimed, row.scheduled, row.retryable, row.processes) for row in admin.list_queues(operator)
    }

    assert queues == {
        "default": (2, 1, 0, 0, 2),
        "emails": (0, 0, 1, 2, 0),
        "idle": (0, 0, 0, 0, 1),
        "paused": (0, 0, 0, 0, 0),
        "zzz": (1, 0, 0, 0, 0),
    }
    assert [row.name for row in admin.list_queues(operator) if row.paused_at] == ["paused"]


def test_queue_counts_stop_where_counting_becomes_expensive(connection, operator):
    add(connection, 25)

    assert [row.available for row in admin.list_queues(operator, 10)] == [10]


def test_many_queues_are_counted_no_further_than_a_few(connection, operator):
    for number in range(4):
        add(connection, 150, queue=f"q{number}")
        add(connection, 150, queue=f"q{number}", state="scheduled", seq=None, scheduled_at="2100-01-01")
    add(connection, 20, queue="small")

    rows = {row.name: row for row in admin.list_queues(operator, 1_000, 600)}

    assert {(row.available, row.scheduled, row.counted_to) for name, row in rows.items() if name != "small"} == {(120, 120, 120)}
    assert rows["q0"].more == {"available", "claimed", "scheduled", "retryable"}
    assert (rows["small"].available, rows["small"].more) == (20, frozenset())


def test_the_running_jobs_of_many_queues_are_looked_for_at_the_beginning_of_each(connection, operator, monkeypatch):
    for number in range(4):
        add(connection, 60, queue=f"q{number}", state="running", claim=1 << 32)
    monkeypatch.setattr(hosts, "TOTAL", 4 * 4 * 50)

    assert len(running.list_running(operator, 1_000)) == 4 * 50


def test_a_count_stops_at_the_number_that_is_left_for_its_kind(connection, operator):
    for number in range(4):
        add(connection, 150, state="waiting", seq=None, waits_for=f"worker:kind{number}")

    assert [(row.jobs, row.counted_to) for row in admin.list_waiting(operator, 1_000, 480)] == [(120, 120)] * 4


def test_a_living_job_is_not_looked_for_in_the_archive(connection, operator):
    lives, ended = add(connection, 2)
    finish(connection, [ended])
    asked = {}
    for name in ("job_show", "job_why"):
        for job in (lives, ended):
            text = qualified(name).replace("$1::", f"{job}::").replace("$2::", "100::").replace("$3::", "100::")
            [(told,)] = operator.execute(f"explain (analyze, costs off, timing off, format json) {text}")
            ran = [node for node in nodes(told[0]["Plan"]) if node.get("Actual Loops")]
            asked[name, job] = any(node.get("Relation Name", "").startswith("job_archive") for node in ran)

    assert asked == {(name, job): job == ended for name in ("job_show", "job_why") for job in (lives, ended)}


def test_the_archive_is_read_by_its_index(connection, operator):
    ids = add(connection, 20_000)
    finish(connection, ids)
    connection.execute("vacuum analyze fastq.job_archive")
    from fastq.postgres.db import statement

    plan = operator.execute("explain " + statement("job_show").replace("$1::bigint", str(ids[-1])))

    assert "job_archive_default_id_finalized_at_idx" in str(plan)


def test_an_operators_session_has_a_search_path_and_a_time_limit_of_its_own(database):
    operator = admin.connect(Config(statement_timeout=2.0), database)
    [settings] = operator.execute("select current_setting('search_path'), current_setting('statement_timeout')")
    operator.close()

    assert settings == ("pg_catalog", "1800ms")


def test_an_operator_gets_through_a_pooler_that_takes_no_options(database, tmp_path):
    with pgbouncer(database, tmp_path) as through:
        operator = admin.connect(Config(), through)
        assert admin.list_queues(operator) == []
        operator.close()


def test_connect_tells_what_to_do_about_a_schema_that_is_not_there(database):
    with pytest.raises(MigrationError, match="run fastq migrate"):
        admin.connect(Config(schema="elsewhere"), database)


def test_everything_works_in_another_schema(empty_database):
    from fastq.schema.migrate import migrate
    from tests.helpers import execute

    migrate(empty_database, "jobs_2")
    execute(empty_database, "insert into jobs_2.job (kind) values ('a'), ('b')")
    operator = admin.connect(Config(schema="jobs_2"), empty_database)

    assert [job.kind for job in search.list_jobs(operator).jobs] == ["b", "a"]
    assert outcomes(admin.cancel_jobs(operator, [1])) == ["cancelled"]
    assert outcomes(admin.retry_jobs(operator, [1])) == ["available"]
    assert outcomes(admin.delete_jobs(operator, [1])) == ["deleted"]
    admin.pause_queue(operator, "q")
    assert admin.resume_queue(operator, "q")
    assert [row.name for row in admin.list_queues(operator)] == ["default", "q"]
    operator.close()
