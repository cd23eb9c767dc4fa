"""What the grants of docs/postgres.md allow, and what they do not: each cell of the table in docs/security.md is tried."""

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from fastq import Args, Client, Enqueue, Every, Kind, Limit, Registry, Unique, admin, use_keys
from fastq.admin import dead, gates, leaders, periodic, running, search, statistics
from fastq.admin.bulk import at_once
from fastq.admin.exports.importing import Importing
from fastq.admin.sealed import rotation
from fastq.admin.session import answered
from fastq.args.secret import ring
from fastq.lead import definitions
from fastq.leases import lease
from fastq.postgres import db
from fastq.schema import partitions
from fastq.workflows.steps import chain
from tests.db.jobs import add, claim
from tests.helpers import create_database, drop_database

DOCS = Path(__file__).parents[2] / "docs"
PREFIX = f"test_{os.getpid()}_"
NO_RIGHT = psycopg.errors.InsufficientPrivilege


def grants():
    """Return the grants of each role in the documentation, the first block of it, with names that are this session's own."""
    texts = re.findall(r"^```sql\n(create role shop_(\w+);.*?)^```", (DOCS / "postgres.md").read_text(), re.MULTILINE | re.DOTALL)
    return {name: text.replace("shop_", PREFIX) for text, name in texts}


def matrix():
    """Return the table of the documentation: what a role may do, whether it may."""
    table = (DOCS / "security.md").read_text().partition("| right |")[2].partition("\n\n")[0]
    head, _, *rows = ("| right |" + table).splitlines()
    roles = [cell.strip() for cell in head.strip("|").split("|")][1:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [(what, role, may) for what, *answers in cells for role, may in zip(roles, answers, strict=True)]


MATRIX = matrix()
GRANTS = grants()
NAMED = {"enqueuer": "web", "worker": "worker", "operator": "operator", "reader": "reader", "scaler": "scaler"}


@dataclass
class SortArgs(Args, kind="sort"):
    strings: list[str]


@dataclass
class MailArgs(Args, kind="mail", gates=[Limit("mail-api", at_most=1, by="account")]):
    account: int


@pytest.fixture(scope="module")
def granted(server, migrated_template):
    """Give the URL of a database with the roles, a job of each state, a periodic job and a leader."""
    url = create_database(server, f"{migrated_template}_roles", migrated_template)
    with psycopg.connect(url, autocommit=True) as owner:
        for text in GRANTS.values():
            owner.execute(text)
        connection = db.Connection(owner, "fastq", prepare=False, timeout=10, owned=False)
        registry = Registry()
        registry.periodic("daily", Every(3600), SortArgs(["a"]))
        definitions.define(connection, registry)
        add(connection, 2, meta='{"gates": [["limit", "mail-api", 1, 1, 20]]}')
        connection.execute("insert into fastq.gate_permit select id, queue, meta ->> 'gates' from fastq.job")
        add(connection)
        admin.cancel_jobs(connection, [3])
        Client("host=nowhere").enqueue_workflow(chain(SortArgs(["a"]), SortArgs(["b"])), conn=owner)
        assert lease.acquire(connection, "leader:default", "h:1:x", 600.0).term
    yield url
    with psycopg.connect(url, autocommit=True) as owner:
        for name in GRANTS:
            owner.execute(f"drop owned by {PREFIX}{name}; drop role {PREFIX}{name}")
    drop_database(server, f"{migrated_template}_roles")


@pytest.fixture
def act(granted):
    """Give a function that gives a session with the rights of a role; what is done in it is undone at its end."""

    @contextmanager
    def as_role(name):
        with psycopg.connect(granted, cursor_factory=psycopg.RawCursor) as conn:
            conn.execute(f"set local role {PREFIX}{name}")
            yield db.Connection(conn, "fastq", prepare=False, timeout=10, owned=False)
            conn.rollback()

    return as_role


def enqueue(session):
    client = Client("host=nowhere")  # of no use: it enqueues on the session given
    client.enqueue(SortArgs(["a"]), tags=["plain"], conn=session.raw)
    client.enqueue(SortArgs(["a"]), delay=60, conn=session.raw)
    client.enqueue_many([SortArgs(["a"]), Enqueue(SortArgs(["b"]), delay=60)], conn=session.raw)
    client.enqueue(MailArgs(1), conn=session.raw)
    client.enqueue(MailArgs(1), delay=60, conn=session.raw)
    client.enqueue_copy([MailArgs(1)], conn=session.raw)
    client.enqueue_copy([SortArgs(["a"])], delay=60, conn=session.raw)
    client.enqueue_copy([SortArgs(["a"])], conn=session.raw)


def choose_an_id(session):
    session.execute("insert into fastq.job (id, kind) overriding system value values (1000, 'sort')")


def enqueue_unique(session):
    told = [Client("host=nowhere").enqueue(SortArgs(["a"]), unique=Unique(), conn=session.raw) for _ in range(2)]
    assert [job.new for job in told] == [True, False]


def read(session):
    assert len(search.list_jobs(session).jobs) == search.count_jobs(session).jobs == 5
    assert search.list_jobs(session, "state:waiting unique:123456").jobs == []
    assert "queue:default" in search.complete_words(session, "queue:de")
    assert admin.show_job(session, 1).args == {}
    session.execute("select output from fastq.job_archive")


def read_logs(session):
    assert session.run("log_read", 1, [], [], None, 10) == []
    assert session.run("log_count", 1) == [(0, 0)]
    assert session.run("log_sizes", 10) == []


def write_logs(session):
    columns = [[1], [7], [0], [1], ["sort"], [9], [1], [False], ["text"], [0], [9]]
    session.run("log_write", *columns)
    session.run("log_write", *columns)


def hear_events(session):
    [(subscription, _)] = session.run("subscription_begin", "{}", 60.0, 16, "fastq")
    assert session.run("subscription_heard", subscription) == [(True,)]
    assert session.run("subscription_renew", subscription, 60.0, "fastq")
    assert session.run("event_read", subscription, [], [], 10) == []
    assert session.run("subscription_end", subscription, "fastq")


def forward_events(session):
    assert session.run("subscription_list", 16) == []
    for _ in range(2):
        session.run("event_write", [1], ["h:1:x"], [0], [0], [1], ["[]"], 15.0)


def read_statistics(session):
    assert statistics.stats(session, by="kind") == []
    assert [(row.queue, row.at_least) for row in statistics.living(session)] == [("default", False)]


def count_jobs(session):
    [(_, firsts, _, _)] = session.run("stat_notes", 1, 2, 10)
    assert len(firsts) == 1
    session.run("stat_write", ["default"], ["sort"], ["completed"], [None], [1], [0], [0.0], [0], [0.0], ["{}"], ["{}"])


def change_jobs(session):
    assert [change.outcome for change in admin.cancel_jobs(session, [1])] == ["cancelled"]
    assert [change.outcome for change in admin.retry_jobs(session, [1, 3])] == ["available", "available"]
    assert [change.outcome for change in admin.delete_jobs(session, [1, 2])] == ["deleted", "deleted"]


def change_with_record(session):
    assert [change.outcome for change in at_once.change_jobs(session, "cancel", [1], "ada")] == ["cancelled"]
    assert [change.outcome for change in at_once.edit_jobs(session, "edit", [2], {"max_attempts": 3}, "ada")] == ["edited"]
    row = at_once.make_operation(session, "retry", "state:cancelled", by="ada")
    assert at_once.cancel_operation(session, row.id)


def import_jobs(session):
    lines = ['{"fastq_export":1,"source":"x"}', '{"id":1,"kind":"sort","args":{}}', '{"id":2,"kind":"sort","args":{}}']
    importing = Importing(None, finished=False, dry_run=False)
    [batch] = importing.batches(lines)
    assert [old for old, _ in answered(session, importing.storing(batch)).made] == [1, 2]
    assert answered(session, importing.storing(batch)).made == []


def list_changes(session):
    assert (at_once.list_operations(session), at_once.list_audit(session)) == ([], [])


def send_signals(session):
    assert [session.run("job_signal", 1, "go", "1", None)[0][0] for _ in range(2)] == ["sent", "there"]


def take_steps(session, job, claimed):
    assert session.run("step_note", job, claimed, "cursor", "rows", 1, None, None, None, "1")[0][0] == 1
    assert session.run("step_note", job, claimed, "cursor", "rows", 1, None, None, None, "2")[0][0] == 1
    assert session.run("step_wait", job, claimed, "go", 1, 0.0)[0][0] == 1
    assert session.run("step_wait", job, claimed, "go", 1, 0.0)[0][3]
    assert session.run("job_park", [4711], [claimed], [60.0], ['["go", 0]'], "fastq")[0][0] == 0


def list_dead(session):
    assert dead.list_dead(session, kind="mail").groups == []


def replay_dead(session):
    session.execute(
        "insert into fastq.dead (id, finalized_at, priority, max_attempts, queue, kind, cause, args, error, meta) "
        "select 77, now() - interval '1 s', 1, 1, 'q', 'sort', 'failed', '{}', '', '{\"unique\": [\"aa\", \"end\", null]}'"
    )
    assert dead.replay_dead(session, kind="sort").jobs == 1
    assert dead.delete_dead(session, kind="sort") == 1


def rotate_keys(session):
    use_keys({"old": bytes(32)})
    sealed = Kind("nap", SortArgs, encrypted=True).codec.encode(SortArgs([])).decode()
    use_keys({"new": bytes(range(32)), "old": bytes(32)})
    try:
        session.execute(f"update fastq.job set args = '{sealed}' where kind = 'nap'")
        session.execute(f"update fastq.job_archive set args = '{sealed}' where kind = 'nap'")
        told = rotation.rotate_keys(session, "nap", archive=True)
        assert (told.jobs, told.archived) == (2, 1)
    finally:
        ring.forget()


def pause_queues(session):
    admin.pause_queue(session, "default")
    assert admin.resume_queue(session, "default")
    for target in ({"everything": True}, {"kind": "mail"}, {"gate": "mail-api", "key": 42}):
        admin.pause(session, target)
        assert admin.resume(session, target)


def list_running(session):
    assert running.list_processes(session) == []
    assert running.list_running(session) == []


def ask_for_stacks(session):
    [(request, state, *_)] = session.run("stack_ask", None, 1, "fastq")
    assert (request, state) == (None, "available")
    assert session.run("stack_take", 1, 1) == [(None, None, False)]
    session.run("stack_drop", 1)


def tell_stacks(session):
    assert session.run("stack_wanted", 1, 10) == []
    assert session.run("stack_unheard", [1]) == []
    session.run("stack_answer", 1, "text")


def list_gates(session):
    assert [(row.name, row.admitted) for row in gates.list_gates(session)] == [("mail-api", 2)]


def set_gates(session):
    assert gates.set_gate(session, "mail-api", 5) is None
    assert gates.set_gate(session, "mail-api", 6) == 5
    assert gates.remove_gate(session, "mail-api") == 6


def define_periodic(session):
    registry = Registry()
    registry.periodic("weekly", Every(3600), SortArgs(["a"]))
    registry.periodic("daily", Every(60), SortArgs(["a"]))
    assert len(definitions.define(session, registry)) == 2


def pause_periodic(session):
    periodic.pause_periodic(session, "daily")
    assert periodic.resume_periodic(session, "daily")


def list_leaders(session):
    assert {row.name for row in leaders.list_leases(session)} >= {"leader:default"}
    assert leaders.list_chores(session) == []


def hold_leases(session):
    [(term, *_)] = session.run("lease_acquire", "singleton:sweep", "h:1:y", 60.0, None, None)
    fence = lease.Fence("singleton:sweep", "h:1:y", term)
    assert session.run("once", *fence, "item") == [(True, True)]
    assert session.run("lease_renew", [fence.name], [fence.holder], [fence.term], 60.0)
    assert session.run("lease_release", *fence, "fastq")


def work(session):
    [(first, known)] = session.run("process_take_numbers")
    assert not known
    jobs = claim(session, first << 32 | 1)
    assert session.run("job_complete_archive", [jobs[0].id], [first << 32 | 1]) == []
    assert session.run("job_complete_tied_archive", [jobs[0].id], [first << 32 | 1], None) == [(0, 0)]
    take_steps(session, jobs[1].id, first << 32 | 1)
    assert session.run("job_release", [jobs[1].id], [first << 32 | 1], "fastq") == [(1, 1)]


def enqueue_workflow(session):
    client = Client("host=nowhere")
    started = client.enqueue_workflow(chain(SortArgs(["a"]), SortArgs(["b"])), conn=session.raw)
    client.add_to_workflow(started.id, [SortArgs(["c"])], after=[1], conn=session.raw)


def change_workflow(session):
    client = Client("host=nowhere")
    client.cancel_workflow(1, conn=session.raw)
    client.retry_workflow(1, conn=session.raw)


def look_at_workflow(session):
    assert session.run("workflow_show", 1)
    assert session.run("workflow_list", 10, None, 10)
    assert session.run("workflow_steps", 1, 0, 10)


ACTIONS = {
    "enqueue [workflows](workflows.md)": enqueue_workflow,
    "cancel and retry workflows": change_workflow,
    "look how far workflows are": look_at_workflow,
    "enqueue jobs": enqueue,
    "give a job an id of its own choice": choose_an_id,
    "read args, errors and outputs": read,
    "enqueue unique jobs": enqueue_unique,
    "list the keys of unique jobs": admin.list_keys,
    "give up the key of a unique job": lambda session: session.run("unique_release", "00", 1),
    "read [what jobs have logged](job-logs.md)": read_logs,
    "read [statistics](statistics.md)": read_statistics,
    "list queues": admin.list_queues,
    "say why a job waits": lambda session: admin.why_job(session, 1),
    "list hosts, processes and running jobs": list_running,
    "ask a process [where its jobs are](stacks.md)": ask_for_stacks,
    "tell where jobs are": tell_stacks,
    "list gates": list_gates,
    "list leaders and the runs of their chores": list_leaders,
    "ask for [the backlog and the lag](health.md#scaling) of a queue": lambda session: session.execute(
        "select fastq.backlog('default'), fastq.lag('default')"
    ),
    "list periodic jobs": periodic.list_periodic,
    "list the last ticks of periodic jobs": lambda session: periodic.list_ticks(session, "daily"),
    "cancel, retry and delete jobs": change_jobs,
    "change jobs with a record in the audit, and ask for [operations](operations.md)": change_with_record,
    "list operations and the audit": list_changes,
    "[import](export.md) jobs": import_jobs,
    "send signals to jobs": send_signals,
    "read the values of steps": lambda session: session.run("step_list", 1),
    "list discarded jobs in groups": list_dead,
    "replay and delete discarded jobs": replay_dead,
    "encrypt args with another key": rotate_keys,
    "pause and resume queues": pause_queues,
    "set and remove the numbers of gates": set_gates,
    "define periodic jobs": define_periodic,
    "pause and resume periodic jobs": pause_periodic,
    "run periodic jobs by hand": lambda session: periodic.run_periodic(session, "daily"),
    "delete periodic jobs": lambda session: periodic.delete_periodic(session, "daily"),
    "ask a leader to resign": lambda session: leaders.resign(session, "leader:default"),
    "hold leases: singletons and your own": hold_leases,
    "work jobs": work,
    "write what jobs log": write_logs,
    "hear [events](events.md)": hear_events,
    "tell of events": forward_events,
    "count jobs, for statistics": count_jobs,
    "lead: make and drop partitions of the archive": partitions.ensure_partitions,
    "migrate": lambda session: session.execute("alter table fastq.job add column more text"),
}


def test_the_table_names_each_action_and_each_role():
    assert {what for what, _, _ in MATRIX} == set(ACTIONS)
    assert {NAMED[role] for _, role, _ in MATRIX} == set(GRANTS)
    assert {may for _, _, may in MATRIX} == {"yes", "no"}


@pytest.mark.parametrize(("what", "role", "may"), MATRIX)
def test_a_role_may_do_what_the_table_says_and_no_more(what, role, may, act):
    with act(NAMED[role]) as session:
        if may == "yes":
            ACTIONS[what](session)
        else:
            with pytest.raises(NO_RIGHT):
                ACTIONS[what](session)


def test_an_enqueuer_with_the_second_grants_looks_up_cancels_and_retries(granted):
    page = (DOCS / "postgres.md").read_text()
    [more] = re.findall(
        r"^```sql\n(grant select, insert, update, delete on fastq\.job, .*? to shop_web;.*?)^```", page, re.MULTILINE | re.DOTALL
    )
    with psycopg.connect(granted, cursor_factory=psycopg.RawCursor) as conn:
        conn.execute(more.replace("shop_", PREFIX).encode())
        conn.execute(f"set local role {PREFIX}web")
        client = Client("host=nowhere")
        job = client.enqueue(SortArgs(["a"]), conn=conn)

        assert client.cancel(job, conn=conn)
        assert client.retry(job, conn=conn)
        session = db.Connection(conn, "fastq", prepare=False, timeout=10, owned=False)
        assert session.run("job_show", job)
        assert admin.why_job(session, job)
        conn.rollback()


def test_an_enqueuer_with_the_grants_for_results_waits_and_sees_progress(granted):
    page = (DOCS / "postgres.md").read_text()
    [more] = re.findall(r"^```sql\n(grant select \(id\) on fastq\.job to .*?)^```", page, re.MULTILINE | re.DOTALL)
    with psycopg.connect(granted, cursor_factory=psycopg.RawCursor) as conn:
        conn.execute(more.replace("shop_", PREFIX).encode())
        conn.execute(f"set local role {PREFIX}web")
        session = db.Connection(conn, "fastq", prepare=False, timeout=10, owned=False)

        assert session.run("job_ends", [1, 4711], 60.0)
        assert session.run("job_ended", [4711]) == []
        assert session.run("progress_show", 1) == []
        conn.rollback()


def test_an_enqueuer_with_the_grants_for_signals_sends_them_and_reads_none(granted):
    page = (DOCS / "postgres.md").read_text()
    [more] = re.findall(r"^```sql\n(grant select \(id, state, scheduled_at.*?)^```", page, re.MULTILINE | re.DOTALL)
    with psycopg.connect(granted, cursor_factory=psycopg.RawCursor) as conn:
        conn.execute(more.replace("shop_", PREFIX).encode())
        conn.execute(f"set local role {PREFIX}web")

        assert Client("host=nowhere").signal(1, "go", 1, conn=conn)

        with pytest.raises(NO_RIGHT):
            conn.execute("select output from fastq.job_step")
        conn.rollback()


def test_an_enqueuer_with_the_grants_for_job_logs_reads_and_follows_them(granted):
    page = (DOCS / "postgres.md").read_text()
    texts = re.findall(
        r"^```sql\n(grant select (?:\(id\) on fastq\.job|on fastq\.job_log) to .*?)^```", page, re.MULTILINE | re.DOTALL
    )
    assert len(texts) == 2
    with psycopg.connect(granted, cursor_factory=psycopg.RawCursor) as conn:
        conn.execute("".join(texts).replace("shop_", PREFIX).encode())
        conn.execute(f"set local role {PREFIX}web")
        session = db.Connection(conn, "fastq", prepare=False, timeout=10, owned=False)

        read_logs(session)
        assert session.run("job_lives", 1) == [(True,)]
        assert session.run("job_ended", [4711]) == []
        conn.rollback()


def test_an_enqueuer_with_the_grants_for_events_hears_them_and_reads_no_jobs(granted):
    page = (DOCS / "postgres.md").read_text()
    [more] = re.findall(r"^```sql\n(grant insert \(filter, expires_at\).*?)^```", page, re.MULTILINE | re.DOTALL)
    with psycopg.connect(granted, cursor_factory=psycopg.RawCursor) as conn:
        conn.execute(more.replace("shop_", PREFIX).encode())
        conn.execute(f"set local role {PREFIX}web")

        hear_events(db.Connection(conn, "fastq", prepare=False, timeout=10, owned=False))

        with pytest.raises(NO_RIGHT):
            conn.execute("select args from fastq.job")
        conn.rollback()


def test_an_enqueuer_with_the_grants_for_statistics_reads_them(granted):
    page = (DOCS / "postgres.md").read_text()
    [more] = re.findall(r"^```sql\n(grant select on fastq\.stat to .*?)^```", page, re.MULTILINE | re.DOTALL)
    with psycopg.connect(granted, cursor_factory=psycopg.RawCursor) as conn:
        conn.execute(more.replace("shop_", PREFIX).encode())
        conn.execute(f"set local role {PREFIX}web")

        read_statistics(db.Connection(conn, "fastq", prepare=False, timeout=10, owned=False))

        with pytest.raises(NO_RIGHT):
            conn.execute("select args from fastq.job")
        conn.rollback()


def test_an_enqueuer_with_the_grants_for_unique_jobs_enqueues_them(granted):
    page = (DOCS / "postgres.md").read_text()
    [more] = re.findall(r"^```sql\n(grant insert \(id, waits_for\).*?)^```", page, re.MULTILINE | re.DOTALL)
    with psycopg.connect(granted, cursor_factory=psycopg.RawCursor) as conn:
        conn.execute(more.replace("shop_", PREFIX).encode())
        conn.execute(f"set local role {PREFIX}web")
        client = Client("host=nowhere")

        told = client.enqueue_many([SortArgs(["a"]), SortArgs(["b"]), SortArgs(["a"])], unique=Unique(), conn=conn)

        assert [job.new for job in told] == [True, True, False]
        assert not client.enqueue(SortArgs(["a"]), unique=Unique(), conn=conn).new
        conn.rollback()


def test_an_enqueuer_with_the_grants_for_workflows_enqueues_them_and_reads_no_output(granted):
    page = (DOCS / "postgres.md").read_text()
    [more] = re.findall(r"^```sql\n(grant insert \(name, callbacks\).*?)^```", page, re.MULTILINE | re.DOTALL)
    with psycopg.connect(granted, cursor_factory=psycopg.RawCursor) as conn:
        conn.execute(more.replace("shop_", PREFIX).encode())
        conn.execute(f"set local role {PREFIX}web")

        enqueue_workflow(db.Connection(conn, "fastq", prepare=False, timeout=10, owned=False))

        with pytest.raises(NO_RIGHT):
            conn.execute("select output from fastq.workflow_step")
        conn.rollback()
