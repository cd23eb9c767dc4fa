"""Does the cursor ever leave a job behind? Writers that do their worst, two hosts that claim, and an account of every job.

Writers: quick inserts; transactions that stay open and commit late or roll back; COPYs that pause after many rows, and after
so few that they have no transaction id yet; sequence numbers taken before the row is written; scheduled jobs that are promoted;
all priorities. Claimers: two hosts with shared memory of their own, two processes each; some claims are lost after the
cursor has moved, some claimed jobs are released. All the while an old snapshot keeps every dead row. There is no sweep.
"""

import random
import threading
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import count

import psycopg
import pytest

from fastq.board.board import Board
from fastq.config import Config
from fastq.lead.chores.promote import Promote
from fastq.postgres import db
from fastq.work.cursor import low_water
from fastq.work.cursor.claims import Bound
from fastq.work.cursor.cursor import Cursor
from fastq.work.cursor.looks import LONGEST_PASS
from fastq.work.cursor.low_water import LAG
from tests.db.jobs import CHANNEL, add, claim_number, send_look, send_part, session
from tests.db.leases import site_on
from tests.helpers import wait_for

WRITERS, HOSTS, PROCESSES = 6, 2, 2
BATCH = 60
EARLY = 0.8 * LAG  # s between taking a number by hand and writing the row: within the lag, as the cursor promises


class Hasty(Cursor):
    """A cursor without the rule: its low-water mark follows the frontier at once."""

    def __init__(self, *args):
        super().__init__(*args)
        self.low_water.due = lambda now: True
        self.low_water.begin = self.follow

    def follow(self, now):
        self.words.low[:] = self.words.frontier


class Writer:
    """Enqueues in all the ways that could hide a job from the cursor; keeps the ids that were committed."""

    def __init__(self, url, seed, stop):
        self._dice = random.Random(seed)
        self._stop = stop
        self._url = url
        self.committed = []

    def run(self):
        ways = {self.quick: 45, self.late: 20, self.copy: 10, self.short_copy: 10, self.early: 10, self.scheduled: 5}
        with psycopg.connect(self._url) as connection:
            while not self._stop.is_set():
                (way,) = self._dice.choices(list(ways), list(ways.values()))
                ids = way(connection)
                connection.commit()
                self.committed += ids

    def insert(self, connection, most, columns="kind, priority", values="'nap', %s"):
        text = f"insert into fastq.job ({columns}) select {values} from generate_series(1, %s) returning id"
        rows = connection.execute(text, (self._dice.randint(1, 4), self._dice.randint(1, most)))
        return [job_id for (job_id,) in rows]

    def quick(self, connection):
        return self.insert(connection, 50)

    def late(self, connection):
        ids = []
        for _ in range(self._dice.randint(1, 4)):
            ids += self.insert(connection, 200)
            time.sleep(self._dice.random() * 0.7)
        if self._dice.random() < 0.3:
            connection.rollback()
            return []
        return ids

    def copy(self, connection):
        return self.copied(connection, 300, self._dice.random() * 0.8, more=300)

    def short_copy(self, connection):
        return self.copied(connection, self._dice.randint(1, 20), LAG * self._dice.uniform(1.5, 2.5))

    def copied(self, connection, first, pause, more=0):
        mark = f"{self._dice.random()}"
        with connection.cursor().copy("copy fastq.job (kind, priority, tags) from stdin") as copy:
            for rows in (first, more):
                lines = [f"nap\t{self._dice.randint(1, 4)}\t{{{mark}}}\n" for _ in range(rows)]
                copy.write("".join(lines).encode())
                connection.pgconn.flush()  # the server shall have the rows now, and their numbers taken
                time.sleep(pause if lines else 0)
        return [job_id for (job_id,) in connection.execute("select id from fastq.job where tags = array[%s]", (mark,))]

    def early(self, connection):
        numbers = connection.execute("select nextval('fastq.job_seq') from generate_series(1, 20)").fetchall()
        time.sleep(self._dice.random() * EARLY)
        ids = []
        for (number,) in numbers:
            ids += connection.execute("insert into fastq.job (kind, seq) values ('nap', %s) returning id", (number,)).fetchone()
        return ids

    def scheduled(self, connection):
        due = "clock_timestamp() + random() * interval '0.5 s'"
        return self.insert(connection, 50, "kind, state, seq, scheduled_at, priority", f"'nap', 'scheduled', null, {due}, %s")


class Claimer:
    """One process of a host: claims in its turn, completes, sometimes loses or releases what it claimed."""

    def __init__(self, url, number, cursor, turn, done):
        self._dice = random.Random(number)
        self._connection = session(url)
        self._cursor = cursor
        self._turn = turn  # between threads; the board's own is one between processes
        self._done = done
        self._last_claim = claim_number(number, 0)
        self.completed = []
        self.parts = 0  # claimed beside others

    def next_claim(self):
        self._last_claim += 1
        return self._last_claim

    def run(self):
        while not self._done.is_set():
            with self._turn:
                part = self._cursor.take_part(BATCH)
                rows = self.claim() if part is None and self._cursor.due() else []
            if part is not None:
                self.parts += 1
                rows = self.lost_or(partial(self.claim_part, part))
            if not rows:
                time.sleep(0.01)  # half the cursor's poll
            for job_ids, claim in rows:
                self.work(job_ids, claim)
        self._connection.close()

    def claim(self):
        return self.lost_or(lambda: send_look(self._cursor, self._connection, self.next_claim, BATCH))

    def claim_part(self, part):
        return [send_part(self._cursor, self._connection, self.next_claim(), part)]

    def lost_or(self, claim):
        """Claim; now and then the session ends before the claim commits: the cursor has moved, the rows are free again."""
        lost = self._dice.random() < 0.03
        if lost:
            self._connection.execute("begin")
        rows = [(list(got.ids), got.claim) for got in claim() if len(got)]
        if lost:
            self._connection.execute("rollback")
        return [] if lost else rows

    def work(self, job_ids, claim):
        if self._dice.random() < 0.1:
            released = [job_ids.pop()]
            assert self._connection.run_one("job_release", released, [claim], CHANNEL)[0] == 1
        self._connection.run("job_complete", sorted(job_ids), [claim])
        self.completed += job_ids


class Marks:
    """The low-water mark of one host, beside the frontier that the writers had left behind."""

    def __init__(self, words):
        self._words = words
        self.low, self.frontier = list(words.low), list(words.frontier)

    def followed(self):
        """Tell whether the mark has reached that frontier, or a later one that was set back before it."""
        reached = zip(self._words.low, self.frontier, self._words.frontier, strict=True)
        return all(low >= min(left, now) for low, left, now in reached)


def attack(url, make_cursor, seconds, patience):
    """Let writers and claimers loose; return what was committed, what was completed, and what is left after `patience`."""
    stop, done = threading.Event(), threading.Event()
    writers = [Writer(url, seed, stop) for seed in range(WRITERS)]
    claimers, boards = [], []
    for host in range(HOSTS):
        shared, turn = Board.make([1], PROCESSES, 4 * BATCH), threading.Lock()
        shared.cursor(0).swept_at = time.monotonic_ns()  # no sweep for the next minutes
        boards.append(shared)
        for process in range(PROCESSES):
            cursor = make_cursor(shared, 0, "default", 0.02)
            claimers.append(Claimer(url, host * PROCESSES + process + 1, cursor, turn, done))
    threads = [threading.Thread(target=part.run) for part in (*writers, *claimers)]
    with session(url).raw as promoter, psycopg.connect(url, autocommit=True) as look:
        promote = threading.Thread(target=promote_until, args=(url, done))
        for thread in (*threads, promote):
            thread.start()
        time.sleep(seconds)  # the attack's duration
        stop.set()
        for thread in threads[:WRITERS]:
            thread.join()
        marks = [Marks(shared.cursor(0)) for shared in boards]
        left, moved = -1, time.monotonic()
        while left and time.monotonic() - moved < patience:
            (living,) = look.execute("select count(*) from fastq.job").fetchone()
            left, moved = living, moved if living == left else time.monotonic()
            time.sleep(0.02)  # between two looks
        with suppress(AssertionError):
            wait_for(lambda: all(mark.followed() for mark in marks), patience)
        done.set()
        for thread in (*threads, promote):
            thread.join()
        promoter.close()
    committed = [job_id for writer in writers for job_id in writer.committed]
    completed = [job_id for claimer in claimers for job_id in claimer.completed]
    return committed, completed, left, marks, sum(claimer.parts for claimer in claimers)


def promote_until(url, done):
    site, chore = site_on(url), Promote()
    while not done.wait(0.03):
        chore.run(site)
    site.connection.close()


@pytest.fixture
def pinned(database):
    """Hold an old snapshot for the whole test."""
    with psycopg.connect(database) as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select count(*) from fastq.job")
        yield
        connection.rollback()


def test_every_committed_job_is_claimed_once_and_none_is_left_behind(database, pinned):
    committed, completed, left, marks, parts = attack(database, Cursor, seconds=6.0, patience=5.0)

    assert [job_id for job_id, times in Counter(completed).items() if times > 1] == []
    assert (left, set(committed) ^ set(completed)) == (0, set())
    assert len(committed) > 1_000
    assert parts > 10, "no claims side by side"
    assert all(sum(mark.low) > 0 for mark in marks), "no low-water mark moved while there were writers"
    assert [mark for mark in marks if not mark.followed()] == [], "a low-water mark did not follow"


@pytest.mark.slow
def test_a_cursor_without_the_low_water_rule_leaves_jobs_behind(database, pinned):
    _, _, left, _, _ = attack(database, Hasty, seconds=3.0, patience=1.0)

    assert left > 0, "the attack is too weak to show anything"


@pytest.fixture
def cursor():
    """Give the cursor of a host with one process; it does not sweep."""
    shared = Board.make([1], 1, 4 * BATCH)
    shared.cursor(0).swept_at = time.monotonic_ns()
    return Cursor(shared, 0, "default", 0.02)


def claim_beside_others(cursor, connection, seconds, claims, until=None):
    """Claim whenever the cursor is due while others enqueue, for so long or until a job is claimed; tell whether it was."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        looks = send_look(cursor, connection, lambda: next(claims), BATCH) if cursor.due() else ()
        if any(until in got.ids for got in looks):
            return True
        time.sleep(0.01)
        add(connection)
    return False


def test_a_number_taken_early_by_a_transaction_that_stays_open_holds_the_low_water_mark(cursor, connection, database):
    claims = count(claim_number(1, 1))
    with psycopg.connect(database) as other:
        (number,) = connection.execute("select nextval('fastq.job_seq')")[0]
        claim_beside_others(cursor, connection, EARLY, claims)
        (late,) = other.execute("insert into fastq.job (kind, seq) values ('nap', %s) returning id", (number,)).fetchone()
        claim_beside_others(cursor, connection, 2.5 * LAG, claims)
        other.commit()

    assert claim_beside_others(cursor, connection, 2 * LAG, claims, until=late)


def test_a_number_that_a_trigger_holds_up_before_its_transaction_has_an_id_holds_the_low_water_mark(
    cursor, connection, database, monkeypatch
):
    monkeypatch.setattr(low_water, "LAG", 0.1)
    monkeypatch.setattr(low_water, "RETRY", 0.05)
    connection.execute("""create function hold_up() returns trigger language plpgsql as $$ begin
        if new.kind = 'slow' then perform pg_advisory_xact_lock(7); end if; return new; end $$""")
    connection.execute("create trigger hold_up before insert on fastq.job for each row execute function hold_up()")
    add(connection)  # the next 32 numbers need no record in the log, which would need an id
    claims = count(claim_number(1, 1))
    connection.execute("select pg_advisory_lock(7)")
    with psycopg.connect(database, autocommit=True) as slow:
        late = []
        thread = threading.Thread(target=lambda: late.extend(add(db.adopt(slow, Config()), kind="slow")))
        thread.start()
        try:
            wait_for(lambda: connection.execute("select 1 from pg_locks where locktype = 'advisory' and not granted"))
            claim_beside_others(cursor, connection, 0.6, claims)
            held = cursor.words.low[0]
        finally:
            connection.execute("select pg_advisory_unlock(7)")
            thread.join()

        assert claim_beside_others(cursor, connection, 2.0, claims, until=late[0])
        assert held < cursor.words.frontier[0]
    claim_beside_others(cursor, connection, 0.6, claims)
    assert cursor.words.low[0] > held, "once it has ended the mark moves on"


def test_a_copy_owns_a_transaction_id_as_soon_as_it_has_taken_a_number(connection, database):
    """The cursor relies on it. COPY would buffer rows whose numbers are taken, but not when a default is volatile: created_at."""
    add(connection)  # now the next 32 numbers of both sequences need no record in the log, which would need an id
    held = (
        "select locktype from pg_locks where pid = $1 and locktype in ('relation', 'transactionid') and mode <> 'AccessShareLock'"
    )
    with psycopg.connect(database) as other, other.cursor().copy("copy fastq.job (kind) from stdin") as copy:
        copy.write(b"nap\n")
        other.pgconn.flush()
        pid = other.info.backend_pid
        wait_for(lambda: ("relation",) in connection.execute(held, pid), what="the copy to begin")

        wait_for(lambda: ("transactionid",) in connection.execute(held, pid), 1.0, "the copy to own a transaction id")


def claim_twice(cursor, connection, claims):
    """Claim as it is done in turns, until the next look behind is a while away."""
    return [got for _ in range(2) for got in send_look(cursor, connection, lambda: next(claims), BATCH)]


def test_parts_are_disjoint_and_lie_below_the_highest_number(cursor, connection):
    ids = add(connection, 10 * BATCH)
    claims = count(claim_number(1, 1))
    first = claim_twice(cursor, connection, claims)

    parts = list(iter(lambda: cursor.take_part(BATCH), None))
    claimed = [send_part(cursor, connection, next(claims), part) for part in reversed(parts)]

    assert len(parts) == 8
    assert sorted(job_id for got in (*first, *claimed) for job_id in got.ids) == ids
    assert cursor.take_part(BATCH) is None


def test_what_does_not_fit_a_part_goes_back_before_the_frontier(cursor, connection):
    add(connection, 5 * BATCH, priority=2)
    claims = count(claim_number(1, 1))
    claim_twice(cursor, connection, claims)
    urgent = add(connection, 5, priority=1)

    part = cursor.take_part(BATCH)
    assert part is not None
    first = send_part(cursor, connection, next(claims), part)
    second = send_part(cursor, connection, next(claims), cursor.take_part(BATCH))

    assert list(first.ids[:5]) == urgent, "higher priorities first"
    assert second.seqs[0] == first.seqs[-1] + 1, "and nothing between the two is left behind"


def test_parts_are_stretched_where_numbers_are_thin(cursor, connection):
    for _ in range(4 * BATCH):
        add(connection, 1)
        connection.execute("select nextval('fastq.job_seq') from generate_series(1, 9)")
    claims = count(claim_number(1, 1))
    claim_twice(cursor, connection, claims)

    found = []
    while part := cursor.take_part(BATCH):
        found.append(len(send_part(cursor, connection, next(claims), part)))

    assert found[-1] > 2 * found[0]


@pytest.mark.parametrize("took", [0, 10_000_000], ids=["with the claim", "after the claim"])
def test_a_pass_that_was_held_up_keeps_the_next_one_away_for_seconds_at_most(cursor, connection, other, took):
    claims = count(claim_number(1, 1))
    add(connection)
    claim_twice(cursor, connection, claims)
    cursor.words.rescan_took, cursor.words.rescanned_at = took, 0
    cursor.words.mark_at = time.monotonic_ns() + int(LAG * 1e9)
    other.execute("begin")
    other.execute("lock table fastq.job")
    free = threading.Timer(2 * LONGEST_PASS, other.execute, ["commit"])

    free.start()
    claim_twice(cursor, connection, claims)

    free.join()
    assert 0 < cursor.words.rescan_took <= LONGEST_PASS * 1e9


@pytest.mark.parametrize("took", [0, 10_000_000], ids=["with the claim", "after the claim"])
def test_a_look_finds_what_was_committed_late(cursor, connection, took):
    claims = count(claim_number(1, 1))
    (number,) = connection.execute("select nextval('fastq.job_seq')")[0]
    (urgent,) = connection.execute("select nextval('fastq.job_seq')")[0]
    add(connection)
    claim_twice(cursor, connection, claims)
    late = [*add(connection, seq=urgent), *add(connection, seq=number, priority=3)]
    new = add(connection, 2)
    cursor.words.rescan_took, cursor.words.rescanned_at = took, 0

    found = send_look(cursor, connection, lambda: next(claims), BATCH)

    assert sorted(job_id for got in found for job_id in got.ids) == sorted([*late, *new])
    assert len([got for got in found if len(got)]) == (2 if took else 1)
    assert not cursor.due()


def test_claims_that_stop_at_their_bytes_leave_nothing_behind(cursor, connection):
    args = "[" + ", ".join(str(n * 7919 % 10_007) for n in range(300)) + "]"
    ids = [*add(connection, 30, args=args), *add(connection, 30, args=args, priority=2)]
    cursor.claims.bound = Bound(5 * len(args), 800, [])
    claims = count(claim_number(1, 1))

    brought = [got for _ in range(30) if cursor.due() for got in send_look(cursor, connection, lambda: next(claims), BATCH)]

    assert sorted(job_id for got in brought for job_id in got.ids) == ids
    assert max(len(got) for got in brought) < 20


def settle(cursor, connection, claims):
    """Claim and complete all there is, and let the low-water mark come up to the frontier."""
    for got in claim_twice(cursor, connection, claims):
        connection.run("job_complete", sorted(got.ids), [got.claim])
    cursor.words.mark_at, mark = 1, cursor.words.frontier[0]  # noted long ago
    cursor.words.mark[0] = mark
    claim_twice(cursor, connection, claims)
    assert cursor.words.low[0] == mark
    cursor.words.rescan_took = 0  # the next look may look behind at once


def test_a_sequence_that_went_back_is_noticed_and_followed(cursor, connection):
    claims = count(claim_number(1, 1))
    add(connection, 50)
    settle(cursor, connection, claims)

    connection.execute("alter sequence fastq.job_seq restart with 10")
    hidden = add(connection, 2)
    cursor.words.checked_at = 1  # the last look at the sequence was long ago
    found = claim_twice(cursor, connection, claims)
    later = add(connection, 2)
    found += claim_twice(cursor, connection, claims)

    assert [job_id for got in found for job_id in got.ids] == [*hidden, *later]


def test_numbers_that_were_given_out_twice_and_overtook_the_frontier_are_found_after_a_lost_connection(cursor, connection):
    claims = count(claim_number(1, 1))
    add(connection, 50)
    settle(cursor, connection, claims)
    connection.execute("alter sequence fastq.job_seq restart with 31")
    ids = add(connection, 40)  # 20 of them behind the low-water mark

    cursor.distrust()
    found = claim_twice(cursor, connection, claims)

    assert sorted(job_id for got in found for job_id in got.ids) == ids


def test_no_part_reaches_beyond_the_numbers_of_a_database_that_has_gone_back_to_ahead_of_the_frontier(cursor, connection):
    claims = count(claim_number(1, 1))
    add(connection, 20 * BATCH)
    claim_twice(cursor, connection, claims)
    connection.execute("delete from fastq.job where seq > $1", 8 * BATCH)
    connection.execute(f"alter sequence fastq.job_seq restart with {8 * BATCH}")

    cursor.distrust()
    assert cursor.take_part(BATCH) is None, "it is not known yet which numbers have been given out"
    claim_twice(cursor, connection, claims)
    parts = list(iter(lambda: cursor.take_part(BATCH), None))

    assert parts
    assert max(part.upto[0] for part in parts) <= 8 * BATCH


def test_a_large_job_that_was_left_is_claimed_next_though_smaller_ones_behind_it_were_taken(cursor, connection):
    large = '"' + "x" * 5_000 + '"'
    first, left, small = add(connection, 1, args=large), add(connection, 2, args=large), add(connection, 2)
    claims = count(claim_number(1, 1))
    cursor.claims.bound = Bound(1, 800, [])

    def claim():
        return [list(got.ids) for got in send_look(cursor, connection, lambda: next(claims), BATCH) if len(got)]

    assert claim() == [[*first, *small]]
    assert cursor.due(), "there is backlog"
    assert claim() == [left[:1]]
    assert claim() == [left[1:]]
