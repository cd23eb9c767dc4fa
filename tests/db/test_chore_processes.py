"""What concerns no domain alone: rows of processes, queues, leases and items that say nothing any more."""

import threading
import time

import pytest

from fastq.lead.chores.forget import INTERVAL, TOLD, UNHELD, UNUSED, Forget
from fastq.lead.chores.processes import EXPIRED, Processes
from fastq.leases.lease import Fence, acquire, release, renew
from tests.db.jobs import add, session
from tests.db.leases import run_out, site_on


@pytest.fixture
def site(database):
    """Give a leader of the schema."""
    made = site_on(database, name="schema")
    yield made
    made.connection.close()


def know(connection, process, expires_in, queues="default", domain="default"):
    connection.execute(
        "insert into fastq.process (id, host, pid, supervisor, queues, expires_at, domain) "
        "values ($1, 'h', 1, 'h:1:x', $3, clock_timestamp() + make_interval(secs => $2), $4)",
        process,
        float(expires_in),
        queues,
        domain,
    )


def name_queue(connection, name, age=2 * UNUSED, paused=False):
    connection.execute(
        "insert into fastq.queue (name, created_at, paused_at) "
        "values ($1, now() - make_interval(secs => $2), case when $3 then now() end)",
        name,
        float(age),
        paused,
    )


def queues(connection):
    return [name for (name,) in connection.execute("select name from fastq.queue order by name")]


@pytest.mark.lease("L48")
def test_processes_that_expired_a_while_ago_are_deleted_whatever_their_domain(site, connection):
    know(connection, 1, 10)
    know(connection, 2, -EXPIRED / 2)
    know(connection, 3, -EXPIRED * 2)
    know(connection, 4, -EXPIRED * 2, domain="billing")

    assert run_out(Processes(), site) == 2
    assert connection.execute("select id from fastq.process order by id") == [(1,), (2,)]


def test_a_queue_is_forgotten_when_its_row_says_nothing(site, connection):
    name_queue(connection, "unused")
    name_queue(connection, "young", age=UNUSED / 2)
    name_queue(connection, "paused", paused=True)
    name_queue(connection, "worked")
    know(connection, 1, 10, queues="other,worked")
    name_queue(connection, "was_worked")
    know(connection, 2, -10, queues="was_worked")
    name_queue(connection, "ready")
    add(connection, queue="ready")
    name_queue(connection, "waiting")
    add(connection, queue="waiting", state="scheduled", seq=None, scheduled_at="2100-01-01")

    assert run_out(Forget(), site) == 2
    assert queues(connection) == ["paused", "ready", "waiting", "worked", "young"]


def test_a_paused_queue_is_never_resumed_or_forgotten(site, connection):
    name_queue(connection, "paused", age=1_000 * UNUSED, paused=True)
    before = connection.execute("select * from fastq.queue")

    run_out(Forget(), site)

    assert connection.execute("select * from fastq.queue") == before


def test_queues_are_forgotten_by_the_batch(site, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.forget.BATCH", 3)
    for number in range(7):
        name_queue(connection, f"unused{number}")
    chore = Forget()

    assert chore.run(site) > 0
    assert site.changed == 3
    run_out(chore, site)
    assert queues(connection) == []


def note(connection, count, days, name):
    connection.execute(
        "insert into fastq.once (name, item, at) select $1, 'i' || n, now() - make_interval(secs => 86400 * $2::float8) "
        "from generate_series(1, $3::int) as n",
        name,
        float(days),
        count,
    )


def test_items_of_the_guard_are_kept_for_their_days_and_deleted_by_windows(site, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.forget.WINDOW", 7)
    note(connection, 20, 31, "mail")
    note(connection, 20, 29, "paid")
    note(connection, 14, 31, "z")
    chore = Forget()

    assert run_out(chore, site) == 34
    assert connection.execute("select distinct name from fastq.once") == [("paid",)]
    assert chore.run(site) <= INTERVAL


def test_notes_of_progress_are_deleted_by_windows_an_hour_after_the_end_of_their_jobs(site, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.forget.WINDOW", 7)
    living, *_ = add(connection)
    connection.execute(
        "insert into fastq.job_progress (job, noted_at, fraction, attempt, text) "
        "select n, now() - make_interval(secs => case when n = 20 then $1 / 2 else $1 * 2 end), 0.5, 1, '' "
        "from generate_series(1, 30) as n",
        TOLD,
    )
    chore = Forget()

    assert run_out(chore, site) == 28
    assert connection.execute("select job from fastq.job_progress order by job") == [(living,), (20,)]
    assert chore.run(site) <= INTERVAL


def test_job_logs_are_kept_for_their_days_and_deleted_by_the_batch(site, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.forget.SHEETS", 7)
    connection.execute(
        "insert into fastq.job_log (job, claim, start_at, at, attempt, size, lines, ended, kind, text) "
        "select n, 1, 0, now() - make_interval(days => case when n <= 20 then 4 else 2 end), 1, 9, 1, true, 'nap', '' "
        "from generate_series(1, 30) as n"
    )
    chore = Forget()

    assert run_out(chore, site) == 20
    assert connection.execute("select min(job), count(*) from fastq.job_log") == [(21, 10)]
    assert chore.run(site) <= INTERVAL


# Leases

DAY = 86_400.0
LONG = 2 * UNHELD


def hold(connection, name, since, until, holder="somebody"):
    """Make a lease that was taken and runs out so many seconds ago; without a holder it was released then."""
    connection.execute(
        "insert into fastq.lease (name, holder, term, acquired_at, expires_at) "
        "select $1, $4, (extract(epoch from t - make_interval(secs => $2)) * 1e6)::bigint, t - make_interval(secs => $2), "
        "case when $4 = '' then '-infinity' else t - make_interval(secs => $3) end from clock_timestamp() as t",
        name,
        float(since),
        float(until),
        holder,
    )


def leases(connection):
    return [name for (name,) in connection.execute("select name from fastq.lease where name <> 'leader:default' order by name")]


@pytest.mark.lease("L48")
def test_leases_that_nobody_has_held_for_a_week_are_deleted_with_their_chores_notes(site, connection):
    for prefix in ("user", "singleton", "leader"):
        hold(connection, f"{prefix}:gone", LONG + DAY, LONG)
        hold(connection, f"{prefix}:lately", LONG + DAY, UNHELD - DAY)
        hold(connection, f"{prefix}:now", LONG + DAY, -60.0)
    hold(connection, "strange", LONG + DAY, LONG)
    for name in ("leader:gone", "leader:lately", "schema"):
        connection.run("chore_note", name, 1, ["prune"], [0.0], [0.1], [1], [0], [0], [None])

    assert run_out(Forget(), site) == 3

    left = [f"{prefix}:{how}" for prefix in ("leader", "singleton", "user") for how in ("lately", "now")]
    assert sorted(leases(connection)) == sorted([*left, "schema", "strange"])
    assert connection.execute("select lease from fastq.chore order by 1") == [("leader:lately",), ("schema",)]


def test_a_lease_that_was_held_for_weeks_and_released_now_stays_for_a_week(site, connection):
    hold(connection, "user:import", LONG, 0.0, holder="")

    assert run_out(Forget(), site) == 0
    earlier = "update fastq.lease set expires_at = expires_at - make_interval(secs => $1) where name = 'user:import'"
    connection.execute(earlier, UNHELD - 60.0)
    assert run_out(Forget(), site) == 0, "a minute is missing"
    connection.execute(earlier, 120.0)
    assert run_out(Forget(), site) == 1
    assert "user:import" not in leases(connection)


def test_a_lease_whose_term_is_not_behind_the_clock_stays(site, connection):
    hold(connection, "user:ahead", -3_600.0, LONG)  # the clock was set back since
    hold(connection, "user:close", UNHELD - 60.0, LONG)

    assert run_out(Forget(), site) == 0
    assert {"user:ahead", "user:close"} <= set(leases(connection))


def test_a_lease_that_somebody_has_locked_is_left_alone(site, connection, other):
    for name in ("user:taken", "user:written_under", "user:free"):
        hold(connection, name, LONG + DAY, LONG)
    other.execute("begin")
    term = acquire(other, "user:taken", "another", 600.0).term
    other.execute("select from fastq.lease where name = 'user:written_under' for key share")  # what a fenced statement does

    assert run_out(Forget(), site) == 1
    other.execute("commit")
    assert leases(connection) == ["schema", "user:taken", "user:written_under"]
    assert renew(connection, [Fence("user:taken", "another", term)], 600.0, 5.0) == {"user:taken": False}


def test_leases_are_looked_at_by_the_window(site, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.forget.LEASES", 3)
    for number in range(20):
        hold(connection, f"user:{number}", LONG + DAY, LONG if number % 3 else -60.0)
    note(connection, 2, 31, "z")

    assert run_out(Forget(), site) == 13 + 2
    assert leases(connection) == sorted(["schema", *(f"user:{number}" for number in range(0, 20, 3))])


@pytest.mark.lease("L01", "L05")
def test_while_leases_are_forgotten_nobody_loses_one_and_terms_grow(database, site, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.forget.UNHELD", 0.0)  # whatever is free goes
    enough, failures, got, forgotten = threading.Event(), [], [], 0
    give_up = time.monotonic() + 30.0

    def use(number):
        connection, last, names = session(database), {}, ("user:a", "user:b", f"user:{number}")
        while not enough.is_set():
            for name in names:
                fence = Fence(name, f"holder {number}", acquire(connection, name, f"holder {number}", 60.0).term)
                if fence.term is None:
                    continue
                got.append((name, fence.term))
                if name not in renew(connection, [fence], 60.0, 5.0) or fence.term <= last.get(name, 0):
                    failures.append((fence, last))
                last[name] = fence.term
                release(connection, fence)
        connection.close()

    threads = [threading.Thread(target=use, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    while min(len(got), forgotten) <= 100 and time.monotonic() < give_up:
        forgotten += run_out(Forget(), site)
    enough.set()
    for thread in threads:
        thread.join()

    assert failures == []
    assert len(got) == len(set(got)), "a term was given twice"
    assert min(len(got), forgotten) > 100
