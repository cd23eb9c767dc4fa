"""What changes several jobs locks them in one order, the living by their ids, then the finished: nobody waits in a circle."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from fastq import admin
from fastq.config import Config
from fastq.postgres import db, sqlstate
from tests.db.jobs import CHANNEL, END, ERROR, NO_BOUND, START, archived, claim_number, living, session
from tests.helpers import execute, wait_for

PROCESS = 5
MINE = claim_number(PROCESS, 1)
LOW, HIGH = 3, 9
NO_CLAIM = (0, 0, "default")
ADD = "insert into fastq.job (id, kind, max_attempts) overriding system value values (%s, 'nap', 99)"

STATEMENTS = {
    "job_cancel": lambda ids: (ids, CHANNEL),
    "job_delete": lambda ids: (ids,),
    "job_recover": lambda ids: (ids, *NO_CLAIM, ids, 3, PROCESS, CHANNEL, ERROR, [], ERROR),
    "job_release": lambda ids: (ids, [MINE], CHANNEL),
    "job_rerun": lambda ids: (ids, CHANNEL),
}
COMPLETIONS = {
    "job_complete": lambda ids: (ids, [MINE]),
    "job_complete_archive": lambda ids: (ids, [MINE]),
    "job_finish_late": lambda ids: (ids, [MINE] * 2, ["cancelled"] * 2, [None] * 2, ["expired"] * 2, [False] * 2, None),
    "job_finish": lambda ids: (ids, [MINE] * 2, ["completed"] * 2, [None] * 2, ["1"] * 2, None),
    "job_crashed": lambda ids: (ids, [MINE] * 2, [1.0] * 2, [ERROR] * 2, [ERROR] * 2, CHANNEL),
    "job_retry": lambda ids: (ids, [MINE] * 2, [0.0] * 2, [True] * 2, [ERROR] * 2, CHANNEL),
}


@pytest.fixture
def unpinned(database):
    """Give a session that reads tables from end to end, as one through a pooler may."""
    opened = db.connect(database, role="test", pinned=False, prepare=False)
    opened.execute("set enable_indexscan = off")
    opened.execute("set enable_bitmapscan = off")
    yield opened
    opened.close()


def add_in_the_wrong_order(database, claimed):
    for job_id in (HIGH, LOW):
        execute(database, ADD, job_id)
    if claimed:
        execute(database, "update fastq.job set state = 'running', claim = %s", MINE)
        execute(database, "vacuum full fastq.job")
        places = execute(database, "select id from fastq.job order by ctid")
        assert places == [(HIGH,), (LOW,)], "the rows no longer lie in the order that this test is about"


def locks_the_lower_id_first(database, connection, statement, parameters):
    """Hold the lower id, let the statement wait for it, and tell whether the higher one is free meanwhile."""
    with ThreadPoolExecutor(1) as thread, psycopg.connect(database) as holder:
        holder.execute("select from fastq.job where id = %s for update", (LOW,))
        running = thread.submit(connection.run, statement, *parameters)
        wait_for(lambda: waits(database, connection), what="the statement to wait")
        free = execute(database, "select id from fastq.job where id = %s for update skip locked", HIGH)
        holder.rollback()
        running.result(10)
    return free == [(HIGH,)]


def waits(database, connection):
    return execute(database, "select 1 from pg_locks where pid = %s and not granted", connection.backend_pid)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_locks_living_jobs_by_their_ids_whatever_its_plan(database, unpinned, statement):
    add_in_the_wrong_order(database, claimed=True)

    assert locks_the_lower_id_first(database, unpinned, statement, STATEMENTS[statement]([HIGH, LOW]))


@pytest.mark.parametrize("statement", COMPLETIONS)
def test_a_completion_locks_its_jobs_by_their_ids(database, connection, statement):
    add_in_the_wrong_order(database, claimed=True)

    assert locks_the_lower_id_first(database, connection, statement, COMPLETIONS[statement]([LOW, HIGH]))


@pytest.mark.parametrize("statement", ["job_delete", "job_rerun"])
def test_who_waits_for_a_living_job_holds_no_finished_one(database, connection, unpinned, statement):
    add_in_the_wrong_order(database, claimed=False)
    connection.run("job_cancel", [HIGH], CHANNEL)

    with ThreadPoolExecutor(1) as thread, psycopg.connect(database) as holder:
        holder.execute("select from fastq.job where id = %s for update", (LOW,))
        running = thread.submit(unpinned.run, statement, *STATEMENTS[statement]([HIGH, LOW]))
        wait_for(lambda: waits(database, unpinned), what="the statement to wait")
        free = connection.execute("select id from fastq.job_archive for update skip locked")
        holder.rollback()
        running.result(10)

    assert free == [(HIGH,)]


def test_retries_deletions_cancellations_and_completions_of_the_same_jobs_do_not_wait_in_a_circle(database):
    ids, rounds, ended = list(range(1, 201)), 100, threading.Event()
    execute(database, ADD.replace("values (%s, 'nap', 99)", "select n, 'nap', 99 from generate_series(1, 200) n"))

    def operate(statement, seed):
        dice, errors = random.Random(seed), 0
        operator = admin.connect(Config(), database)
        operator.execute("set deadlock_timeout = '20ms'")
        for _ in range(rounds):
            some = dice.sample(ids, 60)
            operator.execute("begin")
            errors += tried(operator, statement, *STATEMENTS[statement](some))
            operator.execute("rollback" if statement == "job_delete" else "commit")  # or there would soon be no jobs
        operator.close()
        return errors

    def work():
        number, errors = 0, 0
        worker = session(database)
        worker.execute("set deadlock_timeout = '20ms'")
        while not ended.is_set():
            number += 1
            mine = claim_number(1, number)
            worker.run("job_claim", mine, "default", *START, 60, *[END] * 4, *NO_BOUND, [])
            running = worker.execute("select id from fastq.job where claim = $1 and state = 'running' order by id", mine)
            claimed = [job_id for (job_id,) in running]
            errors += tried(worker, "job_complete_archive", claimed[::2], [mine])
            errors += tried(worker, "job_release", claimed, [mine], CHANNEL)
        worker.close()
        return errors

    with ThreadPoolExecutor(6) as threads:
        working = threads.submit(work)
        statements = ["job_rerun", "job_rerun", "job_delete", "job_delete", "job_cancel"]
        operating = [threads.submit(operate, statement, seed) for seed, statement in enumerate(statements)]
        try:
            deadlocks = [done.result() for done in operating]
        finally:
            ended.set()
        deadlocks.append(working.result())

    assert deadlocks == [0] * 6


def tried(connection, statement, *parameters):
    """Run a statement; tell whether it met a deadlock."""
    try:
        connection.run(statement, *parameters)
    except db.Error as error:
        if not sqlstate.deadlocked(error):
            raise
        return 1
    return 0


def test_an_operator_who_was_ended_for_a_deadlock_with_a_users_transaction_tries_again(database):
    for job_id in (LOW, HIGH):
        execute(database, ADD, job_id)
    operator = admin.connect(Config(), database)
    operator.execute("set deadlock_timeout = '4s'")  # a session looks for a deadlock once, so long after it began to wait

    with ThreadPoolExecutor(1) as thread, psycopg.connect(database) as user:
        user.execute("set deadlock_timeout = '60s'")
        user.execute("select from fastq.job where id = %s for update", (HIGH,))
        deleting = thread.submit(admin.delete_jobs, operator, [LOW, HIGH])
        wait_for(lambda: waits(database, operator), what="the deletion to wait for the higher id")
        user.execute("select from fastq.job where id = %s for update", (LOW,))  # the victim lets go of it
        user.commit()
        changes = deleting.result(30)
    operator.close()

    assert [change.outcome for change in changes] == ["deleted", "deleted"]


def test_what_was_deleted_before_something_failed_is_told(database, connection):
    for job_id in (LOW, HIGH):
        execute(database, ADD, job_id)
    connection.run("job_cancel", [HIGH], CHANNEL)
    execute(database, "create sequence looks")
    execute(
        database,
        "create function second_look() returns trigger language plpgsql as $$ begin "
        "if nextval('public.looks') > 1 then raise 'the disk is gone'; end if; return null; end $$",
    )
    execute(database, "create trigger looks before delete on fastq.job_archive for each statement execute function second_look()")
    operator = admin.connect(Config(), database)

    with pytest.raises(admin.CutShort, match=r"1 jobs were not found, .*: the disk is gone") as raised:
        admin.delete_jobs(operator, [HIGH, 77, LOW])
    operator.close()

    assert [(change.id, change.outcome) for change in raised.value.changes] == [(HIGH, "deleted"), (LOW, "deleted")]
    assert living(connection, LOW) is archived(connection, HIGH) is None
