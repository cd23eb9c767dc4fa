"""Steps of a job: done once, remembered, parked and woken. Each attempt here is a claim, a call and a completion."""

import asyncio
import itertools
import re
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import psycopg
import pytest

from fastq import Args, AsyncClient, Client, Config, Job, JobLost, Registry, Snooze, Worker
from fastq.enqueue.settings import Settings
from fastq.errors import DatabaseUnavailable, OptionError, StepError
from fastq.jobs.outcome import fate_of
from fastq.lead.chores.forget import DAY, Forget
from fastq.postgres import db
from fastq.steps import through
from fastq.work.codec.claimed import Claimed
from fastq.work.codec.codec import decode, encode_ids
from fastq.work.complete.writer import Writer
from fastq.work.execute.settle import settle
from fastq.work.steps.parking import Interrupted, Parked
from fastq.work.steps.reaching import Reaching
from tests.db.jobs import add, archived, claim_number, living
from tests.db.leases import run_out, site_on
from tests.helpers import execute, wait_for

RECORDS = "select sort, name, output::text from fastq.job_step order by sort, name"
DUE = (
    "update fastq.job set state = 'available', seq = nextval('fastq.job_seq'), scheduled_at = null where scheduled_at is not null"
)
PAST = "update fastq.job_step set until = clock_timestamp() - interval '1 second' where until is not null"
TAKE_AWAY = "update fastq.job set state = 'available', seq = nextval('fastq.job_seq'), claim = null where state = 'running'"

registry = Registry()
numbers = itertools.count(1)


@dataclass
class SteppedArgs(Args, kind="stepped"):
    pass


@dataclass
class SteppedAsyncArgs(Args, kind="stepped_async"):
    pass


@registry.register
class SteppedWorker(Worker[SteppedArgs]):
    def work(self, job):
        pass


@registry.register
class SteppedAsyncWorker(Worker[SteppedAsyncArgs]):
    async def work(self, job):
        pass


@dataclass
class Receipt:
    number: int
    paid: Decimal


class Shop:
    """One job in the database, and its attempts, one after the other."""

    def __init__(self, url, connection):
        self.url = url
        self.connection = connection
        self.reaching = Reaching(Settings(url, None, Config()))
        [self.id] = add(connection, kind="stepped")
        self.calls = []

    def claim(self):
        """Claim the job, as the next attempt."""
        claim = claim_number(1, next(numbers))
        bounds = [struct.pack(">q", number) for number in (claim, 0, 0, 0, 0, 100, *[2**62] * 6)]
        row = self.connection.run_blobs("job_claim", [bounds[0], b"default", *bounds[1:], encode_ids([])])[1]
        (job,) = decode(Claimed("default", claim, row), registry.workers)[0]
        return job

    def call(self, job, work):
        """Let an attempt run, and give it its outcome as an executor does."""
        value, error = None, None
        with through.using(self.reaching):
            try:
                value = work(job)
            except BaseException as raised:  # noqa: BLE001 - as an executor does
                error = raised
        if value is not None or error is not None:
            job.outcome = settle(job, value, error)
        return error

    def complete(self, job):
        """Write the outcome as the completer does."""
        writer = Writer(Config(), lambda: db.connect(self.url, role="completer"))
        writer.write([job])
        writer.session.drop()

    def attempt(self, work):
        """Do all of it once; return the job."""
        job = self.claim()
        self.call(job, work)
        self.complete(job)
        return job

    def done(self, name, value=None):
        """Be the function of a step."""
        self.calls.append(name)
        return value

    def row(self):
        return living(self.connection, self.id)

    def records(self):
        return self.connection.execute(RECORDS)

    def due(self):
        """Let the time of a parked job come."""
        self.connection.execute(PAST)
        self.connection.execute(DUE)


@pytest.fixture
def shop(database, connection):
    """Give a job whose attempts the test makes."""
    return Shop(database, connection)


@pytest.fixture
def client(database):
    """Give a client."""
    with Client(database) as made:
        yield made


def failing(*_):
    raise RuntimeError("boom")


def test_a_step_is_done_once_and_its_value_comes_back_in_its_type_in_each_attempt(shop):
    given = []

    def charge(cents: int) -> Receipt:
        shop.calls.append("charge")
        return Receipt(7, Decimal(cents) / 100)

    def work(job):
        given.append(job.step("charge", charge, 1050))
        if job.attempt == 1:
            failing()

    shop.attempt(work)
    shop.due()
    shop.attempt(work)

    assert shop.calls == ["charge"]
    assert given == [Receipt(7, Decimal("10.5"))] * 2
    assert archived(shop.connection, shop.id)["state"] == "completed"
    assert shop.records() == [("step", "charge", '{"number":7,"paid":"10.5"}')]


def test_a_value_without_a_type_comes_back_as_json_has_it_from_the_first_attempt_on(shop):
    given = []
    shop.attempt(lambda job: given.append(job.step("pair", lambda: (1, {"a": (2,)}))))

    assert given == [[1, {"a": [2]}]]


def test_a_step_as_a_decorator_is_done_when_it_is_called(shop):
    def work(job):
        @job.step("charge")
        def charge(cents: int, *, twice: bool = False) -> tuple[int, bool]:
            return shop.done("charge", (cents, twice))

        assert charge(5, twice=True) == (5, True)
        if job.attempt == 1:
            failing()

    shop.attempt(work)
    shop.due()
    shop.attempt(work)

    assert shop.calls == ["charge"]


def test_a_step_in_an_event_loop_is_awaited(shop):
    async def charge() -> Receipt:
        await asyncio.sleep(0)
        return shop.done("charge", Receipt(1, Decimal(2)))

    async def work(job):
        assert await job.step("charge", charge) == Receipt(1, Decimal(2))
        rows = await job.cursor("rows", 0)
        await rows.advance(rows.value + 1)
        assert rows.value == job.attempt
        await job.sleep(0)
        if job.attempt == 1:
            failing()
        signal = await job.wait_for("ok", int, timeout=0)
        assert not signal

    shop.attempt(lambda job: asyncio.run(work(job)))
    shop.due()
    shop.attempt(lambda job: asyncio.run(work(job)))

    assert shop.calls == ["charge"]
    assert archived(shop.connection, shop.id)["state"] == "completed"


def test_a_job_without_steps_has_no_records_and_no_mark(shop):
    shop.attempt(lambda _: Snooze(0))

    assert (shop.row()["meta"], shop.records()) == (None, [])


def test_a_step_that_fails_leaves_no_record_and_is_done_again(shop):
    def work(job):
        job.step("fetch", lambda: shop.done("fetch"))
        job.step("charge", failing if job.attempt == 1 else shop.done, "charge")

    shop.attempt(work)
    assert [name for _, name, _ in shop.records()] == ["fetch"]
    shop.due()
    shop.attempt(work)

    assert shop.calls == ["fetch", "charge"]


@pytest.mark.parametrize(
    ("names", "called", "told_of"),
    [
        (["fetch", "charge!", "mail"], ["charge!", "mail"], ["charge"]),  # renamed
        (["fetch", "mail"], ["mail"], ["charge"]),  # removed
        (["fetch", "log", "charge", "mail"], ["log", "mail"], ["charge"]),  # a new one in between
        (["charge", "mail", "fetch"], ["mail"], ["fetch"]),  # another order
        ([], [], []),
    ],
)
def test_a_deploy_with_other_steps_is_no_wedge_and_does_none_of_the_old_ones_again(shop, events, names, called, told_of):
    def work(steps):
        def worked(job):
            for name in steps:
                job.step(name, shop.done, name)
            if job.attempt == 1:
                failing()

        return worked

    shop.attempt(work(["fetch", "charge"]))
    shop.calls.clear()
    shop.due()
    shop.attempt(work(names))

    assert shop.calls == called
    assert archived(shop.connection, shop.id)["state"] == "completed"
    told = [event.fields for event in events if event.name == "step.unknown"]
    assert [fields["names"] for fields in told] == told_of


def test_steps_do_not_nest_and_have_names_of_their_own(shop):
    said = []

    def work(job):
        for wrong in (
            lambda: job.step("outer", lambda: job.step("inner", shop.done, "inner")),
            lambda: job.step("twice", shop.done, "twice") or job.step("twice", shop.done, "twice"),
            lambda: job.step("", shop.done, ""),
            lambda: job.step("x" * 201, shop.done, ""),
            lambda: job.step("nul\0", shop.done, ""),
        ):
            with pytest.raises(StepError) as raised:
                wrong()
            said.append(str(raised.value))

    shop.attempt(work)

    assert shop.calls == ["twice"]
    assert "steps do not nest, and step 'outer' has not ended" in said[0]
    assert "expected a name of its own" in said[1]
    assert all("expected a name of 1 to 200 characters" in text for text in said[2:])


def test_a_step_in_a_task_of_a_step_is_nested_and_tasks_beside_each_other_are_not(shop):
    async def inner(job):
        await job.step("inner", shop.done, "inner")

    async def outer(job):
        await asyncio.create_task(inner(job))

    async def work(job):
        await asyncio.gather(*(job.step(f"part {n}", asyncio.sleep, 0) for n in range(10)))
        with pytest.raises(StepError, match="do not nest"):
            await job.step("outer", outer, job)

    job = shop.attempt(lambda job: asyncio.run(work(job)))

    assert job.outcome is None
    assert len(shop.records()) == 10


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("x" * 262_143, "expected at most 262144 bytes of JSON, got 262145"),
        (object(), "expected a value that JSON can hold, got object"),
        ({"a": [float("nan")]}, "a\\[0\\]"),
    ],
)
def test_a_value_that_cannot_be_kept_fails_the_attempt_and_says_why(shop, value, reason):
    job = shop.claim()
    error = shop.call(job, lambda job: job.step("large", lambda: value))

    assert isinstance(error, StepError)
    with pytest.raises(StepError, match=reason):
        raise error
    assert shop.records() == []


def test_the_largest_value_is_kept(shop):
    shop.attempt(lambda job: job.step("large", lambda: "x" * 262_142) and None)

    assert len(shop.records()[0][2]) == 262_144


def test_a_record_that_no_longer_fits_its_type_is_told_and_a_type_that_takes_it_goes_on(shop):
    def old() -> str:
        return "seven"

    def new() -> int:
        return 7

    def work(function):
        def worked(job):
            job.step("charge", function)
            failing()

        return worked

    shop.attempt(work(old))
    shop.due()
    error = shop.call(shop.claim(), work(new))
    assert "step 'charge' of job 1: its value is remembered and is no int" in str(error)
    shop.connection.execute(TAKE_AWAY)

    assert isinstance(shop.call(shop.claim(), work(old)), RuntimeError)


def test_a_type_that_cannot_be_looked_up_is_told_before_the_step_is_done(shop):
    def charge() -> "Nowhere":  # noqa: F821
        return shop.done("charge")

    error = shop.call(shop.claim(), lambda job: job.step("charge", charge))

    assert "cannot be looked up" in str(error)
    assert shop.calls == []


def test_a_job_that_was_taken_away_remembers_nothing_more_and_its_attempt_counts_no_more(shop, events):
    def work(job):
        job.step("first", shop.done, "first")
        shop.connection.execute(TAKE_AWAY)
        with pytest.raises(JobLost):
            job.step("second", shop.done, "second")
        job.step("third", shop.done, "third")

    job = shop.claim()
    error = shop.call(job, work)
    shop.complete(job)

    assert isinstance(error, JobLost)
    assert "was taken away from this process before step 'second' of job 1" in str(error)
    assert shop.calls == ["first", "second"]
    assert [name for _, name, _ in shop.records()] == ["first"]
    assert (shop.row()["state"], shop.row()["errors"]) == ("available", None)
    assert [event.name for event in events if event.name in ("job.lost", "ownership.lost")] == ["job.lost"]


def test_a_rescue_waits_for_a_record_that_is_being_written(shop, database, other):
    """So the process that works the job next finds the record."""
    job = shop.claim()
    shop.call(job, lambda job: job.step("first", shop.done, "first"))
    with psycopg.connect(database) as writing:
        settings = Settings(database, None, Config())
        text = settings.text("step_note")
        given = (job.id, job.batch.claim, "step", "charge", 1, None, None, 0.1, "1")
        psycopg.RawCursor(writing).execute(text, given)
        taking = threading.Thread(target=lambda: other.execute(TAKE_AWAY))
        taking.start()
        wait_for(lambda: execute(database, "select 1 from pg_locks where not granted"), what="a rescue that waits for the row")
        assert shop.row()["state"] == "running"
        writing.commit()
    taking.join()

    shop.attempt(lambda job: job.step("charge", shop.done, "charge"))
    assert shop.calls == ["first"]


@pytest.mark.parametrize("ways", [["before"], ["answer"], ["answer", "before", "answer"]])
def test_a_record_whose_connection_is_lost_is_written_once(shop, proxy, ways):
    """`before` loses the statement, `answer` the word that it has committed."""
    left = list(ways)
    proxy.cut = lambda chunk: left.pop(0) if b"charge" in chunk and left else None
    shop.reaching = Reaching(Settings(proxy.url, None, Config()))

    def work(job):
        assert job.step("charge", lambda: shop.done("charge", 1)) == 1

    job = shop.attempt(work)

    assert (job.outcome, left) == (None, [])
    assert shop.calls == ["charge"]
    assert shop.records() == [("step", "charge", "1")]


def test_a_cursor_goes_on_where_it_was_left(shop):
    seen = []

    def work(job):
        rows = job.cursor("rows", 0)
        for row in range(rows.value, 10):
            if row == 4 and job.attempt == 1:
                failing()
            seen.append(row)
            rows.advance(row + 1)

    shop.attempt(work)
    shop.due()
    shop.attempt(work)

    assert seen == [*range(10)]


def test_a_cursor_comes_back_in_the_type_of_its_start(shop):
    start, places = datetime(2026, 1, 1, tzinfo=UTC), []

    def work(job):
        since = job.cursor("since", start)
        places.append(since.value)
        since.advance(since.value + timedelta(days=1))
        if job.attempt == 1:
            failing()

    shop.attempt(work)
    shop.due()
    shop.attempt(work)

    assert places == [start, start + timedelta(days=1)]


def test_a_stopping_process_hands_the_job_back_before_each_step_but_the_first(shop, monkeypatch, events):
    from fastq.jobs import job as jobs

    stopping = threading.Event()
    monkeypatch.setattr(jobs, "STOPPING", stopping)
    stopping.set()

    def work(job):
        job.step("first", shop.done, "first")
        job.step("second", shop.done, "second")

    job = shop.attempt(work)
    assert shop.calls == ["first"]
    assert job.outcome == Interrupted()
    assert (shop.row()["state"], shop.row()["attempt"]) == ("available", 0)
    assert [event.fields["before"] for event in events if event.name == "job.interrupted"] == ["step 'second' of job 1"]
    stopping.clear()
    shop.attempt(work)

    assert shop.calls == ["first", "second"]


def test_a_stopping_process_hands_a_loop_back_where_it_advances(shop, monkeypatch):
    from fastq.jobs import job as jobs

    stopping = threading.Event()
    monkeypatch.setattr(jobs, "STOPPING", stopping)

    def work(job):
        job.step("first", shop.done, "first")
        rows = job.cursor("rows", 0)
        for row in range(rows.value, 3):
            shop.calls.append(row)
            stopping.set()
            rows.advance(row + 1)

    for _ in range(3):
        shop.attempt(work)
        stopping.clear()
    shop.attempt(work)

    assert shop.calls == ["first", 0, 1, 2]


def test_a_sleep_parks_the_job_without_an_attempt_and_is_over_at_its_time(shop, events):
    def work(job):
        job.step("first", shop.done, "first")
        job.sleep(timedelta(hours=1))
        job.step("second", shop.done, "second")
        job.sleep(3600)
        job.step("third", shop.done, "third")

    shop.attempt(work)
    row = shop.row()
    assert (row["state"], row["attempt"], row["claim"]) == ("scheduled", 0, None)
    assert timedelta(minutes=59) < row["scheduled_at"] - datetime.now(UTC) <= timedelta(hours=1)

    shop.connection.execute(DUE)  # an operator has it run before its time
    shop.attempt(work)
    assert (shop.row()["state"], shop.calls) == ("scheduled", ["first"])

    shop.due()
    shop.attempt(work)
    assert shop.calls == ["first", "second"]
    shop.due()
    shop.attempt(work)

    assert shop.calls == ["first", "second", "third"]
    assert [name for sort, name, _ in shop.records() if sort == "sleep"] == ["after first", "after second"]
    assert [event.fields["seconds"] > 0 for event in events if event.name == "job.parked"] == [True] * 3


def test_a_sleep_up_to_a_time_ends_then(shop):
    when = datetime.now(UTC) + timedelta(days=2)
    shop.attempt(lambda job: job.sleep_until(when))

    assert abs(shop.row()["scheduled_at"] - when) < timedelta(minutes=1)
    with pytest.raises(StepError, match="expected a datetime with a time zone"):
        Job.of({}).sleep_until(datetime(2026, 1, 1))  # noqa: DTZ001 - that is refused


def test_a_signal_that_comes_before_the_wait_is_kept(shop, client):
    assert client.signal(shop.id, "approved", Receipt(1, Decimal(2)))
    given = []
    shop.attempt(lambda job: given.append(job.wait_for("approved", Receipt)))

    assert [(signal.came, signal.value) for signal in given] == [(True, Receipt(1, Decimal(2)))]
    assert archived(shop.connection, shop.id)["state"] == "completed"


@pytest.mark.parametrize("timeout", [None, 3600])
def test_a_wait_parks_the_job_and_its_signal_makes_it_due(shop, client, timeout):
    given = []

    def work(job):
        given.append(job.wait_for("approved", timeout=timeout).value)

    shop.attempt(work)
    row = shop.row()
    assert (row["state"], row["waits_for"]) == (("scheduled", None) if timeout else ("waiting", "signal:approved"))
    assert (row["attempt"], row["seq"]) == (0, None)

    assert client.signal(shop.id, "other")
    assert shop.row()["scheduled_at"] == row["scheduled_at"]
    assert client.signal(shop.id, "approved", {"by": "ada"})
    woken = shop.row()
    assert (woken["state"], woken["waits_for"]) == ("scheduled", None)
    assert woken["scheduled_at"] < datetime.now(UTC) + timedelta(seconds=1)
    shop.connection.execute(DUE)
    shop.attempt(work)

    assert given == [{"by": "ada"}]


def test_the_first_signal_of_a_name_stays(shop, client):
    assert client.signal(shop.id, "approved", 1)
    assert not client.signal(shop.id, "approved", 2)
    given = []
    shop.attempt(lambda job: given.append(job.wait_for("approved", int).value))

    assert given == [1]
    assert not client.signal(shop.id, "approved")  # it has ended
    assert not client.signal(4711, "approved")


def test_a_signal_that_comes_while_the_job_is_parking_is_not_lost(shop, client):
    """Between the look of the job and the completer's statement."""
    job = shop.claim()
    shop.call(job, lambda job: job.wait_for("approved"))
    assert isinstance(job.outcome, Parked)
    assert client.signal(shop.id, "approved", 1)
    shop.complete(job)

    assert shop.row()["scheduled_at"] < datetime.now(UTC) + timedelta(seconds=1)
    shop.connection.execute(DUE)
    given = []
    shop.attempt(lambda job: given.append(job.wait_for("approved").value))
    assert given == [1]


@pytest.mark.parametrize("first", ["signal", "park"])
def test_a_signal_and_a_parking_job_that_meet_at_the_row_lose_nothing_in_either_order(shop, database, first):
    """The one that comes second waits for the lock with a statement that began before the other had committed."""
    job = shop.claim()
    shop.call(job, lambda job: job.wait_for("approved"))
    settings = Settings(database, None, Config())
    sending = (settings.text("job_signal"), (job.id, "approved", "1", None))
    parks = (settings.text("job_park"), ([job.id], [job.batch.claim], [float("inf")], [job.outcome.fate.parks], None))
    holding, waiting = (sending, parks) if first == "signal" else (parks, sending)
    with psycopg.connect(database) as one, psycopg.connect(database, autocommit=True) as two:
        psycopg.RawCursor(one).execute(*holding)
        answers = []
        meeting = threading.Thread(target=lambda: answers.append(psycopg.RawCursor(two).execute(*waiting).fetchone()))
        meeting.start()
        wait_for(lambda: execute(database, "select 1 from pg_locks where not granted"), what="the second to wait for the row")
        one.commit()
        meeting.join()

    assert answers[0][0] == (1 if first == "signal" else "sent")
    row = shop.row()
    assert (row["state"], row["waits_for"]) == ("scheduled", None)
    assert row["scheduled_at"] < datetime.now(UTC) + timedelta(seconds=1)


def test_a_look_that_meets_a_signal_at_the_row_does_not_lose_it(shop, database):
    job = shop.claim()
    settings = Settings(database, None, Config())
    with psycopg.connect(database) as one:
        psycopg.RawCursor(one).execute(settings.text("job_signal"), (job.id, "approved", "1", None))
        looking = threading.Thread(target=lambda: shop.call(job, lambda job: job.wait_for("approved")))
        looking.start()
        wait_for(lambda: execute(database, "select 1 from pg_locks where not granted"), what="the look to wait for the row")
        one.commit()
        looking.join()
    shop.complete(job)

    assert shop.row()["scheduled_at"] is not None  # it has not seen the signal, and is due


def test_a_wait_that_is_over_stays_so_when_the_signal_comes_late(shop, client):
    came = []

    def work(job):
        signal = job.wait_for("approved", timeout=60)
        came.append(bool(signal))
        with pytest.raises(TimeoutError, match="no signal 'approved' came within the timeout"):
            _ = signal.value
        failing()

    shop.attempt(work)
    shop.due()
    shop.attempt(work)
    assert client.signal(shop.id, "approved")
    shop.due()
    shop.attempt(work)

    assert came == [False, False]


def test_a_signal_is_part_of_the_callers_transaction(shop, client, database):
    with psycopg.connect(database) as conn:
        assert client.signal(shop.id, "approved", 1, conn=conn)
        conn.rollback()
    assert shop.records() == []
    with psycopg.connect(database) as conn:
        job = client.enqueue(SteppedArgs(), conn=conn)
        assert client.signal(job, "approved", 1, conn=conn)

    assert [(step.sort, step.name, step.output) for step in client.steps(job)] == [("signal", "approved", 1)]


def test_a_client_in_an_event_loop_signals_and_shows_steps(shop, database):
    async def main():
        async with AsyncClient(database) as client:
            assert await client.signal(shop.id, "naïve ☃", "\u2603")
            return await client.steps(shop.id)

    [step] = asyncio.run(main())
    assert (step.sort, step.name, step.output) == ("signal", "naïve ☃", "☃")


@pytest.mark.parametrize(("name", "value"), [("", 1), ("a" * 201, 1), ("a", object()), ("a", "x" * 262_143)])
def test_a_signal_that_cannot_be_kept_is_refused(shop, client, name, value):
    with pytest.raises(OptionError, match="signal"):
        client.signal(shop.id, name, value)


@pytest.mark.parametrize("returned", [None, "done"])
def test_a_job_that_swallows_its_parking_fails_and_says_so(shop, returned):
    def work(job):
        try:
            job.sleep(60)
        except BaseException:  # noqa: BLE001 - the fault that is shown
            return returned

    job = shop.attempt(work)

    assert fate_of(job.outcome).charged
    assert (
        "sleep 'at the start' of job 1 has ended this run of the job by an exception, and work went on"
        in shop.row()["errors"][0]["error"]
    )


def test_a_job_that_swallows_its_parking_does_no_further_step(shop):
    def work(job):
        with suppress(BaseException):  # the fault that is shown
            job.sleep(60)
        job.step("charge", shop.done, "charge")

    shop.attempt(work)

    assert shop.calls == []
    assert shop.row()["state"] == "scheduled"


def test_a_job_that_parks_in_two_tasks_parks_by_the_first(shop):
    async def work(job):
        await asyncio.gather(job.wait_for("approved"), job.wait_for("paid"))

    shop.attempt(lambda job: asyncio.run(work(job)))

    row = shop.row()
    assert (row["state"], row["attempt"]) == ("waiting", 0)


def test_a_job_that_parks_in_a_task_group_parks(shop):
    async def waits(job):
        await job.wait_for("approved")

    async def work(job):
        async with asyncio.TaskGroup() as group:
            group.create_task(waits(job))
            group.create_task(asyncio.sleep(3600))

    shop.attempt(lambda job: asyncio.run(work(job)))

    assert shop.row()["state"] == "waiting"


def test_an_error_on_the_way_out_fails_the_attempt(shop):
    def work(job):
        try:
            job.sleep(60)
        finally:
            failing()

    shop.attempt(work)

    assert (shop.row()["state"], shop.row()["errors"][0]["error"]) == ("retryable", "RuntimeError: boom")


def test_a_parked_job_with_a_cancellation_asked_for_ends_cancelled(shop):
    job = shop.claim()
    shop.call(job, lambda job: job.wait_for("approved"))
    shop.connection.execute("update fastq.job set cancel_requested = true")
    shop.complete(job)

    assert archived(shop.connection, shop.id)["state"] == "cancelled"


def test_a_parked_job_gives_its_permit_back(shop):
    gates = '[["limit", "mail-api", 1, 1, 20]]'
    shop.connection.execute("""update fastq.job set meta = jsonb_build_object('gates', '[["limit", "mail-api", 1, 1, 20]]')""")
    shop.connection.execute("insert into fastq.gate_permit select id, queue, meta ->> 'gates' from fastq.job")
    shop.attempt(lambda job: job.wait_for("approved"))

    assert shop.connection.execute("select count(*) from fastq.gate_permit") == [(0,)]
    assert shop.connection.execute("select gates, jobs from fastq.gate_event") == [(gates, 1)]


def test_why_says_for_which_signal_a_job_waits(shop, client):
    shop.attempt(lambda job: job.wait_for("approved"))

    assert client.why(shop.id) == "job 1 waits for the signal 'approved', which client.signal sends"


def test_why_says_for_which_signal_a_job_waits_up_to_a_time_and_no_longer_when_it_is_asleep(shop, client):
    def work(job):
        job.wait_for("approved", timeout=3600)
        job.sleep(3600)

    shop.attempt(work)
    assert re.fullmatch(r"job 1 waits until .*, or for the signal 'approved', which client.signal sends", client.why(shop.id))
    client.signal(shop.id, "approved")
    shop.connection.execute(DUE)
    shop.attempt(work)

    assert client.why(shop.id).endswith("for its worker has snoozed it")


def test_a_job_that_an_operator_retries_goes_on_where_it_ended(shop, client):
    def work(job):
        job.step("charge", shop.done, "charge")
        if job.attempt == 1:
            failing()

    shop.connection.execute("update fastq.job set max_attempts = 1")
    shop.attempt(work)
    assert archived(shop.connection, shop.id)["state"] == "discarded"
    assert client.retry(shop.id)
    shop.attempt(work)

    assert shop.calls == ["charge"]
    assert archived(shop.connection, shop.id)["state"] == "completed"


def test_a_job_whose_records_are_gone_does_no_step_again(shop, client):
    def work(job):
        job.step("charge", shop.done, "charge")
        if job.attempt == 1:
            failing()

    shop.connection.execute("update fastq.job set max_attempts = 1")
    shop.attempt(work)
    shop.connection.execute("delete from fastq.job_step")
    assert client.retry(shop.id)
    shop.attempt(work)

    assert shop.calls == ["charge"]
    told = archived(shop.connection, shop.id)["errors"][-1]["error"]
    assert "the records of its steps are gone" in told
    assert "it had ended, longer ago than finished jobs are kept" in told


def walk(shop, **settings):
    """Have the leader walk through the records once."""
    shop.connection.execute("delete from fastq.lease")
    site = site_on(shop.url, name="schema", **settings)
    run_out(Forget(), site)
    site.connection.close()


LONG_AGO = "update fastq.job_step set at = clock_timestamp() - make_interval(days => 100)"
GONE = "update fastq.job_step set gone_at = clock_timestamp() - make_interval(secs => $1) where gone_at is not null"
KEPT = 8 * DAY  # FASTQ_ARCHIVE_DAYS, and the day that is dropped last


def test_records_are_forgotten_when_the_archive_has_dropped_the_job_unless_it_lives_or_is_a_dead_letter(shop, connection, client):
    ids = [shop.id, *add(connection, 2, kind="stepped")]
    for job_id in ids:
        client.signal(job_id, "a")
        client.signal(job_id, "b")
    connection.execute(LONG_AGO)
    client.cancel(ids[1])
    connection.execute("delete from fastq.job where id = $1", ids[2])
    connection.execute(
        "insert into fastq.dead (id, finalized_at, priority, max_attempts, queue, kind, cause, args, error) "
        "values ($1, now(), 1, 1, 'default', 'stepped', 'failed', '{}', '')",
        ids[2],
    )

    walk(shop)
    assert connection.execute("select distinct job from fastq.job_step where gone_at is not null") == [(ids[1],)]
    connection.execute(GONE, KEPT - 60)
    walk(shop)
    assert connection.execute("select count(*) from fastq.job_step") == [(6,)]
    connection.execute(GONE, KEPT + 60)
    walk(shop)

    left = connection.execute("select job, name from fastq.job_step order by job, name")
    assert left == [(ids[0], "a"), (ids[0], "b"), (ids[2], "a"), (ids[2], "b")]


def test_a_rule_that_keeps_some_jobs_longer_keeps_the_records_as_long(shop, connection, client):
    client.signal(shop.id, "a")
    client.cancel(shop.id)
    walk(shop)
    connection.execute(GONE, KEPT + 60)
    walk(shop, keep="cancelled=30")

    assert len(shop.records()) == 1


def test_a_job_that_was_cancelled_after_a_long_wait_goes_on_where_it_was_when_it_is_retried(shop, connection, client):
    def work(job):
        job.step("charge", shop.done, "charge")
        if not connection.execute("select 1 from fastq.job_step where sort = 'signal'"):
            job.wait_for("approved")
        job.step("ship", shop.done, "ship")

    shop.attempt(work)
    connection.execute(LONG_AGO)
    assert client.cancel(shop.id)
    walk(shop)
    connection.execute(GONE, KEPT - 60)
    walk(shop)
    assert client.retry(shop.id)
    client.signal(shop.id, "approved")
    shop.attempt(work)

    assert shop.calls == ["charge", "ship"]
    assert archived(connection, shop.id)["state"] == "completed"


def test_records_of_a_job_that_lives_again_count_from_its_next_end_on(shop, connection, client):
    client.signal(shop.id, "a")
    client.cancel(shop.id)
    walk(shop)
    connection.execute(GONE, KEPT + 60)
    assert client.retry(shop.id)
    walk(shop)
    assert connection.execute("select gone_at from fastq.job_step") == [(None,)]
    client.cancel(shop.id)
    walk(shop)

    assert len(shop.records()) == 1


def test_the_records_of_a_job_go_all_at_once(shop, connection, client):
    """A part of them would have the job do steps again that are done."""
    client.signal(shop.id, "a")
    client.cancel(shop.id)
    walk(shop)
    connection.execute(GONE, KEPT + 60)
    client.retry(shop.id)
    client.signal(shop.id, "b")
    client.cancel(shop.id)  # all of that between two walks
    walk(shop)
    assert [name for _, name, _ in shop.records()] == ["a", "b"]
    connection.execute(GONE, KEPT + 60)
    walk(shop)

    assert shop.records() == []


@pytest.mark.parametrize(
    "park",
    [lambda job: job.wait_for("approved"), lambda job: job.wait_for("approved", timeout=7200), lambda job: job.sleep(7200)],
    ids=["wait", "wait with a timeout", "sleep"],
)
def test_a_parked_job_wakes_up_at_its_deadline_at_the_latest(shop, client, park):
    shop.connection.execute("""update fastq.job set meta = '{"deadline": "+3600.0"}'""")
    shop.attempt(park)

    row = shop.row()
    assert (row["state"], row["attempt"]) == ("scheduled", 0)
    assert timedelta(0) <= row["scheduled_at"] - row["created_at"] - timedelta(hours=1) < timedelta(minutes=1)


def test_a_job_that_is_parked_up_to_its_deadline_is_woken_by_its_signal(shop, client):
    shop.connection.execute("""update fastq.job set meta = '{"deadline": "+3600.0"}'""")
    shop.attempt(lambda job: job.wait_for("approved"))
    assert client.signal(shop.id, "approved", 7)
    assert shop.row()["scheduled_at"] < datetime.now(UTC) + timedelta(seconds=1)
    shop.connection.execute(DUE)
    given = []
    shop.attempt(lambda job: given.append(job.wait_for("approved").value))

    assert given == [7]


def test_a_job_that_parks_for_less_than_its_deadline_wakes_up_when_it_wants_to(shop):
    shop.connection.execute("""update fastq.job set meta = '{"deadline": "+3600.0", "keep_trying_for": "+60.0"}'""")
    shop.attempt(lambda job: job.sleep(600))

    assert shop.row()["scheduled_at"] - shop.row()["created_at"] < timedelta(minutes=11)


def test_a_job_that_parks_behind_its_deadline_is_due_at_once(shop):
    shop.connection.execute("""update fastq.job set meta = '{"deadline": "2001-01-01T00:00:00+00:00"}'""")
    shop.attempt(lambda job: job.wait_for("approved"))

    assert shop.row()["scheduled_at"] < datetime.now(UTC) + timedelta(seconds=1)


@pytest.mark.parametrize(
    "begin",
    [lambda job: job.step("charge", int), lambda job: job.wait_for("approved"), lambda job: job.sleep(60)],
    ids=["step", "wait", "sleep"],
)
@pytest.mark.parametrize("signalled", [False, True])
def test_a_job_that_has_begun_its_steps_expires_no_more(shop, client, begin, signalled):
    shop.connection.execute("""update fastq.job set meta = '{"expires": "+3600.0", "deadline": "+7200.0"}'""")
    if signalled:
        client.signal(shop.id, "another")
    assert shop.row()["meta"]["expires"] == "+3600.0"
    shop.call(shop.claim(), begin)

    meta = shop.row()["meta"]
    assert "expires" not in meta
    assert (meta["deadline"], meta["steps"]) == ("+7200.0", int(signalled))


def test_without_a_database_in_sight_a_step_fails_its_attempt_after_a_while(shop, monkeypatch):
    from fastq.work.steps import records

    monkeypatch.setattr(records, "PATIENCE", 0.2)
    job = shop.claim()
    shop.reaching = Reaching(Settings("postgresql://127.0.0.1:1/nowhere", None, Config()))

    error = shop.call(job, lambda job: job.step("charge", shop.done, "charge"))

    assert isinstance(error, (DatabaseUnavailable, psycopg.OperationalError))
