"""What the suites share: a Postgres and a schema for the session, how many jobs to take, and what a result must say of itself.

FASTQ_DATABASE_URL     measure this Postgres (in its schema fastq_bench, which is dropped) instead of an embedded one
--benchmark-disable    run everything once, with few jobs: does it still work?
"""

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from fastq.bench import load, report
from fastq.config import Config
from fastq.postgres import embedded

FEW = 200  # jobs of a round when nothing is measured
results = []  # name, jobs per second


def pytest_benchmark_update_machine_info(machine_info):
    machine_info["fastq"] = report.machine()


def pytest_terminal_summary(terminalreporter):
    if not results:
        return
    terminalreporter.section("jobs per second, by the median round")
    machine = ", ".join(f"{name} {value}" for name, value in report.machine().items())
    terminalreporter.write_line(machine)
    terminalreporter.write_line(results[-1][2])
    for name, rate, _ in results:
        terminalreporter.write_line(f"{rate:>14,.0f}  {name}")


@pytest.fixture(scope="session")
def config():
    """Give a configuration with a running database: two processes, whatever the machine, so that machines compare."""
    base = Config.load(schema=load.SCHEMA, procs=2, log_level="warning")
    if base.database_url:
        yield base
        return
    folder = Path(tempfile.mkdtemp(prefix="fastq-bench-"))  # on a disk: a commit waits for it, as in production
    folder.chmod(0o711)  # root's server runs as another user, who must pass
    with embedded.start(folder) as server:
        yield replace(base, database_url=server.url)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def connection(config):
    """Give a connection to the schema."""
    with load.fresh_schema(config) as connection:
        yield connection


@pytest.fixture
def size(benchmark):
    """Give a function that says how many jobs to take: as many as asked for, few when nothing is measured."""
    return lambda jobs: min(jobs, FEW) if benchmark.disabled else jobs


@pytest.fixture
def measured(request, benchmark):
    """Give a function that measures rounds of so many jobs: `measured(jobs, target, setup, rounds)`."""

    def measure(jobs, target, setup=None, rounds=10):
        benchmark.extra_info["jobs"] = jobs
        benchmark.pedantic(target, setup=setup, rounds=rounds, warmup_rounds=1)
        if benchmark.stats:
            rate = jobs / benchmark.stats.stats.median
            benchmark.extra_info["jobs_per_s"] = round(rate)
            results.append((request.node.name, rate, _described(request, benchmark)))

    return measure


def _described(request, benchmark):
    """Write versions and settings into the result, and return them as a line."""
    facts = {"python": report.platform.python_version(), "codec": report.codec.in_use()}
    if "connection" in request.fixturenames:
        connection = request.getfixturevalue("connection")
        facts = report.versions(connection) | report.settings(connection, request.getfixturevalue("config"), 0, 0)
        for unused in ("jobs", "rounds"):
            facts.pop(unused)
    benchmark.extra_info |= facts
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def pytest_report_header():
    return f"fastq: measuring {os.environ.get('FASTQ_DATABASE_URL') or 'an embedded Postgres'}"
