"""No search reads the living jobs or the archive from end to end: in a client's session, nor in a leader's with any statistics.

A client's session chooses its plans by the statistics. Those of a table that was empty a moment ago call for a walk through it.
"""

import json

import pytest

from fastq import JobFilter
from fastq.admin.search import terms
from fastq.schema.partitions import ensure_partitions, partitions
from fastq.sql.statements import qualified
from tests.db.jobs import add, session
from tests.db.test_plans import nodes
from tests.db.test_plans_dead import FILL, literal, read
from tests.helpers import create_database, drop_database

MANY = 60_000
FIRST = 10_000_000  # the ids of living jobs begin here, behind those of finished ones
WORDS = "kind:nap -queue:slow error:boom args.n:1 -tag:x priority:>0"
ALWAYS = ("2000-01-01", "2100-01-01", terms.LARGEST)


@pytest.fixture(scope="module")
def crowded(server, migrated_template, request):
    """Give the URL of a database with many finished jobs in today's partition and many living ones, and the hours of that day."""
    url = create_database(server, "fastq_test_plans_search", migrated_template)
    maker = session(url)
    ensure_partitions(maker, days_ahead=1)
    for name in (*partitions(maker), "job_archive_default", "job"):
        maker.execute(f"alter table fastq.{name} set (autovacuum_enabled = off)")
    if "empty" in request.param:
        maker.execute("vacuum (analyze) fastq.job_archive, fastq.job")  # as it was when there was nothing in it
    maker.execute(FILL, MANY, 2)
    maker.execute("select setval('fastq.job_id_seq', $1::bigint)", FIRST)
    add(maker, MANY // 3)
    add(maker, 1_000, state="scheduled", seq=None, scheduled_at="2100-01-01")
    add(maker, 1_000, state="waiting", seq=None, waits_for="worker:nap")
    maker.execute(
        "select brin_summarize_new_values(indexrelid) from pg_index where indrelid = $1::text::regclass",
        f"fastq.{partitions(maker)[0]}",
    )
    if "current" in request.param:
        maker.execute("vacuum (analyze) fastq.job_archive, fastq.job")
    hours = maker.execute(
        "select (day + interval '10 hours')::text, (day + interval '10.5 hours')::text from date_trunc('day', now()) as day"
    )[0]
    [(now,)] = maker.execute("select now()")
    maker.close()
    yield url, hours, JobFilter.parse(WORDS).stored(now)
    drop_database(server, "fastq_test_plans_search")


def asked(stored, hours):
    """Return the statements of each leg of a walk with their parameters, and the tables that are read."""
    low, high = hours
    return {
        "living": ("job_search", (stored, 0, 2 * FIRST, True, False, 2_000, *ALWAYS, 50)),
        "living and finished": ("job_search", (stored, MANY - 2_000, MANY, True, True, None, *ALWAYS, 50)),
        "finished": ("job_search", (stored, 0, 2 * FIRST, False, True, 2_000, low, high, terms.LARGEST, 50)),
        "named, living": ("job_search_ids", (stored, f"{FIRST + 7},{FIRST + 900},{FIRST + 20_000}", True, False, 50)),
        "named, both": ("job_search_ids", (stored, "41000,41007,41100", True, True, 50)),
        "exported, living": ("job_search", (stored, FIRST, FIRST + 2_000, True, False, 2_000, *ALWAYS, 2_000)),
        "exported": ("job_export", (f"{FIRST + 7},{FIRST + 900}", "41000,41007", "(1,1);(2,1)", low, high)),
        "waiting": ("search_sets", ("waiting", "", "", "-infinity", "infinity", 5_000)),
        "due": ("search_sets", ("due", "", "", "-infinity", "infinity", 5_000)),
        "values": ("search_values", (1_000,)),
    }


@pytest.mark.parametrize(
    ("crowded", "pinned"),
    [("current statistics", False), ("current statistics", True), ("statistics of an empty table", True)],
    indirect=["crowded"],
    ids=["a client's session", "a leader's session", "a leader's session, statistics of an empty table"],
)
@pytest.mark.parametrize("leg", asked("", ("", "")))
def test_no_search_reads_a_table_of_jobs_from_end_to_end(crowded, leg, pinned):
    url, hours, stored = crowded
    name, values = asked(stored, hours)[leg]
    connection = session(url, pinned=pinned)
    try:
        if pinned and leg != "living":
            connection.execute("set enable_bitmapscan = on")  # as chores do that read the archive
        text = qualified(name)
        for number in reversed(range(len(values))):
            text = text.replace(f"${number + 1}::", f"{literal(values[number])}::")
        [(told,)] = connection.execute(f"explain (analyze, buffers, costs off, timing off, format json) {text}")
    finally:
        connection.close()

    ran = [node for node in nodes(told[0]["Plan"]) if node.get("Actual Loops")]
    walked = {node["Relation Name"]: read(node) for node in ran if node["Node Type"] == "Seq Scan"}
    assert {table for table, pages in walked.items() if table.startswith("job") and pages} == set(), json.dumps(told)[:2_000]
    rows = sum(node["Actual Rows"] * node["Actual Loops"] for node in ran if str(node.get("Relation Name", "")).startswith("job"))
    assert rows <= 20_000, f"{leg} has read {rows} rows"


LATE = """
insert into fastq.job_archive
    (id, created_at, finalized_at, state, priority, attempt, max_attempts, crashes, queue, kind, args)
select case when n % 100 = 7 then n - 50000 else n end + 100000, now(), date_trunc('day', now()) + n * interval '1 s',
    'completed', 1, 1, 25, 0, 'default', 'nap', '{}'
from generate_series(1, $1::int) as n
"""


def test_a_job_is_found_by_its_id_though_others_of_its_day_ended_long_after_those_of_their_age(server, migrated_template):
    url = create_database(server, "fastq_test_plans_late", migrated_template)
    connection = session(url, pinned=False)
    try:
        ensure_partitions(connection, days_ahead=1)
        connection.execute(LATE, MANY)
        connection.execute("vacuum (analyze) fastq.job_archive")
        text = qualified("job_show").replace("$1::", f"{100_000 + MANY // 2}::")
        [(told,)] = connection.execute(f"explain (analyze, buffers, costs off, timing off, format json) {text}")
        [(pages,)] = connection.execute("select sum(relpages) from pg_class where relname ~ '^job_archive_[0-9]+$'")
    finally:
        connection.close()
        drop_database(server, "fastq_test_plans_late")

    looked = [node for node in nodes(told[0]["Plan"]) if str(node.get("Relation Name", "")).startswith("job_archive")]
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in looked) == 1
    assert pages > 600
    assert sum(map(read, looked)) < pages / 3, "one range of 64 pages, and the index"
