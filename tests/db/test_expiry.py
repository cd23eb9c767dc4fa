"""Moments of jobs in the database: from each way to enqueue, through a claim, to an end in time or too late, and back."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from fastq import Args, AsyncClient, Client, Enqueue, Every, Hook, Job, Limit, Registry, Unique, Worker, Workflow, events
from fastq.admin import periodic
from fastq.args.meta import DEADLINE, EXPIRES, TIMES
from fastq.cli import main as command
from fastq.config import Config
from fastq.jobs.outcome import Failed, failed
from fastq.lead import definitions
from fastq.postgres import db
from fastq.work.codec import codec
from fastq.work.codec.claimed import Claimed
from fastq.work.complete.writer import Writer
from fastq.work.shared import in_time
from fastq.work.shared.in_time import Late
from tests.db.jobs import CHANNEL, END, ERROR, NO_BOUND, START, archived, claim_number, living

MINE = claim_number(1, 1)
PAST = datetime(2026, 1, 1, tzinfo=UTC)
CANCELLED = ["cancelled"], [None], ["expired"], [False]


@dataclass
class SmsArgs(Args, kind="sms"):
    to: str = ""


@dataclass
class CallArgs(Args, kind="call"):
    pass


registry = Registry()
worked = []


@registry.register
class SmsWorker(Worker[SmsArgs]):
    timeout = 30.0

    def work(self, job):
        worked.append(job.id)
        return "done"


@registry.register
class CallWorker(Worker[CallArgs]):
    timeout = None

    async def work(self, job):
        worked.append(job.id)
        return "done"


@pytest.fixture
def client(database, monkeypatch):
    worked.clear()
    monkeypatch.setenv("FASTQ_DATABASE_URL", database)
    with Client(database) as opened:
        yield opened


def claimed(connection, workers=registry.workers):
    """Claim all available jobs as a worker process does; return them in their order."""
    from fastq.work.codec.codec import encode_ids

    blobs = [number.to_bytes(8, "big") for number in (MINE, *START, 100, *[END] * 4, *NO_BOUND)]
    row = connection.run_blobs("job_claim", [blobs[0], b"default", *blobs[1:], encode_ids([])])[1]
    return codec.decode(Claimed("default", MINE, row), workers).good


def work(job):
    """Have an attempt begin as an executor does, and return what comes of it."""
    value = job.batch.work(job)
    return asyncio.run(value) if asyncio.iscoroutine(value) else value


def test_each_way_to_enqueue_carries_the_moment(connection, client, database):
    async def enqueue():
        async with AsyncClient(database) as other:
            return await other.enqueue(SmsArgs(), expires=60)

    ids = [client.enqueue(SmsArgs(), expires=60), *client.enqueue_many([Enqueue(SmsArgs(), expires=60)]), asyncio.run(enqueue())]
    assert client.enqueue_copy([SmsArgs()], expires=60) == 1
    assert command(["enqueue", "sms", "{}", "--expires", "1m"]) == 0

    assert connection.execute("select meta ->> 'expires', count(*) from fastq.job group by 1") == [("+60.0", 5)]
    for job_id in ids:
        detail = client.get(job_id)
        assert detail.expires == detail.created_at + timedelta(minutes=1)


def test_a_copy_counts_from_when_its_jobs_are_due(connection, client):
    client.enqueue_copy([SmsArgs()], expires=60, delay=30)
    [(meta, due)] = connection.execute("select meta ->> 'expires', scheduled_at from fastq.job")

    assert datetime.fromisoformat(meta) == due + timedelta(minutes=1)


def test_a_claim_gives_jobs_with_the_same_rules_one_batch_and_those_with_a_deadline_one_each(connection, client):
    options = [{}, {"expires": 60}, {"deadline": 60}, {}, {"expires": 60}, {"deadline": 60}, {"keep_trying_for": 60}]
    client.enqueue_many(Enqueue(SmsArgs(), **each) for each in options)

    jobs = claimed(connection)

    places = {id(job.batch): [] for job in jobs}
    for number, job in enumerate(jobs):
        places[id(job.batch)].append(number)
    assert sorted(places.values()) == [[0, 3], [1, 4], [2], [5], [6]]
    timed = [getattr(getattr(job.batch.work, "func", None), "__module__", "") == in_time.__name__ for job in jobs]
    assert timed == [False, True, True, False, True, True, False]
    assert jobs[0].batch.around == ()


def test_a_claim_of_jobs_without_meta_tells_no_time_and_asks_for_no_rule(connection, client, monkeypatch):
    client.enqueue_many([SmsArgs()] * 3, tags=["t"])
    monkeypatch.setattr(codec, "_tied", lambda _: {})

    [batch] = {job.batch for job in claimed(connection)}

    assert batch.around == ()


@pytest.mark.parametrize("args", [SmsArgs(), CallArgs()], ids=["thread", "loop"])
@pytest.mark.parametrize(("name", "cause"), [("expires", "expired"), ("deadline", "deadline")])
def test_an_attempt_begins_up_to_its_moment_by_the_clock_of_the_database(connection, client, args, name, cause):
    past, soon = client.enqueue(args, **{name: PAST}), client.enqueue(args, **{name: 60})
    jobs = claimed(connection)

    assert [work(job) for job in jobs] == [Late(cause), "done"]
    assert worked == [soon]
    jobs[1].batch._claimed._ahead += 61  # the database's clock goes on; the clock of this machine has no say
    assert work(jobs[1]) == Late(cause)
    assert past not in worked


def test_the_time_that_is_left_is_the_timeout_if_it_is_the_shorter_one(connection, client):
    near, far, none = client.enqueue_many(
        [Enqueue(SmsArgs(), deadline=10), Enqueue(SmsArgs(), deadline=3600), Enqueue(CallArgs(), deadline=3600)]
    )
    jobs = {job.id: job for job in claimed(connection)}

    assert 0 < jobs[near].batch.timeout <= 10, "from the claim on, for the supervisor"
    jobs[near].batch._claimed._ahead += 5
    work(jobs[near])
    assert 0 < jobs[near].batch.timeout <= 5, "and exactly so when the attempt begins"
    assert jobs[far].batch.timeout == 30
    assert 3000 < jobs[none].batch.timeout <= 3600


def test_a_failure_is_the_last_where_the_next_attempt_would_come_too_late(connection, client):
    options = [{"deadline": 60}, {"keep_trying_for": 60}, {"expires": 60}, {"deadline": 60, "keep_trying_for": 60}]
    client.enqueue_many(Enqueue(SmsArgs(), **each) for each in options)
    jobs = claimed(connection)

    early = [failed(job, "boom") for job in jobs]
    for job in jobs:
        job.attempt = 4  # the next one comes in 256 seconds
    late = [failed(job, "boom") for job in jobs]

    assert [(result.delay is None, result.cause) for result in early] == [(False, None)] * 4
    assert [(result.delay is None, result.cause) for result in late[:2]] == [(True, "deadline"), (True, None)]
    assert late[2].delay is not None, "a job that expires is tried again, and does not start then"
    assert (late[3].delay, late[3].cause) == (None, "deadline")


def test_a_moment_that_another_version_wrote_fails_the_attempt_and_nothing_else(connection, client):
    job_id = client.enqueue(SmsArgs(), deadline=60)
    connection.execute("""update fastq.job set meta = '{"deadline": {"in": 60}}'""")
    [job] = claimed(connection)

    with pytest.raises(Exception, match="meta key 'deadline': expected"):
        work(job)
    assert failed(job, "boom").delay is not None
    assert job_id not in worked


@pytest.fixture
def complete(database):
    """Give a function that writes a batch as the completer's thread does, and returns the events of that."""

    def run(jobs):
        told = []
        writer = Writer(Config(), lambda: db.connect(database, role="completer"))
        unsubscribe = events.subscribe(told.append)
        writer.write(jobs)
        unsubscribe()
        writer.session.drop()
        return [str(event) for event in told]

    return run


def test_jobs_that_end_too_late_are_told_of_by_one_event_for_each_kind_and_cause(connection, client, complete):
    client.enqueue_many([SmsArgs()] * 40, expires=PAST)
    client.enqueue_many([CallArgs()] * 2, deadline=PAST)
    jobs = claimed(connection)
    for job in jobs:
        job.outcome = work(job)

    told = complete(jobs)

    assert told == [
        "jobs.expired queue=default kind=sms cause=expired count=40",
        "jobs.expired queue=default kind=call cause=deadline count=2",
    ]
    rows = connection.execute(
        "select kind, state::text, attempt, errors, meta ->> 'cause', count(*) from fastq.job_archive group by 1, 2, 3, 4, 5"
    )
    assert sorted(rows) == [("call", "cancelled", 0, None, "deadline", 2), ("sms", "cancelled", 0, None, "expired", 40)]


def test_a_job_that_is_discarded_at_its_deadline_has_its_attempt_and_its_error(connection, client, complete):
    job_id = client.enqueue(SmsArgs(), deadline=60)
    [job] = claimed(connection)
    job.outcome = Failed(ERROR, None, "deadline")

    assert complete([job]) == [f"job.discarded id={job_id} kind=sms attempt=1"]
    row = archived(connection, job_id)
    assert (row["state"], row["attempt"], row["meta"]["cause"]) == ("discarded", 1, "deadline")
    assert (row["errors"][0]["error"], row["errors"][0]["attempt"]) == ("boom", 1)


def test_only_rows_that_are_still_ours_end(connection, client):
    first, second = client.enqueue_many([SmsArgs()] * 2, expires=PAST)
    claimed(connection)
    connection.run("job_release", [second], [MINE], CHANNEL)

    states, errors, causes, charged = (column * 2 for column in CANCELLED)
    answer = connection.run_one("job_finish_late", [first, second], [MINE] * 2, states, errors, causes, charged, CHANNEL)

    assert answer[0] == 1
    assert living(connection, second)["state"] == "available"


@pytest.mark.parametrize("way", ["client", "command"])
def test_a_job_that_an_operator_retries_has_no_moment_that_holds_it_up_any_more(connection, client, way):
    job_id = client.enqueue(SmsArgs(), expires=PAST, deadline=PAST, keep_trying_for=60)
    claimed(connection)
    connection.run("job_finish_late", [job_id], [MINE], *CANCELLED, None)

    assert client.retry(job_id) if way == "client" else command(["jobs", "retry", str(job_id)]) == 0

    row = living(connection, job_id)
    assert (row["state"], row["attempt"], row["meta"]) == ("available", 0, {"keep_trying_for": "+60.0"})
    [job] = claimed(connection)
    assert work(job) == "done"


def test_a_unique_key_is_free_when_its_job_has_expired(connection, client):
    one = client.enqueue(SmsArgs("a"), expires=PAST, unique=Unique())
    assert client.enqueue(SmsArgs("a"), unique=Unique()) == one
    claimed(connection)
    connection.run("job_finish_late", [one], [MINE], *CANCELLED, None)

    assert client.enqueue(SmsArgs("a"), unique=Unique()).new


def test_a_step_and_a_gated_job_carry_their_moments(connection, client):
    flow = Workflow("flow")
    flow.add(Enqueue(SmsArgs(), expires=60))
    step = client.enqueue_workflow(flow).ids[0]

    @dataclass
    class GatedArgs(Args, kind="gated", gates=[Limit("api", at_most=1)], deadline=60):
        pass

    gated = client.enqueue(GatedArgs())

    assert client.get(step).expires
    assert client.get(gated).deadline
    assert {*living(connection, gated)["meta"]} == {"gates", "deadline"}
    assert {*living(connection, step)["meta"]} == {"workflow", "expires"}


def test_a_tick_expires_from_its_own_time(connection, client):
    scheduled = Registry()
    scheduled.periodic("often", Every(3600), SmsArgs(), expires=60)
    definitions.define(connection, scheduled)
    fence = ("leader:default", "me", 1)
    connection.execute("update fastq.lease set holder = $2, term = $3, expires_at = 'infinity' where name = $1", *fence)
    tick = datetime.now(UTC).replace(year=2099)
    connection.run("periodic_enqueue", *fence, ["often"], [scheduled.periodics["often"].hash], [tick], ["often"], [tick], CHANNEL)
    by_hand = periodic.run_periodic(connection, "often")

    [(job_id,)] = connection.execute("select id from fastq.job where id <> $1", by_hand)
    assert client.get(job_id).expires == tick + timedelta(minutes=1)
    jobs = {job.id: job for job in claimed(connection)}
    assert jobs[job_id].expires == tick + timedelta(minutes=1), "as the worker reads it"
    assert jobs[by_hand].expires is not None


def test_the_command_shows_the_moments_and_the_end(connection, client, capsys):
    job_id = client.enqueue(SmsArgs(), expires=datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC), deadline=PAST, keep_trying_for=60)
    assert command(["jobs", "show", str(job_id)]) == 0
    shown = capsys.readouterr().out
    assert "expires" in shown
    assert "2027-01-02 03:04:05" in shown
    assert "tried until" in shown
    claimed(connection)
    connection.run("job_finish_late", [job_id], [MINE], *CANCELLED, None)

    assert command(["jobs", "why", str(job_id)]) == 0
    assert "it had not started by the time at which it expired" in capsys.readouterr().out


def test_the_command_takes_spans_and_times(connection, client):
    words = ["enqueue", "sms", "{}"]
    assert command([*words, "--deadline", "2h", "--keep-trying-for", "1d", "--delay", "10"]) == 0
    assert command([*words, "--expires", "2027-01-02T03:04:05+01:00"]) == 0

    rows = connection.execute("select meta, max_attempts from fastq.job order by id")
    assert rows == [
        ({"deadline": "+7210.0", "keep_trying_for": "+86410.0"}, 32_767),
        ({"expires": "2027-01-02T02:04:05+00:00"}, 25),
    ]
    assert command([*words, "--keep-trying-for", "1d", "--max-attempts", "3"]) != 0
    assert (EXPIRES.name, DEADLINE.name) == TIMES[:2]
    assert Job.of(SmsArgs()).deadline is None


@pytest.mark.parametrize("worker", [SmsWorker, CallWorker], ids=["thread", "loop"])
def test_a_job_whose_turn_comes_too_late_passes_no_hook(connection, client, worker):
    seen = []

    class Noting(Hook):
        def around(self, job):
            seen.append(job.id)
            yield

    hooked = Registry(hooks=[Noting()])
    hooked.register(worker)
    args = SmsArgs() if worker is SmsWorker else CallArgs()
    _, soon = client.enqueue(args, expires=PAST), client.enqueue(args, expires=60)

    assert [work(job) for job in claimed(connection, hooked.workers)] == [Late("expired"), "done"]
    assert seen == worked == [soon]
