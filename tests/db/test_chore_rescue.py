"""Rescue: the jobs of hosts that are gone come back; those of the living, and what changed meanwhile, stay as they are."""

import threading
import time

import pytest

from fastq.errors import LeaseLost
from fastq.lead.rescue.rescue import ALL, NAP, Rescue
from fastq.lead.rescue.stranded import FEWEST_PAGES
from fastq.lead.term.chore import Site
from fastq.postgres import db
from tests.db.jobs import CHANNEL, ERROR, add, archived, claim, claim_number, count, living
from tests.db.leases import run_out, site_on, take_over
from tests.helpers import Stopwatch, wait_for

TTL = 15.0  # s; FASTQ_PROCESS_TTL's default
BEAT = 5.0  # s; FASTQ_BEAT_INTERVAL's
ENOUGH = BEAT + 0.5  # s that the database must have answered
EXPIRED, ALIVE, UNKNOWN, OURS = 3, 4, 5, 6  # numbers of processes


@pytest.fixture
def site(database):
    """Give a leader of the default domain."""
    made = site_on(database)
    yield made
    made.connection.close()


class Clock:
    """The server's clock and the time of its start as fastq's statements see them: the test puts them forward, nobody sleeps."""

    def __init__(self, *connections):
        self.connection = connections[0]
        self.connection.execute("create schema shadow")
        self.connection.execute(
            "create table shadow.ahead as select 0::float8 as clock_timestamp, 0::float8 as pg_postmaster_start_time"
        )
        for name in ("clock_timestamp", "pg_postmaster_start_time"):
            self.connection.execute(
                f"create function shadow.{name}() returns timestamptz volatile language sql as "
                f"'select pg_catalog.{name}() + make_interval(secs => ahead.{name}) from shadow.ahead'"
            )
        for connection in connections:
            connection.execute("set search_path = shadow, pg_catalog")

    def now(self):
        """Return the time in seconds."""
        return self.connection.execute("select extract(epoch from shadow.clock_timestamp())::float8")[0][0]

    def forward(self, seconds):
        """Let time pass, or jump."""
        self.connection.execute("update shadow.ahead set clock_timestamp = clock_timestamp + $1", float(seconds))

    def another_server(self):
        """Be a server that was started at another time."""
        self.connection.execute("update shadow.ahead set pg_postmaster_start_time = 1000")


@pytest.fixture
def clock(site, connection):
    return Clock(connection, site.connection)


def go_on(chore, site, clock, seconds, *living):
    """Let the leader work for so long by the server's clock, while these processes beat; return when jobs were changed."""
    began, passed, next_beat, changed_at = clock.now(), 0.0, BEAT, []
    while passed < seconds:
        before, pause = site.changed, chore.run(site)
        passed = clock.now() - began  # what the machine takes for it passes too
        changed_at += [passed] * (site.changed > before)
        clock.forward(max(0.0, min(pause, seconds - passed, next_beat - passed)) + 1e-4)
        passed = clock.now() - began
        if passed >= next_beat:
            next_beat += BEAT
            for process in living:
                beats(clock.connection, process)
    return changed_at


def beats(connection, process, ttl=TTL):
    connection.execute(
        "update fastq.process set expires_at = clock_timestamp() + make_interval(secs => $2) where id = $1", process, float(ttl)
    )


def know(connection, process, expires_in, domain="default", queues="default", supervisor="h:1:x"):
    connection.execute(
        "insert into fastq.process (id, host, pid, supervisor, queues, expires_at, domain) "
        "values ($1, 'h', 1, $5, $3, clock_timestamp() + make_interval(secs => $2), $4)",
        process,
        float(expires_in),
        queues,
        domain,
        supervisor,
    )


def running(connection, process, count=1, *, since=0.0, queue="default", **columns):
    """Add jobs that a process claimed so many seconds ago."""
    ids = add(connection, count, queue=queue, **columns)
    claim(connection, claim_number(process, 1), queue=queue, limit=count)
    connection.execute(
        "update fastq.job set attempted_at = clock_timestamp() - make_interval(secs => $1) where id = any ($2)", since, ids
    )
    return ids


def rescue(site):
    """Do all that is to be done; return how many jobs were changed."""
    return run_out(Rescue(all_in=0.0, heard=TTL), site)


def states(connection, ids):
    return [row["state"] if (row := living(connection, job_id)) else None for job_id in ids]


def test_rescue_gives_back_the_jobs_of_an_expired_process(site, connection, events):
    know(connection, EXPIRED, -1)
    (job_id,) = running(connection, EXPIRED, attempt=1)
    before = living(connection, job_id)

    assert rescue(site) == 1

    row = living(connection, job_id)
    assert (row["state"], row["claim"], row["attempt"], row["crashes"]) == ("available", None, 2, 0)
    assert row["seq"] > before["seq"]
    [error] = row["errors"]
    assert error["attempt"] == 2
    assert "is gone" in error["error"]
    [told] = [event.fields for event in events if event.name == "jobs.rescued"]
    assert told == {"processes": 1, "again": 1, "ended": 0}


def test_rescue_leaves_jobs_of_live_processes_alone(site, connection):
    know(connection, ALIVE, 10)
    know(connection, EXPIRED, -1)
    mine = running(connection, ALIVE, 2, since=10 * TTL)
    running(connection, EXPIRED, 2)
    before = [living(connection, job_id) for job_id in mine]

    assert rescue(site) == 2
    assert [living(connection, job_id) for job_id in mine] == before


def test_rescue_waits_for_a_process_that_is_not_known_yet(site, connection):
    young = running(connection, UNKNOWN, since=TTL / 2)
    old = running(connection, UNKNOWN, since=TTL * 2)

    assert rescue(site) == 1
    assert states(connection, young + old) == ["running", "available"]


def test_rescue_gives_back_a_running_job_that_no_claim_owns(site, connection):
    ids = add(connection, state="running", attempt=1)

    assert rescue(site) == 1
    assert states(connection, ids) == ["available"]


def test_rescue_ends_the_last_attempt_though_it_may_not_have_started_and_what_was_to_be_cancelled(site, connection, events):
    know(connection, EXPIRED, -1)
    (last,) = running(connection, EXPIRED, max_attempts=1)
    (unwanted,) = running(connection, EXPIRED, cancel_requested=True)

    assert rescue(site) == 2
    assert (archived(connection, last)["state"], archived(connection, last)["attempt"]) == ("discarded", 1)
    ended = {(event.name, event.fields["id"]) for event in events if event.name.startswith("job.")}
    assert ended == {("job.discarded", last), ("job.cancelled", unwanted)}
    assert archived(connection, unwanted)["state"] == "cancelled"
    assert "whether the job had started is not known" in archived(connection, last)["errors"][0]["error"]


@pytest.mark.parametrize("attempts", [1, 25])
def test_a_job_whose_cancellation_was_asked_for_ends_as_cancelled_on_its_last_attempt_too(site, connection, attempts):
    know(connection, EXPIRED, -1)
    (unwanted,) = running(connection, EXPIRED, max_attempts=attempts, cancel_requested=True)

    assert rescue(site) == 1
    assert archived(connection, unwanted)["state"] == "cancelled"


def test_rescue_leaves_waiting_jobs_alone(site, connection):
    know(connection, EXPIRED, -1)
    ids = add(connection) + add(connection, state="scheduled", seq=None, scheduled_at="2100-01-01")

    assert rescue(site) == 0
    assert states(connection, ids) == ["available", "scheduled"]


def test_each_queue_is_woken_once_in_a_batch(site, connection, other):
    know(connection, EXPIRED, -1)
    running(connection, EXPIRED, 3, queue="a")
    running(connection, EXPIRED, 3, queue="b")
    other.listen(CHANNEL)

    rescue(site)

    assert sorted(set(other.notifications(timeout=2.0))) == ["a", "b"]


def test_it_looks_when_the_next_process_runs_out_and_every_third_of_the_ttl_at_least(site, connection):
    chore = Rescue(all_in=0.0, heard=TTL)
    run_out(chore, site)
    assert chore.run(site) == pytest.approx(TTL / 3)
    know(connection, ALIVE, 3)

    assert 2.0 < chore.run(site) <= 3.1

    connection.execute("update fastq.process set expires_at = clock_timestamp()")
    ids = running(connection, ALIVE)
    assert run_out(chore, site) == 1
    assert states(connection, ids) == ["available"]


def test_the_jobs_of_a_lost_host_are_back_within_its_time_to_live_and_a_second(database, connection):
    site = site_on(database, process_ttl=1.0, beat_interval=0.2)
    chore = Rescue(all_in=0.0, heard=TTL)
    run_out(chore, site)
    know(connection, EXPIRED, 1.0)  # its last beat was just now
    ids, watch = running(connection, EXPIRED), Stopwatch()

    while states(connection, ids) == ["running"]:
        time.sleep(chore.run(site))

    assert watch.clock() >= 0.9
    assert watch.idle() < 1.9
    site.connection.close()


def test_an_expired_process_is_walked_for_once(site, connection):
    know(connection, EXPIRED, -1)
    chore = Rescue(all_in=0.0, heard=TTL)

    assert run_out(chore, site) == 0
    assert NAP < chore.run(site) <= TTL / 3 < ALL


def waits(events):
    return [event.fields["why"] for event in events if event.name == "rescue.waits"]


def test_in_ordinary_operation_a_lost_host_is_noticed_when_its_row_expires(site, connection, clock, events):
    know(connection, ALIVE, TTL)
    know(connection, OURS, TTL, supervisor=site.fence.holder)
    know(connection, EXPIRED, 60)
    chore = Rescue()
    assert go_on(chore, site, clock, 40, ALIVE, OURS) == []  # a term that lasts
    watch = Stopwatch()
    beats(connection, EXPIRED)
    kept, lost = running(connection, ALIVE), running(connection, EXPIRED)

    [at] = go_on(chore, site, clock, 60, ALIVE, OURS)

    assert TTL - watch.clock() <= at < TTL + 0.2 + watch.clock(), "the server's clock goes on by itself, too"
    assert states(connection, kept + lost) == ["running", "available"]
    assert waits(events) == []


def test_an_outage_that_outlasts_every_row_ends_no_living_process_and_a_gone_one_after_a_beat(site, connection, clock, events):
    know(connection, ALIVE, TTL)
    know(connection, EXPIRED, TTL)
    kept, last, lost = running(connection, ALIVE), running(connection, ALIVE, max_attempts=1), running(connection, EXPIRED)
    chore = Rescue()
    go_on(chore, site, clock, 10, ALIVE, EXPIRED)

    clock.forward(TTL + BEAT)  # nobody can look or beat; and so it is when the clock jumps
    watch = Stopwatch()
    [at] = go_on(chore, site, clock, 60, ALIVE)

    assert ENOUGH <= at < ENOUGH + 0.2 + watch.clock()  # what the machine takes passes, too
    assert states(connection, kept + last + lost) == ["running", "running", "available"]
    [why] = waits(events)
    assert why.startswith("by its clock the server did not answer for 2")


def test_a_new_leader_believes_no_silence_before_it_has_heard_the_database_for_a_beat(site, connection, clock, events):
    know(connection, ALIVE, -1)  # it was as long without the database as everybody, this leader included
    know(connection, OURS, TTL, supervisor=site.fence.holder)  # which was the first to come back
    know(connection, EXPIRED, -1)
    kept, lost = running(connection, ALIVE), running(connection, EXPIRED)
    unknown = running(connection, UNKNOWN, since=TTL * 2)  # its row may have been deleted meanwhile, and is made again

    watch = Stopwatch()
    [at] = go_on(Rescue(all_in=0.0), site, clock, 20, ALIVE, OURS)

    assert ENOUGH <= at < ENOUGH + 0.2 + watch.clock()  # what the machine takes passes, too
    assert states(connection, kept + lost + unknown) == ["running", "available", "available"]
    assert waits(events) == ["the term has just begun"]


def test_a_server_that_flickers_has_not_answered_meanwhile(site, connection, clock):
    know(connection, ALIVE, TTL)
    kept, chore = running(connection, ALIVE), Rescue()
    go_on(chore, site, clock, 10, ALIVE)
    clock.forward(TTL * 2)
    for _ in range(4):  # up for a look, away for less than half of the time to live
        assert 0 < chore.run(site) <= ENOUGH / 5
        clock.forward(TTL / 2 - 1)

    beats(connection, ALIVE)
    assert go_on(chore, site, clock, 30, ALIVE) == []
    assert states(connection, kept) == ["running"]


def test_a_standby_that_lost_the_last_beats_ends_no_living_process(site, connection, clock, events):
    know(connection, ALIVE, TTL)
    kept, chore = running(connection, ALIVE), Rescue()
    go_on(chore, site, clock, 20, ALIVE)

    clock.another_server()  # promoted at once
    beats(connection, ALIVE, -1)  # and far behind

    assert go_on(chore, site, clock, 30, ALIVE) == []
    assert states(connection, kept) == ["running"]
    assert waits(events) == ["the server has started anew, or is another one"]


def test_a_leader_whose_own_beats_do_not_arrive_judges_nobody(site, connection, clock, events):
    know(connection, OURS, TTL, supervisor=site.fence.holder)
    know(connection, ALIVE, TTL)
    kept, chore = running(connection, ALIVE), Rescue()
    go_on(chore, site, clock, 20, ALIVE, OURS)

    assert go_on(chore, site, clock, 60) == []  # it looks, and nobody can beat: the table is locked against writers
    beats(connection, OURS)
    assert go_on(chore, site, clock, 30, ALIVE, OURS) == []

    assert states(connection, kept) == ["running"]
    assert waits(events) == ["this supervisor's own beats do not arrive"]


def test_who_expires_during_a_walk_waits_for_the_next_look(site, connection, clock):
    know(connection, EXPIRED, -1)
    know(connection, ALIVE, TTL)
    lost, kept = running(connection, EXPIRED), running(connection, ALIVE)
    chore = Rescue(heard=TTL)
    chore.run(site)
    clock.forward(TTL * 2)  # the server was away

    assert run_out(chore, site) == 1
    assert states(connection, lost + kept) == ["available", "running"]


def test_a_long_walk_is_no_outage(site, connection, clock, events, monkeypatch):
    monkeypatch.setattr("fastq.lead.rescue.stranded.WINDOW", 1)
    know(connection, EXPIRED, -1)
    know(connection, ALIVE, TTL)
    add(connection, 20)
    running(connection, EXPIRED)
    chore = Rescue(heard=TTL)
    chore.run(site)
    while chore._walks.under_way:
        clock.forward(TTL / 3)
        chore._ask_at = 0.0  # so long did it take
        chore.run(site)

    chore.run(site)
    assert chore._walks.under_way, "a walk for the one that has expired meanwhile"
    assert waits(events) == []


def test_a_process_that_came_back_and_goes_again_is_walked_for_again(site, connection):
    know(connection, EXPIRED, -1)
    chore = Rescue(all_in=0.0, heard=TTL)
    run_out(chore, site)
    beat(connection, None)
    ids = running(connection, EXPIRED)
    assert run_out(chore, site) == 0

    connection.execute("update fastq.process set expires_at = clock_timestamp()")
    assert run_out(chore, site) == 1
    assert states(connection, ids) == ["available"]


@pytest.mark.parametrize("paged", [False, True], ids=["in the order of claims", "by pages"])
def test_a_walk_goes_through_windows_and_finds_every_job_in_every_queue_and_priority(site, connection, monkeypatch, paged):
    monkeypatch.setattr("fastq.lead.rescue.stranded.WINDOW", 7)
    monkeypatch.setattr("fastq.lead.rescue.stranded.PAGES", 1)
    monkeypatch.setattr("fastq.lead.rescue.rescue.BATCH", 3)
    know(connection, EXPIRED, -1)
    know(connection, ALIVE, 60)
    lost = []
    for queue in ("a", "b", "c"):
        for priority in (4, 1, 3):
            add(connection, 5, queue=queue, priority=priority)
            columns = {"queue": queue, "priority": priority, "state": "running", "attempt": 1}
            add(connection, 5, claim=claim_number(ALIVE, 1), **columns)
            lost += add(connection, 3, claim=claim_number(EXPIRED, 1), **columns)

    chore = Rescue(heard=TTL)
    chore._walks._paged_until = time.monotonic() + 60 if paged else 0.0
    assert run_out(chore, site) == len(lost) == 27
    assert set(states(connection, lost)) == {"available"}


@pytest.mark.lease("L47")
@pytest.mark.parametrize("paged", [False, True], ids=["in the order of claims", "by pages"])
@pytest.mark.parametrize("none", [None, []])
def test_a_named_domain_rescues_its_queues_and_a_list_of_none_means_all(database, connection, monkeypatch, none, paged):
    if paged:
        monkeypatch.setattr(
            "fastq.lead.rescue.stranded.Walks.begin", lambda walks: walks.__dict__.update(under_way=True, _page=0)
        )
    know(connection, EXPIRED, -1, domain="other", queues="mine,others")
    mine, others = running(connection, EXPIRED, queue="mine"), running(connection, EXPIRED, queue="others")
    site = site_on(database, queues=["mine", "empty"], leader_domain="billing")

    assert rescue(site) == 1
    assert states(connection, mine + others) == ["available", "running"]

    site.queues = none
    assert rescue(site) == 1
    assert states(connection, others) == ["available"]
    site.connection.close()


def test_a_named_domain_rescues_a_queue_whose_last_process_of_the_domain_has_expired(database, connection):
    know(connection, EXPIRED, -1, domain="billing", queues="invoices,gone")
    ids = running(connection, EXPIRED, queue="gone")
    site = site_on(database, queues=["invoices"], leader_domain="billing")

    assert rescue(site) == 1
    assert states(connection, ids) == ["available"]
    site.connection.close()


def test_a_job_that_is_being_completed_is_left_to_its_completion_and_looked_at_again_soon(site, connection, other):
    know(connection, EXPIRED, -1)
    kept, free = running(connection, EXPIRED, 2)
    other.execute("begin")
    other.run("job_complete", [kept], [claim_number(EXPIRED, 1)])
    chore = Rescue(all_in=0.0, heard=TTL)

    assert run_out(chore, site) == 1
    other.execute("rollback")
    assert states(connection, [kept, free]) == ["running", "available"]
    assert chore.run(site) < 2.1
    chore._all_at = 0.0
    assert run_out(chore, site) == 1


@pytest.mark.parametrize("lasts", [0.5, 10.0])
def test_the_late_completion_of_a_rescued_job_changes_nothing(site, connection, lasts):
    know(connection, EXPIRED, -lasts)
    (job_id,) = running(connection, EXPIRED)
    rescue(site)
    claim(connection, claim_number(ALIVE, 1))

    connection.run("job_complete_archive", [job_id], [claim_number(EXPIRED, 1)])

    assert living(connection, job_id)["claim"] == claim_number(ALIVE, 1)
    assert count(connection, "job_archive") == 0


def complete(connection, job_id):
    connection.run("job_complete_archive", [job_id], [claim_number(EXPIRED, 1)])


def rescue_and_claim(connection, job_id):
    connection.execute("update fastq.job set state = 'available', claim = null where id = $1", job_id)
    claim(connection, claim_number(ALIVE, 9))


def retry(connection, job_id):
    connection.execute(
        "update fastq.job set state = 'retryable', claim = null, seq = null, scheduled_at = clock_timestamp() where id = $1",
        job_id,
    )


def beat(connection, job_id):
    connection.execute("update fastq.process set expires_at = clock_timestamp() + interval '1 minute' where id = $1", EXPIRED)


MEANWHILE = [complete, rescue_and_claim, retry, beat]


@pytest.mark.parametrize("happens", MEANWHILE)
@pytest.mark.parametrize("attempts", [1, 25])
def test_what_happens_to_a_job_between_the_look_and_the_rescue_stands(site, connection, happens, attempts):
    know(connection, EXPIRED, -1)
    (job_id,) = running(connection, EXPIRED, max_attempts=attempts)
    chore = Rescue(all_in=0.0, heard=TTL)
    chore.run(site)
    chore._walk(site)
    assert [row[0] for row in chore._stranded] == [job_id]

    happens(connection, job_id)
    before = living(connection, job_id), archived(connection, job_id)
    run_out(chore, site)

    assert (living(connection, job_id), archived(connection, job_id)) == before


@pytest.mark.parametrize("happens", MEANWHILE[:3])
def test_what_happens_to_a_job_while_the_rescue_is_under_way_stands(site, connection, other, happens):
    know(connection, EXPIRED, -1)
    (job_id,) = running(connection, EXPIRED)
    other.execute("begin")
    other.execute("select from fastq.lease for update")  # the statement has its snapshot and waits for its fence
    answers = []
    thread = threading.Thread(target=lambda: answers.append(write(site, [job_id], [claim_number(EXPIRED, 1)], [1])))
    thread.start()
    wait_for(lambda: blocked(connection, site), what="the fence to wait")

    happens(connection, job_id)
    before = living(connection, job_id), archived(connection, job_id)
    other.execute("rollback")
    thread.join()

    assert answers == [(0, 0, 0, None)]
    assert (living(connection, job_id), archived(connection, job_id)) == before


@pytest.mark.lease("L20", "L33")
def test_a_leader_that_was_frozen_between_the_look_and_the_rescue_changes_nothing(site, connection):
    know(connection, EXPIRED, -1)
    ids = running(connection, EXPIRED, 3)
    chore = Rescue(all_in=0.0, heard=TTL)
    chore.run(site)
    chore._walk(site)
    take_over(connection, site.fence)

    with pytest.raises(LeaseLost):
        run_out(chore, site)
    assert set(states(connection, ids)) == {"running"}


def write(site: Site, ids, claims, attempts):
    return site.write("job_rescue", None, "default", ids, claims, attempts, CHANNEL, ERROR)


def blocked(connection, site):
    [(waiting,)] = connection.execute("select cardinality(pg_blocking_pids($1::int))", site.connection.backend_pid)
    return waiting


def test_a_row_that_a_trigger_refuses_is_set_aside_and_the_others_are_rescued(site, connection, events):
    know(connection, EXPIRED, -1)
    ids = running(connection, EXPIRED, 100)
    last = running(connection, EXPIRED, 3, max_attempts=1)
    connection.execute(
        "create function public.refuse() returns trigger language plpgsql as $$ "
        f"begin if old.id in ({ids[41]}, {last[1]}) then raise exception 'not this one'; end if; "
        "if tg_op = 'DELETE' then return old; end if; return new; end $$"
    )
    connection.execute("create trigger refuse before update or delete on fastq.job for each row execute function public.refuse()")
    chore = Rescue(all_in=0.0, heard=TTL)

    assert run_out(chore, site) == 101
    assert sorted(event.fields["id"] for event in events if event.name == "chore.row_skipped") == [ids[41], last[1]]
    running(connection, UNKNOWN, 1, since=TTL * 2, queue="other")
    chore._all_at = 0.0
    assert run_out(chore, site) == 1


def test_a_walk_that_takes_too_long_goes_on_by_pages_and_then_by_fewer(database, connection, other, events):
    site = site_on(database, statement_timeout=0.2)
    running(connection, UNKNOWN, 3, since=TTL * 2)
    chore = Rescue(all_in=0.0, heard=TTL)
    other.execute("begin")
    other.execute("lock table fastq.job in access exclusive mode")
    for _ in range(4):
        chore.run(site)
    other.execute("rollback")

    assert run_out(chore, site) == 3
    found = [(event.name, event.fields.get("size")) for event in events if event.name in ("rescue.detour", "chore.batch_shrunk")]
    assert found == [("rescue.detour", None), ("chore.batch_shrunk", 2_000), ("chore.batch_shrunk", 1_000)]
    running(connection, UNKNOWN, 2, since=TTL * 2, queue="other")
    chore._all_at = 0.0
    assert run_out(chore, site) == 2
    assert [event.name for event in events if event.name == "rescue.detour"] == ["rescue.detour"], "the next walk begins by pages"
    site.connection.close()


def test_a_walk_by_pages_that_cannot_be_shorter_fails(database, other):
    site = site_on(database, statement_timeout=0.1)
    chore = Rescue(all_in=0.0, heard=TTL)
    other.execute("begin")
    other.execute("lock table fastq.job in access exclusive mode")
    chore.run(site)
    chore._walks._page = 0
    chore._walks._pages.now = FEWEST_PAGES
    with pytest.raises(db.Error, match="statement timeout"):
        chore.run(site)
    other.execute("rollback")
    site.connection.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_backlog_of_a_million_is_walked_through_in_bounded_windows(site, connection):
    connection.execute("insert into fastq.job (kind, queue) select 'nap', 'q' || n % 3 from generate_series(1, 1000000) as n")
    connection.execute(
        "update fastq.job set state = 'running', attempt = 1, claim = $1, attempted_at = '2000-01-01' where id % 1000 = 0",
        claim_number(UNKNOWN, 1),
    )
    assert run_out(Rescue(all_in=0.0, heard=TTL), site) == 1_000
