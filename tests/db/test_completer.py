"""The completer's batches: each part is written once, and what an unarchived kind returns leaves no row."""

import struct
import threading
import time
from dataclasses import dataclass

import pytest

from fastq import events
from fastq.args.kinds import Args
from fastq.board.board import ENDED
from fastq.config import Config
from fastq.jobs.outcome import Cancel, Fate, Output, RateLimited, Snooze, failed
from fastq.jobs.registry import Registry
from fastq.jobs.worker import Worker
from fastq.postgres import db
from fastq.work.codec.claimed import Claimed
from fastq.work.codec.codec import decode, encode_ids
from fastq.work.complete import writes
from fastq.work.complete.completer import Completer
from fastq.work.complete.limited import Limited
from fastq.work.complete.writer import Writer
from fastq.work.shared.lane import Outbox
from tests.db.jobs import add, archived, claim_number, count, living
from tests.helpers import wait_for

BAD = Output("no json")  # Postgres refuses it, and with it the whole statement
registry = Registry()


@dataclass
class KeptArgs(Args, kind="kept"):
    pass


@dataclass
class ForgottenArgs(Args, kind="forgotten"):
    pass


@registry.register
class KeptWorker(Worker[KeptArgs]):
    def work(self, job):
        pass


@registry.register
class ForgottenWorker(Worker[ForgottenArgs]):
    archive = False

    def work(self, job):
        pass


@pytest.fixture
def complete(database):
    """Give a function that writes a batch as the completer's thread does, and returns what was told meanwhile."""

    def run(jobs, **settings):
        told = []
        writer = Writer(Config(**settings), lambda: db.connect(database, role="completer"))
        unsubscribe = events.subscribe(told.append)
        writer.write(jobs)
        unsubscribe()
        writer.session.drop()
        return [event.name for event in told if event.name != "jobs.completed"]

    return run


def claimed(connection, *kinds):
    """Insert a job of each kind and claim them all."""
    for kind in kinds:
        add(connection, kind=kind)
    numbers = [struct.pack(">q", number) for number in (claim_number(1, 1), 0, 0, 0, 0, 100, *[2**62] * 6)]
    row = connection.run_blobs("job_claim", [numbers[0], b"default", *numbers[1:], encode_ids([])])[1]
    return sorted(decode(Claimed("default", claim_number(1, 1), row), registry.workers)[0], key=lambda job: job.id)


def test_a_refused_outcome_does_not_have_the_rest_of_its_batch_written_again(connection, complete):
    plain, forgotten, output, snoozed, bad = claimed(connection, "kept", "forgotten", "kept", "kept", "kept")
    output.outcome, snoozed.outcome, bad.outcome = Output("1"), Snooze(60), BAD

    told = complete([plain, forgotten, output, snoozed, bad])

    assert told == ["completion.refused"]
    assert [archived(connection, job.id)["output"] for job in (plain, output)] == [None, 1]
    assert living(connection, snoozed.id)["state"] == "scheduled"
    assert living(connection, bad.id)["errors"][0]["error"].startswith("the outcome could not be stored")
    assert count(connection, "job") == 2


def test_an_object_that_is_no_outcome_fails_its_job_alone(connection, complete):
    plain, odd, failing = claimed(connection, "kept", "kept", "kept")
    odd.outcome, failing.outcome = object(), failed(failing, "boom")

    assert complete([plain, odd, failing]) == ["completion.refused"]
    row = living(connection, odd.id)
    assert (row["state"], row["attempt"]) == ("retryable", 1), "the attempt is charged, so that it does not come again for ever"
    assert row["errors"][0]["error"].startswith("the outcome could not be stored: expected an outcome")
    assert archived(connection, plain.id)["state"] == "completed"
    assert living(connection, failing.id)["errors"][0]["error"] == "boom"


def test_an_outcome_whose_fate_cannot_be_told_or_encoded_fails_its_job_alone(connection, complete):
    class Broken:
        @property
        def fate(self):
            raise RuntimeError("no fate")

    plain, broken, odd = claimed(connection, "kept", "kept", "kept")
    broken.outcome, odd.outcome = Broken(), Fate(error=1.5)

    assert complete([plain, broken, odd]) == ["completion.refused"] * 2
    assert [living(connection, job.id)["state"] for job in (broken, odd)] == ["retryable", "retryable"]
    assert living(connection, broken.id)["errors"][0]["error"] == "the outcome could not be stored: no fate"
    assert archived(connection, plain.id)["state"] == "completed"


def test_a_job_that_is_no_longer_ours_is_told_beside_a_refused_one(connection, complete):
    lost, bad = claimed(connection, "kept", "kept")
    connection.execute("update fastq.job set claim = $1 where id = $2", claim_number(2, 1), lost.id)
    bad.outcome = BAD

    assert sorted(complete([lost, bad])) == ["completion.refused", "ownership.lost"]
    assert living(connection, lost.id)["state"] == "running"


def test_an_unarchived_job_leaves_no_row_whatever_it_returned(connection, complete):
    by_worker, by_setting = claimed(connection, "forgotten", "kept")
    by_worker.outcome, by_setting.outcome = Output("1"), Output("2")

    assert complete([by_worker]) == []
    assert complete([by_setting], archive=False) == []
    assert (count(connection, "job"), count(connection, "job_archive")) == (0, 0)


def test_an_unarchived_job_that_is_no_longer_ours_is_left_alone(connection, complete):
    (job,) = claimed(connection, "forgotten")
    connection.execute("update fastq.job set claim = $1 where id = $2", claim_number(2, 1), job.id)
    job.outcome = Output("1")

    assert complete([job]) == ["ownership.lost"]
    assert living(connection, job.id)["claim"] == claim_number(2, 1)


def test_an_unarchived_job_that_failed_for_good_is_kept_with_its_errors(connection, complete):
    add(connection, kind="forgotten", max_attempts=1)
    (job,) = claimed(connection)
    job.outcome = failed(job, "boom")

    assert complete([job]) == ["job.discarded"]
    assert archived(connection, job.id)["errors"][0]["error"] == "boom"


def test_subscribers_hear_how_many_jobs_of_each_kind_a_statement_has_completed(database, connection, events):
    kept, forgotten, output, snoozed, cancelled = claimed(connection, "kept", "forgotten", "kept", "kept", "kept")
    output.outcome, snoozed.outcome, cancelled.outcome = Output("1"), Snooze(60), Cancel("no")
    writer = Writer(Config(), lambda: db.connect(database, role="completer"))

    writer.write([kept, forgotten, output, snoozed, cancelled])
    writer.session.drop()

    told = [event.fields for event in events if event.name == "jobs.completed"]
    assert sorted((fields["count"], *fields["kinds"]) for fields in told) == [(1, "forgotten"), (1, "kept"), (1, "kept")]
    assert all(fields["took"] > 0 for fields in told)


@pytest.mark.parametrize("errcode", ["P0001", "ZA001", "P0002", "P0004", "55000", "38000", "42501", "42P01"])
def test_a_row_that_a_trigger_refuses_for_good_holds_up_no_other_and_stays_ours(database, connection, errcode):
    connection.execute(f"""create function refuse() returns trigger language plpgsql as $$ begin
        raise exception 'not this one' using errcode = '{errcode}'; end $$""")
    connection.execute(
        "create trigger refuse before insert on fastq.job_archive for each row when (new.priority = 2) execute function refuse()"
    )
    add(connection, kind="kept", priority=2, max_attempts=1)
    jobs = claimed(connection, "kept", "kept")
    writer = Writer(Config(), lambda: db.connect(database, role="completer"))
    writer.write(jobs)
    writer.session.drop()

    assert [job.priority for job in jobs] == [2, 1, 1]
    assert writer.unwritten == 1
    assert [archived(connection, job.id)["state"] for job in jobs[1:]] == ["completed", "completed"]
    assert living(connection, jobs[0].id)["state"] == "running"


def test_a_job_whose_list_of_errors_takes_no_more_runs_again_all_the_same(connection, complete):
    connection.execute("""create function refuse() returns trigger language plpgsql as $$ begin
        raise exception 'the list is full' using errcode = '22023'; end $$""")
    connection.execute("""create trigger refuse before update on fastq.job for each row
        when (new.errors is distinct from old.errors) execute function refuse()""")
    job, other = claimed(connection, "kept", "kept")
    job.outcome = failed(job, "boom")

    assert complete([job, other]) == ["completion.refused"] * 2
    row = living(connection, job.id)
    assert (row["state"], row["attempt"], row["errors"]) == ("retryable", 1, None)
    assert archived(connection, other.id)["state"] == "completed"


def watch_archive(connection, action):
    """Have something done after each statement that archives; it knows `rows`."""
    connection.execute(f"""create function watch() returns trigger language plpgsql as $$ declare rows int; begin
        rows := (select count(*) from archived); {action}; return null; end $$""")
    connection.execute("""create trigger watch after insert on fastq.job_archive referencing new table as archived
        for each statement execute function watch()""")


def test_a_part_is_bounded_by_the_bytes_that_it_tells(connection, complete, monkeypatch):
    monkeypatch.setattr(writes, "BYTES", 1_000)
    connection.execute("create table public.sizes (rows int)")
    watch_archive(connection, "insert into public.sizes values (rows)")
    jobs = claimed(connection, *["kept"] * 10)
    for job in jobs:
        job.outcome = Output('"' + "x" * 400 + '"')

    assert complete(jobs) == []
    assert connection.execute("select rows from public.sizes") == [(3,), (3,), (3,), (1,)]


def test_a_part_over_which_the_connection_is_lost_twice_is_halved(connection, complete):
    watch_archive(connection, "if rows > 3 then perform pg_terminate_backend(pg_backend_pid()); end if")
    jobs = claimed(connection, *["kept"] * 10)

    assert complete(jobs) == ["completer.waits"] * 4
    assert count(connection, "job_archive") == 10


def test_jobs_whose_rows_are_locked_hold_up_no_others_and_are_written_in_the_end(database, connection, other, events):
    locked, *rest = claimed(connection, *["kept"] * 10)
    rest[-1].outcome = Output("1")
    other.execute("begin")
    other.execute("update fastq.job set cancel_requested = true where id = $1", locked.id)  # as `cancel` does, in a transaction
    outbox, desk = Outbox(), [0, 0]
    config = Config(statement_timeout=1.0)
    writer = Completer(config, outbox, lambda: db.session(config, database, "completer"), desk)
    writer.thread.start()

    outbox.jobs.extend([locked, *rest])
    outbox.wake()
    wait_for(lambda: count(connection, "job_archive") == 9, 20.0, "those that nobody has locked")
    for job in claimed(connection, *["kept"] * 3):  # while the lock is held, others do not even wait for it once
        outbox.append(job)
        outbox.wake()
    wait_for(lambda: desk[ENDED] == 12, 20.0, "those that came later")

    assert living(connection, locked.id)["state"] == "running"
    other.execute("commit")
    wait_for(lambda: count(connection, "job") == 0, 20.0, "the last one")
    writer.finish(time.monotonic() + 20)
    writer.thread.join(20)
    assert (desk[ENDED], writer.completed, writer.writer.unwritten) == (13, 13, 0)
    assert {event.name for event in events} - {"jobs.completed"} == {"completer.waits"}


def test_a_row_that_stays_locked_is_left_at_the_end(database, connection, other, events):
    locked, free = claimed(connection, "kept", "kept")
    other.execute("begin")
    other.execute("select from fastq.job where id = $1 for update", locked.id)
    config = Config(statement_timeout=1.0)
    writer = Completer(config, Outbox(), lambda: db.session(config, database, "completer"), [0, 0])
    writer.outbox.jobs.extend([locked, free])
    writer.thread.start()
    wait_for(lambda: count(connection, "job_archive") == 1, 20.0, "the other one")

    writer.finish(time.monotonic() + 0.3)
    writer.thread.join(20)

    assert (writer.thread.is_alive(), writer.writer.unwritten, writer.completed) == (False, 1, 1)
    assert [event.fields["error"] for event in events if event.name == "completions.unwritten"] == ["their rows are locked"]
    other.execute("rollback")


def test_a_full_outbox_is_written_by_two_thirds_of_a_batch(database, connection, events):
    outbox = Outbox()
    writer = Completer(Config(batch=3), outbox, lambda: db.connect(database, role="completer"), [0, 0])
    outbox.jobs.extend(claimed(connection, *["kept"] * 8))

    writer.thread.start()
    writer.finish(time.monotonic() + 10)
    writer.thread.join()

    assert [event.fields["count"] for event in events if event.name == "jobs.completed"] == [2, 2, 2, 2]


def test_jobs_that_found_a_rate_exceeded_are_told_of_once_in_a_while_with_their_number(connection):
    told, limits = [], Limited()
    unsubscribe = events.subscribe(lambda event: told.append(str(event)))
    jobs = claimed(connection, "kept", "forgotten", "kept")
    for _ in range(3):
        limits.tell(jobs, [Fate(limited=30.0), Fate(limited=5.0), Fate(limited=31.0)])
    limits._told["kept"] -= events.SAID_AGAIN  # as if that time were over
    limits.tell(jobs[:1], [Fate(limited=30.0)])
    unsubscribe()

    first, other, last = jobs
    assert told == [
        f"job.rate_limited kind=kept queue=default id={last.id} after=31 jobs=2",
        f"job.rate_limited kind=forgotten queue=default id={other.id} after=5 jobs=1",
        f"job.rate_limited kind=kept queue=default id={first.id} after=30 jobs=5",
    ]


def test_a_429_is_an_event_of_the_process_that_has_written_it(connection, complete):
    plain, refused = claimed(connection, "kept", "kept")
    refused.outcome = RateLimited(30)
    writes.LIMITS.__init__()

    assert complete([plain, refused]) == ["job.rate_limited"]
    assert living(connection, refused.id)["state"] == "scheduled"


def test_a_failed_job_that_somebody_cancels_while_its_failure_is_written_ends_cancelled(connection, other, complete):
    first, second = claimed(connection, "kept", "kept")
    for job in (first, second):
        job.outcome = failed(job, "boom")
    other.execute("begin")
    other.execute("update fastq.job set cancel_requested = true where id = $1", first.id)
    told = []
    writing = threading.Thread(target=lambda: told.extend(complete([first, second])))
    writing.start()
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    wait_for(lambda: connection.execute(waiting) == [(1,)], what="the statement to wait for the row")
    other.execute("commit")
    writing.join()

    assert "ownership.lost" not in told
    row = archived(connection, first.id)
    assert (row["state"], [error["error"] for error in row["errors"]]) == ("cancelled", ["boom"])
    assert living(connection, second.id)["state"] == "retryable"
