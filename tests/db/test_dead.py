"""Discarded jobs in groups, replayed and deleted: by statements, over a connection, and by both clients."""

import asyncio
import json
import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import psycopg
import pytest

from fastq import AsyncClient, Client, Unique, admin
from fastq.admin import dead, show_job
from fastq.admin.dead import letters
from fastq.errors import OptionError
from fastq.lead.chores.partitions import NAP, REST, Partitions
from fastq.lead.chores.prune import Prune
from fastq.lead.term.batch import ChoreSize
from fastq.schema.migrate import migrations
from fastq.schema.partitions import name_of, partitions
from tests.db.jobs import add, archived, claim, living
from tests.db.leases import run_out, site_on

PUT = """
insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts, crashes,
    queue, kind, args, tags, errors, meta)
select nextval('fastq.job_id_seq'), now(), now(), now() - make_interval(secs => $5::float8 + n), 'discarded', 2, 3, 3, 0,
    $4::text, $1::text, json_build_object('n', n), '{red}',
    jsonb_build_array(jsonb_build_object('error', replace($2::text, '#', n::text), 'trace', 'Traceback')),
    jsonb_build_object('cause', $3::text) || $7::jsonb
from generate_series(1, $6::int) as n
returning id
"""
LIST = """
insert into fastq.dead (id, finalized_at, priority, max_attempts, queue, kind, cause, args, tags, error, meta)
select id, finalized_at, priority, max_attempts, queue, kind, meta ->> 'cause', args, tags, errors -> -1 ->> 'error', meta
from fastq.job_archive where id = any ($1::bigint[])
"""


def put(connection, count=1, *, kind="mail", error="ValueError: no # here", cause="failed", queue="mails", ago=0.0, meta="{}"):
    """Put discarded jobs into the archive, the first of them the newest; return their ids."""
    meta = meta if isinstance(meta, str) else json.dumps(meta)
    ids = [job for (job,) in connection.execute(PUT, kind, error, cause, queue, ago, count, meta)]
    connection.execute(LIST, ids)
    return ids


def jobs(connection):
    """Return the living jobs, as rows."""
    return connection.execute(
        "select id, kind, queue, priority, max_attempts, attempt, state::text, args::text, tags, meta from fastq.job order by id"
    )


def test_jobs_that_failed_alike_are_one_group_with_numbers_and_a_sample(connection):
    ids = put(connection, 3)
    put(connection, 2, error="ValueError: other # words")
    put(connection, 1, cause="crashed", error="its process died")
    put(connection, 1, kind="sort")

    found = dead.list_dead(connection)

    assert [(group.kind, group.cause, group.error, group.shape, group.jobs) for group in found.groups[:2]] == [
        ("mail", "failed", "ValueError", "ValueError: no <n> here", 3),
        ("mail", "failed", "ValueError", "ValueError: other <n> words", 2),
    ]
    first = found.groups[0]
    assert (first.sample, first.ids, first.message) == (ids[0], ids, "ValueError: no 1 here")
    assert timedelta(seconds=1.9) < first.last - first.first < timedelta(seconds=2.1)
    assert {(group.kind, group.cause) for group in found.groups[2:]} == {("mail", "crashed"), ("sort", "failed")}
    assert (found.more, found.searched_to, found.older) == (0, None, {})


@pytest.mark.parametrize(
    ("which", "jobs"),
    [
        ({}, 10),
        ({"kind": "sort"}, 4),
        ({"queue": "sorts"}, 4),
        ({"kind": "sort", "queue": "mails"}, 0),
        ({"cause": "crashed"}, 1),
        ({"cause": "failed"}, 9),
        ({"cause": "KeyError"}, 4),
        ({"since": 100}, 6),
        ({"since": timedelta(seconds=100)}, 6),
        ({"since": datetime.now(UTC) - timedelta(days=1)}, 10),
    ],
)
def test_a_list_has_the_jobs_that_are_asked_for(connection, which, jobs):
    put(connection, 5)
    put(connection, 1, cause="crashed", error="died")
    put(connection, 4, kind="sort", queue="sorts", error="KeyError: '#'", ago=1000.0)

    assert sum(group.jobs for group in dead.list_dead(connection, **which).groups) == jobs


def test_a_list_ends_with_the_limit_and_tells_how_many_groups_are_left(connection):
    for kind in ("a", "b", "c"):
        put(connection, 2, kind=kind)

    found = dead.list_dead(connection, limit=1)

    assert (len(found.groups), found.more) == (1, 2)


def test_a_list_of_several_pages_counts_each_job_once_though_many_ended_in_one_moment(connection, monkeypatch):
    monkeypatch.setattr(letters, "PAGE", 7)
    put(connection, 40)
    connection.execute("update fastq.dead set finalized_at = '2026-01-02' where id % 2 = 0")

    found = dead.list_dead(connection)

    assert [group.jobs for group in found.groups] == [40]


def test_a_list_that_takes_too_long_says_how_far_it_came(connection, monkeypatch):
    monkeypatch.setattr(letters, "PAGE", 7)
    monkeypatch.setattr(letters, "PATIENCE", -1.0)
    put(connection, 40)

    found = dead.list_dead(connection)

    assert [group.jobs for group in found.groups] == [7]
    assert found.searched_to == found.groups[0].first


def test_a_replay_makes_a_new_job_of_each_and_leaves_the_old_ones(connection):
    old = put(connection, 2, meta={"because": [1], "own": 1})
    [group] = dead.list_dead(connection).groups

    told = dead.replay_dead(connection, group.id)

    assert (told.jobs, told.skipped) == (2, 0)
    rows = jobs(connection)
    assert [row[1:9] for row in rows] == [("mail", "mails", 2, 3, 0, "available", f'{{"n" : {n}}}', ["red"]) for n in (2, 1)]
    assert [row[9] for row in rows] == [{"own": 1, "replay_of": job} for job in reversed(old)]  # the oldest first
    assert connection.execute("select id, replayed_by from fastq.dead order by id desc") == [
        (job, row[0]) for job, row in zip(reversed(old), rows, strict=True)
    ]
    assert all(archived(connection, job) for job in old)
    assert dead.list_dead(connection).groups[0].replayed == 2
    assert show_job(connection, rows[0][0]).replay_of == old[1]


def test_a_second_replay_makes_no_job_twice_unless_it_is_told_to(connection):
    put(connection, 2)
    dead.replay_dead(connection, kind="mail")
    put(connection, 1)

    second = dead.replay_dead(connection, kind="mail")
    again = dead.replay_dead(connection, kind="mail", again=True)

    assert (second.jobs, second.done, again.jobs, again.done) == (1, 2, 3, 0)
    assert len(jobs(connection)) == 6


def test_a_dry_run_counts_and_changes_nothing(connection):
    put(connection, 2)
    put(connection, 1, meta={"workflow": [1, 0]})

    told = dead.replay_dead(connection, kind="mail", dry_run=True)

    assert (told.jobs, told.steps) == (2, 1)
    assert dead.delete_dead(connection, kind="mail", dry_run=True) == 3
    assert jobs(connection) == []
    assert sum(group.jobs for group in dead.list_dead(connection).groups) == 3


def test_nothing_is_replayed_or_deleted_that_nobody_named(connection):
    put(connection)

    with pytest.raises(OptionError, match="expected a group, or one of kind="):
        dead.replay_dead(connection)
    with pytest.raises(OptionError, match="expected a group, or one of kind="):
        dead.delete_dead(connection)
    with pytest.raises(OptionError, match="unknown option kinds"):
        dead.list_dead(connection, kinds="mail")
    with pytest.raises(OptionError, match="rate 0"):
        dead.replay_dead(connection, kind="mail", rate=0)
    with pytest.raises(OptionError, match="since"):
        dead.list_dead(connection, since=datetime(2026, 1, 1))  # noqa: DTZ001 - what is refused


def test_a_replay_at_a_rate_spaces_the_jobs_over_all_its_statements(connection, monkeypatch):
    monkeypatch.setattr(letters, "CHUNK", 3)
    put(connection, 10)

    dead.replay_dead(connection, kind="mail", rate=0.5)

    due = [
        moment
        for (moment,) in connection.execute(
            "select coalesce(scheduled_at, 'epoch') from fastq.job order by scheduled_at nulls first"
        )
    ]
    assert [later - sooner for sooner, later in pairwise(due[1:])] == [timedelta(seconds=2)] * 8
    assert [state for (state,) in connection.execute("select state::text from fastq.job order by id")] == [
        "available",
        *["scheduled"] * 9,
    ]


def test_a_limit_takes_the_oldest(connection, monkeypatch):
    monkeypatch.setattr(letters, "CHUNK", 3)
    old = put(connection, 10)

    assert dead.replay_dead(connection, kind="mail", limit=4).jobs == 4
    assert [row[9]["replay_of"] for row in jobs(connection)] == [*reversed(old[-4:])]
    assert dead.delete_dead(connection, kind="mail", limit=4) == 4
    assert archived(connection, old[-1]) is None
    assert archived(connection, old[0]) is not None


def test_a_limit_counts_the_jobs_that_are_made_and_none_that_is_skipped(connection, monkeypatch):
    monkeypatch.setattr(letters, "CHUNK", 3)
    old = put(connection, 10)
    put(connection, 2, ago=100.0, meta={"workflow": [1, 1]})  # the oldest two are steps

    first = dead.replay_dead(connection, kind="mail", limit=4)
    planned = dead.replay_dead(connection, kind="mail", limit=4, dry_run=True)
    second = dead.replay_dead(connection, kind="mail", limit=4)
    third = dead.replay_dead(connection, kind="mail", limit=4)

    assert [(told.jobs, told.done, told.steps) for told in (first, planned, second)] == [(4, 0, 2), (4, 4, 2), (4, 4, 2)]
    assert (third.jobs, third.done) == (2, 8)
    assert [row[9]["replay_of"] for row in jobs(connection)] == [*reversed(old)]


def test_a_limit_goes_on_behind_jobs_whose_key_another_one_holds(connection, database, monkeypatch):
    key = "ab" * 32
    monkeypatch.setattr(letters, "CHUNK", 3)
    put(connection, 2, ago=100.0, meta={"unique": [key, "end", None]})
    [holder] = add(connection)
    connection.execute(
        "insert into fastq.unique_key (key, job_id, until, since) values (decode($1, 'hex'), $2, 'end', now())", key, holder
    )
    put(connection, 2)

    told = dead.replay_dead(connection, kind="mail", limit=1)

    assert (told.jobs, told.held) == (1, 2)


def test_a_replay_that_is_cut_short_leaves_whole_statements_and_goes_on_the_next_time(connection, monkeypatch, events):
    monkeypatch.setattr(letters, "CHUNK", 3)
    put(connection, 10)
    run, calls = connection.run, []

    def cut(name, *params):
        calls.append(name)
        if calls.count("dead_replay") == 3:
            raise KeyboardInterrupt
        return run(name, *params)

    monkeypatch.setattr(connection, "run", cut)
    with pytest.raises(KeyboardInterrupt):
        dead.replay_dead(connection, kind="mail")
    monkeypatch.undo()

    assert [(event.name, event.fields["jobs"]) for event in events] == [("jobs.replayed", 6)]
    assert len(jobs(connection)) == 6
    assert dead.replay_dead(connection, kind="mail").jobs == 4
    assert len({row[9]["replay_of"] for row in jobs(connection)}) == 10


def test_two_replays_at_once_make_each_job_once(connection, other, monkeypatch):
    monkeypatch.setattr(letters, "CHUNK", 20)
    put(connection, 500)
    told = []

    def replay(session):
        told.append(dead.replay_dead(session, kind="mail"))

    threads = [threading.Thread(target=replay, args=(session,)) for session in (connection, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(one.jobs for one in told) == 500
    assert sum(one.done for one in told) == 500
    assert len({row[9]["replay_of"] for row in jobs(connection)}) == 500


def test_a_job_that_is_discarded_again_while_its_replay_goes_on_is_not_replayed_for_ever(connection, monkeypatch):
    monkeypatch.setattr(letters, "CHUNK", 2)
    put(connection, 4, ago=-60.0)  # it ends after the replay began

    assert dead.replay_dead(connection, kind="mail").jobs == 0


def test_steps_of_workflows_are_left_to_their_workflow(connection):
    put(connection, 1, meta={"workflow": [7, 0]})
    put(connection, 1, meta={"workflow": [7]})  # a callback, which is no step

    told = dead.replay_dead(connection, kind="mail")

    assert (told.jobs, told.steps) == (1, 1)
    assert jobs(connection)[0][9]["workflow"] == [7]


GATES = '[["limit", "mail-api", "", 1, 20]]'


@pytest.mark.parametrize("rate", [None, 0.001])
def test_a_job_with_gates_comes_to_them_again(connection, rate):
    put(connection, 2, meta={"gates": GATES})

    dead.replay_dead(connection, kind="mail", rate=rate)

    states = connection.execute("select state::text, waits_for, seq from fastq.job order by id")
    assert states == [("waiting", GATES, None), ("scheduled", None, None) if rate else ("waiting", GATES, None)]
    assert connection.execute("select sum(jobs)::int from fastq.gate_event") == [(1 if rate else 2,)]


def test_a_job_that_holds_its_key_in_order_is_left_to_a_retry_and_a_deletion_gives_the_key_up(connection):
    meta = {"gates": '[["order-hold", "mail-api", "1", 1, 20]]'}
    holding, free = put(connection, 2, meta=meta)
    connection.execute("insert into fastq.gate_permit select $1::bigint, 'mails', $2::text", holding, meta["gates"])

    told = dead.replay_dead(connection, kind="mail")

    assert (told.jobs, told.in_order) == (1, 1)
    assert jobs(connection)[0][9]["replay_of"] == free
    assert dead.delete_dead(connection, kind="mail") == 2
    assert connection.execute("select count(*) from fastq.gate_permit") == [(0,)]
    assert connection.execute("select jobs from fastq.gate_event where job is null") == [(1,)]


def unique(key, until="end", within=None):
    return {"unique": [key, until, within]}


def hold(connection, key, job, until="end", expires_at=None):
    connection.execute(
        "insert into fastq.unique_key (key, job_id, since, until, expires_at) values (decode($1, 'hex'), $2, now(), $3, $4)",
        key, job, until, expires_at,
    )  # fmt: skip


@pytest.mark.parametrize("until", ["start", "success", "end", "time"])
def test_a_unique_job_is_skipped_while_another_job_holds_its_key(connection, until):
    [holder] = add(connection, kind="mail")
    hold(connection, "aa", holder, until)
    [old] = put(connection, meta=unique("aa", until))

    told = dead.replay_dead(connection, kind="mail")

    assert (told.jobs, told.held, told.holders) == (0, 1, {old: holder})
    assert connection.execute("select replayed_by from fastq.dead") == [(None,)]


@pytest.mark.parametrize("until", ["start", "success", "end", "time"])
def test_a_unique_job_takes_its_key_from_the_job_that_it_replays(connection, until):
    [old] = put(connection, meta=unique("aa", until, 3600.0 if until == "time" else None))
    hold(connection, "aa", old, until)

    assert dead.replay_dead(connection, kind="mail").jobs == 1

    [(job, *_)] = jobs(connection)
    [(holder, bounded)] = connection.execute("select job_id, expires_at is not null from fastq.unique_key")
    assert (holder, bounded) == (job, until == "time")


def test_a_unique_job_gets_a_key_that_nobody_holds_and_one_that_was_given_up(connection):
    put(connection, meta=unique("aa"))
    put(connection, meta=unique("bb"))
    hold(connection, "bb", 10**9)

    assert dead.replay_dead(connection, kind="mail").jobs == 2
    assert connection.execute("select count(distinct job_id) from fastq.unique_key where job_id < 1000") == [(2,)]


def test_of_several_jobs_with_one_key_the_oldest_is_replayed(connection):
    newest, _, oldest = put(connection, 3, meta=unique("aa"))

    told = dead.replay_dead(connection, kind="mail")

    [(job, *_)] = jobs(connection)
    assert (told.jobs, told.held, set(told.holders.values())) == (1, 2, {job})
    assert oldest != newest


def test_a_key_that_is_held_until_success_by_another_discarded_job_is_not_taken_from_it(connection):
    first, second = (put(connection, meta=unique("aa", "success"))[0] for _ in range(2))
    hold(connection, "aa", second, "success")

    told = dead.replay_dead(connection, kind="mail")

    assert (told.jobs, told.held, told.holders) == (1, 1, {first: second})


def test_a_key_that_another_transaction_takes_meanwhile_is_asked_for_again(connection, other):
    [old] = put(connection, meta=unique("aa"))
    [holder] = add(connection, kind="mail")
    other.execute("begin")
    hold(other, "aa", holder)
    told = []
    thread = threading.Thread(target=lambda: told.append(dead.replay_dead(connection, kind="mail")))
    thread.start()
    while other.execute("select count(*) from pg_locks where not granted") == [(0,)]:
        pass
    other.execute("commit")
    thread.join()

    assert told[0].holders == {old: holder}


def test_a_unique_job_that_is_replayed_is_known_to_an_enqueue(connection, database):
    from tests.db.test_roles import SortArgs

    with Client(database) as client:
        job = client.enqueue(SortArgs(["a"]), unique=Unique(), max_attempts=1)
        [claimed] = claim(connection)
        connection.run("job_finish", [claimed.id], [1 << 32 | 1], ["discarded"], ['{"error": "E: x"}'], [None], None)
        told = client.replay(kind="sort")
        again = client.enqueue(SortArgs(["a"]), unique=Unique())

        assert told.jobs == 1
        assert (again.new, client.get(again).replay_of) == (False, int(job))


def test_both_clients_list_replay_and_delete(connection, database):
    put(connection, 6)

    with Client(database) as client:
        [group] = client.dead(kind="mail").groups
        assert client.replay(group.id, limit=2, dry_run=True).jobs == 2
        assert client.replay(group.id, limit=2).jobs == 2
        assert client.delete_dead(group.id, limit=1) == 1

    async def main():
        async with AsyncClient(database) as client:
            [group] = (await client.dead(kind="mail")).groups
            assert (group.jobs, group.replayed) == (5, 1)
            assert (await client.replay(kind="mail", rate=10)).jobs == 4
            assert await client.delete_dead(group.id) == 5
            return await client.dead()

    assert asyncio.run(main()).groups == []


def test_a_replay_wakes_the_queue_of_the_jobs_and_the_leader_for_those_that_are_due_later(connection, database):
    put(connection, 2)
    with psycopg.connect(database, autocommit=True) as hearing:
        hearing.execute("listen fastq")
        dead.replay_dead(connection, kind="mail", rate=1)
        heard = {notice.payload for notice in hearing.notifies(timeout=5, stop_after=2)}

    assert heard == {"mails", "@due"}


def test_what_retention_has_removed_is_told_by_kind(connection):
    connection.execute(
        "insert into fastq.dead_count values ('mail', 'failed', '2026-01-01', 2), ('mail', 'lost', '2026-01-01', 3), "
        "('sort', 'lost', '2026-01-01', 1)"
    )

    assert dead.list_dead(connection).older == {"mail": 5, "sort": 1}
    assert dead.list_dead(connection, kind="sort").older == {"sort": 1}


def test_a_replayed_job_runs_anew_and_not_with_the_old_attempts(connection):
    [old] = put(connection)
    dead.replay_dead(connection, kind="mail")
    [(job, *_)] = jobs(connection)

    row = living(connection, job)

    assert (row["attempt"], row["crashes"], row["errors"]) == (0, 0, None)
    assert row["created_at"] > archived(connection, old)["created_at"]


def old_day(connection, days_ago, per_cause):
    """Make the partition of a day in the past, with discarded jobs in it, and completed ones; return its name."""
    day = datetime.now(UTC).date() - timedelta(days=days_ago)
    connection.execute(
        f"create table fastq.{name_of(day)} partition of fastq.job_archive "
        f"for values from ('{day} 00:00Z') to ('{day + timedelta(days=1)} 00:00Z')"
    )
    for cause, count in per_cause.items():
        put(connection, count, cause=cause, ago=0.0)
    put(connection, 3)
    connection.execute("update fastq.job_archive set state = 'completed', meta = null where meta ->> 'cause' = 'failed'")
    connection.execute("delete from fastq.dead where cause = 'failed'")
    for table in ("job_archive", "dead"):
        connection.execute(
            f"update fastq.{table} set finalized_at = $1::text::timestamptz + id * interval '1 s'", f"{day} 12:00Z"
        )
    return name_of(day)


def counted(connection):
    return connection.execute("select kind, cause, day, jobs::int from fastq.dead_count order by 1, 2, 3")


def test_the_discarded_jobs_of_a_day_that_is_dropped_are_counted_by_kind_cause_and_day(connection, database):
    name = old_day(connection, 40, {"crashed": 25, "lost": 2})
    day = datetime.now(UTC).date() - timedelta(days=40)
    put(connection, 4, cause="lost")  # of today: they stay
    site = site_on(database, name="schema")
    chore = Partitions()
    chore._dead = ChoreSize("partitions", 10)  # several batches

    pauses = [chore.run(site) for _ in range(3)]
    site.connection.close()

    assert name in partitions(connection), "the last batch was not full: the day is dropped when locks are tried for again"
    assert pauses == [NAP, NAP, REST]
    assert counted(connection) == [("mail", "crashed", day, 25), ("mail", "lost", day, 2)]
    chore._days_at = 0.0
    chore.run(again := site_on(database, name="schema2"))
    again.connection.close()
    assert name not in partitions(connection)
    assert dead.list_dead(connection).older == {"mail": 27}
    assert [group.jobs for group in dead.list_dead(connection).groups] == [4]


def test_a_day_without_discarded_jobs_is_dropped_at_once(connection, database):
    name = old_day(connection, 40, {})
    site = site_on(database, name="schema")

    Partitions().run(site)
    site.connection.close()

    assert name not in partitions(connection)
    assert counted(connection) == []


def test_a_day_is_dropped_though_its_discarded_jobs_cannot_be_counted(connection, database):
    name = old_day(connection, 40, {"crashed": 2})
    connection.execute(
        "create function public.keep() returns trigger language plpgsql as $$ begin raise exception 'keep it'; end $$"
    )
    connection.execute("create trigger keep before delete on fastq.dead for each row execute function public.keep()")
    site = site_on(database, name="schema")

    with pytest.raises(psycopg.Error, match="keep it"):
        Partitions().run(site)
    site.connection.close()

    assert name not in partitions(connection)


def test_discarded_jobs_that_a_rule_prunes_are_counted_and_completed_ones_are_not(connection, database):
    old_day(connection, 2, {"crashed": 3, "lost": 2})
    site = site_on(database, keep="completed=1,discarded=1")

    assert run_out(Prune(), site) == 8
    site.connection.close()

    assert [(kind, cause, jobs) for kind, cause, _, jobs in counted(connection)] == [("mail", "crashed", 3), ("mail", "lost", 2)]


def test_counts_of_one_day_add_up(connection, database):
    site = site_on(database, keep="discarded=1")
    for _ in range(2):
        put(connection, 3, cause="lost", ago=3 * 86_400.0)
        run_out(Prune(), site)
    site.connection.close()

    assert sum(jobs for *_, jobs in counted(connection)) == 6


def listed(connection):
    return connection.execute("select id, kind, cause, error, args::text, meta from fastq.dead order by id")


def test_a_job_whose_last_attempt_fails_is_on_the_list_and_others_that_end_are_not(connection):
    ids = add(connection, 3, kind="mail", args='{"n": 1}', meta='{"own": 1}')
    claim(connection)

    connection.run(
        "job_finish", ids, [1 << 32 | 1] * 3, ["discarded", "completed", "cancelled"],
        ['{"error": "E: 7"}', None, '{"error": "by hand"}'], [None, "1", None], None,
    )  # fmt: skip

    assert listed(connection) == [(ids[0], "mail", "failed", "E: 7", '{"n": 1}', {"own": 1})]
    [group] = dead.list_dead(connection).groups
    assert (group.sample, group.error, group.shape) == (ids[0], "E", "E: <n>")
    assert archived(connection, ids[0])["finalized_at"] == group.last


def test_a_job_that_is_discarded_without_a_word_is_on_the_list(connection):
    [job] = add(connection)
    claim(connection)

    connection.run("job_finish", [job], [1 << 32 | 1], ["discarded"], [None], [None], None)

    assert [row[3] for row in listed(connection)] == [""]


def test_a_job_that_dies_with_its_process_or_its_host_is_on_the_list(connection, database):
    crashed, lost, asked = (add(connection, max_attempts=1)[0] for _ in range(3))
    connection.execute("update fastq.job set cancel_requested = true where id = $1", asked)
    claim(connection)
    error, none = '{"error": "it died"}', []

    site = site_on(database)
    site.write("job_rescue", None, "default", [lost, asked], [1 << 32 | 1] * 2, [1] * 2, None, error)
    site.connection.close()
    connection.run("job_recover", [crashed], 1 << 32 | 1, 0, "default", [crashed], 3, 1, None, error, none, error)

    assert [row[:4] for row in listed(connection)] == [(crashed, "nap", "crashed", "it died"), (lost, "nap", "lost", "it died")]


@pytest.mark.parametrize("change", [admin.retry_jobs, admin.delete_jobs], ids=["retry", "delete"])
def test_a_job_that_leaves_the_archive_leaves_the_list(connection, change):
    ids = put(connection, 3)

    change(connection, ids[:2])

    assert [row[0] for row in listed(connection)] == ids[2:]


def test_a_job_that_is_retried_and_discarded_again_is_on_the_list_once_and_may_be_replayed_again(connection):
    [job] = put(connection)
    dead.replay_dead(connection, kind="mail")
    admin.retry_jobs(connection, [job])
    connection.execute("delete from fastq.job where id <> $1", job)
    claim(connection, queue="mails")
    connection.run("job_finish", [job], [1 << 32 | 1], ["discarded"], ['{"error": "E"}'], [None], None)

    assert [row[0] for row in listed(connection)] == [job]
    assert dead.replay_dead(connection, kind="mail").jobs == 1


def test_jobs_that_were_discarded_before_the_migration_are_on_the_list(connection):
    ids = put(connection, 3)
    completed = put(connection, 1)
    connection.execute("update fastq.job_archive set state = 'completed' where id = any ($1)", completed)
    before = listed(connection)[:3]
    connection.execute("drop table fastq.dead, fastq.dead_count")

    [text] = [migration.text for migration in migrations() if migration.name == "0013_dead"]
    connection.execute(text)

    assert listed(connection) == before
    assert [row[0] for row in before] == ids
