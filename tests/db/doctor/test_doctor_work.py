"""Findings about the work: who leads, which chores fail, which jobs nobody starts, and the rights of roles."""

import os
import re
from pathlib import Path

import psycopg
import pytest

from fastq.admin.doctor import grants
from tests.db.jobs import add, session
from tests.db.test_roles import GRANTS, PREFIX
from tests.helpers import execute

DOCS = Path(__file__).parents[3] / "docs"
SCALING = "ask for the backlog and the lag of a queue"


@pytest.fixture
def connection(database):
    """Give a session on the healthy database."""
    opened = session(database)
    yield opened
    opened.close()


def test_a_cluster_that_nobody_leads_is_bad(connection, found):
    connection.execute("update fastq.lease set holder = ''")
    [finding] = found("leader").values()

    assert finding.level == "bad"
    assert finding.found == "nobody leads any queue or the schema; 1 worker process on 1 host"


@pytest.mark.parametrize(("lease", "said"), [("schema", "the schema"), ("leader:default", "any queue")])
def test_one_lease_that_nobody_holds_is_told_of(connection, found, lease, said):
    connection.execute("update fastq.lease set expires_at = now() - interval '1 s' where name = $1", lease)

    [finding] = found("leader").values()

    assert finding.found.startswith(f"nobody leads {said};")


def test_a_database_that_nobody_works_is_told_of(connection, found):
    connection.execute("update fastq.process set expires_at = now() - interval '1 s'")
    [led] = found("leader").values()
    connection.execute("update fastq.lease set holder = ''")
    [alone] = found("leader").values()

    assert (led.level, alone.level) == ("note", "warn")


def test_a_chore_that_failed_is_told_of(connection, found):
    connection.execute(
        "insert into fastq.chore (lease, name, term, ran_at, took, error) "
        "values ('schema', 'prune', 1, now(), 1, 'a trigger of yours'), ('schema', 'forget', 1, now(), 1, null)"
    )
    [finding] = found("chores").values()

    assert (finding.level, finding.subject) == ("warn", "prune")
    assert "a trigger of yours" in finding.found


@pytest.mark.parametrize(("late", "level"), [("10 s", None), ("2 min", "warn"), ("1 h", "bad")])
def test_jobs_that_are_due_and_not_available_are_told_of(connection, found, late, level):
    connection.execute(
        "insert into fastq.job (kind, queue, state, seq, scheduled_at) "
        "select 'nap', 'emails', 'scheduled', null, now() - $1::text::interval from generate_series(1, 3)",
        late,
    )
    connection.execute(
        "insert into fastq.job (kind, state, seq, scheduled_at) values ('nap', 'scheduled', null, now() + interval '1 h')"
    )
    findings = found("due")

    assert {name: finding.level for name, finding in findings.items()} == ({"emails": level} if level else {})
    if level:
        assert "queue 'emails' has 3 jobs whose time has come" in findings["emails"].found


def test_queues_that_no_process_works_are_told_of_up_to_a_number(connection, found):
    add(connection, 3)
    add(connection, 1_200, queue="emails")
    for number in range(6):
        add(connection, queue=f"other {number}")
    execute_paused = "insert into fastq.queue (name, paused_at) values ('other 0', now())"
    connection.execute(execute_paused)
    findings = found("queues")

    assert findings["emails"].level == "warn"
    assert findings["emails"].found.endswith("has 1,000 or more available jobs")
    assert findings["emails"].remedy == "fastq run APP --queue emails"
    assert findings[""].found == "1 more queue like these"
    assert "other 0" not in findings


def test_kinds_that_no_process_has_a_worker_for_are_told_of(connection, found):
    add(connection, 2, kind="scan", state="waiting", seq=None, waits_for="worker:scan@2")
    add(connection, 2, kind="mail", state="waiting", seq=None, waits_for="worker:mail")
    add(connection, 2, kind="nap", state="waiting", seq=None, waits_for="worker:nap")
    connection.execute("insert into fastq.pause (sort, name, key, paused_at) values ('kind', 'mail', '', now())")
    findings = found("kinds")

    assert {name: finding.level for name, finding in findings.items()} == {"scan@2": "warn"}
    assert "2 jobs of kind 'scan' with args of version 2 wait in queue 'default'" in findings["scan@2"].found


def test_keys_that_discarded_jobs_hold_are_told_of_with_the_command_that_releases_them(connection, found):
    connection.execute(
        "insert into fastq.gate_permit (job, queue, gates) values (4711, 'default', $1)",
        '[["order-hold","the stream","a b",1,1]]',
    )
    [finding] = found("keys").values()

    assert finding.level == "warn"
    assert finding.remedy == "fastq gates release 'the stream' '\"a b\"'"
    assert "the discarded job 4711 holds the key" in finding.found


@pytest.fixture
def granted(clinic):
    """Give the names of the roles of the documentation, made by a function for a database; they go at the end."""
    made = []

    def grant(database):
        for name, text in GRANTS.items():
            execute(database, text)
            made.append((database, f"{PREFIX}{name}"))
        return {name: f"{PREFIX}{name}" for name in GRANTS}

    yield grant
    for database, name in made:
        execute(database, f"drop owned by {name}")
        execute(clinic, f"drop role {name}")


def as_role(database, name):
    return psycopg.conninfo.make_conninfo(database, options=f"-c role={name}")


def test_the_grants_of_the_doctor_are_those_of_the_documentation():
    page = (DOCS / "postgres.md").read_text()

    assert [use.does for use in grants.USES if use.grants not in page] == []
    told = re.findall(r"^grant .*?;$", page, re.MULTILINE | re.DOTALL)
    known = {text for use in grants.USES for text in grants.statements_of(use)}
    assert {text for text in told if text not in known} <= {"grant usage on schema fastq to shop_web;"}


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("web", {"enqueue jobs"}),
        (
            "worker",
            {use.does for use in grants.USES}
            - {"operate (fastq jobs, queues, gates ...)", "read everything", "hear events", "ask where jobs are", SCALING},
        ),
        (
            "operator",
            {use.does for use in grants.USES}
            - {"work jobs (fastq run with FASTQ_LEAD=off)", "read everything", "enqueue workflows", SCALING},
        ),
        ("reader", {"read everything", "wait for jobs", "read the logs of jobs", "read statistics"}),
        ("scaler", {SCALING}),
    ],
)
def test_a_role_with_the_grants_of_its_use_lacks_nothing(database, granted, name, may):
    from fastq.admin import doctor
    from tests.db.leases import configured

    role = granted(database)[name]

    [finding] = doctor.examine(configured(), as_role(database, role), ["grants"]).findings

    assert finding.level == "ok"
    assert {use.does for use in grants.USES if use.does in finding.found} >= may
    assert finding.found == f"the role '{role}' may {', '.join(use.does for use in grants.USES if use.does in may)}"


@pytest.mark.parametrize(
    ("name", "revoked", "lacks"),
    [
        ("worker", "select, insert, update on fastq.job_step", "job_step"),
        ("web", "insert (meta) on fastq.job", "job"),
        ("operator", "select on fastq.dead_count", "dead_count"),
        ("worker", "usage on sequence fastq.process_number", "process_number"),
        ("scaler", "execute on function fastq.lag(text)", "lag(text)"),
    ],
)
def test_a_role_that_lacks_a_grant_is_told_of_and_the_remedy_gives_it(database, granted, found, name, revoked, lacks):
    role = granted(database)[name]
    execute(database, f"revoke {revoked} from {role}")
    findings = found("grants", url=as_role(database, role))
    for finding in findings.values():
        execute(database, finding.remedy)

    assert {finding.level for finding in findings.values()} == {"warn"}
    assert all(f"lacks rights on {lacks}" in finding.found for finding in findings.values())
    assert found("grants", url=as_role(database, role)) == {}


def test_a_role_that_may_not_use_the_schema_and_one_without_rights_are_bad(database, found, role):
    url = psycopg.conninfo.make_conninfo(database, user=role)
    [closed] = found("grants", url=url).values()
    execute(database, closed.remedy)
    [bare] = found("grants", url=url).values()

    assert (closed.level, bare.level) == ("bad", "bad")
    assert closed.remedy == f'grant usage on schema "fastq" to "{role}";'
    assert "has no rights on fastq's tables" in bare.found


def test_a_member_of_the_owner_may_do_everything(database, found, role):
    owner = f"test_{os.getpid()}_owner"
    execute(database, f"create role {owner}")
    try:
        execute(database, f"grant {owner} to {role}")
        tables = execute(database, "select tablename from pg_tables where schemaname = 'fastq'")
        for (table,) in tables:
            execute(database, f"alter table fastq.{table} owner to {owner}")
        assert found("grants", url=psycopg.conninfo.make_conninfo(database, user=role)) == {}
    finally:
        execute(database, f"drop owned by {owner}")
        execute(database, f"drop role {owner}")
