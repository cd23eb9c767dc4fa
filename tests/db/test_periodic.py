"""Periodic jobs in the database: each tick enqueued once, by its policy, while somebody declares it, whoever leads."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from fastq import Args, Backfill, Cron, Every, Hook, Job, Registry, Unique
from fastq.admin import periodic
from fastq.errors import FastqError, LeaseLost
from fastq.lead import definitions
from fastq.lead.chores import periodic as chore_module
from fastq.lead.chores.periodic import BATCH, IDLE, LOOK, Periodic
from fastq.postgres import db
from fastq.size import Aside
from tests.db.jobs import CHANNEL, claim, count
from tests.db.leases import chore_session, configured, run_out, site_on, take_over
from tests.helpers import wait_for

HOURLY, RARE, DAY = Cron("0 * * * *"), Cron("0 0 29 2 *"), timedelta(days=1)
LONG_AGO = "2020-01-01T00:00:00Z"


@dataclass
class ReportArgs(Args, kind="report"):
    name: str = "daily"


class Refusing(Hook):
    def enqueue(self, enqueuing):
        raise RuntimeError("asked")


@dataclass
class HookedArgs(Args, kind="hooked_tick", hooks=[Refusing()]):
    pass


@pytest.fixture
def site(database):
    """Give a leader of the default domain."""
    made = site_on(database)
    yield made
    made.connection.close()


def registry_of(**schedules):
    """Return a registry with these periodic jobs: a schedule, or a schedule and options."""
    registry = Registry()
    for name, given in schedules.items():
        schedule, options = given if isinstance(given, tuple) else (given, {})
        args = options.pop("args", ReportArgs(name))
        registry.periodic(name, schedule, args, **options)
    return registry


def declare(connection, registry, process=1, expires_in=60.0):
    """Make a process that declares a registry's definitions."""
    connection.execute(
        "insert into fastq.process (id, host, pid, supervisor, queues, expires_at, periodic) "
        "values ($1, 'h', 1, 'h:1:x', 'default', clock_timestamp() + make_interval(secs => $2), $3) "
        "on conflict (id) do update set expires_at = excluded.expires_at, periodic = excluded.periodic",
        process,
        expires_in,
        definitions.declared(registry),
    )


def define(connection, **schedules):
    """Define and declare."""
    registry = registry_of(**schedules)
    definitions.define(connection, registry)
    declare(connection, registry)
    return registry


def pending(connection, name, tick):
    """Put a schedule back to a tick that nobody was there for."""
    connection.execute("update fastq.periodic set next_tick = $2, defined_at = $3 where name = $1", name, tick, LONG_AGO)


def row(connection, name):
    return periodic.find_periodic(connection, name)


def ticks(connection, name):
    """Return the ticks of the jobs that were enqueued for a schedule, in the order of the jobs."""
    tags = connection.execute("select tags from fastq.job where tags @> array['periodic:' || $1] order by seq", name)
    return [Job.of(ReportArgs(), tags=each).tick for (each,) in tags]


def hours_ago(connection, hours):
    """Return the start of an hour, by the database's clock."""
    return connection.execute("select date_trunc('hour', clock_timestamp()) - make_interval(hours => $1)", hours)[0][0]


def the_hour_has_minutes_left(connection):
    """Wait if the next hour would begin while a test counts hours."""
    left = connection.execute("select extract(epoch from date_trunc('hour', now()) + interval '1 hour' - clock_timestamp())")[0][
        0
    ]
    if left < 10:
        time.sleep(float(left) + 0.1)


def test_a_definition_is_stored_whole(connection):
    define(
        connection,
        report=(
            Cron("0 9 * * mon-fri", "Europe/Berlin"),
            {"queue": "slow", "priority": 3, "max_attempts": 2, "tags": ["a", "b"]},
        ),
    )

    found = connection.execute(
        "select schedule, tz, missed, backfill, kind, args::text, queue, priority, max_attempts, tags, last_tick, error "
        "from fastq.periodic"
    )
    args = '{"name":"report"}'
    assert found == [("cron 0 9 * * mon-fri", "Europe/Berlin", "once", 0, "report", args, "slow", 3, 2, ["a", "b"], None, None)]
    assert row(connection, "report").next_tick.astimezone(UTC).minute == 0


@pytest.mark.lease("L52")
def test_what_has_not_changed_is_not_touched_however_often_programs_start(connection, events):
    registry = define(connection, report=(HOURLY, {"run_on_start": True}), sweep=Every(60))
    versions = "select name, xmin::text, xmax::text from fastq.periodic order by name"
    before = connection.execute(versions)

    assert definitions.define(connection, registry) == []
    assert connection.execute(versions) == before
    assert [event.name for event in events] == ["periodic.defined"] * 2


def test_a_changed_definition_keeps_the_pause_and_the_last_tick_and_begins_a_changed_schedule_anew(connection):
    define(connection, report=HOURLY)
    connection.execute("update fastq.periodic set paused_at = now(), last_tick = $1, next_tick = $1, error = 'x'", LONG_AGO)

    assert definitions.define(connection, registry_of(report=(HOURLY, {"args": ReportArgs("new")}))) == ["report"]
    assert row(connection, "report").next_tick.year == 2020, "the schedule is the same, so what is pending stays"
    assert definitions.define(connection, registry_of(report=Every(3600))) == ["report"]

    found = row(connection, "report")
    assert (found.state, found.last_tick.year, found.error, found.schedule) == ("paused", 2020, None, "every 3600")
    assert found.next_tick.year > 2020


def test_many_programs_may_define_at_the_same_moment(database):
    def start(number):
        session = chore_session(database, configured())
        for round_ in range(10):
            names = [f"job_{n}" for n in range(20)]
            if number % 2:
                names.reverse()
            definitions.define(
                session, registry_of(**{name: (HOURLY, {"priority": 1 + (round_ + number) % 4}) for name in names})
            )
        session.close()

    threads = [threading.Thread(target=start, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    session = chore_session(database, configured())
    assert count(session, "periodic") == 20
    session.close()


def test_a_tick_becomes_a_job_that_knows_it(connection, site):
    define(
        connection, report=(Every(1.5), {"tags": ["a"], "queue": "slow", "priority": 2, "max_attempts": 4, "missed": Backfill(2)})
    )
    pending(connection, "report", "2026-01-01T00:00:01.5Z")

    Periodic().run(site)

    assert site.changed == 2
    found = connection.execute("select kind, args::text, queue, priority, max_attempts, tags[1:2], state::text from fastq.job")
    assert found == [("report", '{"name":"report"}', "slow", 2, 4, ["a", "periodic:report"], "available")] * 2
    assert connection.execute("select tick, job_id from fastq.periodic_tick order by tick") == list(
        zip(ticks(connection, "report"), [job.id for job in claim(connection, queue="slow")], strict=True)
    )
    assert row(connection, "report").last_tick == ticks(connection, "report")[-1]


@pytest.mark.parametrize(
    ("missed", "late", "expected"),
    [("once", 0, [0]), ("once", 5, [0]), (Backfill(3), 5, [2, 1, 0]), (Backfill(9), 2, [2, 1, 0])],
)
@pytest.mark.lease("L52")
def test_missed_ticks_are_made_up_for_by_the_policy(connection, site, missed, late, expected):
    the_hour_has_minutes_left(connection)
    define(connection, report=(HOURLY, {"missed": missed}))
    pending(connection, "report", hours_ago(connection, late))

    run_out(Periodic(), site)

    assert ticks(connection, "report") == [hours_ago(connection, hours) for hours in expected]
    assert row(connection, "report").next_tick == hours_ago(connection, -1)


def test_skip_leaves_out_what_is_late_and_goes_on(connection, site, events):
    now = connection.run_one("clock_after", 0.0)[0].astimezone(UTC)
    past = now - timedelta(minutes=5)
    define(connection, late=(Cron(f"{past.minute} {past.hour} * * *"), {"missed": "skip"}), quick=(Every(1), {"missed": "skip"}))
    pending(connection, "late", past.replace(second=0, microsecond=0))
    pending(connection, "quick", past.replace(microsecond=0))

    Periodic().run(site)

    assert ticks(connection, "late") == []
    assert len(ticks(connection, "quick")) == 1
    assert row(connection, "late").next_tick > now + DAY / 2
    assert {event.fields["name"]: event.fields["enqueued"] for event in events if event.name == "periodic.missed"} == {
        "late": 0,
        "quick": 1,
    }


def test_run_on_start_runs_once_per_definition_and_not_per_start(connection, site):
    registry = define(connection, report=(RARE, {"run_on_start": True, "missed": "skip"}), other=RARE)

    run_out(Periodic(), site)
    definitions.define(connection, registry)
    run_out(Periodic(), site)
    assert (len(ticks(connection, "report")), len(ticks(connection, "other"))) == (1, 0)

    define(connection, report=(RARE, {"run_on_start": True, "missed": "skip", "priority": 2}))
    run_out(Periodic(), site)
    assert len(ticks(connection, "report")) == 2


@pytest.mark.parametrize("missed", ["skip", "once", Backfill(3)])
def test_the_run_at_the_start_is_made_up_for_when_the_leader_comes_late(connection, site, missed):
    define(connection, report=(RARE, {"run_on_start": True, "missed": missed}))
    started = connection.execute(
        "update fastq.periodic set next_tick = $1, defined_at = $1 returning next_tick", "2026-07-01T08:00Z"
    )[0][0]

    run_out(Periodic(), site)

    assert ticks(connection, "report") == [started]


@pytest.mark.lease("L52")
@pytest.mark.parametrize("run_on_start", [False, True])
@pytest.mark.parametrize(("missed", "expected"), [("once", [0]), (Backfill(3), [2, 1, 0]), (Backfill(9), [5, 4, 3, 2, 1, 0])])
def test_a_deployment_that_changes_the_args_loses_no_missed_tick(connection, site, missed, expected, run_on_start):
    the_hour_has_minutes_left(connection)
    options = {"missed": missed, "run_on_start": run_on_start}
    define(connection, report=(HOURLY, options))
    pending(connection, "report", hours_ago(connection, 5))  # everything was down

    define(connection, report=(HOURLY, {**options, "args": ReportArgs("new")}))
    run_out(Periodic(), site)

    assert ticks(connection, "report") == [hours_ago(connection, hours) for hours in expected]
    assert connection.execute("select distinct args->>'name' from fastq.job") == [("new",)]
    assert row(connection, "report").next_tick == hours_ago(connection, -1)


@pytest.mark.parametrize("overdue", ["the run at the first start", "a tick that is skipped"])
@pytest.mark.parametrize("missed", ["skip", "once", Backfill(3)])
def test_the_run_at_the_start_of_a_changed_definition_comes_whatever_was_overdue(connection, site, missed, overdue):
    options = {"missed": missed, "run_on_start": True}
    define(connection, report=(RARE, options))
    connection.execute("update fastq.periodic set next_tick = '2026-07-01T08:00Z', defined_at = '2026-07-01T08:00Z'")
    if overdue == "a tick that is skipped":
        pending(connection, "report", "2024-02-29T00:00Z")

    define(connection, report=(RARE, {**options, "priority": 2}))
    run_out(Periodic(), site)

    assert len(ticks(connection, "report")) == 1


@pytest.mark.lease("L52")
def test_a_schedule_ticks_while_a_living_process_declares_it(connection, site):
    registry = define(connection, report=Every(1))
    declare(connection, registry, expires_in=-1)
    pending(connection, "report", LONG_AGO)
    chore = Periodic()

    assert chore.run(site) == LOOK
    assert (ticks(connection, "report"), row(connection, "report").state) == ([], "undeclared")
    assert row(connection, "report").next_tick.year == 2020, (
        "nothing is dropped: its policy decides when somebody declares it again"
    )

    declare(connection, registry, process=2)
    chore.run(site)
    assert (len(ticks(connection, "report")), row(connection, "report").state) == (1, "on")


def test_a_definition_that_its_processes_are_about_to_declare_is_looked_for_soon(connection, site):
    definitions.define(connection, registry_of(report=(HOURLY, {"run_on_start": True})))

    assert Periodic().run(site) == pytest.approx(0.2)


@pytest.mark.lease("L52")
def test_definitions_that_differ_are_told_once_per_change(connection, site, events, monkeypatch):
    monkeypatch.setattr(chore_module, "COMPARE_INTERVAL", 0.0)
    define(connection, report=HOURLY)
    other = registry_of(report=(HOURLY, {"priority": 2}))
    declare(connection, other, process=2)
    chore = Periodic()

    for _ in range(3):
        chore.run(site)
    told = [event.fields for event in events if event.name == "periodic.differs"]
    assert told == [
        {
            "name": "report",
            "hashes": sorted([registry_of(report=HOURLY).periodics["report"].hash, other.periodics["report"].hash]),
        }
    ]
    assert row(connection, "report").definitions == 2

    declare(connection, registry_of(report=HOURLY), process=2)
    chore.run(site)
    declare(connection, other, process=2)
    chore.run(site)
    assert len([event for event in events if event.name == "periodic.differs"]) == 2


def test_a_definition_that_was_stored_by_a_program_that_is_gone_is_told(connection, site, events):
    declare(connection, registry_of(report=HOURLY))
    define(connection, report=(HOURLY, {"priority": 2}))
    declare(connection, registry_of(report=HOURLY))  # a new program was tried and taken back; the old ones went on meanwhile

    Periodic().run(site)

    [told] = [event.fields for event in events if event.name == "periodic.differs"]
    assert told["name"] == "report"
    assert len(told["hashes"]) == 2
    assert row(connection, "report").definitions == 1


@pytest.mark.lease("L20", "L33")
def test_a_stale_term_enqueues_nothing_notes_nothing_and_deletes_nothing(connection, site, monkeypatch):
    define(connection, report=Every(1))
    connection.execute("insert into fastq.periodic_tick values ('report', $1::timestamptz - interval '1 s', 1)", LONG_AGO)
    pending(connection, "report", LONG_AGO)
    take_over(connection, site.fence)

    with pytest.raises(LeaseLost):
        Periodic().run(site)
    hash_ = registry_of(report=Every(1)).periodics["report"].hash
    for statement, params in [("periodic_failed", ["report", hash_, "late"]), ("periodic_prune", [None, 0.0, 10])]:
        with pytest.raises(LeaseLost):
            site.write(statement, *params)

    assert (count(connection, "job"), count(connection, "periodic_tick")) == (0, 1)
    assert (row(connection, "report").next_tick.year, row(connection, "report").error) == (2020, None)


@pytest.mark.lease("L53", "L54")
def test_two_leaders_at_once_enqueue_each_tick_once(database, connection):
    names = [f"job_{n}" for n in range(5)]
    define(connection, **{name: (Every(1), {"missed": Backfill(1000)}) for name in names})
    begun = connection.execute("select date_trunc('second', clock_timestamp())")[0][0]
    for name in names:
        pending(connection, name, begun - timedelta(seconds=300))
    failures = []
    over = time.monotonic() + 3.0

    def work(name):
        site = site_on(database, name=name)
        chore = Periodic()
        try:
            while time.monotonic() < over:
                chore.run(site)
        except Exception as error:  # noqa: BLE001 - told below
            failures.append(error)
        site.connection.close()

    threads = [threading.Thread(target=work, args=(f"leader:{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    for name in names:
        got = sorted(ticks(connection, name))
        assert got[0] == begun - timedelta(seconds=300)
        assert got == [got[0] + timedelta(seconds=number) for number in range(len(got))], "none twice and none missing"
        assert len(got) >= 302
    assert count(connection, "periodic_tick") == count(connection, "job")
    assert connection.execute("select count(*) from fastq.periodic_tick t join fastq.job j on j.id = t.job_id") == [
        (count(connection, "job"),)
    ]


@pytest.mark.lease("L20", "L54")
def test_what_a_slow_leader_read_long_ago_comes_too_late(connection, site):
    registry = define(connection, report=Every(1))
    pending(connection, "report", LONG_AGO)
    hash_ = registry.periodics["report"].hash
    Periodic().run(site)
    connection.execute("delete from fastq.periodic_tick")  # as if it had been long ago
    before = row(connection, "report").next_tick, count(connection, "job")

    site.write("periodic_enqueue", ["report"], [hash_], [LONG_AGO], ["report"], [LONG_AGO], CHANNEL)

    assert (row(connection, "report").next_tick, count(connection, "job")) == before


@pytest.mark.lease("L54")
def test_a_tick_that_was_enqueued_is_not_enqueued_again_though_its_schedule_went_back(connection, site):
    registry = define(connection, report=Every(1))
    pending(connection, "report", LONG_AGO)
    given = (["report"], [registry.periodics["report"].hash], ["2026-01-01Z"], ["report"], [LONG_AGO], CHANNEL)
    assert site.write("periodic_enqueue", *given)[0] == 1
    pending(connection, "report", LONG_AGO)  # an older copy of the row was restored, say

    assert site.write("periodic_enqueue", *given)[0] == 0

    assert (count(connection, "job"), count(connection, "periodic_tick")) == (1, 1)


@pytest.mark.parametrize("change", ["paused_at = now()", "hash = 'other'"])
def test_a_schedule_that_was_paused_or_changed_meanwhile_is_left_alone(connection, site, change):
    registry = define(connection, report=Every(1))
    pending(connection, "report", LONG_AGO)
    connection.execute(f"update fastq.periodic set {change}")

    answer = site.write(
        "periodic_enqueue", ["report"], [registry.periodics["report"].hash], ["2026-01-01Z"], ["report"], [LONG_AGO], CHANNEL
    )

    assert answer == (0, [], 0)
    assert row(connection, "report").next_tick.year == 2020


def test_a_schedule_that_somebody_has_locked_comes_later_and_holds_up_nobody(connection, other, site):
    define(connection, locked=Every(1), free=Every(1))
    for name in ("locked", "free"):
        pending(connection, name, LONG_AGO)
    other.execute("begin")
    other.execute("select from fastq.periodic where name = 'locked' for update")
    chore = Periodic()

    chore.run(site)
    assert (len(ticks(connection, "free")), len(ticks(connection, "locked"))) == (1, 0)
    pending(connection, "free", "2100-01-01Z")
    assert chore.run(site) == chore_module.BLOCKED
    other.execute("rollback")
    chore.run(site)
    assert len(ticks(connection, "locked")) == 1


@pytest.mark.parametrize("refusal", ["raise exception 'not this queue'", "insert into public.audit values (new.id)"])
def test_a_tick_that_cannot_be_enqueued_is_kept_and_told_and_holds_up_nobody(connection, site, events, monkeypatch, refusal):
    define(connection, **{f"job_{n}": (RARE, {"queue": "bad" if n == 3 else "good"}) for n in range(8)})
    for number in range(8):
        pending(connection, f"job_{number}", LONG_AGO)
    connection.execute(f"create function refuse() returns trigger language plpgsql as $$ begin {refusal}; end $$")
    connection.execute(
        "create trigger refuse before insert on fastq.job for each row when (new.queue = 'bad') execute function refuse()"
    )
    chore = Periodic()

    run_out(chore, site, limit=20)

    assert [len(ticks(connection, f"job_{number}")) > 0 for number in range(8)] == [number != 3 for number in range(8)]
    assert row(connection, "job_3").error in ("not this queue", 'relation "public.audit" does not exist')
    assert row(connection, "job_3").next_tick.year == 2020
    assert [event.fields["name"] for event in events if event.name == "periodic.failed"] == ["job_3"]

    connection.execute("drop trigger refuse on fastq.job")
    chore.run(site)
    assert ticks(connection, "job_3") == [], "it is tried again after a while only"
    monkeypatch.setattr(chore, "_aside", Aside())
    chore.run(site)
    assert len(ticks(connection, "job_3")) == 1
    assert row(connection, "job_3").error is None


@pytest.mark.parametrize("trouble", ["a full disk", "a read-only server"])
def test_what_is_no_schedules_fault_is_blamed_on_none(connection, site, events, trouble):
    define(connection, **{f"job_{n}": RARE for n in range(4)})
    for number in range(4):
        pending(connection, f"job_{number}", LONG_AGO)
    if trouble == "a full disk":
        connection.execute(
            "create function fill() returns trigger language plpgsql as "
            "$$ begin raise exception 'no space left on device' using errcode = 'disk_full'; end $$"
        )
        connection.execute("create trigger fill before insert on fastq.job for each row execute function fill()")
    else:
        site.connection.execute("set default_transaction_read_only = on")
    chore = Periodic()

    with pytest.raises(db.Error, match=r"no space left on device|read-only transaction"):
        chore.run(site)

    assert [event.name for event in events if event.name == "periodic.failed"] == []
    assert [row(connection, f"job_{number}").error for number in range(4)] == [None] * 4

    connection.execute("drop trigger if exists fill on fastq.job")
    site.connection.execute("set default_transaction_read_only = off")
    chore.run(site)
    assert [len(ticks(connection, f"job_{number}")) for number in range(4)] == [1] * 4, "at once, all of them"


def test_a_zone_that_this_host_does_not_know_is_told_and_holds_up_nobody(connection, site):
    define(connection, here=Every(1), there=HOURLY)
    connection.execute("update fastq.periodic set tz = 'Mars/Olympus' where name = 'there'")
    for name in ("here", "there"):
        pending(connection, name, LONG_AGO)

    Periodic().run(site)

    assert len(ticks(connection, "here")) == 1
    assert "no IANA time zone has this name" in row(connection, "there").error


def test_a_batch_that_takes_too_long_shrinks_and_grows_again(database, connection, other):
    site = site_on(database, connection=chore_session(database, configured(statement_timeout=0.3)))
    define(connection, **{f"job_{n}": Every(1) for n in range(16)})
    for number in range(16):
        pending(connection, f"job_{number}", LONG_AGO)
    connection.execute(
        "create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.05); return new; end $$"
    )
    connection.execute("create trigger slow before insert on fastq.job for each row execute function slow()")
    chore = Periodic()

    while any(not ticks(connection, f"job_{number}") for number in range(16)):
        chore.run(site)
    shrunk = chore._size.now
    connection.execute("drop trigger slow on fastq.job")
    for _ in range(10):
        for number in range(16):
            pending(connection, f"job_{number}", LONG_AGO)
        chore.run(site)

    assert shrunk < BATCH
    assert chore._size.now == BATCH
    site.connection.close()


@pytest.mark.lease("L47")
@pytest.mark.parametrize(("queues", "expected"), [(["mine"], {"mine"}), ([], {"mine", "theirs"}), (None, {"mine", "theirs"})])
def test_a_named_domain_ticks_for_its_own_queues_only(connection, site, queues, expected):
    define(connection, mine=(Every(1), {"queue": "mine"}), theirs=(Every(1), {"queue": "theirs"}))
    for name in ("mine", "theirs"):
        pending(connection, name, LONG_AGO)
    site.queues = queues

    Periodic().run(site)

    assert {name for name in ("mine", "theirs") if ticks(connection, name)} == expected


def test_each_queue_is_woken_once(connection, other, site):
    define(
        connection,
        a=(Every(1), {"queue": "a"}),
        b=(Every(1), {"queue": "a"}),
        c=(Every(1), {"queue": "c", "missed": Backfill(5)}),
    )
    for name in "abc":
        pending(connection, name, LONG_AGO)
    other.listen(CHANNEL)

    Periodic().run(site)

    assert sorted(other.notifications(timeout=2.0)) == ["a", "c"]


def test_the_chore_says_when_the_next_tick_is_and_rests_when_there_is_none(connection, site):
    chore = Periodic()
    assert chore.run(site) == IDLE

    define(connection, report=HOURLY)
    pending(connection, "report", connection.run_one("clock_after", 1.0)[0])
    assert 0.5 < chore.run(site) <= 1.0
    pending(connection, "report", "2100-01-01Z")
    assert chore.run(site) == LOOK


def test_a_schedule_without_a_next_tick_gets_one(connection, site):
    the_hour_has_minutes_left(connection)
    define(connection, report=HOURLY)
    connection.execute("update fastq.periodic set next_tick = null")

    run_out(Periodic(), site)

    assert ticks(connection, "report") == []
    assert row(connection, "report").next_tick == hours_ago(connection, -1)


def test_old_ticks_are_deleted_and_what_is_pending_is_not(connection, site):
    define(connection, report=HOURLY, stuck=HOURLY)
    connection.execute(
        "insert into fastq.periodic_tick select name, clock_timestamp() - make_interval(hours => h), 1 "
        "from generate_series(0, 300) h, unnest(array['report', 'stuck']) name"
    )
    pending(connection, "stuck", connection.run_one("clock_after", -249.5 * 3600.0)[0])
    connection.execute("update fastq.process set expires_at = 'epoch'")  # so that nothing ticks

    assert Periodic().run(site) == LOOK

    left = "select name, count(*) from fastq.periodic_tick group by 1 order by 1"
    assert connection.execute(left) == [("report", 168), ("stuck", 250)]
    assert site.changed == 133 + 51


def test_many_old_ticks_are_deleted_batch_by_batch(connection, site, monkeypatch):
    monkeypatch.setattr(chore_module, "PRUNED", 100)
    define(connection, report=HOURLY)
    connection.execute(
        "insert into fastq.periodic_tick "
        "select 'report', clock_timestamp() - make_interval(days => d), 1 from generate_series(8, 257) d"
    )
    chore, left = Periodic(), []

    for _ in range(4):
        chore.run(site)
        left.append(count(connection, "periodic_tick"))
        chore._prune_at = min(chore._prune_at, time.monotonic() + 1.0) - 1.0

    assert left == [150, 50, 0, 0]


def test_a_clock_that_was_set_back_silences_no_schedule(connection, site, events):
    define(connection, report=RARE, sweep=RARE)
    tick = row(connection, "report").next_tick
    ahead = "update fastq.periodic set last_tick = $1, next_tick = $2 where name = 'report'"
    connection.execute(ahead, RARE.next_after(tick), RARE.next_after(RARE.next_after(tick)))  # as after years of another clock
    chore = Periodic()

    for _ in range(3):
        chore.run(site)

    assert row(connection, "report").next_tick == row(connection, "sweep").next_tick == tick
    assert [event.fields for event in events if event.name == "periodic.rewound"] == [{"names": ["report"]}]


def test_the_ticks_of_a_pause_are_dropped(connection, other, site):
    define(connection, report=(Every(1), {"missed": Backfill(100)}))
    other.listen(CHANNEL)
    assert periodic.pause_periodic(connection, "report") == periodic.pause_periodic(connection, "report")
    pending(connection, "report", LONG_AGO)

    Periodic().run(site)
    assert (ticks(connection, "report"), row(connection, "report").state) == ([], "paused")

    before = connection.run_one("clock_after", 0.0)[0]
    next_tick = periodic.resume_periodic(connection, "report")
    assert before < next_tick == row(connection, "report").next_tick
    assert periodic.resume_periodic(connection, "report") is None
    assert set(other.notifications(timeout=2.0)) == {"@periodic"}
    wait_for(lambda: connection.run_one("clock_after", 0.0)[0] > next_tick, what="the next tick")
    Periodic().run(site)
    assert ticks(connection, "report")[0] == next_tick


def test_a_periodic_job_is_run_by_hand_whatever_its_schedule(connection, other, site):
    define(connection, report=(HOURLY, {"queue": "slow", "tags": ["a"]}))
    periodic.pause_periodic(connection, "report")
    other.listen(CHANNEL)

    job_id = periodic.run_periodic(connection, "report")

    assert [(job.id, job.kind, job.args) for job in claim(connection, queue="slow")] == [(job_id, "report", '{"name":"report"}')]
    assert abs(ticks(connection, "report")[0] - datetime.now(UTC)) < timedelta(minutes=1)
    assert list(other.notifications(timeout=2.0)) == ["slow"]
    assert row(connection, "report").last_tick is None


def test_a_definition_is_deleted_when_its_last_process_has_ended_and_not_before(connection, site):
    define(connection, report=Every(1), other=Every(1))
    pending(connection, "report", LONG_AGO)
    Periodic().run(site)
    enqueued = len(ticks(connection, "report"))
    assert enqueued > 0

    with pytest.raises(FastqError, match=r"'report' is declared by a living process.* fastq periodic pause report stops"):
        periodic.delete_periodic(connection, "report")
    assert row(connection, "report").state == "on"
    connection.execute("update fastq.process set expires_at = 'epoch'")

    assert periodic.delete_periodic(connection, "report") == enqueued
    assert [each.name for each in periodic.list_periodic(connection)] == ["other"]
    assert count(connection, "periodic_tick where name = 'report'") == 0


@pytest.mark.parametrize("act", [getattr(periodic, f"{name}_periodic") for name in ("pause", "resume", "run", "delete")])
def test_a_name_that_is_not_there_is_told(connection, act):
    with pytest.raises(FastqError, match="there is no periodic job 'nothing'; fastq periodic list"):
        act(connection, "nothing")


def test_one_that_is_deleted_while_somebody_pauses_it_is_told_as_not_there(connection, other):
    define(connection, report=HOURLY)
    other.execute("begin")
    other.execute("delete from fastq.periodic")
    waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"

    with ThreadPoolExecutor(1) as threads:
        paused = threads.submit(periodic.pause_periodic, connection, "report")
        try:
            wait_for(lambda: other.execute(waits) == [(1,)], 30, "the pause to wait")
        finally:
            other.execute("commit")
        with pytest.raises(FastqError, match="there is no periodic job 'report'"):
            paused.result()


def test_the_list_tells_all(connection, site):
    define(connection, b=Every(30), a=(Cron("0 9 * * *", "Asia/Tokyo"), {"missed": Backfill(2)}))

    rows = periodic.list_periodic(connection)

    assert [(each.name, each.schedule, each.tz, each.kind, each.missed, each.backfill, each.state) for each in rows] == [
        ("a", "cron 0 9 * * *", "Asia/Tokyo", "report", "backfill", 2, "on"),
        ("b", "every 30", "UTC", "report", "once", 0, "on"),
    ]


@dataclass
class OneReportArgs(Args, kind="one_report", unique=Unique()):
    name: str = "daily"


def test_a_tick_makes_no_job_while_another_one_holds_its_key(site, connection):
    """So a unique kind never has two runs at once, however long one takes: the ticks in between are noted with its id."""
    define(connection, report=(Every(3600), {"args": OneReportArgs(), "missed": Backfill(3)}))
    pending(connection, "report", "2026-01-01T00:00:00Z")
    assert run_out(Periodic(), site) == 1
    pending(connection, "report", "2026-01-01T00:01:00Z")
    connection.execute("delete from fastq.periodic_tick")
    assert run_out(Periodic(), site) == 0
    [[first]] = connection.execute("select id from fastq.job")
    assert connection.execute("select job_id, count(*) from fastq.periodic_tick group by 1") == [(first, 3)]

    connection.run("job_complete", [job.id for job in claim(connection, 77)], [77])
    pending(connection, "report", "2026-01-01T00:02:00Z")
    connection.execute("delete from fastq.periodic_tick")
    assert run_out(Periodic(), site) == 1
    assert periodic.run_periodic(connection, "report") > first  # by hand: it takes no key
    assert count(connection, "job") == 2


def test_neither_a_definition_nor_its_ticks_pass_the_hooks_of_their_kind(site, connection):
    registry = registry_of(hooked=(Every(3600), {"args": HookedArgs(), "run_on_start": True, "tags": ["tenant:acme"]}))
    definitions.define(connection, registry)
    declare(connection, registry)

    run_out(Periodic(), site)

    [(tags, meta)] = connection.execute("select tags, meta from fastq.job")
    assert "tenant:acme" in tags
    assert meta is None


def test_the_history_of_a_tick_has_the_end_of_its_job_whenever_that_was(connection):
    ends = {"at once": timedelta(seconds=5), "a week later": timedelta(days=7), "by another clock": timedelta(seconds=-5)}
    first = datetime.now(UTC) - timedelta(days=20)
    for number, (name, after) in enumerate(ends.items()):
        tick = first + timedelta(hours=number)
        connection.execute("insert into fastq.periodic_tick values ('daily', $1::timestamptz, $2::bigint)", tick, 100 + number)
        connection.execute(
            "insert into fastq.job_archive (id, created_at, finalized_at, state, priority, attempt, max_attempts, crashes, "
            "queue, kind, args, errors)"
            " values ($1, now(), $2::timestamptz, 'completed', 1, 1, 1, 0, 'default', $3, '{}', null)",
            100 + number,
            tick + after,
            name,
        )
    connection.execute("insert into fastq.periodic_tick values ('daily', $1::timestamptz, 99)", first - timedelta(hours=1))
    connection.execute("set enable_bitmapscan = on")

    told = {row.job: row.finalized_at and row.finalized_at - row.tick for row in periodic.list_ticks(connection, "daily")}

    assert told == {**dict(zip((100, 101, 102), ends.values(), strict=True)), 99: None}
