"""After the death of a process: what becomes of the jobs that it had, by how far each had come."""

import threading

import pytest

from tests.db.jobs import CHANNEL, ERROR, add, archived, claim, claim_number, claimed_ids, living
from tests.helpers import execute, wait_for

DEAD = 5  # the number of the process that died
MINE = claim_number(DEAD, 1)
BEHIND = '{"error": "behind its end"}'
NO_CLAIM = (0, 0, "default")  # no unanswered claim: number, after seq, queue


def recover(connection, ids, *, executing=(), had_ended=(), max_crashes=3, unanswered=NO_CLAIM, error=ERROR):
    """Recover; return how many jobs became available and how many ended."""
    unanswered_claim, after, queue = unanswered
    return connection.run_one(
        "job_recover",
        list(ids),
        unanswered_claim,
        after,
        queue,
        list(executing),
        max_crashes,
        DEAD,
        CHANNEL,
        error,
        list(had_ended),
        BEHIND,
    )[:2]


@pytest.fixture
def jobs(connection):
    """Give the ids of three jobs of the dead process, each in its second attempt."""
    ids = add(connection, 3, attempt=1)
    claim(connection, MINE)
    return ids


def test_a_job_that_was_not_executing_is_not_charged(connection, jobs):
    before = living(connection, jobs[0])

    assert recover(connection, jobs[:1]) == (1, 0)

    row = living(connection, jobs[0])
    assert (row["state"], row["attempt"], row["crashes"], row["errors"], row["claim"]) == ("available", 1, 0, None, None)
    assert row["seq"] > before["seq"], "behind the cursors it would be found late"


def test_a_job_that_was_executing_is_charged_with_the_crash_and_remembers_it(connection, jobs):
    assert recover(connection, jobs[:1], executing=jobs[:1]) == (1, 0)

    row = living(connection, jobs[0])
    assert (row["state"], row["attempt"], row["crashes"]) == ("available", 2, 1)
    assert [(e["error"], e["attempt"]) for e in row["errors"]] == [("boom", 2)]


def test_a_job_that_was_executing_in_too_many_crashes_is_discarded_and_its_neighbours_are_not(connection, jobs):
    connection.execute("update fastq.job set crashes = 2 where id = any ($1)", jobs)

    assert recover(connection, jobs, executing=jobs[:1], max_crashes=3) == (2, 1)

    row = archived(connection, jobs[0])
    assert (row["state"], row["crashes"], row["attempt"], row["errors"][-1]["error"]) == ("discarded", 3, 2, "boom")
    assert [living(connection, job_id)["crashes"] for job_id in jobs[1:]] == [2, 2]


def notes(connection, ids):
    """Return what the handler of crashes is told of these jobs: the attempt in which it is asked, crashes, and the cause."""
    metas = [living(connection, job_id)["meta"] for job_id in ids]
    told = [meta and meta["crashed"] for meta in metas]
    return [note and (note["next"], note["crashes"], note["cause"]) for note in told]


def test_a_job_that_is_blamed_for_a_crash_carries_a_note_of_it_and_the_others_do_not(connection, jobs):
    blamed, spared, _ = jobs
    connection.execute("update fastq.job set max_attempts = 2 where id = $1", spared)

    recover(connection, jobs, executing=[blamed], had_ended=[spared], error='{"error": "died", "died": "signal 9"}')

    assert notes(connection, jobs) == [(3, 1, "signal 9"), (2, 1, ""), None]
    assert living(connection, spared)["attempt"] == 1, "it has its last attempt once more, and that is the one that asks"


def test_of_several_suspects_each_carries_a_note_and_a_neighbour_of_a_known_one_does_not(connection, jobs):
    connection.execute("update fastq.job set crashes = 1 where id = any ($1)", jobs[:2])

    recover(connection, jobs, executing=jobs)

    assert notes(connection, jobs) == [(3, 2, ""), (3, 2, ""), None]


def test_the_one_that_was_executing_in_an_earlier_crash_too_takes_the_blame(connection, jobs):
    suspect, *innocent = jobs
    connection.execute("update fastq.job set crashes = 1 where id = $1", suspect)

    assert recover(connection, jobs, executing=jobs) == (3, 0)

    assert [living(connection, job_id)["crashes"] for job_id in jobs] == [2, 0, 0]
    assert {living(connection, job_id)["attempt"] for job_id in innocent} == {2}


def test_several_suspects_are_never_discarded_and_come_back_apart(connection, other, jobs):
    connection.execute("update fastq.job set crashes = 2 where id = any ($1)", jobs[:2])
    other.listen(CHANNEL)

    assert recover(connection, jobs, executing=jobs, max_crashes=3) == (3, 0)

    rows = [living(connection, job_id) for job_id in jobs]
    assert [row["crashes"] for row in rows] == [2, 2, 0]
    assert [row["state"] for row in rows] == ["retryable", "retryable", "available"]
    assert rows[0]["scheduled_at"] != rows[1]["scheduled_at"]
    assert [row["seq"] for row in rows[:2]] == [None, None]
    assert sorted(hint for _ in range(2) for hint in other.notifications(timeout=2.0)) == ["@due", "default"]


def test_a_job_that_was_executing_its_last_attempt_does_not_get_another(connection, jobs):
    connection.execute("update fastq.job set max_attempts = 2")

    ended = recover(connection, jobs, executing=jobs[:1])

    assert ended == (2, 1)
    row = archived(connection, jobs[0])
    assert (row["state"], row["attempt"], row["crashes"]) == ("discarded", 2, 1)
    assert [e["error"] for e in row["errors"]] == ["boom"]
    assert [living(connection, job_id)["attempt"] for job_id in jobs[1:]] == [1, 1], "those that were not may still"


def test_a_job_that_had_just_ended_is_charged_and_a_suspect_beside_those_that_were_executing(connection, jobs):
    ended, executing, waiting = jobs

    assert recover(connection, jobs, executing=[executing], had_ended=[ended]) == (3, 0)

    rows = [living(connection, job_id) for job_id in (ended, executing, waiting)]
    assert [(row["state"], row["attempt"], row["crashes"]) for row in rows] == [
        ("available", 2, 1),
        ("available", 2, 1),
        ("available", 1, 0),
    ]
    assert [[e["error"] for e in row["errors"] or ()] for row in rows] == [["behind its end"], ["boom"], []]

    claim(connection, MINE)
    assert recover(connection, jobs, executing=[executing], had_ended=[ended], max_crashes=2) == (3, 0)
    assert [living(connection, job_id)["state"] for job_id in jobs] == ["retryable", "retryable", "available"], "two suspects"


def test_a_job_that_had_just_ended_in_too_many_crashes_is_discarded(connection, jobs):
    connection.execute("update fastq.job set crashes = 2 where id = $1", jobs[0])

    assert recover(connection, jobs, had_ended=jobs[:1], max_crashes=3) == (2, 1)

    row = archived(connection, jobs[0])
    assert (row["state"], row["crashes"], row["attempt"], row["errors"][-1]["error"]) == ("discarded", 3, 2, "behind its end")


@pytest.mark.parametrize(("max_attempts", "max_crashes"), [(2, 3), (2, 1)])
def test_the_last_attempt_of_a_job_that_had_just_ended_is_given_once_more_and_apart(connection, jobs, max_attempts, max_crashes):
    connection.execute("update fastq.job set max_attempts = $1 where id = $2", max_attempts, jobs[0])

    assert recover(connection, jobs[:1], had_ended=jobs[:1], max_crashes=max_crashes) == (1, 0)
    row = living(connection, jobs[0])
    assert (row["state"], row["attempt"], row["crashes"]) == ("retryable", 1, 1), "it may have had no part in it"

    connection.execute(
        "update fastq.job set state = 'running', attempt = 2, claim = $1, seq = nextval('fastq.job_seq'), scheduled_at = null "
        "where id = $2",
        MINE,
        jobs[0],
    )
    assert recover(connection, jobs[:1], had_ended=jobs[:1], max_crashes=max_crashes) == (0, 1)
    assert archived(connection, jobs[0])["state"] == "discarded"


@pytest.mark.parametrize("max_attempts", [1, 25])
def test_a_job_whose_cancellation_was_asked_for_ends_cancelled(connection, jobs, max_attempts):
    connection.execute("update fastq.job set cancel_requested = true, max_attempts = $1", max_attempts)

    assert recover(connection, jobs, executing=jobs[:1]) == (0, 3)
    assert {archived(connection, job_id)["state"] for job_id in jobs} == {"cancelled"}


def test_an_unanswered_claim_is_found_by_its_number_in_all_priorities(connection):
    known = add(connection, 2)
    claim(connection, claim_number(DEAD, 1))
    after = max(living(connection, job_id)["seq"] for job_id in known)
    unknown = add(connection, 2) + add(connection, 2, priority=3) + add(connection, 1, priority=4)
    claim(connection, claim_number(DEAD, 2), after=(after,) * 4)

    assert recover(connection, known, unanswered=(claim_number(DEAD, 2), after, "default")) == (7, 0)
    assert [living(connection, job_id)["attempt"] for job_id in unknown] == [0] * 5


def test_jobs_that_somebody_else_has_by_now_are_left_alone(connection, jobs):
    rescued, finished, released = jobs
    connection.execute("update fastq.job set claim = $1 where id = $2", claim_number(6, 1), rescued)
    connection.run("job_complete", [finished], [MINE])
    connection.run("job_release", [released], [MINE], CHANNEL)
    before = [living(connection, rescued), living(connection, released)]

    assert recover(connection, jobs, executing=jobs) == (0, 0)
    assert [living(connection, rescued), living(connection, released)] == before


def test_a_job_that_is_claimed_anew_while_recovery_waits_for_its_lock_is_left_alone(connection, other, database):
    """The row is locked by a transaction that gives it to another process: recovery must look at it again."""
    (job_id,) = add(connection)
    claim(connection, MINE)
    other.execute("begin")
    other.execute("update fastq.job set claim = $1, attempt = 2 where id = $2", claim_number(6, 1), job_id)
    answers = []
    thread = threading.Thread(target=lambda: answers.append(recover(connection, [job_id], executing=[job_id])))
    thread.start()
    waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and pid = %s"
    wait_for(lambda: execute(database, waiting, connection.backend_pid), what="the recovery to wait")
    other.execute("commit")
    thread.join()

    assert answers == [(0, 0)]
    row = living(connection, job_id)
    assert (row["state"], row["claim"], row["crashes"]) == ("running", claim_number(6, 1), 0)


def test_recovering_twice_changes_nothing_more(connection, jobs):
    recover(connection, jobs, executing=jobs)
    before = [living(connection, job_id) for job_id in jobs]

    assert recover(connection, jobs, executing=jobs) == (0, 0)
    assert [living(connection, job_id) for job_id in jobs] == before


def test_recovered_jobs_can_be_claimed_and_their_queue_is_woken(connection, other, jobs):
    other.listen(CHANNEL)

    recover(connection, jobs, executing=jobs[:1])

    assert list(other.notifications(timeout=2.0)) == ["default"]
    assert sorted(claimed_ids(connection, claim_number(6, 1))) == jobs
