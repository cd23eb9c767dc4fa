"""What a look of the chores reads does not depend on how many jobs have finished, wait for later, or wait in others' queues.

Counted in pages, at 100,000 jobs of each sort and at a million, with the filter by queue of a named domain and without.
"""

import pytest

from fastq.lead.chores.partitions import Partitions
from fastq.lead.term.chore import block_ranges
from tests.db.jobs import CHANNEL, add, session
from tests.db.leases import site_on
from tests.db.test_plans import explain, nodes
from tests.helpers import create_database, drop_database

FILTERS = {"all queues": None, "an empty list": [], "a domain's queues": ["mine", "yours"]}
SMALL = {"queue", "process", "lease"}  # all their rows are in a page or two

FINISHED = """
insert into fastq.job_archive (id, created_at, finalized_at, state, priority, attempt, max_attempts, crashes, queue, kind, args)
select n, now(), date_trunc('day', now()) + n * interval '1 day' / $1::float8, 'completed', 1, 1, 25, 0,
    (array['mine', 'yours', 'others'])[1 + n % 3], 'nap', '{}'
from generate_series(1, $1::bigint) as n
"""
LIVING = """
insert into fastq.job (kind, queue, state, seq, scheduled_at)
select 'nap', (array['mine', 'yours', 'others'])[1 + n % 3],
    case when n % 2 = 0 then 'available' else 'scheduled' end::fastq.state,
    case when n % 2 = 0 then nextval('fastq.job_seq') end, case when n % 2 = 1 then now() + interval '1 day' end
from generate_series(1, $1::bigint) as n
"""


@pytest.fixture(scope="module", params=[100_000, pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
def crowded(server, migrated_template, request):
    """Give a leader on a database with so many jobs of each sort, finished ones in the partition of one day."""
    many = request.param
    url = create_database(server, "fastq_test_plans_chores", migrated_template)
    maker = session(url)
    partitions_of(url)
    maker.execute(FINISHED, many)
    maker.execute(
        "select brin_summarize_new_values(indexrelid) from pg_index where indrelid = $1::text::regclass", partition(maker)
    )
    maker.execute(LIVING, many)
    add(maker, 10, queue="mine", state="scheduled", seq=None, scheduled_at="2000-01-01")
    maker.execute("vacuum (analyze) fastq.job")
    maker.execute("analyze fastq.job_archive")
    maker.close()
    site = site_on(url, statement_timeout=60.0)
    yield site
    site.connection.close()
    drop_database(server, "fastq_test_plans_chores")


def partitions_of(url):
    """Let a leader make the partitions."""
    site = site_on(url, name="schema")
    Partitions().run(site)
    site.connection.close()


def partition(connection):
    return connection.execute("select 'fastq.job_archive_' || to_char(now() at time zone 'UTC', 'YYYYMMDD')")[0][0]


def looked(site, name, parameters):
    """Run a statement; return the pages that it read, the indexes that it used and the tables that it walked through."""
    site.connection.execute("begin")
    try:
        explained = explain(site.connection, name, parameters, "analyze, buffers, costs off, timing off")
    finally:
        site.connection.execute("rollback")
    plan = explained["Plan"]
    ran = [node for node in nodes(plan) if node["Actual Loops"]]
    indexes = {node["Index Name"] for node in ran if "Index Name" in node}
    walked = {node["Relation Name"] for node in ran if node["Node Type"] == "Seq Scan"}
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], indexes, walked


@pytest.mark.lease("L51")
@pytest.mark.parametrize("queues", FILTERS.values(), ids=FILTERS)
def test_a_look_for_due_jobs_reads_the_few_that_are_due(crowded, queues):
    pages, indexes, walked = looked(crowded, "job_due", (queues, 20_000, []))

    assert indexes == {"job_due"}
    assert walked <= SMALL
    assert pages < 150


def test_a_look_for_due_jobs_hashes_those_that_are_set_aside(crowded):
    plan = explain(crowded.connection, "job_due", (None, 20_000, [1, 2]))["Plan"]

    (found,) = [node for node in nodes(plan) if "SubPlan" in node.get("Filter", "")]
    assert "hashed SubPlan" in found["Filter"]


@pytest.mark.parametrize("queues", FILTERS.values(), ids=FILTERS)
def test_a_look_for_jobs_that_wait_for_a_worker_reads_those_alone(crowded, queues):
    pages, indexes, walked = looked(crowded, "waiting_known", (queues, 20_000, []))

    assert indexes <= {"job_waiting", "process_pkey"}
    assert walked <= SMALL
    assert pages < 50


@pytest.mark.lease("L51")
@pytest.mark.parametrize("queues", FILTERS.values(), ids=FILTERS)
def test_a_window_of_the_rescue_reads_its_jobs(crowded, queues):
    pages, indexes, walked = looked(crowded, "job_stranded", (queues, "default", "mine", 1, 0, 1_000, 15.0, [1, 2]))

    assert "job_ready" in indexes
    assert walked <= SMALL
    assert pages < 2_000, "two pages a job at most: the index and the row"


@pytest.mark.parametrize("queues", FILTERS.values(), ids=FILTERS)
def test_a_window_of_the_rescue_by_pages_reads_these_alone(crowded, queues):
    pages, indexes, walked = looked(crowded, "job_stranded_paged", (queues, "default", "(0,0)", "(40,0)", 15.0, [1, 2]))

    assert indexes <= {"process_pkey"}
    assert walked <= SMALL
    assert 40 <= pages < 40 + 30, "and some of the catalog and of processes"


@pytest.mark.lease("L51")
@pytest.mark.parametrize("queues", FILTERS.values(), ids=FILTERS)
def test_a_promotion_reads_its_jobs(crowded, queues):
    [(ids,)] = crowded.connection.execute(
        "select array_agg(id) from fastq.job where queue = 'mine' and scheduled_at < '2001-01-01'"
    )
    pages, indexes, walked = looked(crowded, "job_promote", (*crowded.fence, queues, ids, CHANNEL))

    assert "job_pkey" in indexes
    assert walked <= SMALL
    assert pages < 100 * len(ids)


@pytest.mark.lease("L51")
@pytest.mark.parametrize("queues", FILTERS.values(), ids=FILTERS)
def test_a_window_of_the_archive_reads_its_block_ranges(crowded, queues):
    [(low, size)] = crowded.connection.execute(
        "select (date_trunc('day', now()) + interval '10 hours')::text, pg_relation_size($1::text::regclass) / 8192",
        partition(crowded.connection),
    )
    minute = (queues, low, 8, 60.0, -1.0, None, ["emails"], ["completed"], 5_000, [])
    with block_ranges(crowded):
        pages, indexes, walked = looked(crowded, "archive_old", minute)

    assert len(indexes) == 1
    assert walked <= SMALL
    assert pages < 100 + size / 20, "a minute of 1,440, and the pages of the index"


@pytest.mark.lease("L51")
@pytest.mark.parametrize("queues", FILTERS.values(), ids=FILTERS)
def test_pruning_goes_to_the_places_that_the_look_has_found(crowded, queues):
    [(low, high)] = crowded.connection.execute(
        "select (day + interval '10 hours')::text, (day + interval '11 hours')::text from date_trunc('day', now()) as day"
    )
    found = crowded.connection.execute(
        "select id, ctid::text from fastq.job_archive where finalized_at >= $1::text::timestamptz "
        "and finalized_at < $2::text::timestamptz and queue = 'mine' limit 1000",
        low,
        high,
    )
    ids, places = zip(*found, strict=True)
    pages, _, walked = looked(crowded, "archive_prune", (*crowded.fence, queues, low, high, list(ids), list(places)))

    assert len(ids) > 100
    assert walked <= SMALL
    assert pages < 100 + 10 * len(ids)


def test_a_walk_through_the_records_of_steps_asks_for_each_of_their_jobs_alone(crowded):
    """Some of living jobs, more of those that are gone."""
    crowded.connection.execute("begin")
    try:
        crowded.connection.execute(
            "insert into fastq.job_step (job, sort, name, gone_at) "
            "select n, 'step', 'charge', case when n % 2 = 0 then now() - interval '9 days' end "
            "from generate_series(1, 40000, 10) as n"
        )
        explained = explain(
            crowded.connection,
            "step_forget",
            (*crowded.fence, 0, "", "", 1_000, 8 * 86_400.0),
            "analyze, buffers, costs off, timing off",
        )
    finally:
        crowded.connection.execute("rollback")
    ran = [node for node in nodes(explained["Plan"]) if node["Actual Loops"]]

    assert {node["Relation Name"] for node in ran if node["Node Type"] == "Seq Scan"} <= SMALL | {"dead"}  # which is empty
    assert {"job_step_pkey", "job_pkey"} <= {node["Index Name"] for node in ran if "Index Name" in node}
    plan = explained["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 30 * 1_000
