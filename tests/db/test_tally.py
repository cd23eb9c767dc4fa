"""The counts of a process: each attempt once, under the state that it leaves its job in, with times by the database's clock."""

import math
import struct
import time
from dataclasses import dataclass

import psycopg
import pytest

from fastq import Args, Cancel, Config, Discard, Job, RateLimited, Registry, Snooze, State, Worker
from fastq.admin import statistics
from fastq.jobs.outcome import WAITS, Barred, Fate, Output, Release, failed, fate_of
from fastq.postgres import db
from fastq.postgres.kept import Kept
from fastq.statistics.bins import ERROR
from fastq.work.codec.claimed import Claimed
from fastq.work.codec.codec import decode, encode_ids
from fastq.work.codec.timed import Timed, choose
from fastq.work.complete import tally as module
from fastq.work.complete.completer import Completer
from fastq.work.complete.tally import Cell, Known, Tally, Untold, Wait, state_after
from fastq.work.complete.writer import Writer
from fastq.work.effects.ending import Ended, Lost
from fastq.work.shared.lane import Outbox
from fastq.work.steps.parking import Parked, TakenAway
from tests.db.jobs import add, claim_number
from tests.db.leases import site_on
from tests.helpers import Stopwatch, wait_for

registry = Registry()
CLAIM = claim_number(1, 1)


@dataclass
class MailArgs(Args, kind="mail"):
    pass


@dataclass
class ReportArgs(Args, kind="report"):
    pass


@registry.register
class MailWorker(Worker[MailArgs]):
    def work(self, job):
        pass


@registry.register
class ReportWorker(Worker[ReportArgs]):
    archive = False

    def work(self, job):
        pass


@pytest.fixture
def session(database):
    made = Kept(lambda: db.connect(database, role="completer"))
    yield made
    made.drop()


@pytest.fixture
def writer(database):
    made = Writer(Config(), lambda: db.connect(database, role="completer"), Tally())
    yield made
    made.session.drop()


def claimed(connection, count, *, queue="default"):
    """Claim so many jobs of a queue; some of them are timed."""
    numbers = [struct.pack(">q", number) for number in (CLAIM, 0, 0, 0, 0, count, *[2**62] * 6)]
    row = connection.run_blobs("job_claim", [numbers[0], queue.encode(), *numbers[1:], encode_ids([])])[1]
    return decode(Claimed(queue, CLAIM, row), registry.workers, choose=choose).good


def worked(jobs, seconds=0.0):
    """Let the jobs have run for so long."""
    for job in jobs:
        if type(job.batch) is Timed:
            job.batch.work(job)
            job.batch.stopwatch.ended = job.batch.stopwatch.began + seconds
    return jobs


def told(connection, by=None):
    return statistics.stats(connection, by=by)


def test_each_attempt_is_counted_once_by_queue_kind_and_outcome(connection, writer):
    add(connection, 300, kind="mail")
    add(connection, 5, kind="report")
    add(connection, 4, kind="report", queue="other")
    jobs = worked(claimed(connection, 1_000)) + worked(claimed(connection, 10, queue="other"))
    jobs[0].outcome, jobs[1].outcome, jobs[2].outcome = failed(jobs[0], "boom"), Snooze(60), Discard("no")

    writer.write(jobs)
    writer.tally.write(writer.session)

    rows = connection.execute(
        "select queue, kind, outcome, sum(jobs)::int from fastq.stat where outcome <> 'enqueued' group by 1, 2, 3"
    )
    assert {row[:3]: row[3] for row in rows} == {
        ("default", "mail", "completed"): 297,
        ("default", "mail", "retryable"): 1,
        ("default", "mail", "scheduled"): 1,
        ("default", "mail", "discarded"): 1,
        ("default", "report", "completed"): 5,
        ("other", "report", "completed"): 4,
    }


def test_a_thousand_jobs_are_a_thousand_and_the_timed_ones_stand_for_all(connection, writer):
    add(connection, 1_000, kind="mail")
    for _ in range(4):
        writer.write(worked(claimed(connection, 250), 0.25))

    writer.tally.write(writer.session)

    [row] = told(connection)
    assert (row.outcomes, row.enqueued, row.run.attempts, row.wait.attempts) == ({"completed": 1_000}, 1_000, 1_000, 1_000)
    assert row.run.timed == row.wait.timed == 4 * 1
    assert row.run.mean == pytest.approx(0.25)
    assert 0.25 / (1 + ERROR) <= row.run.p50 <= 0.25 * (1 + ERROR)


def test_a_job_waits_from_its_enqueue_to_its_start(connection, writer):
    add(connection, 10, kind="mail", created_at="2026-01-01")
    connection.execute("update fastq.stat_due set at = '2025-01-01'")
    connection.execute("update fastq.job set created_at = clock_timestamp() - interval '40 s'")

    writer.write(worked(claimed(connection, 10)))
    writer.tally.write(writer.session)

    [row] = told(connection)
    assert (row.wait.timed, row.wait.attempts) == (1, 10)
    assert 39.9 < row.wait.mean < 60.0


def test_a_job_that_was_promoted_waits_from_when_it_was_due(database, connection, writer):
    add(connection, 4, kind="mail", state="scheduled", seq=None, created_at="2020-01-01", scheduled_at="2020-01-02")
    connection.execute("update fastq.job set scheduled_at = clock_timestamp() - interval '30 s'")
    leader = site_on(database)
    leader.write("job_promote", None, [1, 2, 3, 4], None)
    leader.connection.close()

    writer.write(worked(claimed(connection, 10)))
    writer.tally.write(writer.session)

    [row] = told(connection)
    assert row.wait.attempts == 4
    assert 29.9 < row.wait.mean < 50.0


@pytest.mark.parametrize(("enqueued", "due"), [(10.0, 50.0), (80.0, 80.0)])
def test_a_job_that_took_its_seq_between_those_of_a_promotion_waits_from_its_own_enqueue(enqueued, due):
    known = Known([1, 100], [None, 199], [0.0, 50.0])

    assert known.due_since(Wait(Cell(), 150, enqueued, 90.0, 1)) == due


def test_of_a_job_whose_seq_is_not_that_of_its_enqueue_nobody_knows_since_when_it_was_due(database, connection, writer):
    add(connection, 3, kind="mail")
    connection.execute("update fastq.job set created_at = clock_timestamp() - interval '1 hour', seq = null")
    leader = site_on(database, name="schema")
    leader.write("stat_note")
    leader.connection.close()
    connection.execute("insert into fastq.stat_due select nextval('fastq.job_seq'), null, clock_timestamp()")
    connection.execute("update fastq.job set seq = nextval('fastq.job_seq')")  # as it is handed back, or let go at a gate

    writer.write(worked(claimed(connection, 10)))
    writer.tally.write(writer.session)

    [row] = told(connection)
    assert (row.ended, row.run.attempts, row.wait.timed, row.wait.p50) == (3, 3, 0, None)


def test_an_attempt_that_never_began_has_no_time(connection, writer):
    add(connection, 3, kind="mail")
    jobs = claimed(connection, 3)
    for job in jobs:
        job.outcome = Cancel("before it began")

    writer.write(jobs)
    writer.tally.write(writer.session)

    [row] = told(connection)
    assert (row.outcomes, row.run.timed, row.wait.timed, row.enqueued) == ({"cancelled": 3}, 0, 0, 3)


def test_a_job_that_is_no_longer_ours_is_not_counted(connection, writer):
    add(connection, 5, kind="mail")
    jobs = worked(claimed(connection, 5))
    jobs[4].outcome = failed(jobs[4], "boom")
    connection.execute("update fastq.job set claim = 0 where id = any (array[2, 5])")

    writer.write(jobs)
    writer.tally.write(writer.session)

    assert told(connection)[0].outcomes == {"completed": 3}


def test_a_job_that_is_tried_again_is_enqueued_once(connection, writer):
    add(connection, 1, kind="mail")
    [job] = worked(claimed(connection, 1))
    job.outcome = failed(job, "boom")
    writer.write([job])
    connection.execute("update fastq.job set state = 'available', seq = nextval('fastq.job_seq'), scheduled_at = null")
    writer.write(worked(claimed(connection, 1)))

    writer.tally.write(writer.session)

    [row] = told(connection)
    assert (row.outcomes, row.enqueued) == ({"completed": 1, "retryable": 1}, 1)


def test_those_that_were_enqueued_are_counted_in_the_minute_of_their_enqueue(connection, writer):
    add(connection, 2, kind="mail")
    connection.execute("update fastq.job set created_at = date_trunc('minute', now()) - interval '10 min' + interval '5 s'")

    writer.write(worked(claimed(connection, 2)))
    writer.tally.write(writer.session)

    ago = (
        "select round(extract(epoch from date_trunc('minute', now()) - at))::int, jobs from fastq.stat where outcome = 'enqueued'"
    )
    [(seconds, jobs)] = connection.execute(ago)
    assert (seconds in (600, 660), jobs) == (True, 2)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (None, State.COMPLETED),
        (Output("1"), State.COMPLETED),
        (Cancel("why"), State.CANCELLED),
        (Discard("why"), State.DISCARDED),
        (Fate(charged=True, delay=5.0, error="{}"), State.RETRYABLE),
        (Fate(charged=True, error="{}"), State.RETRYABLE),
        (Snooze(60), State.SCHEDULED),
        (Parked(60.0), State.SCHEDULED),
        (Release(), State.AVAILABLE),
        (WAITS, State.WAITING),
        (Barred("[]"), State.WAITING),
        (RateLimited(after=5), State.WAITING),
        (Parked(math.inf, "go", 1), State.WAITING),
        (Ended(None), State.COMPLETED),
        (Ended(Snooze(5)), State.SCHEDULED),
        (Lost(), None),
        (TakenAway(), None),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, State) else value.value,  # a repr may have an address
)
def test_each_outcome_counts_as_the_state_that_it_leaves_the_job_in(outcome, state):
    assert state_after(fate_of(outcome)) == state


def test_a_job_that_has_ended_in_a_transaction_of_its_own_is_counted_and_one_that_was_lost_is_not(connection, writer):
    add(connection, 3, kind="mail")
    jobs = worked(claimed(connection, 3))
    jobs[0].outcome, jobs[1].outcome, jobs[2].outcome = Ended(None), Ended(Discard("why")), Lost()

    writer.write(jobs)
    writer.tally.write(writer.session)

    assert told(connection)[0].outcomes == {"completed": 1, "discarded": 1}


def test_counts_that_the_database_refuses_are_kept_and_sent_again(connection, session, events):
    made = Tally()
    made.plain(plain(7), {Batch}, 7)
    connection.execute("alter table fastq.stat rename to away")

    assert made.write_at - time.monotonic() <= module.INTERVAL
    made.write(session)

    assert [event.name for event in events] == ["stats.waits"]
    assert module.INTERVAL < made.write_at - time.monotonic() <= module.AGAIN
    connection.execute("alter table fastq.away rename to stat")
    made.write(session)
    assert connection.execute("select jobs from fastq.stat") == [(7,)]
    assert made.write_at == math.inf


def test_counts_that_the_database_refuses_for_long_fill_no_memory(connection, writer, events, monkeypatch):
    monkeypatch.setattr(module, "KEYS", 10)
    connection.execute("alter table fastq.stat rename to away")
    kept = 0
    for minute in range(15):
        add(connection, 1, kind="mail", created_at=f"2026-01-01 00:{minute:02}")
        writer.write(worked(claimed(connection, 1)))
        writer.tally.write(writer.session)
        kept = max(kept, len(writer.tally._cells))

    assert kept <= 11
    assert [event.fields["jobs"] for event in events if event.name == "stats.dropped"] == [10]
    assert len(writer.tally._waits) <= 5


def test_counts_whose_answer_was_lost_are_dropped_and_not_sent_twice(connection, proxy, events):
    kept = Kept(lambda: db.connect(proxy.url, role="completer"))
    made = Tally()
    made.plain(plain(7), {Batch}, 7)
    kept.open()
    proxy.cut = lambda chunk: "answer" if b"commit\0" in chunk else None

    made.write(kept)
    made.write(kept)

    assert [(event.name, event.fields["jobs"]) for event in events] == [("stats.dropped", 7)]
    wait_for(lambda: connection.execute("select jobs from fastq.stat") == [(7,)])
    assert made.write_at == math.inf
    kept.drop()


def test_counts_are_kept_if_the_connection_was_lost_before_they_were_committed(connection, proxy, events):
    kept = Kept(lambda: db.connect(proxy.url, role="completer"))
    made = Tally()
    made.plain(plain(7), {Batch}, 7)
    kept.open()
    proxy.sever()

    made.write(kept)
    assert [event.name for event in events] == ["stats.waits"]
    made.write(kept)

    assert connection.execute("select jobs from fastq.stat") == [(7,)]
    kept.drop()


@pytest.mark.parametrize("table", ["stat", "stat_due"])
def test_a_lock_on_the_tables_of_the_statistics_holds_up_no_completion(
    database, connection, completer, events, table, monkeypatch
):
    monkeypatch.setattr(module, "INTERVAL", 0.2)
    add(connection, 5, kind="mail")
    first, second = claimed(connection, 3), claimed(connection, 2)
    watch = Stopwatch()
    with psycopg.connect(database) as locking:
        locking.execute(f"lock table fastq.{table}")  # until the end of the block
        completer.outbox.jobs.extend(worked(first))
        completer.outbox.wake()
        wait_for(lambda: "stats.waits" in {event.name for event in events}, what="a write that the lock refuses")
        completer.outbox.jobs.extend(worked(second))
        completer.outbox.wake()
        wait_for(lambda: connection.execute("select count(*) from fastq.job_archive") == [(5,)])
        assert watch.idle() < completer._statement_timeout / 2  # a statement that waits for the lock takes that long

    counted = "select sum(jobs)::int from fastq.stat where outcome = 'completed'"
    wait_for(lambda: connection.execute(counted) == [(5,)])
    assert completer.sessions == 1


def test_counts_that_the_database_refuses_for_good_are_dropped_and_the_next_ones_are_written(connection, session, events):
    connection.execute("alter table fastq.stat add constraint no_mails check (kind <> 'mail')")
    made = Tally()
    made.plain(plain(7), {Batch}, 7)

    made.write(session)

    assert [(event.name, event.fields["jobs"]) for event in events] == [("stats.dropped", 7)]
    connection.execute("alter table fastq.stat drop constraint no_mails")
    made.plain(plain(2), {Batch}, 2)
    made.write(session)
    assert connection.execute("select jobs from fastq.stat") == [(2,)]


class Batch:
    """The batch of jobs that nobody timed."""

    queue, kind = "default", "mail"


def plain(count):
    """Return so many jobs of it."""
    jobs = [Job.of(MailArgs(), id=number) for number in range(count)]
    for job in jobs:
        job.batch = Batch
    return jobs


def test_a_tally_that_counts_nothing_has_nothing_to_write(connection, session):
    made = Untold()
    made.plain(plain(7), {Batch}, 7)
    made.elsewhere([])

    made.write(session)

    assert made.write_at == math.inf
    assert session.connection is None


@pytest.fixture
def completer(database):
    made = Completer(Config(), Outbox(), lambda: db.connect(database, role="completer"), [0, 0], Tally())
    made.start()
    yield made
    made.finish(time.monotonic() + 5)
    made.join(10)


def test_a_completer_writes_the_counts_a_while_after_the_first_one_though_no_job_comes(completer, connection, monkeypatch):
    monkeypatch.setattr(module, "INTERVAL", 0.2)
    add(connection, 3, kind="mail")

    completer.outbox.jobs.extend(worked(claimed(connection, 3)))
    completer.outbox.wake()

    wait_for(lambda: connection.execute("select jobs from fastq.stat where outcome = 'completed'") == [(3,)])


def test_a_completer_that_ends_writes_the_counts_at_once(completer, connection):
    add(connection, 3, kind="mail")
    completer.outbox.jobs.extend(worked(claimed(connection, 3)))
    completer.outbox.wake()

    completer.finish(time.monotonic() + 5)
    completer.join(10)

    assert connection.execute("select jobs from fastq.stat where outcome = 'completed'") == [(3,)]
