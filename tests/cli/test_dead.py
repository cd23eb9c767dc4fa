"""`fastq dead`: what it lists, shows, replays and deletes, and what it says of the jobs that it leaves."""

import json
import subprocess

import pytest

from fastq.admin.dead.letters import CHUNK
from tests.cli.conftest import command, environment
from tests.helpers import execute, wait_for

pytestmark = pytest.mark.further

PUT = """
insert into fastq.job_archive
    (id, created_at, finalized_at, state, priority, attempt, max_attempts, crashes, queue, kind, args, errors, meta)
select nextval('fastq.job_id_seq'), now(), now() - make_interval(secs => n), 'discarded', 1, 3, 3, 0, 'default', '{kind}',
    '{{"n": 7}}', jsonb_build_array(jsonb_build_object(
        'error', 'ValueError: no ' || n || ' here', 'trace', 'Traceback' || chr(27) || '[31m', 'at', now())),
    '{meta}'
from generate_series(1, {count}) as n
"""

LIST = """
insert into fastq.dead (id, finalized_at, priority, max_attempts, queue, kind, cause, args, tags, error, meta)
select id, finalized_at, priority, max_attempts, queue, kind, meta ->> 'cause', args, tags, errors -> -1 ->> 'error', meta
from fastq.job_archive
on conflict do nothing
"""


def put(database, count, kind="mail", meta='{"cause": "failed"}'):
    execute(database, PUT.format(count=count, kind=kind, meta=meta))
    execute(database, LIST)


def test_groups_are_listed_shown_replayed_and_deleted(on_database, fastq, database):
    put(database, 3)
    put(database, 1, kind="note", meta='{"cause": "crashed"}')
    execute(database, "insert into fastq.dead_count values ('mail', 'lost', '2026-01-01', 1204)")

    listed = fastq("dead", FASTQ_DATABASE_URL=database)
    first = listed.stdout.splitlines()[1].split()
    assert first[1:5] == ["mail", "failed", "3", "0"]
    assert listed.stderr == "and 1,204 older of kind 'mail', no longer kept\n"
    assert on_database("dead", "list", "--cause", "crashed").splitlines()[1].split()[1] == "note"
    assert len(json.loads(on_database("dead", "--json"))["groups"]) == 2
    group = first[0]

    shown = on_database("dead", "show", group)
    assert "ValueError: no <n> here" in shown
    assert "3, of which 0 are replayed" in shown
    assert "Traceback\\x1b[31m" in shown
    assert json.loads(on_database("dead", "show", group, "--json"))["args"] == {"n": 7}

    assert on_database("dead", "replay", group, "--dry-run") == "3 jobs would be enqueued anew\n"
    assert on_database("dead", "replay", group, "--rate", "50", "--limit", "2") == "2 jobs were enqueued anew\n"
    again = fastq("dead", "replay", group, FASTQ_DATABASE_URL=database)
    assert (again.stdout, again.stderr) == (
        "1 job was enqueued anew\n",
        "skipped 2 jobs replayed before: --again does it once more\n",
    )
    new = execute(database, "select id, meta ->> 'replay_of' from fastq.job order by id")
    assert len(new) == 3
    assert f"replays   {new[0][1]}" in on_database("jobs", "show", str(new[0][0]))

    assert on_database("dead", "delete", "--kind", "mail", "--dry-run") == "3 jobs would be deleted\n"
    assert on_database("dead", "delete", group) == "3 jobs were deleted\n"
    assert json.loads(on_database("dead", "delete", "--kind", "note", "--json")) == {"jobs": 1, "dry_run": False}
    assert fastq("dead", FASTQ_DATABASE_URL=database).stderr.startswith("no discarded jobs\n")


def test_jobs_that_are_left_are_told_with_the_reason_and_the_remedy(fastq, database):
    put(database, 1, meta='{"cause": "failed", "workflow": [1, 0]}')
    put(database, 1, meta='{"cause": "failed", "unique": ["aa", "end", null]}')
    execute(database, "insert into fastq.job (kind) values ('mail')")
    execute(
        database, "insert into fastq.unique_key (key, job_id, since, until) select '\\xaa', max(id), now(), 'end' from fastq.job"
    )

    told = fastq("dead", "replay", "--kind", "mail", FASTQ_DATABASE_URL=database)

    assert told.stdout == "0 jobs were enqueued anew\n"
    [(holder,)] = execute(database, "select id from fastq.job")
    assert told.stderr.splitlines() == [
        "skipped 1 job of workflows, where they have their place: fastq workflows retry ID",
        "skipped 1 job unique, and another job holds the key",
        f"  job 2: its key is held by job {holder}",
    ]


@pytest.mark.parametrize("words", [("--kind", "mail", "{action}"), ("{action}", "--kind", "mail")])
@pytest.mark.parametrize("action", ["replay", "delete", "list"])
def test_a_flag_holds_whether_it_stands_before_the_action_or_behind_it(on_database, database, words, action):
    put(database, 2)
    put(database, 2, kind="note")

    told = on_database("dead", *(word.format(action=action) for word in words))

    assert told.startswith("2 jobs") if action != "list" else "note" not in told


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (("replay",), "expected a group, or one of kind="),
        (("delete",), "expected a group, or one of kind="),
        (("replay", "--kind", "a", "--rate", "0"), "rate 0.0: expected jobs in a second"),
        (("list", "--since", "soon"), "expected 90s, 30m, 2h, 1d or a time with a zone"),
        (("lsit",), "invalid choice: 'lsit'"),
    ],
)
def test_a_mistake_is_told_with_the_rule_and_code_2(on_database, words, rule):
    assert rule in on_database("dead", *words, code=2)


def test_a_group_that_is_not_there_ends_with_code_1(on_database):
    assert "there is no group 0000: `fastq dead` lists them" in on_database("dead", "show", "0000", code=1)


def test_a_replay_that_is_killed_has_done_whole_statements_and_goes_on_when_it_is_run_again(on_database, folder, database):
    put(database, 20_000)
    words = ("dead", "replay", "--kind", "mail", "--database", database)
    program = subprocess.Popen(command(*words), cwd=folder, env=environment(), stdout=subprocess.DEVNULL)
    wait_for(lambda: execute(database, "select exists (select from fastq.job)") == [(True,)], 40, "the first statement")
    program.kill()
    program.wait()
    gone = "select count(*) = 0 from pg_stat_activity where datname = current_database() and application_name = 'fastq admin'"
    wait_for(lambda: execute(database, gone) == [(True,)], 40, "the end of its session")

    [(done,)] = execute(database, "select count(*) from fastq.job")
    assert done % CHUNK == 0
    assert 0 < done < 20_000
    assert execute(database, "select count(*) from fastq.dead where replayed_by is not null") == [(done,)]
    assert on_database("dead", "replay", "--kind", "mail") == f"{20_000 - done:,} jobs were enqueued anew\n"
    assert execute(database, "select count(*), count(distinct meta ->> 'replay_of') from fastq.job") == [(20_000, 20_000)]
