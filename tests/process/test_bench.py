"""`fastq bench` and the suites of bench/ at their smallest: everything is measured, and nothing is left behind."""

import json
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from fastq.bench.child import Program
from fastq.bench.command import FIGURES
from fastq.bench.load import open_queue
from fastq.config import Config
from fastq.postgres.db import connect
from tests.helpers import execute, wait_for

pytestmark = pytest.mark.further

ROOT = Path(__file__).parent.parent.parent
US_PER_JOB = 1_000  # us of CPU that a job may seem to cost: 100 times the truth, a tenth of what any mistake of units makes

STANDSTILL = 0.4  # s
FILL = """insert into fastq.job (kind, args)
    select 'bench.noop', json_build_object('number', number) from generate_series(1, 20000) as number"""
COMPLETED = "select count(*) from fastq.job_archive"


def bench(*words, database, code=0):
    """Run `fastq bench` on a database; return what it printed, and what it told on stderr."""
    command = [sys.executable, "-m", "fastq", "bench", "--database", database, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def measured(server, migrated_template):
    """Give the result of one small run with everything in it, and the schemas that the database had afterwards."""
    from tests.helpers import create_database, drop_database

    name = "fastq_test_bench"
    database = create_database(server, name, migrated_template)
    out, _ = bench(
        "--jobs", "5000", "--rounds", "2", "--procs", "2", "--threads", "3", "--skip", "cells", "--json", database=database
    )
    schemas = execute(database, "select nspname::text from pg_namespace where nspname like 'fastq%'")
    drop_database(server, name)
    return json.loads(out), schemas


@pytest.mark.timeout(60)
def test_every_figure_is_there_and_is_possible(measured):
    result, _ = measured

    assert [name for name in FIGURES if "latency" not in name and not result[name] > 0] == []
    assert 0.5 < result["postgres_us_per_job"] < US_PER_JOB
    assert 0.5 < result["process_us_per_job"] < US_PER_JOB
    assert 100 < result["wal_bytes_per_job"] < 10_000  # with the archive; a whole page per job would be 8,192 and more
    assert result["commit_p50_ms"] + result["latency_p50_ms"] > 0  # work does not begin before the commit is sent
    assert result["latency_p50_ms"] <= result["latency_p95_ms"] <= result["latency_p99_ms"] < 5_000


def test_a_ratio_is_that_of_its_rates(measured):
    result, _ = measured
    (least, most), (floor_least, floor_most) = result["spreads"]["jobs_per_s"], result["spreads"]["floor_jobs_per_s"]

    assert least <= result["jobs_per_s"] <= most
    assert least / floor_most - 0.01 <= result["floor_ratio"] <= most / floor_least + 0.01


def test_each_round_is_told_and_of_standstills_the_worst(measured):
    result, _ = measured
    rounds = result["rounds"]

    assert {len(rounds[name]) for name in ("jobs_per_s", "floor_ratio", "longest_stall_ms", "floor_longest_stall_ms")} == {2}
    assert result["longest_stall_ms"] == max(rounds["longest_stall_ms"])
    assert result["floor_longest_stall_ms"] == max(rounds["floor_longest_stall_ms"])
    slowest = min(rounds["jobs_per_s"])
    assert result["longest_stall_ms"] <= 5_000 / slowest * 1e3 + 1  # ms: it is a part of the round


def test_a_standstill_is_found(database):
    config = Config(database_url=database, procs=1, batch=10, queues={"default": 2})
    with closing(connect(database, role="test")) as connection, closing(connect(database, role="test")) as other:
        connection.execute("insert into fastq.queue (name, paused_at) values ('default', now())")
        connection.execute(FILL)
        with Program("route", config, jobs=20_000) as program:
            program.hear("ready")
            open_queue(connection)
            wait_for(lambda: connection.execute(COMPLETED)[0][0], 10.0, "a completion")
            other.execute("begin")
            other.execute("lock table fastq.job_archive")
            time.sleep(STANDSTILL)
            other.execute("commit")
            _, _, longest, _ = program.hear("done")

    assert longest / 1e9 > 0.8 * STANDSTILL  # less by the glances at both of its ends, which come late on a busy machine


def test_a_result_says_what_it_was_measured_on_and_how(measured):
    result, _ = measured

    assert result["machine"].keys() >= {"cores", "cpu"}
    assert result["versions"].keys() >= {"fastq", "python", "postgres", "psycopg"}
    expected = {"jobs": 5_000, "rounds": 2, "procs": 2, "threads": 3, "batch": 5_000, "archive": True, "synchronous_commit": "on"}
    assert result["settings"].items() >= expected.items()
    assert result["settings"]["args"] == "flat"
    assert result["settings"]["decoder"] == ("c, by column" if result["settings"]["codec"] == "c" else "python, by msgspec")


def test_its_schema_goes_and_that_of_the_application_stays(measured):
    _, schemas = measured

    assert schemas == [("fastq",)]


def test_parts_that_are_skipped_are_null(empty_database):
    words = (
        "--jobs",
        "500",
        "--rounds",
        "1",
        "--procs",
        "1",
        "--no-archive",
        "--skip",
        "floor,enqueue,latency,cells",
        "--json",
        "--args",
        "flat",
    )
    result = json.loads(bench(*words, database=empty_database)[0])

    measured = {name for name in FIGURES if result[name] is not None}
    assert measured == {"jobs_per_s", "longest_stall_ms", "postgres_us_per_job", "process_us_per_job", "wal_bytes_per_job"}
    assert result["settings"]["archive"] is False


def test_an_idle_supervisor_is_measured_with_the_memory_of_each_process(empty_database):
    result = json.loads(bench("--idle", "1", "--procs", "2", "--json", database=empty_database)[0])

    assert 0 <= result["idle_cpu_percent"] < 100
    assert 0 <= result["idle_statements_per_s"] < 100
    assert 0 < result["worker_pss_bytes"] < result["worker_rss_bytes"] < 2**30
    assert 0 < result["worker_shared_share"] < 1
    assert sum(process["process"].startswith("fastq: worker") for process in result["processes"]) == 2


def test_people_get_a_table_that_explains_itself_and_are_told_what_is_measured_meanwhile(empty_database):
    out, told = bench(
        "--jobs", "500", "--rounds", "1", "--procs", "1", "--skip", "enqueue,latency,cells", database=empty_database
    )

    assert "synchronous_commit on" in out
    assert "floor_ratio" in out
    assert "the limit of this machine right now" in out
    assert "latency" not in out
    measured = [line for line in told.splitlines() if line.startswith("measuring ")]
    assert measured == ["measuring round 1 of 1: 500 jobs, the route", "measuring round 1 of 1: the same jobs, the floor"]


def test_two_measurements_of_one_database_are_kept_apart(empty_database):
    import psycopg

    with psycopg.connect(empty_database, autocommit=True) as other:
        other.execute("select pg_advisory_lock(hashtext('fastq bench'))")
        _, told = bench("--jobs", "10", database=empty_database, code=1)

    assert "another fastq bench measures in this database" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--jobs", "0"), "expected a whole number above 0, got '0'"),
        (("--skip", "flor"), "expected some of route, floor, enqueue, latency, cells, got 'flor'"),
        (("--cells", "trikle"), "expected some of backlog, idle, trickle, load,"),
        (("--procs", "many"), "--procs: expected a whole number, 0 to 256, got 'many'"),
    ],
)
def test_a_mistake_is_named_before_anything_is_measured(words, said):
    _, told = bench(*words, database="postgresql://127.0.0.1:1/nowhere", code=2)

    assert said in told


def test_every_suite_still_runs(server):
    command = [sys.executable, "-m", "pytest", "bench", "-q", "--benchmark-disable", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "FASTQ_DATABASE_URL": server},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout
