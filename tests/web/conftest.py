"""A database with something in each corner, and clients of the dashboard by their rights."""

import json
from dataclasses import dataclass

import pytest
from starlette.testclient import TestClient

from fastq import Args, Client, Config, Every, JobFilter, Ordered, Registry, Unique, Workflow, group
from fastq.admin import search
from fastq.lead import definitions
from fastq.web import OPERATOR, Viewer, dashboard
from tests.db.jobs import add, session
from tests.db.leases import lead

ORIGIN = {"origin": "http://testserver", "sec-fetch-site": "same-origin"}
HOSTILE = """<img src=x onerror=alert(1)>"'><script>alert(2)</script>{{7*7}}&lt;"""


@dataclass
class MailArgs(Args, kind="mail", queue="emails", tags=["welcome"]):
    to: str


@dataclass
class SyncArgs(Args, kind="sync", unique=Unique("account"), gates=[Ordered("stream", by="account", when_discarded="hold")]):
    account: int


def furnish(url, text="plain"):
    """Put something into each corner of a database that a page shows; `text` stands in each text that a user may choose."""
    connection = session(url)
    with Client(url) as client:
        mails = client.enqueue_many([MailArgs(f"{text}{n}") for n in range(3)])
        client.enqueue(SyncArgs(7))
        flow = Workflow("flow")
        first = flow.add(MailArgs("first"), name="first")
        flow.add(group(*[MailArgs(f"{n}") for n in range(3)]), after=first)
        started = client.enqueue_workflow(flow)
        client.set_gate("mail-api", 3)
        client.pause(kind="letters", until=3600, reason="the provider is down")
        client.pause(gate="mail-api", key=text)
    registry = Registry()
    registry.periodic("daily", Every(3600), MailArgs("daily"))
    definitions.define(connection, registry)
    failed = json.dumps(
        [{"attempt": 1, "at": "2026-11-19T10:00:00+00:00", "error": f"ValueError: {text}", "trace": f"Traceback {text}"}]
    )
    [running] = add(
        connection, state="running", kind="report", queue="default", claim=1 << 32 | 1, attempted_at="2026-11-19", attempt=1
    )
    [dead] = _discard(connection, text, failed)
    connection.execute(
        "insert into fastq.process (id, host, pid, supervisor, queues, expires_at, kinds) "
        "values (1, $1, 99, 'h:7:x', 'emails,default', now() + interval '1 hour', array['mail'])",
        f"web-1{text}"[:200],
    )
    connection.execute("insert into fastq.job_progress (job, fraction, attempt, text) values ($1, 0.4, 1, $2)", running, text)
    connection.execute(
        "insert into fastq.job_step (job, sort, name, at, attempt, took, output) values ($1, 'step', $2, now(), 1, 0.5, $3)",
        running,
        text,
        json.dumps(text),
    )
    connection.execute(
        "insert into fastq.job_log (job, claim, start_at, attempt, size, lines, ended, kind, text) "
        "values ($1, 1, 0, 1, 9, 1, true, 'report', $2)",
        running,
        "2026-11-19T10:00:00+00:00\tINFO\tapp\t" + text.replace("\n", " ").replace("\t", " "),
    )
    operation = _operate(connection, text)
    lead(connection, "schema")
    [(waiting,)] = connection.execute(
        "insert into fastq.job (kind, queue, tags, state, seq, waits_for) values ($1, 'emails', array[$2], 'waiting', null, $3) "
        "returning id",
        text[:30],
        text,
        f"worker:{text[:30]}",
    )
    connection.close()
    return {
        "mails": mails,
        "running": running,
        "dead": dead,
        "waiting": waiting,
        "workflow": started.id,
        "operation": operation,
    }


def _operate(connection, text):
    """Put an operation and two records into the database; return its id."""
    [(operation,)] = connection.execute(
        "insert into fastq.operation (verb, words, change, state, asked_by, expected, at_least, done, skipped, place, error) "
        "values ('move', $1, $2::json, 'running', $1, 10, false, 3, $3::jsonb, '', $1) returning id",
        text,
        json.dumps({"queue": text}),
        json.dumps({f"refused: {text}": 2}),
    )
    connection.execute(
        "insert into fastq.audit (asked_by, verb, words, job, operation, jobs, change) values "
        "($1, 'move', $1, null, $2, 3, $3::json), ($1, 'edit', null, 1, null, 1, $3::json)",
        text,
        operation,
        json.dumps({"queue": text, "kind": "mail", "args": json.dumps({"to": text})}),
    )
    return operation


def _discard(connection, text, errors):
    rows = connection.execute(
        "insert into fastq.job_archive (id, created_at, attempted_at, finalized_at, state, priority, attempt, max_attempts,"
        " crashes, queue, kind, args, errors, tags, meta)"
        " values (nextval('fastq.job_id_seq'), now(), now(), now(), 'discarded', 1, 1, 1, 0,"
        " 'default', 'crawl', $1::json, $2::jsonb, array[$3], '{\"cause\": \"failed\"}') returning id",
        json.dumps({"url": text}),
        errors,
        text,
    )
    connection.execute(
        "insert into fastq.dead (id, finalized_at, priority, max_attempts, queue, kind, cause, args, error) "
        "values ($1, now(), 1, 1, 'default', 'crawl', 'failed', $2::json, $3)",
        rows[0][0],
        json.dumps({"url": text}),
        f"ValueError: {text}",
    )
    return [row[0] for row in rows]


WHO = {"reader": Viewer("rita"), "operator": Viewer("otto", OPERATOR)}


def who(request):
    """Let in those who say in a header who they are; for tests alone."""
    return WHO.get(request.headers.get("x-who", ""))


@pytest.fixture
def site(database):
    """Give the dashboard of a fresh database."""
    made = dashboard(Config(database_url=database), auth=who)
    yield made
    made.close()


@pytest.fixture
def browser(site):
    """Give a function that gives a client of the dashboard with the rights of a reader, an operator or nobody."""

    def of(name="operator"):
        return TestClient(site, headers={"x-who": name}, follow_redirects=False)

    return of


def act(client, path, **fields):
    """Do an action as a browser does: load the page that asks, and send its form."""
    asked = client.get(path)
    assert asked.status_code == 200, asked.text
    token = asked.text.partition('name="token" value="')[2].partition('"')[0]
    return client.post(path, data={"token": token, "back": "", **fields}, headers=ORIGIN)


def list_ids(url, *, limit=50, **wanted):
    """Return the ids of jobs."""
    connection = session(url)
    try:
        return [job.id for job in search.list_jobs(connection, JobFilter(**wanted), limit=limit)]
    finally:
        connection.close()
