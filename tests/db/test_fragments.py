"""Fragments of the statements that must agree do: who adds a column to one and forgets another is told which.

The fragments are found in the text of the statements, so that a new statement with such a fragment takes part without a word
here. Each comparison is a function of the texts that returns faults; the mutants at the end show that it finds them.
"""

import re
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from itertools import zip_longest

import psycopg
import pytest

from fastq.admin.jobs import JobDetail, JobRow
from fastq.admin.leaders import ChoreRow, LeaseRow
from fastq.admin.periodic import PeriodicRow, TickRow
from fastq.admin.queues import QueueRow, WaitingRow
from fastq.admin.running import ProcessRow, RunningRow
from fastq.admin.why import Facts
from fastq.enqueue.copies import Copy
from fastq.jobs.spec import JobSpec
from fastq.lead.chores.periodic import Scheduled
from fastq.sql.statements import statement
from tests.test_house import STATEMENTS

TEXTS = {path.stem: statement(path.stem) for path in STATEMENTS if path.parent.name == "sql"}
CLAIMS = ("job_claim", "job_claim_part", "job_claim_waiting")
GIVEN = {"kind", "queue", "priority", "max_attempts", "args", "tags", "meta"}
"""The columns of a job that whoever enqueues it states; the others come from the statement or have defaults."""

ENDS_ALONE = {"output"}
"""Columns of the archive that not each statement writes."""

MADE = {"finalized_at": "now()", "state": "", "errors": "errors", "crashes": "crashes", "meta": "meta"}
"""What an archive's row has not as the job had it, by column: the words that the expression for it must have."""


HOLDS = "not starts_with(coalesce(meta ->> 'gates'::text, ''), '[[\"order-hold\"')"
WAITS = "state = 'waiting' and starts_with(waits_for, 'worker:')"
NOTED = (
    ", job.scheduled_at",
    ", job.seq, due.scheduled_at as due_at",
    (
        "), noted as ( insert into fastq.stat_due (first_seq, last_seq, at) "
        "select min(seq), max(seq), max(due_at) from promoted where seq is not null having isfinite(max(due_at)) "
        "returning first_seq "
    ),
)  # what a promotion does for the statistics, and an admission does not: nobody knows since when its jobs are due
DUE = "scheduled_at <= clock_timestamp() and state = any ('{scheduled,retryable}'::fastq.state[])"


@cache  # each mutant changes one statement of all
def plain(text):
    """Return a text without comments, on one line, with one blank where there were several."""
    return " ".join(re.sub(r"(^|\s)--[^\n]*", " ", text).split())


def inside(text, start):
    """Return what stands in the parentheses that open at a place."""
    depth, quoted = 0, False
    for place in range(start, len(text)):
        quoted ^= text[place] == "'"
        if not quoted:
            depth += (text[place] == "(") - (text[place] == ")")
            if depth == 0:
                return text[start + 1 : place].strip()
    raise AssertionError(f"parentheses that do not close: {text[start : start + 60]}")


def before(text, words):
    """Return a text up to one of the words that stands outside of parentheses and strings."""
    depth, quoted = 0, False
    for place, sign in enumerate(text):
        quoted ^= sign == "'"
        if not quoted:
            depth += (sign == "(") - (sign == ")")
            ends = depth == 0 and re.match(rf"\b(?:{words})\b", text[place:]) and not text[place - 1 : place].isalnum()
            if depth < 0 or ends:
                return text[:place].strip()
    return text.strip()


def items(text):
    """Split a list at the commas outside of parentheses and strings."""
    found, rest = [], text
    while rest:
        depth, quoted, end = 0, False, len(rest)
        for place, sign in enumerate(rest):
            quoted ^= sign == "'"
            if not quoted:
                depth += (sign in "([") - (sign in ")]")
                if sign == "," and depth == 0:
                    end = place
                    break
        found.append(rest[:end].strip())
        rest = rest[end + 1 :]
    return found


@cache
def ctes(text):
    """Return the parts of a `with` by name; the name has its columns with it, where it has some."""
    text = plain(text)
    heads = re.finditer(r"(?:with |with recursive |, )(\w+(?: \([\w, ]+\))?) as (?:materialized )?(?=\()", text)
    return {head[1]: inside(text, head.end()) for head in heads}


@cache
def inserts(text, table):
    """Return the columns and the expressions of each `insert ... select` into a table."""
    text, pairs = plain(text), []
    for found in re.finditer(rf"insert into fastq\.{table} (?=\()", text):
        columns = inside(text, found.end())
        rest = text[found.end() + len(columns) + 2 :]
        chosen = re.match(r"\s*\)?\s*(?:overriding system value )?select (.*)", rest)
        assert chosen, f"expected a select behind the columns, got {rest[:60]}"
        pairs.append(
            (items(columns), [re.sub(r"^(job|schedule|ticked)\.", "", item) for item in items(before(chosen[1], "from"))])
        )
    return pairs


def differences(kind, found):
    """Say which of the texts differ from that which most of them are; of two that differ, either may be wrong."""
    said = list(found.values())
    usual = max(said, key=said.count, default=None)
    if said.count(usual) * 2 == len(said):
        usual = None
    return [f"{name}: {kind} is not that of the others: {text}" for name, text in found.items() if text != usual]


def archive_faults(texts, in_archive, in_job):
    """Compare the inserts into the archive with each other and with its table."""
    found = {name: each for name, text in texts.items() for each in inserts(text, "job_archive")}
    lists = {name: [column for column in columns if column not in ENDS_ALONE] for name, (columns, _) in found.items()}
    faults = differences("the list of the archive's columns", lists)
    for name, (columns, chosen) in found.items():
        if len(columns) != len(chosen):
            faults.append(f"{name}: {len(columns)} columns, {len(chosen)} expressions")
        missing = set(in_archive) - ENDS_ALONE - {*columns}
        faults += [f"{name}: the archive's column {column} is not written" for column in missing]
        for column, expression in zip_longest(columns, chosen):
            if column in in_job and (MADE.get(column, column) not in expression if column in MADE else expression != column):
                faults.append(f"{name}: the archive's column {column} is given {expression}")
        source = re.search(r"with done as \(.*?returning ([\w, ]+)\)", plain(texts[name]))
        if source and set(in_job) & set(columns) - {"state"} - {*items(source[1])}:
            faults.append(f"{name}: what it deletes returns {source[1]}")
    return faults


def insert_faults(texts, in_archive, in_job):
    """Compare the inserts of jobs with what a job's spec has, and the one that brings jobs back with the archive."""
    found = {name: each for name, text in texts.items() for each in inserts(text, "job")}
    order = [*JobSpec._fields[:4], "args", *JobSpec._fields[4:]]
    faults = []
    for name, (columns, chosen) in found.items():
        faults += [f"{name}: the column {column} is not written" for column in GIVEN - {*columns}]
        if len(columns) != len(chosen):
            faults.append(f"{name}: {len(columns)} columns, {len(chosen)} expressions")
        for column, expression in zip(columns, chosen, strict=False):
            number = re.search(r"\$(\d+)", expression)
            wanted = order[int(number[1]) - 1] if number and name == "job_enqueue" else expression
            if column in GIVEN and not re.search(rf"\b{column}\b", wanted):
                faults.append(f"{name}: the column {column} is given {expression}")
    one, many = found["job_enqueue"], found["job_enqueue_many"]
    if one[0] != many[0] or one[1][-3:] != many[1][-3:]:
        faults.append("job_enqueue, job_enqueue_many: they write different columns, or times")
    unnested = re.search(r"unnest\((.*)\) with ordinality as given \((.*?)\)", plain(texts["job_enqueue_many"]))
    numbers = [int(re.search(r"\$(\d+)", each)[1]) for each in items(unnested[1])]
    if [order[number - 1] for number in numbers] != items(unnested[2])[:-1]:
        faults.append("job_enqueue_many: its lists are not in the order of a spec's fields")
    for name in ("bulk_retry", "job_rerun", "workflow_retry"):
        missing = (set(in_archive) & set(in_job)) - {*found[name][0]}
        faults += [f"{name}: {', '.join(missing)} of the archive is not brought back"] if missing else []
    return faults


def answer_faults(texts):
    """Compare how the three claims answer."""
    returned, answers = {}, {}
    for name in CLAIMS:
        claimed = ctes(texts[name])["claimed"]
        returned[name] = claimed.rpartition(" returning ")[2].replace("job.", "")
        answers[name] = items(before(plain(texts[name]).rpartition(") select ")[2], "from"))
    answers["job_claim_waiting"].append(answers["job_claim"][-1])  # it counts no large args: job_waiting has
    return differences("what a claimed row returns", returned) + differences("the answer", answers)


def large_faults(texts):
    """Compare how large args are counted."""
    found = {}
    for name, text in texts.items():
        counted = re.search(r"case when pg_column_size.*?, true\) is not null", plain(text))
        if counted:
            numbers = dict.fromkeys(re.findall(r"\$\d+", counted[0]))
            words = counted[0].replace("pick.", "")
            for place, number in enumerate(numbers):
                words = re.sub(rf"{re.escape(number)}\b", f"$#{place}", words)
            found[name] = words
    return differences("the count of large args", found) if len(found) == 3 else [f"{len(found)} statements count large args"]


def fence_faults(texts):
    """Compare the fences of a leader's statements."""
    fenced = {name: ctes(text).get("held") for name, text in texts.items() if "held as (" in text or "for key share" in text}
    faults = differences("the fence", fenced)
    for name in {*fenced} - {"lease_hold"}:  # which holds the row and does nothing else
        if plain(texts[name]).count("from held") < 2:  # the change, and the answer
            faults.append(f"{name}: nothing depends on the fence")
    return faults if len(fenced) >= 15 else [*faults, f"{len(fenced)} statements have a fence"]


def scan_faults(texts):
    """Compare the scans that skip from queue to queue, or from one reason to wait to the next."""
    faults = []
    for head in ("every (queue, waits_for)", "ready (name)", "resting (name)"):
        scans = {name: ctes(text).get(head) for name, text in texts.items()}
        found = {name: body for name, body in scans.items() if body}
        faults += differences(f"the scan {head}", found) if len(found) >= 2 else [f"no two statements scan {head}"]
    return faults


def release_faults(texts):
    """Compare the two statements that make jobs available which have waited."""
    admit, promote = plain(texts["job_admit"]), plain(texts["job_promote"])
    pairs = (
        ("resting", "due"),
        ("admitted", "promoted"),
        (WAITS, DUE),
        ("waits_for = null", "scheduled_at = null"),
    )
    for part in NOTED:
        promote = promote.replace(part, "", 1)
    for one, other in pairs:
        admit = re.sub(rf"(?<!\w){re.escape(one)}(?!\w)", other, admit)
    return [] if admit == promote else [f"job_admit, job_promote: they differ in more than in what a job waits for: {admit}"]


def gate_faults(texts):
    """Compare the words with which statements give slots back, and tell the gatekeeper of that and of jobs that come to wait."""
    parts = {"freed": {}, "told": {}, "arrived": {}}
    for name, text in texts.items():
        for part, found in parts.items():
            if body := ctes(text).get(part):
                body = re.sub(r"array\(select id from (\(.*\) as )?\w+ where", "array(select id from gone where", body)
                found[name] = re.sub(r" from (\(.*?\) as )?\w+ where waits_for", " from come where waits_for", body)
    faults = [fault for part, found in parts.items() for fault in differences(f"the part {part}", found)]
    for name, text in texts.items():
        ends = "delete from fastq.job\n" in text or "delete from fastq.job using" in text
        if (
            ends
            and name not in ("job_complete", "job_complete_archive")
            and not parts["freed"].keys() & parts["told"].keys() >= {name}
        ):
            faults.append(f"{name}: it ends jobs and gives no slots back")
        back = (
            "insert into fastq.job (id," in text and "from fastq.job_archive" in text and name != "dead_replay"
        )  # those are new jobs
        if back and not parts["freed"].keys() & parts["told"].keys() & parts["arrived"].keys() >= {name}:
            faults.append(f"{name}: it brings jobs back that may hold slots, and does not give these back")
        if "'discarded'" in text and name in parts["freed"] and "job_archive (id" in text and HOLDS not in plain(text):
            faults.append(f"{name}: a job that it discards does not hold its keys")
        if "case when waits then" in text and name not in parts["arrived"]:
            faults.append(f"{name}: it has jobs wait at gates and tells the gatekeeper nothing")
    return faults if all(len(found) >= 6 for found in parts.values()) else [*faults, f"too few statements tell: {parts}"]


def note_faults(texts):
    """Compare the words with which statements tell of the ends of the steps of workflows."""
    found, silent = {}, {"job_complete", "job_complete_archive", "unique_undo"}  # no step is ended by these
    for name, text in texts.items():
        if "fastq.workflow_event" in (body := ctes(text).get("noted", "")):
            found[name] = re.sub(
                r"step, state(, output)?\) select (.*::int), .* from \w+ where", r"select \2 from gone where", body
            )
    ends = {name for name, text in texts.items() if "delete from fastq.job\n" in text or "delete from fastq.job using" in text}
    faults = [f"{name}: it ends jobs and tells of no step" for name in ends - silent - {*found}]
    woken = {name for name in found if " from noted" in plain(texts[name])} | {
        "job_delete",
        "workflow_go",
    }  # a person's, the steward's
    faults += [f"{name}: it tells of steps and wakes nobody" for name in found.keys() - woken]
    return faults + differences("the part noted", found)


@pytest.fixture
def tables(connection):
    """Give the columns of the archive and of the living jobs, as they are in the database."""
    names = "select column_name::text from information_schema.columns where table_schema = 'fastq' and table_name = $1"
    return [[name for (name,) in connection.execute(names, table)] for table in ("job_archive", "job")]


def faults(texts, tables):
    """Return all faults of the statements."""
    alone = answer_faults, large_faults, fence_faults, scan_faults, release_faults, gate_faults, note_faults
    return [fault for look in alone for fault in look(texts)] + archive_faults(texts, *tables) + insert_faults(texts, *tables)


def test_equal_fragments_are_equal(tables):
    assert faults(TEXTS, tables) == []
    assert sum(1 for text in TEXTS.values() for _ in inserts(text, "job_archive")) == 17
    assert sum(1 for text in TEXTS.values() for _ in inserts(text, "job")) == 12  # and COPY


MUTANTS = {
    "a claim that tells no meta": (
        "job_claim_waiting",
        "case when meta is null then to_json(tags) else",
        "case when true then to_json(tags) else",
    ),
    "a claim whose answer has another order": (
        "job_claim_part",
        "string_agg(int8send(id), ''),",
        "string_agg(int8send(seq), ''),",
    ),
    "an end that forgets meta": ("job_cancel", ", tags, errors, meta)", ", tags, errors)"),
    "an end that swaps two columns": (
        "job_release",
        "now(), 'cancelled', priority, attempt, max_attempts,",
        "now(), 'cancelled', priority, max_attempts, attempt,",
    ),
    "an end with another order": (
        "job_retry",
        "queue, kind, args, tags, errors, meta)",
        "queue, kind, args, tags, meta, errors)",
    ),
    "a success that forgets the tags": (
        "job_complete_archive",
        "queue, kind, args, tags, errors, meta\nfrom",
        "queue, kind, args, null, errors, meta\nfrom",
    ),
    "a success that returns less": ("job_complete_archive", "args, tags, errors, meta\n)", "args, tags, meta\n)"),
    "an end that keeps an old meta": ("job_rescue", "coalesce(meta, '{}') ||", "'{}'::jsonb ||"),
    "an enqueue without meta": ("job_enqueue", "$9::text::jsonb", "null"),
    "an enqueue that takes another parameter": ("job_enqueue", "$3::smallint, $4::smallint", "$4::smallint, $3::smallint"),
    "lists in another order": ("job_enqueue_many", "delay, at, meta, nth)", "delay, meta, at, nth)"),
    "an enqueue that is due at once": (
        "job_enqueue_many",
        "case when due > statement_timestamp() then due end\n    from given",
        "due\n    from given",
    ),
    "a tick without meta": ("periodic_enqueue", "max_attempts, tags, meta, state,", "max_attempts, tags, errors, state,"),
    "a run by hand with another's queue": ("periodic_run", "select kind, args, queue,", "select kind, args, 'default',"),
    "a way back that leaves the tags": (
        "job_rerun",
        "queue, kind, args, tags, errors, meta, seq, waits_for)",
        "queue, kind, args, errors, meta, seq, waits_for)",
    ),
    "large args that are compared otherwise": ("job_waiting", "pg_column_size(args) < $6", "pg_column_size(args) <= $6"),
    "a fence that ends late": ("archive_prune", "expires_at > clock_timestamp()", "expires_at > now()"),
    "a change that needs no fence": ("job_admit", "where exists (select from held) and", "where"),
    "a scan that skips a reason": ("kind_waiting", "> (every.queue, greatest(", ">= (every.queue, greatest("),
    "an end that tells the gatekeeper of one job": ("job_cancel", "gates, count(*) from freed", "gates, 1 from freed"),
    "an end that gives too many slots back": ("job_finish", "where job = any (array(", "where job <> all (array("),
    "a discarded job that holds nothing": ("job_rescue", "'[[\"order-hold\"'", "'[x'"),
    "an end that tells the gatekeeper nothing": ("job_delete", "), freed as (", "), told as ("),
    "a wait that tells of the last job": ("job_rerun", "priority, min(id)", "priority, max(id)"),
    "an end of a step that nobody hears of": ("job_release", "), noted as (", "), quiet as ("),
    "an end of another step": ("job_bar", "'{workflow,1}'::text[])::int", "'{workflow,0}'::text[])::int"),
    "a step that comes back without its tags": ("workflow_retry", "tags, errors, meta, seq", "errors, meta, seq"),
    "a step that comes back and keeps its slots": ("workflow_retry", "), freed as (", "), kept as ("),
    "a step that comes to its gates without a word": ("workflow_retry", "), arrived as (", "), came as ("),
    "an admission of any queue": ("job_admit", "queue = any ($4::text[]))\n    for update", "true)\n    for update"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_statement_that_was_changed_alone_is_found(tables, mutant):
    name, here, there = MUTANTS[mutant]
    assert TEXTS[name].count(here) == 1, "the mutant no longer fits its statement"

    found = faults({**TEXTS, name: TEXTS[name].replace(here, there)}, tables)

    assert found, mutant
    assert any(name in fault for fault in found)


def test_a_column_that_is_new_to_the_tables_is_missed_in_each_statement(tables):
    in_archive, in_job = tables

    found = archive_faults(TEXTS, [*in_archive, "source"], [*in_job, "source"])
    found += insert_faults(TEXTS, [*in_archive, "source"], [*in_job, "source"])

    assert len(found) == 17 + 3


@pytest.mark.parametrize("at", [None, datetime.now(UTC)], ids=["now", "later"])
def test_a_copy_writes_what_an_enqueue_writes(at):
    columns = Copy([], None, {}, at, 0).columns

    assert set(columns) >= GIVEN
    assert len(columns) == len(set(columns))


ROWS = {
    "job_search": (JobRow, 5),
    "job_search_ids": (JobRow, 1),
    "job_show": (JobDetail, 0),
    "job_why": (Facts, 0),
    "periodic_list": (PeriodicRow, 0),
    "periodic_history": (TickRow, 0),
    "process_list": (ProcessRow, 0),
    "job_running": (RunningRow, 0),
    "periodic_due": (Scheduled, 3),
    "queue_list": (QueueRow, 0),
    "kind_waiting": (WaitingRow, 0),
    "lease_list": (LeaseRow, 0),
    "chore_list": (ChoreRow, 0),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_that_is_read_by_position_names_its_columns_as_the_fields_are_named(connection, name):
    made, first = ROWS[name]
    count = len(set(re.findall(r"\$\d+", TEXTS[name])))
    with psycopg.RawCursor(connection.raw) as cursor:
        cursor.execute(TEXTS[name].encode(), [None] * count)
        columns = [column.name for column in cursor.description or ()]

    wanted = made._fields if issubclass(made, tuple) else [field.name for field in fields(made)]
    assert columns[first:] == list(wanted)


def search_faults(texts):
    """Compare how the two statements that find jobs read a filter, and which jobs fit it."""
    found = {"wanted": {}, "fields": {}, "fits": {}}
    for name in ("job_search", "job_search_ids"):
        parts = ctes(texts[name])
        found["wanted"][name], found["fields"][name] = parts["wanted"], parts["fields"]
        found["fits"][name] = before(plain(texts[name]).rpartition("cross join wanted where ")[2], "order")
    return [fault for part, said in found.items() for fault in differences(f"the part {part}", said)]


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("queue <> all (wanted.not_queues)", "true"),
        ("asked ->> 'gate' as gate", "asked ->> 'gates' as gate"),
        ("field ->> 2 as value", "field ->> 3 as value"),
    ],
)
def test_both_statements_that_find_jobs_find_the_same(here, there):
    assert search_faults(TEXTS) == []
    assert search_faults({**TEXTS, "job_search": TEXTS["job_search"].replace(here, there)})


def key_faults(texts):
    """Compare how keys of unique jobs are taken."""
    faults = []
    for name in ("locked", "keys_moved", "keys_taken"):
        found = {text: body for text, body in ((text, ctes(texts[text]).get(name)) for text in texts) if body and "seen" in body}
        found |= {text: ctes(texts[text])[name] for text in KEYED if name in ctes(texts[text])}
        faults += differences(f"how it takes keys ({name})", found)
        faults += [f"{text}: it takes keys without {name}" for text in {*KEYED} - {*found}]
    return faults


KEYED = ("bulk_retry", "job_enqueue_unique", "job_rerun", "periodic_enqueue")


@pytest.mark.parametrize(
    ("name", "here", "there"),
    [
        ("job_rerun", "unique_key.since = ordered.seen", "true"),
        ("periodic_enqueue", "order by key\n    on conflict", "on conflict"),
        ("job_enqueue_unique", "job_id = excluded.job_id, ", ""),
    ],
)
def test_keys_are_taken_in_the_same_way_by_each_statement(name, here, there):
    assert key_faults(TEXTS) == []
    assert here in TEXTS[name]
    assert any(name in fault for fault in key_faults({**TEXTS, name: TEXTS[name].replace(here, there)}))
