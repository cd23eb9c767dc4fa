"""Discarded jobs are found in their own table, in sessions of any kind: no statement about them reads the archive for it.

Sessions of clients and operators choose their plans themselves, by whatever statistics there are, and prepare nothing.
"""

from datetime import UTC, datetime

import pytest

from fastq.schema.partitions import ensure_partitions, partitions
from fastq.sql.statements import qualified
from tests.db.jobs import session
from tests.db.leases import lead
from tests.db.test_plans import nodes
from tests.helpers import create_database, drop_database

MANY, FEW = 60_000, 5_000
FILL = """
insert into fastq.job_archive
    (id, created_at, finalized_at, state, priority, attempt, max_attempts, crashes, queue, kind, args, meta)
select n, now(), date_trunc('day', now()) + (n - 1) * interval '1 day' / $1::float8,
    (case when n % $2::int = 0 then 'discarded' else 'completed' end)::fastq.state, 1, 1, 25, 0, 'default', 'nap', '{}',
    case when n % $2::int = 0 then '{"cause": "failed"}'::jsonb when n % 3 = 0 then '{"gates": "[]"}' end
from generate_series(1, $1::int) as n
"""
LIST = """
insert into fastq.dead (id, finalized_at, priority, max_attempts, queue, kind, cause, args, error)
select id, finalized_at, priority, max_attempts, queue, kind, 'failed', args, '' from fastq.job_archive where state = 'discarded'
"""
IDS = ",".join(map(str, range(12, 12 * 400, 12)))


def parameters(connection, fence):
    """Return the parameters of each statement, with times of the day that has the jobs."""
    [(low, high)] = connection.execute(
        "select (day + interval '1 hour')::text, (day + interval '20 hours')::text from date_trunc('day', now()) as day"
    )
    return {
        "dead_list": (high, 2**62, low, None, None, 100),
        "dead_after": (low, 0, high, "nap", "default", 100),
        "dead_replay": (IDS, None, 0.0, 0, False, None),
        "dead_delete": (IDS, low, high, None),
        "dead_prune": (*fence, -1, 1_000),
    }


@pytest.fixture(scope="module", params=["current statistics", "statistics of an empty table", "no statistics"])
def crowded(server, migrated_template, request):
    """Give the URL of a database with many finished jobs in today's partition, a few of them discarded, and a leader's fence."""
    url = create_database(server, "fastq_test_plans_dead", migrated_template)
    maker = session(url)
    ensure_partitions(maker, days_ahead=1)
    for name in (*partitions(maker), "job_archive_default", "dead"):
        maker.execute(f"alter table fastq.{name} set (autovacuum_enabled = off)")
    if "empty" in request.param:
        maker.execute("vacuum (analyze) fastq.job_archive, fastq.dead")  # as it was when there was nothing in it
    maker.execute(FILL, MANY, MANY // FEW)
    maker.execute(LIST)
    maker.execute(
        "select brin_summarize_new_values(indexrelid) from pg_index where indrelid = $1::text::regclass",
        f"fastq.{partitions(maker)[0]}",
    )
    fence = lead(maker)
    if "current" in request.param:
        maker.execute("vacuum (analyze) fastq.job_archive, fastq.dead")
    maker.close()
    yield url, fence
    drop_database(server, "fastq_test_plans_dead")


@pytest.mark.parametrize("name", ["dead_list", "dead_after", "dead_replay", "dead_delete", "dead_prune"])
@pytest.mark.parametrize("pinned", [False, True], ids=["a client's session", "a leader's session"])
def test_no_statement_about_discarded_jobs_reads_the_archive_from_end_to_end(crowded, name, pinned):
    url, fence = crowded
    connection = session(url, pinned=pinned)
    try:
        text, values = qualified(name), parameters(connection, fence)[name]
        for number in reversed(range(len(values))):
            text = text.replace(f"${number + 1}::", f"{literal(values[number])}::")
        connection.execute("begin")
        [(told,)] = connection.execute(f"explain (analyze, buffers, costs off, timing off, format json) {text}")
        connection.execute("rollback")
    finally:
        connection.close()

    ran = [node for node in nodes(told[0]["Plan"]) if node.get("Actual Loops")]
    walked = {
        node["Relation Name"] for node in ran if node["Node Type"] == "Seq Scan" and read(node)
    }  # an empty one costs nothing
    days = (
        {f"job_archive_{datetime.now(UTC):%Y%m%d}"} if name == "dead_delete" else set()
    )  # it takes them out of the days that have them
    assert walked <= {"dead", "dead_count", "lease"} | days
    if name != "dead_delete":  # that reads the archive's block ranges
        assert not {node["Index Name"] for node in ran if "job_archive" in node.get("Index Name", "")}


def read(node):
    """Return the pages that a part of a plan has read."""
    return node["Shared Hit Blocks"] + node["Shared Read Blocks"]


def literal(value):
    match value:
        case None:
            return "null"
        case str():
            return "'" + value + "'"
        case _:
            return str(value).lower()


@pytest.mark.parametrize("name", ["dead_list", "dead_after", "dead_replay", "dead_prune"])
def test_of_many_discarded_jobs_a_page_is_read_by_the_index(crowded, name):
    url, fence = crowded
    maker, connection = session(url), session(url, pinned=False)
    maker.execute("begin")
    try:
        maker.execute(
            "insert into fastq.dead (id, finalized_at, priority, max_attempts, queue, kind, cause, args, error) "
            "select -n, date_trunc('day', now()) + n * interval '100 ms', 1, 25, 'default', 'nap', 'failed', '{}', "
            "repeat('x', 300) from generate_series(1, 100000) as n"
        )
        text, values = qualified(name), parameters(connection, fence)[name]
        for number in reversed(range(len(values))):
            text = text.replace(f"${number + 1}::", f"{literal(values[number])}::")
        maker.execute("set local enable_seqscan = on; set local enable_bitmapscan = on; set local plan_cache_mode = auto")
        [(told,)] = maker.execute(f"explain (costs off, format json) {text}")
    finally:
        maker.execute("rollback")
        maker.close()
        connection.close()

    assert not {node["Relation Name"] for node in nodes(told[0]["Plan"]) if node["Node Type"] == "Seq Scan"} & {
        "dead",
        "job_archive",
    }
    assert {node["Index Name"] for node in nodes(told[0]["Plan"]) if "Index Name" in node} & {"dead_ended", "dead_pkey"}
