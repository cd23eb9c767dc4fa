"""The claim of a part in one step: what it takes, what it does where somebody holds a row, and how the cursor goes on then."""

import random
import re
import threading
import time
from collections import Counter
from contextlib import suppress
from itertools import count

import psycopg
import pytest

from fastq.board.board import Board
from fastq.postgres import db
from fastq.work.cursor import claims as claiming
from fastq.work.cursor.claims import Bound
from fastq.work.cursor.cursor import Cursor
from tests.db.jobs import NO_BOUND, add, claim_number, living, parts_of, send_look, send_part, session
from tests.helpers import Stopwatch, wait_for

BATCH = 10
ENDS = (0, 2**62)
CLAIM = claim_number(1, 1)


def claim_part(connection, claim=CLAIM, *, queue="default", after=ENDS[0], upto=ENDS[1], bound=NO_BOUND):
    """Claim through the statement and take the blobs apart."""
    return parts_of(connection.run_one("job_claim_part", claim, queue, after, upto, *bound))


def ids_of(jobs):
    return [job.id for job in jobs]


def test_it_takes_the_available_jobs_of_the_first_priority_between_its_ends(connection):
    ids = add(connection, 5)
    add(connection, priority=2)
    add(connection, queue="emails")
    add(connection, state="running", claim=7)
    add(connection, state="scheduled", seq=None, scheduled_at="2100-01-01")
    seqs = [living(connection, job_id)["seq"] for job_id in ids]

    jobs = claim_part(connection, claim_number(3, 9), after=seqs[0], upto=seqs[3])

    assert ids_of(jobs) == ids[1:4]
    assert [job.seq for job in jobs] == seqs[1:4]
    row = living(connection, ids[1])
    assert (row["state"], row["claim"], row["attempt"]) == ("running", claim_number(3, 9), 1)
    assert connection.execute("select clock_timestamp() - $1 < '5 s'", row["attempted_at"]) == [(True,)]


def test_a_paused_queue_gives_nothing(connection):
    ids = add(connection, 2)
    connection.execute("insert into fastq.queue (name, paused_at) values ('default', now())")

    assert claim_part(connection) == []
    connection.execute("update fastq.queue set paused_at = null")
    assert ids_of(claim_part(connection)) == ids


def test_it_answers_as_the_other_claims_do():
    whole, part = (db.statement(name).partition("returning") for name in ("job_claim", "job_claim_part"))

    answer = whole[2].partition("having")[0]  # whether its commit waits for the disk: that of a part always does
    assert re.split(r"\s+", part[2].strip()) == re.split(r"\s+", answer.strip())


def test_its_jobs_come_in_their_order_also_where_the_table_has_another(connection):
    ids = add(connection, 50)
    connection.execute("update fastq.job set seq = -seq")

    assert ids_of(claim_part(connection, after=-(2**62), upto=0)) == ids[::-1]


def test_it_changes_no_index(connection):
    add(connection, 100)
    connection.execute("vacuum fastq.job")
    claim_part(connection)

    read = "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relid = 'fastq.job'::regclass"
    wait_for(lambda: connection.execute(read) == [(100, 100)], what="the statistics of 100 heap-only updates")


def test_it_gives_up_soon_where_a_row_is_held_and_has_done_nothing(connection, other):
    ids = add(connection, 3)
    other.execute("begin")
    other.execute("select from fastq.job where id = $1 for update", ids[1])

    watch = Stopwatch()
    with pytest.raises(psycopg.errors.LockNotAvailable):
        claim_part(connection)

    assert watch.idle() < 5
    assert [living(connection, job_id)["state"] for job_id in ids] == ["available"] * 3
    assert connection.execute("show lock_timeout") == [("0",)], "the limit ends with the statement"
    other.execute("rollback")
    assert ids_of(claim_part(connection)) == ids
    assert connection.execute("show lock_timeout") == [("0",)]


def test_it_passes_over_a_row_that_somebody_else_has_just_taken(connection, other, database):
    ids = add(connection, 3)
    other.execute("begin")
    other.execute("update fastq.job set state = 'running', claim = 7 where id = $1", ids[1])
    third = session(database, settings={"lock_timeout": "0"})
    # As the statement, but for its limit: on a busy machine 20 ms may be over before the other commits.
    text = db.statement("job_claim_part").replace("'20ms'", "'20s'")
    found = []
    waits = threading.Thread(target=lambda: found.extend(third.execute(text, claim_number(1, 1), "default", *ENDS, *NO_BOUND)))
    waits.start()
    blocked = "select count(*) from pg_locks where pid = $1 and not granted"
    wait_for(lambda: connection.execute(blocked, third.backend_pid) == [(1,)], what="the claim to wait for the row")
    other.execute("commit")
    waits.join()
    third.close()

    assert ids_of(parts_of(found[0])) == [ids[0], ids[2]]
    assert living(connection, ids[1])["claim"] == 7


@pytest.fixture
def backlog(connection):
    """Give a cursor that is to claim by parts, the numbers of its claims, and the jobs that are left."""
    shared = Board.make([1], 1, 40 * BATCH)
    shared.cursor(0).swept_at = time.monotonic_ns()
    cursor, claims = Cursor(shared, 0, "default", 0.02), count(claim_number(1, 1))
    ids = add(connection, 12 * BATCH)
    began = [got for _ in range(2) for got in send_look(cursor, connection, lambda: next(claims), BATCH)]
    later = time.monotonic_ns() + 3600 * 10**9
    shared.cursor(0).rescanned_at = shared.cursor(0).mark_at = later  # nothing else is due, however long the test takes
    return cursor, claims, ids[sum(map(len, began)) :]


def runs_of(connection):
    """Count how often a session has run each claim, as the server tells it."""
    runs = "select name, generic_plans + custom_plans from pg_prepared_statements where name like 'job_claim%'"
    return {"job_claim": 0, "job_claim_part": 0} | dict(connection.execute(runs))


def runs_since(connection, before):
    after = runs_of(connection)
    return after["job_claim_part"] - before["job_claim_part"], after["job_claim"] - before["job_claim"]


def test_parts_are_claimed_in_one_step(backlog, connection):
    cursor, claims, left = backlog
    before = runs_of(connection)

    claimed = send_part(cursor, connection, next(claims), cursor.take_part(BATCH))

    assert runs_since(connection, before) == (1, 0)
    assert list(claimed.ids) == left[:BATCH]
    assert claimed.full
    assert cursor.claims.tried is None


def test_where_a_row_is_held_the_others_are_claimed_and_so_are_parts_for_a_while(backlog, connection, other):
    cursor, claims, left = backlog
    other.execute("begin")
    other.execute("select from fastq.job where id = any ($1) for update", [left[3], left[BATCH + 3]])
    before = runs_of(connection)

    first = send_part(cursor, connection, next(claims), cursor.take_part(BATCH))
    second = send_part(cursor, connection, next(claims), cursor.take_part(BATCH))

    assert runs_since(connection, before) == (1, 2), "the second part waits for nobody"
    assert list(first.ids) == [*left[:3], *left[4:BATCH]]
    assert list(second.ids) == [*left[BATCH : BATCH + 3], *left[BATCH + 4 : 2 * BATCH]]
    other.execute("rollback")
    cursor.claims._careful_until = 0.0  # as if the while were over
    send_part(cursor, connection, next(claims), cursor.take_part(BATCH))
    assert runs_since(connection, before) == (2, 2)


def test_where_others_have_been_before_us_parts_are_claimed_with_care(backlog, connection):
    cursor, claims, left = backlog
    connection.execute("update fastq.job set state = 'running', claim = 7 where id = any ($1)", left[:BATCH])
    before = runs_of(connection)

    send_part(cursor, connection, next(claims), cursor.take_part(BATCH))
    cursor.words.stretch = 1  # an empty part has the next ones stretched, which are no longer than the limit here
    send_part(cursor, connection, next(claims), cursor.take_part(BATCH))

    assert runs_since(connection, before) == (1, 1)
    cursor.claims._careful_until = 0.0  # as if the while were over
    send_part(cursor, connection, next(claims), cursor.take_part(BATCH))
    assert runs_since(connection, before) == (2, 1)


def test_another_failure_is_not_tried_again(backlog, connection):
    cursor, claims, _ = backlog
    before = runs_of(connection)
    connection.execute("create function fastq.refuse() returns trigger language plpgsql as $$begin raise 'no'; end$$")
    connection.execute("create trigger refuse before update on fastq.job for each row execute function fastq.refuse()")

    with pytest.raises(psycopg.errors.RaiseException):
        send_part(cursor, connection, next(claims), cursor.take_part(BATCH))

    assert runs_since(connection, before)[1] == 0
    assert cursor.claims.tried is not None, "the producer sets the job aside by it"


def test_a_part_that_was_stretched_is_claimed_with_a_limit(backlog, connection):
    cursor, claims, left = backlog
    cursor.words.stretch = 4  # by another process of the host, whose numbers were thin
    before = runs_of(connection)

    claimed = send_part(cursor, connection, next(claims), cursor.take_part(BATCH))

    assert runs_since(connection, before) == (0, 1)
    assert list(claimed.ids) == left[:BATCH]


def test_a_part_from_which_jobs_are_to_be_passed_over_is_claimed_without_them(backlog, connection):
    cursor, claims, left = backlog
    cursor.claims.bound = Bound(1_000_000, 1_000, [left[2]])  # a trigger of the user's refuses it
    before = runs_of(connection)

    claimed = send_part(cursor, connection, next(claims), cursor.take_part(BATCH))

    assert runs_since(connection, before) == (0, 1)
    assert list(claimed.ids) == [*left[:2], *left[3:BATCH]]


def test_a_part_in_which_numbers_occur_twice_is_told_as_full(backlog, connection):
    cursor, claims, left = backlog
    connection.execute("insert into fastq.job (kind, seq) select 'nap', seq from fastq.job where id = any ($1)", left[:BATCH])

    claimed = send_part(cursor, connection, next(claims), cursor.take_part(BATCH))

    assert (len(claimed), claimed.full) == (2 * BATCH, True)


class Attack:
    """Writers, some of which commit late or never; somebody who holds rows for a while; two processes of a host that claim."""

    def __init__(self, url):
        self._url = url
        self._stop, self._done = threading.Event(), threading.Event()
        self.committed, self.completed = [], []  # appended to by several threads
        self.one_step = []  # how many jobs each such claim brought
        self.lost = 0

    def run(self, seconds, patience):
        """Let them loose for so long; return how many jobs are left when the rest could have been worked."""
        shared, turn = Board.make([1], 2, 40 * BATCH), threading.Lock()
        shared.cursor(0).swept_at = time.monotonic_ns()  # no sweep for the next minutes
        first = [threading.Thread(target=self.write, args=(seed,)) for seed in range(3)]
        first.append(threading.Thread(target=self.hold))
        claimers = [threading.Thread(target=self.claim, args=(number, shared, turn)) for number in (1, 2)]
        for thread in (*first, *claimers):
            thread.start()
        time.sleep(seconds)  # the attack's duration
        self._stop.set()
        for thread in first:
            thread.join()
        with psycopg.connect(self._url, autocommit=True) as look:
            left = "select count(*) from fastq.job"
            with suppress(AssertionError):
                wait_for(lambda: look.execute(left).fetchone() == (0,), patience)
            self._done.set()
            for thread in claimers:
                thread.join()
            return look.execute(left).fetchone()[0]

    def write(self, seed):
        dice, text = random.Random(seed), "insert into fastq.job (kind) select 'nap' from generate_series(1, %s) returning id"
        with psycopg.connect(self._url) as connection:
            while not self._stop.is_set():
                ids = [job_id for (job_id,) in connection.execute(text, (dice.randint(1, 300),))]
                if dice.random() < 0.2:
                    time.sleep(dice.random() * 0.3)  # others enqueue behind these numbers
                if dice.random() < 0.1:
                    connection.rollback()
                else:
                    connection.commit()
                    self.committed += ids

    def hold(self):
        dice = random.Random(7)
        with psycopg.connect(self._url) as connection:
            while not self._stop.is_set():
                how = dice.choice(["update", "no key update", "share", "key share"])
                found = "select from fastq.job where state = 'available' order by seq desc limit 3"
                connection.execute(f"{found} for {how} skip locked")
                time.sleep(dice.choice([0.0, 0.005, 0.05]))  # shorter than the claim's limit, and longer
                connection.commit()

    def claim(self, number, shared, turn):
        connection, cursor, claims = session(self._url), Cursor(shared, 0, "default", 0.02), count(claim_number(number, 1))
        dice = random.Random(number)
        while not self._done.is_set():
            with turn:
                part = cursor.take_part(6 * BATCH)
                got = [] if part or not cursor.due() else send_look(cursor, connection, lambda: next(claims), 6 * BATCH)
            if part:
                got = self.claim_part(connection, cursor, next(claims), part, lost=dice.random() < 0.05)
            for claimed in got:
                connection.run("job_complete", sorted(claimed.ids), [claimed.claim])
                self.completed += claimed.ids
            if not any(map(len, got)):
                time.sleep(0.005)  # a quarter of the cursor's poll
        connection.close()

    def claim_part(self, connection, cursor, claim, part, lost):
        """Claim a part; now and then nothing comes of it, as where the session was lost: its numbers are behind the frontier."""
        if lost:
            self.lost += 1
            return []
        before = runs_of(connection)
        claimed = send_part(cursor, connection, claim, part)
        if runs_since(connection, before) == (1, 0):
            self.one_step.append(len(claimed))
        return [claimed]


def test_among_those_who_hold_rows_and_commit_late_every_job_is_claimed_once_and_none_is_left(database, monkeypatch):
    monkeypatch.setattr(claiming, "CAREFUL", 0.02)
    attack = Attack(database)

    left = attack.run(seconds=4.0, patience=10.0)

    assert [job_id for job_id, times in Counter(attack.completed).items() if times > 1] == []
    assert (left, set(attack.committed) ^ set(attack.completed)) == (0, set())
    assert sum(attack.one_step) > 1_000, "hardly any was claimed in one step"
    assert attack.lost, "no claim was"


def test_a_new_session_plans_all_claims_and_takes_nothing(connection):
    ids = add(connection, 3)
    shared = Board.make([1], 1, 40)
    Cursor(shared, 0, "default", 0.02).claims.prepare(connection)

    planned = connection.execute("select name, generic_plans from pg_prepared_statements order by name")
    assert planned == [("job_claim", 1), ("job_claim_part", 1)]
    assert [living(connection, job_id)["state"] for job_id in ids] == ["available"] * 3
