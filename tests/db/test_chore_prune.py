"""Pruning and the archive's partitions: what is old by its own rule goes, row by row or with its day, and nothing else does."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from fastq.errors import LeaseLost
from fastq.lead.chores.partitions import INTERVAL, Partitions
from fastq.lead.chores.partitions import REST as REST_OF_PARTITIONS
from fastq.lead.chores.prune import LONGEST_STEP, NAP, REST, STEP, Prune
from fastq.leases.lease import acquire
from fastq.postgres import db
from fastq.schema.partitions import ensure_partitions, name_of, partitions
from tests.db.leases import run_out, site_on, take_over
from tests.db.test_plans import explain, nodes
from tests.helpers import wait_for

FINISH = """
insert into fastq.job_archive (id, created_at, finalized_at, state, priority, attempt, max_attempts, crashes, queue, kind, args)
select $1::bigint + n, now(), now() - make_interval(secs => 86400 * $2::float8) + n * interval '1 us', $3::fastq.state, 1, 1, 25,
    0, $4::text, 'nap', '{}'
from generate_series(1, $5::int) as n
"""


@pytest.fixture
def lead_with(database):
    """Give a function that makes a leader with these rules."""
    made = []

    def lead(keep, **options):
        made.append(site_on(database, keep=keep, **options))
        return made[-1]

    yield lead
    for site in made:
        site.connection.close()


def finish(connection, days, count=1, *, state="completed", queue="default", first=0):
    connection.execute(FINISH, first, float(days), state, queue, count)


def kept(connection):
    """Return how many jobs are kept of each queue and state."""
    rows = connection.execute("select queue, state::text, count(*) from fastq.job_archive group by 1, 2")
    return {(queue, state): count for queue, state, count in rows}


def make_day(connection, days_ago):
    day = datetime.now(UTC).date() - timedelta(days=days_ago)
    low, high = f"'{day} 00:00+00'", f"'{day + timedelta(days=1)} 00:00+00'"
    connection.execute(f"create table fastq.{name_of(day)} partition of fastq.job_archive for values from ({low}) to ({high})")
    return name_of(day)


@pytest.mark.parametrize("days_with_partitions", [(), (0, 1, 2, 3, 4)])
def test_what_is_old_by_its_own_rule_is_deleted(lead_with, connection, days_with_partitions):
    for number in days_with_partitions:
        make_day(connection, number)
    for queue in ("default", "emails"):
        for state in ("completed", "cancelled", "discarded"):
            for days in (0.01, 0.3, 0.7, 1.5, 3.5):
                finish(connection, days, 2, queue=queue, state=state)
    site = lead_with("completed=1,emails=0.5,emails:discarded=3,discarded=30")

    assert run_out(Prune(), site) == 2 * (2 + 3 + 3 + 1)
    assert kept(connection) == {
        ("default", "completed"): 6,
        ("default", "cancelled"): 10,
        ("default", "discarded"): 10,
        ("emails", "completed"): 4,
        ("emails", "cancelled"): 4,
        ("emails", "discarded"): 8,
    }


def test_what_no_rule_names_goes_after_the_general_days_though_its_day_is_kept_longer(lead_with, connection):
    finish(connection, 8.5, 3)
    finish(connection, 8.5, 3, state="discarded")
    finish(connection, 6.5, 3)

    assert run_out(Prune(), lead_with("discarded=30")) == 3
    assert kept(connection) == {("default", "completed"): 3, ("default", "discarded"): 3}


def test_without_rules_nothing_is_deleted_row_by_row(lead_with, connection):
    finish(connection, 300, 3)

    assert Prune().run(lead_with("")) == REST
    assert kept(connection) == {("default", "completed"): 3}


@pytest.mark.lease("L47")
@pytest.mark.parametrize("none", [None, []])
def test_a_named_domain_prunes_its_queues_and_a_list_of_none_means_all(lead_with, connection, none):
    for queue in ("mine", "others", "emails"):
        finish(connection, 2, 2, queue=queue)
    site = lead_with("completed=1,emails=0.5", queues=["mine", "empty"])

    assert run_out(Prune(), site) == 2
    assert kept(connection) == {("others", "completed"): 2, ("emails", "completed"): 2}

    site.queues = none
    assert run_out(Prune(), site) == 4


def test_a_queue_that_comes_to_the_domain_is_pruned_from_its_beginning(lead_with, connection):
    finish(connection, 2, 2, queue="new")
    site = lead_with("completed=1", queues=["mine"])
    chore = Prune()
    assert run_out(chore, site) == 0

    site.queues = ["mine", "new"]
    assert run_out(chore, site) == 2


def test_the_walk_goes_on_from_where_it_rested(lead_with, connection):
    site = lead_with("completed=1")
    chore = Prune()
    assert run_out(chore, site) == 0
    finish(connection, 3, 1)  # behind the walk: nothing looks there again on this day
    finish(connection, 1, 1, first=10)
    finish(connection, 0.999, 1, first=20)

    assert run_out(chore, site) == 1
    assert run_out(Prune(), site) == 1


def test_what_comes_back_to_days_that_the_walks_have_passed_is_pruned_by_the_same_term_a_day_later(lead_with, connection):
    site = lead_with("completed=1")
    chore = Prune()
    run_out(chore, site)
    finish(connection, 3, 5)
    assert run_out(chore, site) == 0

    chore._anew_at -= 86_400
    run_out(chore, site)
    assert run_out(chore, site) == 5


def test_a_run_is_bounded_and_a_crowded_window_is_cut_into_shorter_ones(lead_with, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.prune.LIMIT", 50)
    finish(connection, 2, 1_000)  # within a millisecond
    site = lead_with("completed=1")
    chore, most, before = Prune(), 0, 0
    while chore.run(site) == NAP:
        most, before = max(most, site.changed - before), site.changed

    assert most <= 50
    assert kept(connection) == {}


def test_many_jobs_of_one_moment_are_all_deleted(lead_with, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.prune.LIMIT", 50)
    connection.execute(FINISH.replace("+ n * interval '1 us'", ""), 0, 2.0, "completed", "default", 333)

    assert run_out(Prune(), lead_with("completed=1")) == 333


@pytest.mark.lease("L20", "L33")
def test_a_leader_that_was_frozen_between_the_look_and_the_deletion_deletes_nothing(lead_with, connection):
    finish(connection, 2, 5)
    site = lead_with("completed=1")
    chore = Prune()
    write = site.write

    def frozen(name, *params):
        take_over(connection, site.fence)
        return write(name, *params)

    site.write = frozen
    with pytest.raises(LeaseLost):
        run_out(chore, site)
    assert kept(connection) == {("default", "completed"): 5}


def test_what_came_to_a_place_after_the_look_is_not_deleted(lead_with, connection):
    finish(connection, 2, 1, first=1_000)
    site = lead_with("completed=1")
    [(place, low)] = connection.execute("select ctid::text, finalized_at from fastq.job_archive")
    high = low + timedelta(seconds=1)

    assert site.write("archive_prune", None, low, high, [1], [place]) == (0, 0), "another id"
    assert site.write("archive_prune", None, high, high + timedelta(hours=1), [1_001], [place]) == (0, 0), "another time"
    assert site.write("archive_prune", ["other"], low, high, [1_001], [place]) == (0, 0), "another queue"
    assert site.write("archive_prune", None, low, high, [1_001], [place]) == (1, 0)


def test_a_row_that_a_trigger_keeps_is_told_and_the_others_go(lead_with, connection, events):
    finish(connection, 2, 100)
    connection.execute(
        "create function public.keep() returns trigger language plpgsql as $$ "
        "begin if old.id = 42 then raise exception 'keep it'; end if; return old; end $$"
    )
    connection.execute("create trigger keep before delete on fastq.job_archive for each row execute function public.keep()")

    assert run_out(Prune(), lead_with("completed=1")) == 99
    assert [event.fields["id"] for event in events if event.name == "chore.row_skipped"] == [42]


def hold(connection, queue="legal"):
    """Let a trigger of the user's keep the jobs of a queue."""
    connection.execute(
        "create function public.hold() returns trigger language plpgsql as $$ "
        f"begin if old.queue = '{queue}' then raise exception 'legal hold'; end if; return old; end $$"
    )
    connection.execute("create trigger hold before delete on fastq.job_archive for each row execute function public.hold()")


@pytest.mark.parametrize("room", [20_000, 40])
def test_behind_a_window_full_of_jobs_that_cannot_be_deleted_the_others_go(lead_with, connection, monkeypatch, room):
    monkeypatch.setattr("fastq.lead.chores.prune.LIMIT", 50)
    monkeypatch.setattr("fastq.lead.term.batch.MAX_ASIDE", room)
    finish(connection, 2, 210, queue="legal")
    finish(connection, 2, 60, queue="emails", first=1_000)
    hold(connection)

    assert run_out(Prune(), lead_with("completed=1")) == 60
    assert kept(connection) == {("legal", "completed"): 210}


def test_more_jobs_that_cannot_be_deleted_than_can_be_set_aside_hold_up_no_other_day(lead_with, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.prune.LIMIT", 50)
    monkeypatch.setattr("fastq.lead.term.batch.MAX_ASIDE", 60)
    for day in (5, 4, 3):
        finish(connection, day, 45, queue="legal", first=100 * day)
    finish(connection, 2, 30, queue="emails")
    hold(connection)

    assert run_out(Prune(), lead_with("completed=1")) == 30


def test_a_walk_that_fails_does_not_keep_the_others_from_their_turn(lead_with, connection, monkeypatch):
    finish(connection, 2, 3, queue="a")
    finish(connection, 2, 3, queue="b")
    site = lead_with("a=1,b=1")
    chore = Prune()
    run_one = site.connection.run_one

    def failing(name, *params):
        if name == "archive_old" and params[5] == "a":
            return run_one("archive_old", *params[:4], "no number", *params[5:])
        return run_one(name, *params)

    monkeypatch.setattr(site.connection, "run_one", failing)
    for _ in range(40):
        with suppress(db.Error):
            chore.run(site)
    assert kept(connection) == {("a", "completed"): 3}


def test_a_window_that_takes_too_long_to_read_is_cut_and_grows_again(lead_with, connection, other):
    finish(connection, 2, 10)
    site = lead_with("completed=1", statement_timeout=0.1)
    chore = Prune()
    other.execute("begin")
    other.execute("lock table fastq.job_archive in access exclusive mode")
    for _ in range(3):
        chore.run(site)
    assert chore._walks[0]._step == STEP / 4**3
    other.execute("rollback")

    assert run_out(chore, site) == 10
    assert chore._walks[0]._step == LONGEST_STEP


def test_partitions_are_made_ahead_and_dropped_when_the_longest_rule_is_over(lead_with, connection, events):
    old, young = make_day(connection, 32), make_day(connection, 12)
    site = lead_with("discarded=30,completed=0.5")

    assert Partitions().run(site) == INTERVAL

    names = partitions(connection)
    assert old not in names
    assert young in names
    assert len(names) == 5
    assert [event.fields["partition"] for event in events if event.name == "archive.pruned"] == [old]


def test_what_the_default_partition_holds_goes_by_the_batch(lead_with, connection, monkeypatch):
    monkeypatch.setattr("fastq.lead.chores.partitions.BATCH", 2)
    finish(connection, 9, 5)
    finish(connection, 6, 3, first=10)
    site = lead_with("")
    chore = Partitions()

    assert [chore.run(site) for _ in range(3)] == [pytest.approx(0.005), pytest.approx(0.005), INTERVAL]
    assert kept(connection) == {("default", "completed"): 3}


@pytest.mark.lease("L33")
def test_partitions_are_neither_made_nor_dropped_by_a_stale_term(lead_with, connection):
    make_day(connection, 12)
    site = lead_with("")
    before = partitions(connection)
    take_over(connection, site.fence)

    with pytest.raises(LeaseLost):
        Partitions().run(site)
    assert partitions(connection) == before
    assert site.connection.execute("select 1") == [(1,)], "the transaction was rolled back"


@pytest.mark.lease("L32", "L33")
def test_nobody_takes_the_lease_while_a_partition_is_being_made(lead_with, connection, other):
    site = lead_with("")
    seen = []

    def hold():
        site.write("lease_hold")
        other.execute("set lock_timeout = '1ms'")
        other.execute("update fastq.lease set expires_at = clock_timestamp() - interval '1 s'")
        seen.append(other.run_one("lease_acquire", site.fence.name, "another", 10.0, None, None)[0])

    ensure_partitions(site.connection, days_ahead=0, hold=hold)

    assert seen == [None]
    assert other.run_one("lease_acquire", site.fence.name, "another", 10.0, None, None)[0] > site.fence.term


@pytest.mark.lease("L20", "L33")
def test_a_leader_that_freezes_in_a_transaction_loses_it_before_its_lease(lead_with, connection, monkeypatch):
    site = lead_with("", lease_ttl=1.0)
    backend, write = site.connection.backend_pid, site.write
    gone = "select not exists (select from pg_stat_activity where pid = $1::int)"

    def freeze(name, *params):
        answer = write(name, *params)
        if name != "lease_hold":
            return answer  # a transaction of its own
        wait_for(lambda: connection.execute(gone, backend)[0][0], 2.0, "the end of the frozen session")
        return answer

    monkeypatch.setattr(site, "write", freeze)
    with pytest.raises(db.Error):
        Partitions().run(site)

    assert partitions(connection) == []
    connection.execute("update fastq.lease set expires_at = clock_timestamp() - interval '1 ms'")
    assert acquire(connection, site.fence.name, "another", 10.0).term > site.fence.term


def test_old_days_go_and_the_default_partition_is_pruned_though_a_day_cannot_be_made(lead_with, connection):
    old = make_day(connection, 12)
    finish(connection, 9, 5)
    today = name_of(datetime.now(UTC).date())
    connection.execute(f"create table fastq.{today} (id bigint)")

    with pytest.raises(db.Error):
        Partitions().run(lead_with(""))

    names = partitions(connection)
    assert old not in names
    assert len(names) == 3, "the days ahead"
    assert kept(connection) == {}


def test_a_large_default_partition_comes_back_by_the_batch_run_after_run(lead_with, connection, monkeypatch):
    monkeypatch.setattr("fastq.schema.partitions.LARGE", 0)
    monkeypatch.setattr("fastq.schema.partitions.BLOCKS", 2)
    finish(connection, 0, 1_000, queue="a")
    finish(connection, 1, 1_000)

    assert run_out(Partitions(), lead_with("")) == 4
    assert kept(connection) == {("a", "completed"): 1_000, ("default", "completed"): 1_000}
    assert connection.execute("select count(*) from fastq.job_archive_default") == [(0,)]


def test_while_somebody_reads_the_archive_what_was_set_aside_waits_for_its_days(lead_with, connection, other, monkeypatch):
    monkeypatch.setattr("fastq.schema.partitions.LARGE", 0)
    monkeypatch.setattr("fastq.schema.partitions.LOCK_TIMEOUT", "20ms")
    monkeypatch.setattr("fastq.schema.partitions.BLOCKS", 2)
    for day in (2, 3, 4):
        finish(connection, day, 100, first=1_000 * day)
    site = lead_with("")
    ensure_partitions(site.connection)
    aside = "select count(*) from fastq.job_archive_rest"
    other.execute("begin")
    other.execute("lock table fastq.job_archive, fastq.job_archive_rest in access share mode")
    chore = Partitions()

    assert [chore.run(site) for _ in range(3)] == [REST_OF_PARTITIONS] * 3
    assert connection.execute(aside) == [(300,)]
    assert kept(connection) == {}

    other.execute("rollback")
    other.execute("begin")
    other.execute("lock table fastq.job_archive_rest in access share mode")
    for _ in range(2):
        run_out(chore, site)
        assert connection.execute(aside) == [(0,)]
    other.execute("rollback")
    assert chore.run(site) == INTERVAL
    assert connection.execute("select to_regclass('fastq.job_archive_rest') is null") == [(True,)]
    assert kept(connection) == {("default", "completed"): 300}
    assert connection.execute("select count(*) from fastq.job_archive_default") == [(0,)]


@pytest.mark.parametrize("refused", ["new.id = 105", "new.queue = 'legal'"])
def test_a_row_that_is_refused_on_its_way_back_keeps_no_other_from_its_day(lead_with, connection, events, monkeypatch, refused):
    monkeypatch.setattr("fastq.schema.partitions.LARGE", 0)
    finish(connection, 3, 1_000)
    finish(connection, 2, 100, queue="legal", first=2_000)
    site = lead_with("")
    ensure_partitions(site.connection)
    connection.execute(
        "create function public.refuse() returns trigger language plpgsql as $$ "
        f"begin if {refused} then raise exception 'not this one'; end if; return new; end $$"
    )
    connection.execute("create trigger refuse before insert on fastq.job_archive for each row execute function public.refuse()")
    chore = Partitions()
    run_out(chore, site)

    aside = connection.execute("select id from fastq.job_archive_rest order by id")
    assert aside == ([(105,)] if "id" in refused else [(2_000 + number,) for number in range(1, 101)])
    assert sum(kept(connection).values()) == 1_100 - len(aside)
    assert connection.execute("select count(*) from fastq.job_archive_default") == [(0,)]
    told = [event.fields["id"] for event in events if event.name == "chore.row_skipped"]
    assert told == [row for (row,) in aside[:10]]
    assert [event.fields["rows"] for event in events if event.name == "chore.rows_skipped"] == ([100] if len(aside) > 1 else [])

    assert [chore.run(site) for _ in range(2)] == [INTERVAL] * 2, "not at once again"
    connection.execute("drop trigger refuse on fastq.job_archive")
    chore._anew_at = 0.0
    run_out(chore, site)
    run_out(chore, site)
    assert sum(kept(connection).values()) == 1_100
    assert connection.execute("select to_regclass('fastq.job_archive_rest') is null") == [(True,)]


def test_what_is_refused_on_its_way_back_goes_when_its_day_would(lead_with, connection, monkeypatch):
    monkeypatch.setattr("fastq.schema.partitions.LARGE", 0)
    finish(connection, 3, 10)
    site = lead_with("")
    ensure_partitions(site.connection)
    connection.execute("alter table fastq.job_archive add check (id <> 5) not valid")
    chore = Partitions()
    run_out(chore, site)
    assert connection.execute("select id from fastq.job_archive_rest") == [(5,)]

    connection.execute("update fastq.job_archive_rest set finalized_at = now() - interval '9 days'")
    assert chore.run(site) == INTERVAL
    assert connection.execute("select to_regclass('fastq.job_archive_rest') is null") == [(True,)]


def test_pruning_the_default_partition_reads_its_block_ranges(lead_with, connection):
    finish(connection, 1, 50_000)
    connection.execute("select brin_summarize_new_values('fastq.job_archive_default_id_finalized_at_idx')")
    site = lead_with("")
    write, plans = site.write, []

    def explained(name, *params):
        if name == "archive_prune_default":
            plans.append(explain(site.connection, name, (*site.fence, *params))["Plan"])
        return write(name, *params)

    site.write = explained
    Partitions().run(site)

    (plan,) = plans
    assert "job_archive_default_id_finalized_at_idx" in {node.get("Index Name") for node in nodes(plan)}
    assert "Seq Scan" not in {node["Node Type"] for node in nodes(plan) if node.get("Relation Name") == "job_archive_default"}
