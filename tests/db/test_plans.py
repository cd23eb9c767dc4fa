"""Each statement reads the indexes that its header names, at 100,000 living and 100,000 finished jobs, and a claim stays cheap.

Statements run as the runtime runs them: prepared, with a generic plan, and the planner's settings pinned by fastq/postgres/db.py.
"""

import json
import re
from importlib import resources

import pytest

from fastq.postgres import db
from fastq.schema.migrate import migrate
from tests.db.jobs import CHANNEL, END, ERROR, START, add, claim, claim_number, session
from tests.helpers import create_database, drop_database

MANY = 100_000
CLAIM = claim_number(1, 1)
IDS, CLAIMS = [1, 2, 3], [CLAIM]
FENCE = ("leader:default", "me", 1)
GATES = '[["limit", "api", "", 1, 20]]'
UNIQUE = ("nap", "default", "1", "25", "{}", None, None, None, '{"unique": ["00", "end", null]}')
DEAD = ("2026-01-01 00:00Z", "2026-01-01 00:01Z")
PARAMETERS = {
    "audit_add": ("me", "cancel", "1,2,3", None),
    "audit_list": (50,),
    "audit_prune": (*FENCE, 100, 90.0),
    "bulk_cancel": (IDS, CHANNEL),
    "bulk_delete": (IDS, IDS, ["(0,1)"] * 3, *DEAD, CHANNEL),
    "bulk_edit": ("1,2,3", "slow", None, None, None, None, None, CHANNEL),
    "bulk_hurry": (IDS, CHANNEL),
    "bulk_retry": (IDS, ["(0,1)"] * 3, *DEAD, CHANNEL),
    "operation_cancel": (1, CHANNEL),
    "operation_hold": (*FENCE, 1, "here"),
    "operation_list": (50, None),
    "operation_next": (IDS,),
    "operation_note": (1, "running", "there", 1, "{}", None),
    "dead_list": ("2100-01-01", 0, "2000-01-01", None, None, 100),
    "dead_after": ("2000-01-01", 0, "2100-01-01", None, None, 100),
    "dead_replay": ("1,2,3", None, 0.0, 0, False, CHANNEL),
    "dead_delete": ("1,2,3", *DEAD, CHANNEL),
    "dead_prune": (*FENCE, 7, 100),
    "gate_admit": (*FENCE, IDS, CHANNEL),
    "gate_begin": FENCE,
    "gate_drop": (*FENCE, IDS, CHANNEL),
    "gate_owe": (*FENCE, ["mail-api"], ["1"], [30.0]),
    "gate_started": (IDS,),
    "gate_sweep": FENCE,
    "gate_compare": (),
    "gate_left": (IDS,),
    "gate_lines": ("default", "", 100),
    "gate_read": (*FENCE, 0, 100),
    "gate_window": (["default"], [GATES.replace('"', r"\"")], [1], [0], 16),
    "job_admit": (*FENCE, None, IDS, CHANNEL),
    "job_bar": (IDS, CLAIMS * 3, [GATES.replace('"', r"\"")] * 3, CHANNEL),
    "job_cancel": (IDS, CHANNEL),
    "job_enqueue_unique": (*UNIQUE, None),
    "job_claim": (CLAIM, "default", *START, 100, *[END] * 4, 1_000_000, 800, IDS),
    "job_claim_part": (CLAIM, "default", 0, 100, 1_000_000, 800),
    "job_claim_again": (1, IDS, CLAIMS * 3, [1] * 3),
    "job_claim_waiting": (CLAIM, IDS, "default"),
    "job_complete": (IDS, CLAIMS),
    "job_complete_archive": (IDS, CLAIMS),
    "job_rate_limited": (IDS, CLAIMS, ["30", "30"], CHANNEL),
    "job_complete_tied": (IDS, CLAIMS, CHANNEL),
    "job_complete_tied_archive": (IDS, CLAIMS, CHANNEL),
    "job_delete": (IDS,),
    "job_finish": (IDS, CLAIMS * 3, ["completed"] * 3, [None] * 3, [None] * 3, None),
    "job_finish_late": (IDS, CLAIMS * 3, ["cancelled"] * 3, [None] * 3, ["expired"] * 3, [False] * 3, None),
    "job_export": ("1,2,3", "1,2,3", "(0,1);(0,2);(0,3)", *DEAD),
    "import_note": ("import", "a b"),
    "import_noted": ("import", "a b"),
    "import_end": ("import", "a b", "default", CHANNEL),
    "job_first": ("default", *START, *[END] * 4, IDS),
    "job_first_available": ("default", *START, *[MANY] * 4),
    "job_peek": (["default", "mails"], *[[0, MANY]] * 4),
    "job_peek_waiting": (["default", "mails"],),
    "job_running": (2_000, 50, 20_000),
    "periodic_history": ("daily", 20),
    "job_search": ('{"fields": []}', 1_000, 2_000, True, True, 500, "2026-01-01", "2100-01-01", 2**62, 10),
    "job_search_ids": ('{"fields": []}', "1,2,3", True, True, 10),
    "job_locked": (IDS,),
    "job_of_claim": ("default", 0, CLAIM),
    "job_of_process": (1, 1, "host", "default", *START, *[END] * 4, 5_000),
    "job_forgotten": (IDS, 1),
    "job_due": (None, 100, []),
    "job_promote": (*FENCE, None, IDS, CHANNEL),
    "job_recover": (IDS, CLAIM, 0, "default", IDS, 3, 1, CHANNEL, ERROR, IDS, ERROR),
    "job_release": (IDS, CLAIMS, CHANNEL),
    "job_rerun": (IDS, CHANNEL),
    "job_rescue": (*FENCE, None, "default", IDS, CLAIMS * 3, [1] * 3, CHANNEL, ERROR),
    "job_rest": ("default", ["nap"], *START, 100, CHANNEL),
    "job_park": (IDS, CLAIMS * 3, [1.0] * 3, [r"[\"go\", 0]"] * 3, CHANNEL),
    "job_signal": (5, "go", "1", CHANNEL),
    "job_retry": (IDS, CLAIMS * 3, [1.0] * 3, [True] * 3, [None] * 3, CHANNEL),
    "job_crashed": (IDS, CLAIMS * 3, [1.0] * 3, [None] * 3, [None] * 3, CHANNEL),
    "job_check": (0, 500),
    "args_sealed": ("nap", 0, 500),
    "dead_sealed": ("nap", 0, 500),
    "dead_reseal": ("1\x1e2\x1e3", "a\x1eb\x1ec", "{}\x1e{}\x1e{}"),
    "args_reseal": ("1\x1e2\x1e3", "a\x1eb\x1ec", "{}\x1e{}\x1e{}"),
    "job_ended": (IDS,),
    "job_ends": (IDS, 5.0),
    "job_show": (1,),
    "job_to_cancel": (IDS,),
    "job_why": (1, 100, 100),
    "job_waiting": ("default", ["nap"], 100, 1_000_000, IDS, 800),
    "job_stranded": (None, "default", "", 0, 0, 100, 15.0, IDS),
    "job_stranded_paged": (None, "default", "(0,0)", "(100,0)", 15.0, IDS),
    "doctor_due": (100,),
    "kind_waiting": (100, 10, 1_000),
    "gate_held": (100,),
    "gate_stalled": (100,),
    "gate_release": (IDS, CHANNEL),
    "gate_waiting": (["default"], [GATES.replace('"', r"\"")], 100),
    "lease_forget": (*FENCE, "", 100, 3600.0),
    "job_lives": (1,),
    "log_count": (1,),
    "log_prune": (*FENCE, "2000-01-01", 100, 3.0),
    "log_read": (1, IDS, IDS, None, 100),
    "log_sizes": (100,),
    "log_write": (IDS, IDS, IDS, [1] * 3, ["nap"] * 3, [9] * 3, [1] * 3, [False] * 3, [""] * 3, IDS, IDS),
    "once": (*FENCE, "item"),
    "once_forget": (*FENCE, "", "", 100, 30.0),
    "pause_begin": ("kind", "nap", '""', '"why"', None, 60.0, CHANNEL),
    "pause_end": ("kind", "nap", '""', CHANNEL),
    "progress_forget": (*FENCE, 0, 100, 3600.0),
    "progress_note": (IDS, [1] * 3, [0.5] * 3, [""] * 3),
    "progress_show": (1,),
    "pause_over": (*FENCE, CHANNEL),
    "periodic_define": (
        *[["report"], ["every 30"], ["UTC"], ["once"], [0], ["0f"], ["report"], ["{}"], ["default"], [1], [25], [None]],
        *[[None], ["2026-01-01"], [False], CHANNEL],
    ),
    "periodic_enqueue": (*FENCE, ["report"], ["0f"], ["2026-01-02"], ["report"], ["2026-01-01"], CHANNEL),
    "periodic_delete": ("report",),
    "periodic_failed": (*FENCE, "report", "0f", "why"),
    "periodic_pause": ("report", CHANNEL),
    "periodic_prune": (*FENCE, None, 3600.0, 100),
    "periodic_resume": ("report", "every 30", "UTC", "2026-01-01", CHANNEL),
    "periodic_rewind": (*FENCE, None),
    "periodic_run": ("report", CHANNEL),
    "process_beat": ([1, 2], [10, 20], "host", "host:1:x", "default", 15.0, "default", [], ["nap"], [None, None]),
    "process_end": (IDS, "host:1:x"),
    "queue_forget": (*FENCE, 60.0, 100),
    "queue_list": (100, 10_000),
    "queue_unworked": (100,),
    "search_sets": ("due", "", "", "-infinity", "infinity", 100),
    "search_values": (1_000,),
    "stack_ask": (None, 1, CHANNEL),
    "stack_take": (1, 1),
    "stat_living": (100, 10_000),
    "stat_note": FENCE,
    "stat_notes": (100, 200, 5_000),
    "stat_prune": (*FENCE, 400.0, 3_600.0, 100),
    "stat_read": (3_600.0, None, "minute", "kind", None, None, True),
    "stat_roll": (*FENCE, 0, 1, "minute", 0.0, 1_000),
    "step_forget": (*FENCE, 5, "step", "charge", 100, 3600.0),
    "step_list": (5,),
    "step_outcome": ("1000", 5, "charge", 10),
    "step_note": (5, CLAIM, "step", "charge", 1, None, None, 0.1, "1"),
    "step_note_counted": (5, CLAIM, "step", "charge", 1, None, None, 0.1, "1"),
    "step_wait": (5, CLAIM, "go", 1, 60.0),
    "transaction_outcome": ("1000", 5, CLAIM, 10),
    "unique_change": (*UNIQUE, "1", "collect", "1", "texts", "100", "1000"),
    "unique_list": ("0" * 64, "f" * 64, 50, 2_000),
    "unique_release": ("0" * 64, 1),
    "unique_settle": ("1",),
    "unique_undo": ("1",),
    "unique_sweep": (*FENCE, "00", 100),
    "unique_sweep_success": (*FENCE, 0, 100),
    "waiting_known": (None, 100, []),
    "workflow_add": (*UNIQUE[:8], None, 1, 10, "[[null, [[0, false]]]]"),
    "workflow_audit": (*FENCE, 0, -1, 100),
    "workflow_cancel": (1, CHANNEL),
    "workflow_deps": (1, 3),
    "workflow_end": (IDS,),
    "workflow_go": (*FENCE, 100, CHANNEL, IDS),
    "workflow_fated": (IDS, 100),
    "workflow_hold": (*FENCE, IDS, 100, 0),
    "workflow_list": (MANY, None, 10),
    "workflow_lock": (1,),
    "workflow_names": (1, '["x"]'),
    "workflow_prune": (*FENCE, 8, 1_000),
    "workflow_reach": (IDS, IDS, [True] * 3),
    "workflow_resolve": (IDS, IDS, IDS, [None] * 3, [None] * 3),
    "workflow_retry": (1, True, CHANNEL),
    "workflow_show": (1,),
    "workflow_steps": (1, 0, 100),
    "workflow_take": (IDS, 100),
}
INDEX = re.compile(
    r"\b(?:job|job_step|once|periodic|periodic_tick|process|gate_event|gate_permit)_(?:ready|pkey|due|waiting|cancel_requested|id)\b"
    r"|\b(?:job_archive_id|job_log_pkey|job_log_at|dead_ended|dead_pkey|dead_count_pkey|unique_key_pkey|unique_key_success)\b"
    r"|\bstat_(?:at|due_seq|due_at)\b"
    r"|\bworkflow(?:_(?:step|edge|event))?_(?:pkey|open|ended|name|fate|child|of)\b"
)
WALKS = {
    "gate_begin": {"gate_debt", "gate_event", "gate_permit"},
    "gate_owe": {"gate_debt"},
    "gate_compare": {"gate_event", "gate_permit"},
    "gate_held": {"gate_permit"},
    "gate_stalled": {"gate_permit"},
    "gate_sweep": {"gate_permit"},
    "stat_note": {"job_seq"},
    "job_why": {"gate_permit", "lease"},
}
"""Tables that a statement is to read from end to end."""

GROWS = {"dead", "job", "job_log", "job_step", "gate_permit", "gate_event", "unique_key"}
GROWS |= {"stat", "stat_due", "workflow", "workflow_step", "workflow_edge", "workflow_event"}
FIRST = {
    "doctor_due": {"job_due"},
    "job_running": {"job_ready"},
    "job_due": {"job_due"},
    "log_sizes": {"job_log_at"},
    "job_to_cancel": {"job_cancel_requested"},
    "kind_waiting": {"job_waiting"},
    "queue_list": {"job_ready", "job_due", "job_waiting"},
    "queue_unworked": {"job_ready", "job_waiting"},
    "search_sets": {"job_waiting"},
    "search_values": {"job_pkey", "job_ready", "job_waiting"},
    "stat_living": {"job_ready", "job_due", "job_waiting"},
    "stat_note": {"stat_due_seq"},
    "stat_prune": {"stat_due_seq"},
    "waiting_known": {"job_waiting"},
    "workflow_fated": {"workflow_step_fate"},
    "workflow_prune": {"workflow_ended"},
}
"""Indexes that a statement reads from their beginning, since what is first there is what it looks for."""

# An index that is used to find a conflict is not in the plan's scans.
CONFLICT = {
    "job_signal": {"job_step_pkey"},
    "dead_prune": {"dead_count_pkey"},
    "import_note": {"once_pkey"},
    "once": {"once_pkey"},
    "process_beat": {"process_pkey"},
    "periodic_enqueue": {"periodic_tick_pkey"},
}


@pytest.fixture(scope="module", params=["current statistics", "statistics of an empty table"])
def crowded(server, request):
    """Give a session on a database with many jobs in it, and statistics that know of them or do not."""
    url = create_database(server, "fastq_test_plans")
    migrate(url)
    opened = session(url)
    for table in ("job", "job_archive_default", "unique_key"):
        opened.execute(f"alter table fastq.{table} set (autovacuum_enabled = off)")  # it would analyze when it likes
    opened.execute("analyze")
    add(opened, MANY)
    add(opened, 1_000, state="scheduled", seq=None, scheduled_at="2100-01-01")
    add(opened, 1_000, state="retryable", seq=None, scheduled_at="2000-01-01")
    add(opened, 1_000, state="waiting", seq=None, waits_for="worker:nap")
    add(opened, 1_000, state="waiting", seq=None, waits_for=GATES, meta=json.dumps({"gates": GATES}))
    opened.execute("insert into fastq.gate_permit select n, 'default', $1 from generate_series(1, 1000) n", GATES)
    opened.execute(
        "insert into fastq.job_archive"
        " (id, created_at, finalized_at, state, priority, attempt, max_attempts, crashes, queue, kind, args)"
        f" select n, now(), now(), 'completed', 1, 1, 25, 0, 'default', 'nap', '{{}}'"
        f" from generate_series({2 * MANY}, {3 * MANY}) n"
    )
    opened.execute(
        "insert into fastq.unique_key (key, job_id, since, until)"
        " select int8send(id), id, now(), case when id % 2 = 0 then 'success' else 'end' end from fastq.job"
    )
    opened.execute(
        "insert into fastq.workflow (name, steps, ended_at)"
        " select 'w', 10, case when n % 10 > 0 then now() end from generate_series(1, 1000) n"
    )
    opened.execute(
        "insert into fastq.workflow_step (workflow, step, job, kind, unmet, name, fate)"
        " select n / 1000 + 1, n % 1000, n, 'nap', 1, n % 1000, case when n % 100 = 0 then 'go' end"
        " from generate_series(0, 9999) n"
    )
    opened.execute(
        "insert into fastq.workflow_edge select n, m, m + 1, false from generate_series(1, 10) n, generate_series(0, 998) m"
    )
    opened.execute("insert into fastq.workflow_event (workflow, step) select n, 0 from generate_series(1, 1000) n")
    opened.execute(
        "insert into fastq.job_progress (job, fraction, attempt, text) select n, 0, 1, '' from generate_series(1, 10000) n"
    )
    opened.execute("insert into fastq.job_step (job, sort, name) select n, 'step', 'charge' from generate_series(1, 10000) n")
    opened.execute(
        "insert into fastq.job_log (job, claim, start_at, attempt, size, lines, ended, kind, text)"
        " select n, 1, 0, 1, 9, 1, true, 'nap', 'a line' from generate_series(1, 10000) n"
    )
    opened.execute(
        "insert into fastq.dead (id, finalized_at, priority, max_attempts, queue, kind, cause, args, error)"
        " select n, now() + n * interval '1 us', 1, 25, 'default', 'nap', 'failed', '{}', ''"
        " from generate_series(1, 10000) n"
    )
    opened.execute("insert into fastq.stat_due select n * 100, null, now() from generate_series(1, 10000) n")
    opened.execute(
        "insert into fastq.stat"
        " select now() - n / 10 * interval '1 minute', n % 4, 'default', 'nap', 'completed', 1, 0, 0, 0, 0, '{}', '{}'"
        " from generate_series(1, 10000) n"
    )
    opened.execute("select brin_summarize_new_values('fastq.job_archive_default_id_finalized_at_idx')")
    if request.param == "current statistics":
        opened.execute("analyze")
    yield opened
    opened.close()
    drop_database(server, "fastq_test_plans")


@pytest.fixture
def bare(database):
    """Give a session on a database without a job."""
    opened = session(database)
    yield opened
    opened.close()


def explain(connection, name, parameters, options="costs off"):
    """Return the plan of a prepared statement, its generic one as in production."""
    connection.raw.pgconn.prepare(b"explained", db.statement(name).encode())
    literals = f"({', '.join(literal(parameter) for parameter in parameters)})" if parameters else ""
    try:
        return connection.execute(f"explain ({options}, format json) execute explained {literals}")[0][0][0]
    finally:
        connection.execute("deallocate explained")


def literal(value):
    match value:
        case None:
            return "null"
        case list():  # as text: the statement's own types decide
            return "'{" + ",".join("null" if item is None else f'"{item}"' for item in value) + "}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case _:
            return str(value)


def nodes(plan):
    """Yield every node of a plan."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def indexes_named_by(name):
    """Return the indexes that the header of a statement names."""
    text = resources.files("fastq").joinpath("sql", f"{name}.sql").read_text()
    (line,) = re.findall(r"^-- index: (.*)$", text, flags=re.MULTILINE)
    return set(INDEX.findall(line))


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_statement_reads_the_indexes_that_its_header_names_and_no_table_from_end_to_end(crowded, name, request):
    stale = "empty" in request.node.name  # then block ranges look no better than a walk; operators wait, jobs do not
    plan = explain(crowded, name, PARAMETERS[name])["Plan"]

    used = {node["Index Name"] for node in nodes(plan) if "Index Name" in node}
    walked = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
    if "job_archive_default_id_finalized_at_idx" in used:  # the partition's part of it
        used.add("job_archive_id")
    expected = indexes_named_by(name) - ({"job_archive_id"} if stale else set())
    assert used | CONFLICT.get(name, set()) >= expected
    small = {"dead_count", "queue", "pause", "periodic", "process", "stack"}  # all their rows are in a page or two
    assert walked <= small | WALKS.get(name, set()) | ({"job_archive_default"} if stale else set())


def test_a_statement_that_was_prepared_while_its_tables_were_empty_looks_rows_up_one_by_one(bare):
    walked = {}
    for name, parameters in PARAMETERS.items():
        scans = [node for node in nodes(explain(bare, name, parameters)["Plan"]) if "Index" in node["Node Type"]]
        walked[name] = {node["Index Name"] for node in scans if node["Relation Name"] in GROWS and "Index Cond" not in node}

    walks = {name: {f"{table}_pkey" for table in tables} for name, tables in WALKS.items()}
    first = {name: found - walks.get(name, set()) for name, found in walked.items() if found - walks.get(name, set())}
    assert first == {name: indexes for name, indexes in FIRST.items() if name in first}
    better = {"stat_note", "stat_prune"} if bare.raw.info.server_version < 180_000 else set()  # 16 finds the first by its number
    assert FIRST.keys() - first.keys() <= better


@pytest.mark.parametrize(("name", "values"), [("stat_living", ("100", "10000")), ("queue_list", ("100", "10000"))])
def test_the_count_of_living_jobs_stops_at_its_limit_and_walks_over_no_table_by_plans_of_the_servers_choice(
    crowded, name, values
):
    """It runs in sessions of operators and clients, which pin no plans."""
    text = db.statement(name)
    for number, value in enumerate(values, 1):
        text = text.replace(f"${number}::", f"{value}::")
    crowded.execute("begin")
    for setting in ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "enable_sort"):
        crowded.execute(f"set local {setting} = on")
    [[[explained]]] = crowded.execute(f"explain (analyze, buffers, costs off, timing off, format json) {text}")
    crowded.execute("rollback")

    plan = explained["Plan"]
    assert "job" not in {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 500, "of the table's thousands"


def test_every_statement_that_names_an_index_is_looked_at_here():
    files = resources.files("fastq").joinpath("sql").iterdir()
    names = {path.name.removesuffix(".sql") for path in files if path.name.endswith(".sql")}

    elsewhere = {"archive_old", "archive_prune"}  # counts for people; test_plans_chores.py
    assert {name for name in names if indexes_named_by(name)} - set(PARAMETERS) == elsewhere


def test_a_claim_touches_no_more_pages_after_100_000_finished_jobs_though_an_old_snapshot_keeps_them(connection, other):
    def pages_of_a_claim(after):
        add(connection, 100)
        connection.execute("begin")
        plan = explain(
            connection,
            "job_claim",
            (CLAIM, "default", *[after] * 4, 100, *[END] * 4, 1_000_000, 800, []),
            "analyze, buffers, costs off, timing off",
        )
        connection.execute("rollback")
        assert plan["Plan"]["Plans"][-1]["Actual Rows"] == 100
        frontier = claim(connection, CLAIM, after=(after,) * 4)[-1].seq
        connection.run("job_complete", *finished(connection))
        return plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"], frontier

    def finished(connection):
        return [job_id for (job_id,) in connection.execute("select id from fastq.job where state = 'running'")], [CLAIM]

    pages_of_a_claim(0)  # the catalogue is read and the first pages of the table are made
    other.execute("begin isolation level repeatable read")
    other.execute("select count(*) from fastq.job")
    first, frontier = pages_of_a_claim(0)
    for _ in range(MANY // 5_000):
        add(connection, 5_000)
        jobs = claim(connection, CLAIM, after=(frontier,) * 4, limit=5_000)
        frontier = jobs[-1].seq
        connection.run("job_complete", [job.id for job in jobs], [CLAIM])
    last, _ = pages_of_a_claim(frontier)
    from_the_left_edge, _ = pages_of_a_claim(0)
    other.execute("rollback")

    assert last <= 1.25 * first, f"{first} pages at first, {last} now"
    assert from_the_left_edge > 5 * first, "the snapshot kept nothing, so this test showed nothing"
