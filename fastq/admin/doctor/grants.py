"""The check of the rights of this role: the things that it may do with fastq, and those that it has some rights for and not all.

Run in the thread that calls `examine` (the main thread of `fastq doctor`; in a program the thread that calls `client.doctor()`,
or one beside the event loop of an `AsyncClient`; a thread of the dashboard), on its session; nothing is kept, and the tables
here never change. The grants are here as docs/postgres.md has them, word for word (a test compares the two), and are both the
list of rights that a use needs and the remedy. A use counts as meant for the role if the role has its signs: rights that no
lesser use gives together. So a role whose grants are older than a table of fastq's is told of it.

It deliberately grants nothing, and knows no role but its own: `?options=-c%20role%3DNAME` in the URL makes it that of another.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from fastq.admin.doctor.checks import BAD, OK, WARN, Check, Found, Patient
from fastq.sql.statements import in_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Right(NamedTuple):
    """A right of a grant; `column` is '' for a whole table or sequence, and for a function, which has its types with its name."""

    privilege: str
    relation: str
    column: str = ""


class Use(NamedTuple):
    """Something that a role does: in words, the signs that it is meant to, and the grants that it needs."""

    does: str
    signs: tuple[Right, ...]
    grants: str


USES = (
    Use(
        "enqueue jobs",
        (Right("insert", "job", "kind"),),
        """\
grant insert (kind, queue, priority, max_attempts, args, tags, meta, state, seq, scheduled_at, waits_for), select (id, seq, queue)
    on fastq.job to shop_web;
grant insert, select (id) on fastq.gate_event to shop_web;
grant usage on sequence fastq.job_seq to shop_web;
""",
    ),
    Use(
        "enqueue unique jobs",
        (Right("insert", "unique_key"),),
        """\
grant insert (id, waits_for), select (id, state, kind, queue, priority, waits_for, attempted_at) on fastq.job to shop_web;
grant select, insert, update on fastq.unique_key to shop_web;
grant usage on sequence fastq.job_id_seq to shop_web;
""",
    ),
    Use(
        "enqueue workflows",
        (Right("insert", "workflow_edge"),),
        """\
grant insert (name, callbacks), select (id, steps, cancelled_at, ended_at), update (steps) on fastq.workflow to shop_web;
grant insert, select (workflow, step, name, job, state, passed, because) on fastq.workflow_step to shop_web;
grant insert on fastq.workflow_edge to shop_web;
""",
    ),
    Use(
        "wait for jobs",
        (Right("select", "job_progress"),),
        """\
grant select (id) on fastq.job to shop_web;
grant select on fastq.job_archive, fastq.job_progress to shop_web;
""",
    ),
    Use(
        "send signals",
        (Right("insert", "job_step"),),
        """\
grant select (id, state, scheduled_at, waits_for, meta), update (state, scheduled_at, waits_for, meta) on fastq.job to shop_web;
grant insert, select (job, sort, name) on fastq.job_step to shop_web;
""",
    ),
    Use(
        "hear events",
        (Right("insert", "subscription", "filter"),),
        """\
grant insert (filter, expires_at), select, update (expires_at), delete on fastq.subscription to shop_web;
grant select on fastq.event to shop_web;
grant select (host, pid, expires_at) on fastq.process to shop_web;
""",
    ),
    Use(
        "read statistics",
        (Right("select", "stat"),),
        """\
grant select on fastq.stat to shop_web;
grant select (id, queue, priority, seq, state, scheduled_at, waits_for) on fastq.job to shop_web;
""",
    ),
    Use(
        "ask where jobs are",
        (Right("insert", "stack", "process"),),
        """\
grant select (id, state, claim) on fastq.job to shop_web;
grant insert (process, job), select, delete on fastq.stack to shop_web;
grant select (id, host, pid, expires_at) on fastq.process to shop_web;
""",
    ),
    Use("read the logs of jobs", (Right("select", "job_log"),), "grant select on fastq.job_log to shop_web;\n"),
    Use(
        "cancel and retry jobs",
        (Right("delete", "job"),),
        """\
grant select, insert, update, delete on fastq.job, fastq.job_archive, fastq.dead, fastq.unique_key to shop_web;
grant select, delete on fastq.gate_permit to shop_web;
grant insert, select (id) on fastq.workflow_event to shop_web;
grant select on fastq.process, fastq.queue, fastq.pause, fastq.lease, fastq.gate, fastq.job_progress, fastq.workflow_edge to shop_web;
grant select (workflow, step, name, job, unmet, passed, fate, because) on fastq.workflow_step to shop_web;
""",  # noqa: E501 - as the page has it
    ),
    Use(
        "work jobs (fastq run with FASTQ_LEAD=off)",
        (Right("insert", "process"),),
        """\
grant usage on schema fastq to shop_worker;
grant select, insert, update, delete on fastq.job, fastq.job_archive, fastq.dead, fastq.unique_key, fastq.process to shop_worker;
grant select, insert, update on fastq.lease, fastq.periodic, fastq.once, fastq.job_progress, fastq.job_step to shop_worker;
grant select, insert, delete on fastq.job_log, fastq.event to shop_worker;
grant select, insert on fastq.stat to shop_worker;
grant select, update (answered_at, text) on fastq.stack to shop_worker;
grant select on fastq.stat_due to shop_worker;
grant select on fastq.subscription, fastq.queue, fastq.gate, fastq.pause, fastq.migration, fastq.dead_count to shop_worker;
grant insert, select (id) on fastq.gate_event to shop_worker;
grant select, delete on fastq.gate_permit to shop_worker;
grant select, insert, update on fastq.workflow, fastq.workflow_step, fastq.workflow_edge to shop_worker;
grant select, insert, delete on fastq.workflow_event to shop_worker;
grant select, usage on sequence fastq.job_seq, fastq.job_id_seq, fastq.process_number to shop_worker;
""",
    ),
    Use(
        "operate (fastq jobs, queues, gates ...)",
        (Right("update", "queue"),),
        """\
grant usage on schema fastq to shop_operator;
grant select on all tables in schema fastq to shop_operator;
grant insert, update, delete on fastq.job, fastq.job_archive, fastq.dead, fastq.unique_key to shop_operator;
grant insert, update on fastq.queue to shop_operator;
grant insert, update, delete on fastq.pause to shop_operator;
grant insert, update, delete on fastq.gate to shop_operator;
grant insert, select (id) on fastq.gate_event to shop_operator;
grant delete on fastq.gate_permit to shop_operator;
grant insert on fastq.job_step to shop_operator;
grant insert, update, delete on fastq.subscription to shop_operator;
grant insert (process, job), delete on fastq.stack to shop_operator;
grant update on fastq.workflow, fastq.workflow_step to shop_operator;
grant insert, delete on fastq.workflow_event to shop_operator;
grant insert, update (cancel_requested) on fastq.operation to shop_operator;
grant insert on fastq.audit to shop_operator;
grant insert, delete on fastq.once to shop_operator;
grant update (paused_at, next_tick), delete on fastq.periodic to shop_operator;
grant delete on fastq.periodic_tick to shop_operator;
grant update (resign_term) on fastq.lease to shop_operator;
grant usage on sequence fastq.job_seq to shop_operator;
grant select, usage on sequence fastq.job_id_seq to shop_operator;
""",
    ),
    Use(
        "read everything",
        (Right("select", "chore"), Right("select", "job_seq")),
        """\
grant usage on schema fastq to shop_reader;
grant select on all tables in schema fastq to shop_reader;
grant select on all sequences in schema fastq to shop_reader;
""",
    ),
    Use(
        "ask for the backlog and the lag of a queue",
        (Right("execute", "backlog(text)"),),
        """\
grant usage on schema fastq to shop_scaler;
grant execute on function fastq.backlog(text), fastq.lag(text) to shop_scaler;
""",
    ),
)
"""The uses, each with its grants as docs/postgres.md has them."""

GRANT = re.compile(
    r"grant (?P<rights>.*?)\s+on (?P<sort>sequence |function |schema |all \w+ in schema |)(?P<names>[\w., ()]+) to shop_\w+;",
    re.DOTALL,
)
PRIVILEGE = re.compile(r"(?P<privilege>\w+)(?: \((?P<columns>[^)]*)\))?")


def rights_of(grant: str, tables: Sequence[str], sequences: Sequence[str]) -> list[Right]:
    """Take one statement of a grant apart into its rights; those on the schema are none: the check looks at that first."""
    parts = GRANT.fullmatch(grant)
    if parts is None:
        raise ValueError(f"expected one statement of a grant, as docs/postgres.md has it, got {grant!r}")
    if parts["sort"] == "schema ":
        return []
    every = {"all tables in schema ": tables, "all sequences in schema ": sequences}.get(parts["sort"])
    names = every if every is not None else [name.strip().removeprefix("fastq.") for name in parts["names"].split(",")]
    return [
        Right(found["privilege"], name, column.strip())
        for name in names
        for found in PRIVILEGE.finditer(parts["rights"])
        for column in (found["columns"] or "").split(",")
    ]


def statements_of(use: Use) -> list[str]:
    """Return the statements of a use's grants."""
    return [match[0] for match in GRANT.finditer(use.grants)]


def _grants(patient: Patient) -> Iterator[Found]:
    [(role, owner, owns, may_use, _, tables, sequences)] = patient.ask("doctor_role", patient.schema)
    if owns:
        how = "owns the schema" if role == owner else f"is a member of '{owner}', which owns the schema"
        yield Found(OK, f"the role '{role}' {how}: it may do everything")
        return
    if not may_use:
        remedy = f'grant usage on schema "{patient.schema}" to "{role}";'
        yield Found(BAD, f"the role '{role}' may not use the schema '{patient.schema}'", "it can do nothing here", remedy)
        return
    meant = [use for use, missing in zip(USES, _missing(patient, [use.signs for use in USES]), strict=True) if not missing]
    grants = [(use, text, rights_of(text, tables, sequences)) for use in meant for text in statements_of(use)]
    missing = _missing(patient, [rights for _, _, rights in grants])
    lacking = [(use, text, lacks) for (use, text, _), lacks in zip(grants, missing, strict=True) if lacks]
    for use in meant:
        if texts := [(text, lacks) for of, text, lacks in lacking if of is use]:
            yield _lacks(patient, role, use, texts)
    can = [use.does for use in meant if use not in [of for of, _, _ in lacking]]
    if can:
        yield Found(OK, f"the role '{role}' may {', '.join(can)}")
    elif not meant:
        means = "it can do nothing here; grants for each use: docs/postgres.md, Roles"
        yield Found(BAD, f"the role '{role}' has no rights on fastq's tables", means)


def _lacks(patient: Patient, role: str, use: Use, texts: Sequence[tuple[str, Sequence[Right]]]) -> Found:
    """Tell of a use that the role is meant for and has not all the rights for, with the grants that lack."""
    names = sorted({right.relation for _, rights in texts for right in rights})
    remedy = "\n".join(in_schema(re.sub(r"\bshop_\w+;$", lambda _: f'"{role}";', text), patient.schema) for text, _ in texts)
    means = "its programs fail where they need that; grants are to be given again after an upgrade whose changelog says so"
    return Found(WARN, f"to {use.does}, the role '{role}' lacks rights on {', '.join(names)}", means, remedy, use.does)


def _missing(patient: Patient, wanted: Sequence[Sequence[Right]]) -> list[list[Right]]:
    """Return of each list of rights those that this role has not; all lists are asked about in one statement."""
    flat = [(number, right) for number, rights in enumerate(wanted) for right in rights]
    columns = [[getattr(right, name) for _, right in flat] for name in Right._fields]
    lacking: list[list[Right]] = [[] for _ in wanted]
    for (place,) in patient.ask("doctor_rights", *columns, patient.schema):
        number, right = flat[place - 1]
        lacking[number].append(right)
    return lacking


CHECKS = (Check("grants", "does this role have the rights that its use needs?", _grants),)
