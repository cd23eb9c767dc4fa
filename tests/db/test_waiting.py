"""Jobs that wait for a worker of their kind: how they come to wait, who sees them, and what an operator can do with them."""

import json
from dataclasses import asdict

import pytest

from fastq import admin
from fastq.admin import search
from fastq.board.board import Board
from fastq.config import Config
from fastq.jobs.job import State
from fastq.work.claim.waiting import Waiting
from fastq.work.shared.budget import Budget
from tests.db.jobs import CHANNEL, END, START, add, archived, claim, claim_number, claimed_ids, living, parts_of
from tests.helpers import wait_for

MINE = claim_number(1, 1)
FOREVER = float("inf")


def rest(connection, ids):
    """Put running jobs to waiting, as the completer does; return how many were still ours."""
    many = len(ids)
    return connection.run_one("job_retry", ids, [MINE] * many, [FOREVER] * many, [False] * many, [None] * many, CHANNEL)[0]


def waiting(connection, number=1, **columns):
    """Make jobs that wait for a worker; return their ids."""
    ids = add(connection, number, **columns)
    claim(connection, MINE, queue=columns.get("queue", "default"))
    assert rest(connection, ids) == number
    return ids


def register(connection, number, kinds, *, queues="default", ttl=15.0, host="h"):
    connection.run("process_beat", [number], [number], host, f"{host}:9:x{number}", queues, ttl, "default", [], kinds, [None])


@pytest.fixture
def operator(database):
    """Give a connection as the CLI opens it."""
    opened = admin.connect(Config(), database)
    yield opened
    opened.close()


def test_a_job_that_waits_for_a_worker_has_neither_a_seq_nor_a_time_and_no_attempt_is_charged(connection, other):
    other.listen(CHANNEL)
    (job,) = waiting(connection)

    row = living(connection, job)
    assert (row["state"], row["waits_for"], row["seq"], row["scheduled_at"]) == ("waiting", "worker:nap", None, None)
    assert (row["attempt"], row["claim"], row["errors"]) == (0, None, None)
    assert list(other.notifications(1.0)) == ["@waiting default"]


def test_no_claim_no_promotion_and_no_sweep_sees_a_waiting_job(connection):
    waiting(connection)

    assert claim(connection) == []
    assert connection.run_one("job_first_available", "default", *START, *[END] * 4) == (None,) * 4
    assert connection.run_one("job_due", None, 10, []) == ([], [], None)
    assert connection.run_one("job_stranded", None, "default", "", 0, 0, 100, 0.0, [1])[:4] == ([], [], [], 0)
    assert connection.run("job_to_cancel", [1]) == []


def test_a_job_whose_cancellation_was_asked_for_ends_cancelled_and_does_not_wait(connection, operator):
    (job,) = add(connection)
    claim(connection, MINE)
    admin.cancel_jobs(operator, [job])

    rest(connection, [job])

    assert archived(connection, job)["state"] == "cancelled"


def test_cancel_ends_a_waiting_job_delete_removes_it_and_retry_makes_it_available(connection, operator):
    cancelled, deleted, retried = waiting(connection, 3)

    assert [change.outcome for change in admin.cancel_jobs(operator, [cancelled])] == ["cancelled"]
    assert [change.outcome for change in admin.delete_jobs(operator, [deleted])] == ["deleted"]
    (change,) = admin.retry_jobs(operator, [retried])

    assert (change.was, change.outcome) == (State.WAITING, "available")
    assert archived(connection, cancelled)["state"] == "cancelled"
    assert living(connection, deleted) is None
    assert living(connection, retried)["waits_for"] is None
    assert claimed_ids(connection) == [retried]


def test_a_waiting_job_is_listed_shown_and_counted_with_what_it_waits_for(connection, operator):
    (job,) = waiting(connection, queue="emails")

    (row,) = search.list_jobs(operator, "state:waiting").jobs
    assert (row.id, row.state, row.waits_for) == (job, State.WAITING, "worker:nap")
    detail = admin.show_job(operator, job)
    assert (detail.state, detail.waits_for, detail.args, detail.host) == (State.WAITING, "worker:nap", {}, None)
    (queue,) = admin.list_queues(operator)
    assert (queue.name, queue.waiting, queue.available, queue.processes, queue.unworked) == ("emails", 1, 0, 0, True)
    assert json.loads(json.dumps(asdict(queue)))["waiting"] == 1


def test_kinds_that_wait_are_listed_by_queue_with_whether_a_living_process_knows_them(connection, operator):
    waiting(connection, 3, kind="mail")
    waiting(connection, 2, kind="sort")
    waiting(connection, 1, kind="mail", queue="emails")
    register(connection, 1, ["mail", "x"])
    register(connection, 2, ["sort"], ttl=-1.0)  # it has died
    register(connection, 3, ["sort"], queues="others")

    rows = [(row.queue, row.kind, row.jobs, row.known) for row in admin.list_waiting(operator)]

    assert rows == [("default", "mail", 3, True), ("default", "sort", 2, False), ("emails", "mail", 1, False)]
    assert [row.jobs for row in admin.list_waiting(operator, count=2)] == [2, 2, 1]


def test_a_process_of_a_program_that_announces_no_kinds_may_know_any_and_an_app_without_workers_works_no_queue(
    connection, operator
):
    waiting(connection, kind="mail")
    register(connection, 1, [])
    assert [row.known for row in admin.list_waiting(operator)] == [False]
    assert [queue.processes for queue in admin.list_queues(operator)] == [0]

    connection.execute("update fastq.process set kinds = null")

    assert [row.known for row in admin.list_waiting(operator)] == [True]
    assert [queue.processes for queue in admin.list_queues(operator)] == [1]


def test_a_queue_in_which_jobs_wait_is_not_forgotten(connection):
    waiting(connection, queue="emails")
    connection.execute("insert into fastq.queue (name, created_at) values ('emails', '2000-01-01'), ('empty', '2000-01-01')")
    connection.execute("update fastq.lease set holder = 'me', term = 1, expires_at = 'infinity'")

    assert connection.run_one("queue_forget", "leader:default", "me", 1, 60.0, 10) == (1, 1)

    assert connection.execute("select name from fastq.queue") == [("emails",)]


def test_a_claim_and_its_end_write_nothing_into_the_index_of_waiting_jobs(connection):
    add(connection, 1_000)
    jobs = claim(connection, MINE, limit=1_000)
    connection.run("job_complete_archive", [job.id for job in jobs], [MINE])
    add(connection, 10, state="scheduled", seq=None, scheduled_at="2100-01-01")

    assert connection.execute("select pg_relation_size('fastq.job_waiting')") == [(8192,)]  # its first page alone
    assert connection.execute("select count(*) from fastq.job where waits_for is not null") == [(0,)]


def found(connection, kinds=("nap",), *, queue="default", limit=100, size=1_000_000, aside=()):
    """Look for waiting jobs; return their ids, and whether there may be more."""
    rows = connection.run("job_waiting", queue, list(kinds), limit, size, list(aside), 800)
    return [job for job, _, _ in rows], {more for _, _, more in rows}


def take(connection, ids, number=MINE, queue="default"):
    """Claim waiting jobs."""
    return parts_of(connection.run_one("job_claim_waiting", number, ids, queue))


def test_waiting_jobs_of_the_kinds_given_are_found_best_priority_first_and_then_by_id(connection):
    late = waiting(connection, 2, kind="nap", priority=2)
    (other,) = waiting(connection, kind="other")
    (sort,) = waiting(connection, kind="sort", priority=2)
    (first,) = waiting(connection, kind="sort", priority=1)
    waiting(connection, kind="nap", queue="emails")

    assert found(connection, ["nap", "sort", "unused"]) == ([first, *late, sort], {False})
    assert found(connection, ["other"]) == ([other], {False})
    assert found(connection, ["unused"]) == ([], set())
    assert found(connection, ["nap", "sort"], aside=[first, sort]) == (late, {False})


def test_a_look_ends_at_its_limit_and_at_its_bytes_and_says_that_there_may_be_more(connection):
    ids = waiting(connection, 5, args='{"text": "' + "x" * 900 + '"}')

    assert found(connection, limit=3) == (ids[:3], {True})
    assert found(connection, limit=5) == (ids, {True})
    assert found(connection, limit=6) == (ids, {False})
    assert found(connection, size=1) == (ids[:1], {True})
    assert found(connection, size=1_000) == (ids[:2], {True})


def test_a_waiting_job_is_claimed_by_its_id_once_and_runs_like_any_other(connection):
    first, second = waiting(connection, 2)
    before = connection.run_one("job_seq_last")[0]

    jobs = take(connection, [first, second])

    assert [(job.id, job.attempt, job.kind) for job in jobs] == [(first, 1, "nap"), (second, 1, "nap")]
    assert all(job.seq > before for job in jobs)
    row = living(connection, first)
    assert (row["state"], row["claim"], row["waits_for"]) == ("running", MINE, None)
    assert take(connection, [first, second], claim_number(2, 1)) == []
    connection.run("job_complete_archive", [first, second], [MINE])
    assert archived(connection, first)["state"] == "completed"


def test_a_waiting_job_that_somebody_else_claims_is_passed_over(connection, other):
    first, second = waiting(connection, 2)
    other.execute("begin")
    assert [job.id for job in take(other, [first], claim_number(2, 1))] == [first]

    assert [job.id for job in take(connection, [first, second])] == [second]

    other.execute("rollback")
    assert found(connection) == ([first], {False})


def test_nothing_waiting_is_found_or_claimed_in_a_paused_queue(connection, operator):
    ids = waiting(connection, 2)
    admin.pause_queue(operator, "default")

    assert found(connection) == ([], set())
    assert take(connection, ids) == []

    connection.listen(CHANNEL)
    admin.resume_queue(operator, "default")
    assert found(connection) == (ids, {False})
    assert set(connection.notifications(1.0)) == {"default", "@waiting default"}


def test_a_claim_of_waiting_jobs_whose_answer_was_lost_is_found_like_any_other(connection):
    (job,) = waiting(connection)
    low = connection.run_one("job_seq_last")[0]
    number = claim_number(1, 2)
    take(connection, [job], number)

    assert connection.run("job_of_claim", "default", low, number) == [(job,)]


def test_two_hosts_that_look_at_once_claim_each_job_once(connection, other):
    ids = waiting(connection, 50)
    assert found(connection) == found(other) == (ids, {False})

    mine, others = take(connection, ids[:30]), take(other, ids, claim_number(2, 1))

    assert sorted(job.id for job in [*mine, *others]) == ids


def test_two_processes_that_look_at_once_claim_a_job_once_and_a_hint_that_came_during_the_older_look_calls_for_another(
    connection, other
):
    (job,) = waiting(connection)
    words, config = Board.make([1], 1, 100).cursor(0), Config()
    older, newer = (Waiting(words, "default", ["nap"], config) for _ in range(2))
    budget = Budget(config.prefetch_bytes, 100)
    came = []

    def meanwhile():  # the older look has found the job, and has not claimed it yet
        words.waiting_hints += 1
        assert newer.due()
        came.extend(newer.claim(other, lambda: claim_number(2, 1), 10, budget).ids)
        assert words.waiting_seen == words.waiting_hints
        return MINE

    came.extend(older.claim(connection, meanwhile, 10, budget).ids)

    assert came == [job]
    assert words.waiting_seen != words.waiting_hints
    wait_for(newer.due)


def put_to_waiting(connection, kinds=("nap",), *, after=START, limit=100):
    """Put to waiting what nobody knows; return how many jobs were looked at, and how many wait now."""
    return connection.run_one("job_rest", "default", list(kinds), *after, limit, CHANNEL)[:2]


def test_available_jobs_of_kinds_that_nobody_knows_are_put_to_waiting_in_one_write(connection, other):
    (unknown,), (mine,) = add(connection, kind="sort"), add(connection)
    (late,) = add(connection, kind="sort", priority=3)
    add(connection, kind="sort", queue="emails")
    (theirs,) = add(connection, kind="mail")
    register(connection, 1, ["mail"])
    register(connection, 2, ["sort"], ttl=-1.0)
    register(connection, 3, ["sort"], queues="emails")
    other.listen(CHANNEL)

    looked, rested, kinds, firsts, _ = connection.run_one("job_rest", "default", ["nap"], *START, 100, CHANNEL)
    assert (looked, rested, kinds, firsts) == (4, 2, ["sort"], [unknown])

    row = living(connection, unknown)
    assert (row["state"], row["waits_for"], row["seq"], row["attempt"]) == ("waiting", "worker:sort", None, 0)
    assert living(connection, late)["state"] == "waiting"
    assert claimed_ids(connection) == [mine, theirs]
    assert claimed_ids(connection, queue="emails") != []
    assert list(other.notifications(1.0)) == ["@waiting default"]
    assert connection.run_one("job_first_available", "default", *START, *[END] * 4) == (None,) * 4


def test_none_is_put_to_waiting_while_a_program_that_announces_no_kinds_works_the_queue(connection):
    add(connection, kind="sort")
    register(connection, 1, ["nap"])
    connection.execute("update fastq.process set kinds = null")

    assert put_to_waiting(connection) == (1, 0)


def test_a_look_for_kinds_that_nobody_knows_is_bounded_begins_at_the_cursor_and_passes_over_what_is_locked(connection, other):
    first, *rest_, last = add(connection, 6, kind="sort")
    after = (living(connection, first)["seq"],) * 4
    other.execute("begin")
    other.execute("select from fastq.job where id = $1 for update", rest_[0])

    assert put_to_waiting(connection, after=after, limit=4) == (4, 3)

    other.execute("rollback")
    assert claimed_ids(connection) == [first, rest_[0], last]


def test_a_job_that_waits_for_something_else_than_a_worker_is_none_of_theirs(connection, operator):
    for reason in ("limit:mail", "worker", "worker;", "workers:nap"):
        add(connection, state="waiting", seq=None, waits_for=reason)
    (mine,) = waiting(connection)
    ids = [job_id for (job_id,) in connection.execute("select id from fastq.job")]
    register(connection, 1, ["nap"])

    assert found(connection, ["nap", "", ";", "s:nap"]) == ([mine], {False})
    assert [(row.kind, row.jobs) for row in admin.list_waiting(operator)] == [("nap", 1)]
    assert connection.run_one("waiting_known", None, 10, []) == ([mine], ["default"])
    assert [job.id for job in take(connection, ids)] == [mine]
    assert [queue.waiting for queue in admin.list_queues(operator)] == [4]


def test_a_kind_may_have_any_sign_that_kinds_may_have(connection):
    kinds = ["a:b", "worker:", "%", "\u00fc\U0001f600", "x" * 127]
    ids = [waiting(connection, kind=kind)[0] for kind in kinds]

    assert found(connection, kinds) == (ids, {False})
    assert [job.kind for job in take(connection, ids)] == kinds
