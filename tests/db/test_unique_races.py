"""There is one unique job of a key, whatever two sessions do with it at the same time; none but an enqueue waits for another.

An index that only these tests have refuses a second living job of a key. So a race that makes one is an error in the statement
that makes it. The index leaves out jobs that have started, where the key is held until the start, and those of a key that is held
for a time: these may be run once more beside the job that has it. So there the jobs that were enqueued are counted.
"""

import itertools
import threading
from dataclasses import dataclass

import psycopg
import pytest

from fastq import Args, Client, Unique
from fastq.enqueue import calls
from fastq.errors import FastqError
from fastq.postgres import db
from tests.db.jobs import claim, count, session
from tests.db.leases import lead
from tests.helpers import create_database, drop_database, wait_for

ORACLE = """create unique index one_of_a_key on fastq.job ((meta -> 'unique' ->> 0))
    where meta -> 'unique' is not null and meta -> 'unique' ->> 1 <> 'time'
    and (meta -> 'unique' ->> 1 <> 'start' or attempted_at is null)"""
CLAIM = 1 << 32 | 77  # of a process that shows no life: it has no row


@dataclass
class OneArgs(Args, kind="one", unique=Unique("number")):
    number: int


@dataclass
class StartArgs(Args, kind="start", unique=Unique("number", until="start")):
    number: int


@dataclass
class SuccessArgs(Args, kind="success", unique=Unique("number", until="success")):
    number: int


@dataclass
class HourArgs(Args, kind="hour", unique=Unique("number", within=3600)):
    number: int


@pytest.fixture(scope="module")
def shop(server, migrated_template):
    """Give the URL of a database with the oracle, for many small races."""
    name = f"{migrated_template}_races"
    url = create_database(server, name, migrated_template)
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(ORACLE)
    yield url
    drop_database(server, name)


class Table:
    """Two sessions that act on the job with id 1, and one that looks on."""

    def __init__(self, url):
        self.client = Client(url)
        self.looking = session(url)
        self.fence = lead(self.looking)
        self.raw = [psycopg.connect(url) for _ in range(2)]
        self.sessions = [db.Connection(raw, "fastq", prepare=False, timeout=30, owned=False) for raw in self.raw]
        self.args = OneArgs(1)  # of all jobs

    def close(self):
        for raw in self.raw:
            raw.close()
        self.looking.close()
        self.client.close()

    def set_up(self, state, args):
        """Begin with one job that waits, runs or has ended, or with two that have ended and had one key."""
        self.args = args
        self.looking.execute("truncate fastq.job, fastq.job_archive, fastq.unique_key restart identity")
        ends = {"waits": 0, "runs": 0, "ended": 1, "two ended": 2}[state]
        for job_id in range(1, max(ends, 1) + 1):
            self.expire()
            assert self.client.enqueue(args) == job_id
            if job_id <= ends:
                assert self.looking.execute("select * from fastq.job")
                claim(self.looking, CLAIM)
                self.looking.run_one("job_finish", [job_id], [CLAIM], ["discarded"], ['{"error": "boom"}'], [None], None)
        if state == "two ended":
            self.expire()
        if state == "runs":
            claim(self.looking, CLAIM)

    def expire(self):
        """End a key that is held when its job has ended: that may have been long ago."""
        self.looking.execute("update fastq.unique_key set expires_at = now() where until = any ('{success,time}')")

    def act(self, which, action):
        """Run one action in one of the two transactions."""
        own, raw = self.sessions[which], self.raw[which]
        if action == "enqueue":
            self.client.enqueue(self.args, conn=raw)
        elif action == "claim":
            claim(own, 1 << 32 | (78 + which))
        elif action == "complete":
            own.run("job_complete_archive", [1], [CLAIM])
        elif action == "retry":
            own.run("job_retry", [1], [CLAIM], [0.0], [True], ['{"error": "boom"}'], None)
        elif action == "rescue":
            own.run("job_rescue", *self.fence, None, "default", [1], [CLAIM], [1], None, '{"error": "lost"}')
        elif action == "cancel":
            own.run("job_cancel", [1], None)
        elif action == "replay":
            own.run("job_rerun", [1 + which], None)
        else:
            raise AssertionError(action)

    def holding(self):
        """Return the jobs that hold the key: living ones by what they are, others by the row of the key."""
        living = """select job.id from fastq.job
            where meta -> 'unique' ->> 1 <> 'time' and (meta -> 'unique' ->> 1 <> 'start' or attempted_at is null)"""
        others = """select job_id from fastq.unique_key as held left join fastq.job_archive as job on job.id = job_id
            where coalesce(held.expires_at > now(), true)
            and (until = 'time' or until = 'success' and job.state in ('cancelled', 'discarded'))"""
        return {job_id for (job_id,) in self.looking.execute(f"{living} union {others}")}

    def made(self):
        """Count the jobs that were enqueued, the first ones included."""
        [[jobs]] = self.looking.execute("select (select count(*) from fastq.job) + (select count(*) from fastq.job_archive)")
        return jobs

    def is_blocked(self, which):
        pid = self.raw[which].info.backend_pid
        return self.looking.execute("select cardinality(pg_blocking_pids($1)) > 0", pid)[0][0]


@pytest.fixture(scope="module")
def table(shop):
    """Give the sessions."""
    made = Table(shop)
    yield made
    made.close()


ACTIONS = ("enqueue", "claim", "complete", "retry", "rescue", "cancel", "replay")
ORDERS = ("one after the other", "the first commits first", "the second commits first")
MOST = {(SuccessArgs, "ended"): 1, (HourArgs, "runs"): 1, (HourArgs, "two ended"): 3}
"""Jobs that may be enqueued where the key is held all the time by a job that need not live, the first ones included."""


@pytest.mark.further
@pytest.mark.parametrize(
    ("kind", "state"),
    [
        *((OneArgs, state) for state in ("waits", "runs", "ended", "two ended")),
        *((kind, state) for kind in (StartArgs, SuccessArgs, HourArgs) for state in ("runs", "two ended")),
        (StartArgs, "waits"),
        (SuccessArgs, "ended"),
    ],
)
@pytest.mark.parametrize("first", ACTIONS)
def test_two_sessions_that_do_any_two_things_with_a_key_leave_one_job_that_holds_it_and_no_error(table, first, kind, state):
    """Oban #1259, awa #388, procrastinate #1446: a retry, a rescue or a promotion took the key again, and failed."""
    for second, order in itertools.product(ACTIONS, ORDERS):
        table.set_up(state, kind(1))
        table.act(0, first)
        if order == "one after the other":
            table.raw[0].commit()
        failed = []
        acting = threading.Thread(target=_catching, args=(failed, table, second))
        acting.start()
        wait_for(lambda acting=acting: not acting.is_alive() or table.is_blocked(1), what=f"{second} to end or to wait")
        blocked = acting.is_alive()
        assert not blocked or order != "one after the other", f"{first}, then {second}: {second} waits for nobody"
        if order == "the second commits first" and not blocked:
            table.raw[1].commit()
            table.raw[0].commit()
        else:
            table.raw[0].commit()
            acting.join()
            table.raw[1].commit()
        acting.join()

        assert failed == [], f"{first}, {second}, {order}"
        holding = table.holding()
        assert table.made() <= MOST.get((kind, state), 4), f"{first}, {second}, {order}"
        told = table.client.enqueue(kind(1))
        assert (not told.new, told in holding) == (bool(holding), bool(holding)), f"{first}, {second}, {order}"


def _catching(failed, table, action):
    try:
        table.act(1, action)
    except Exception as error:  # noqa: BLE001 - the test shows it
        failed.append(error)


@pytest.mark.parametrize("ends", [False, True], ids=["it stays", "it ends again and again"])
def test_of_many_that_enqueue_one_key_at_once_one_makes_a_job(database, connection, ends):
    connection.execute(ORACLE)
    told, threads, done = [], [], threading.Event()

    def enqueue():
        with Client(database) as client:
            told.extend([client.enqueue(OneArgs(1)) for _ in range(100)])

    def end():
        own = session(database)
        while not done.is_set():
            if jobs := claim(own, CLAIM):
                own.run("job_complete", [job.id for job in jobs], [CLAIM])
        own.close()

    threads += [threading.Thread(target=enqueue) for _ in range(8)]
    ending = threading.Thread(target=end)
    if ends:
        ending.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    if ends:
        ending.join()

    new = [job for job in told if job.new]
    assert len(told) == 800
    assert {*told} == {*new}  # each duplicate was told of a job that somebody made
    assert len(new) == len({*new})
    assert ends or (len(new), count(connection, "job")) == (1, 1)
    [[last]] = connection.execute("select last_value from fastq.job_id_seq")
    assert last <= len(new) + 100  # a duplicate takes no id, but where two were at it at once


@pytest.mark.parametrize("given_up", [False, True], ids=["new keys", "keys that were given up"])
def test_batches_in_any_order_take_their_keys_in_one_order_and_do_not_deadlock(database, connection, given_up):
    """Both meet a key in their middle that a third transaction holds: then each of them has taken those before it."""
    connection.execute(ORACLE)
    first, middle, last = sorted(range(3), key=lambda number: calls.one(OneArgs(number), None, {}, 100).rows[0][0].asked.key)
    told, failed = [], []

    def enqueue(*numbers):
        try:
            with Client(database) as client:
                told.append(client.enqueue_many([OneArgs(number) for number in numbers]))
        except FastqError as error:
            failed.append(error)

    with Client(database) as client, psycopg.connect(database) as own:
        if given_up:
            client.enqueue_many([OneArgs(number) for number in range(3)])
            connection.run("job_complete", sorted(job.id for job in claim(connection, CLAIM)), [CLAIM])
        client.enqueue(OneArgs(middle), conn=own)
        threads = [threading.Thread(target=enqueue, args=order) for order in ((first, middle, last), (last, middle, first))]
        for number, thread in enumerate(threads, 1):
            thread.start()
            text = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
            wait_for(lambda text=text, number=number: connection.execute(text)[0][0] == number, what=f"{number} to wait")
        own.commit()
        for thread in threads:
            thread.join()

    assert failed == []
    assert sorted(job.new for jobs in told for job in jobs) == [False] * 4 + [True] * 2


def test_no_claim_or_completion_waits_for_a_transaction_that_takes_a_key_over(database, connection):
    with Client(database) as client, psycopg.connect(database) as own:
        first = client.enqueue(StartArgs(1))
        claim(connection, CLAIM)
        second = client.enqueue(StartArgs(1), conn=own)  # it has the row of the key, and does not commit
        assert second.new
        connection.execute("set lock_timeout = '1ms'")
        connection.run("job_complete_archive", [first], [CLAIM])
        own.rollback()

        assert client.enqueue(StartArgs(1)).new


def test_an_enqueue_that_waited_for_another_one_is_told_of_its_job(database):
    told = []
    with Client(database) as client, psycopg.connect(database) as own:
        first = client.enqueue(OneArgs(1), conn=own)
        threads = [threading.Thread(target=lambda: told.append(client.enqueue(OneArgs(1)))) for _ in range(4)]
        for thread in threads:
            thread.start()
        text = "select count(*) = 4 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        with psycopg.connect(database, autocommit=True) as looking:
            wait_for(lambda: looking.execute(text).fetchone()[0], what="all to wait")
        own.commit()
        for thread in threads:
            thread.join()

    assert [(job, job.new) for job in told] == [(first, False)] * 4
