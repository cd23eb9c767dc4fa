"""Measure what docs/adr/0017 rests on: jobs whose kind a process does not know. `python bench/adr/kinds.py [QUESTION ...]`.

    unknown   3,000 jobs of a kind that nobody knows: the updates of their rows in a minute, and how soon they end when a process
              starts that knows it
    shared    two services, a process each, share a queue: the latency of jobs that come one by one
    pinned    the same while a transaction with a snapshot stays open
    backlog   the same services with a backlog of 100,000 jobs, half of them foreign to each, and where both know both kinds
    index     what the index of waiting jobs costs those that never wait: CPU of one backend in us a job, without it, with it, and
              with the column kind in it. Server and client must be on one machine

It works in a database of its own, which it makes and drops, on the server of FASTQ_DATABASE_URL, or on an embedded one in a
temporary folder.
"""

import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from fastq import Args, Client, Job, Registry, Worker
from fastq.postgres import db, embedded
from fastq.schema.migrate import migrate
from fastq.work.codec.claimed import integers
from fastq.work.codec.codec import encode_ids

DATABASE = "fastq_adr_kinds"
UNKNOWN, BACKLOG = 3_000, 100_000
SECONDS, EVERY = 20.0, 0.05  # of jobs that come one by one
PATIENCE = 120.0
JOBS, BATCH, ROUNDS, WARM = 60_000, 5_000, 14, 2  # of the question about the index; so many rounds do not count
SIZES = 8_388_608, 836  # bytes of args that a claim may bring, and from which on args are counted: the defaults
NUMBER = struct.Struct(">q").pack
INDEXES = {"none": "", "waits_for": "queue, waits_for, priority, id", "kind": "queue, kind, priority, id"}


@dataclass
class Alpha(Args, kind="alpha"):
    """A job of the one service; `sent` is in seconds since 1970."""

    sent: float


@dataclass
class Beta(Args, kind="beta"):
    """A job of the other."""

    sent: float


class AlphaWorker(Worker[Alpha]):
    """Tells how late it is."""

    archive = False

    def work(self, job: Job[Alpha]) -> None:
        """Tell it."""
        tell(job.kind, job.args.sent)


class BetaWorker(Worker[Beta]):
    """The same."""

    archive = False

    def work(self, job: Job[Beta]) -> None:
        """Tell it."""
        tell(job.kind, job.args.sent)


alpha, beta, both = Registry(), Registry(), Registry()
for registry, workers in ((alpha, [AlphaWorker]), (beta, [BetaWorker]), (both, [AlphaWorker, BetaWorker])):
    for worker in workers:
        registry.register(worker())


def tell(kind: str, sent: float) -> None:
    """Append a latency to the file that the measurement reads."""
    if sent:
        with Path(os.environ["KINDS_LATENCIES"]).open("a") as file:
            file.write(f"{kind} {time.time() - sent}\n")


@contextmanager
def running(url: str, latencies: Path, *names: str) -> Iterator[None]:
    """Run a supervisor with one process for each registry."""
    here = Path(__file__)
    words = [sys.executable, "-m", "fastq", "run", "--app-dir", str(here.parent), "--procs", "1", "--log-level", "error"]
    variables = os.environ | {"FASTQ_DATABASE_URL": url, "KINDS_LATENCIES": str(latencies)}
    programs = [
        subprocess.Popen([*words, f"{here.stem}:{name}"], env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for name in names
    ]
    try:
        yield
    finally:
        for program in programs:
            program.terminate()
        for program in programs:
            program.wait()


def producers(connection: psycopg.Connection) -> int:
    """Count the processes that claim."""
    text = "select count(*) from pg_stat_activity where application_name = 'fastq producer' and datname = current_database()"
    return int(connection.execute(text).fetchone()[0])


def wait_until_drained(connection: psycopg.Connection) -> None:
    """Wait until no job is left, but not for ever."""
    until = time.monotonic() + PATIENCE
    while connection.execute("select exists (select from fastq.job)").fetchone()[0] and time.monotonic() < until:
        time.sleep(0.002)


def updates(connection: psycopg.Connection) -> int:
    """Count the updates of jobs so far; sessions tell of theirs a second late."""
    time.sleep(1.2)
    return int(connection.execute("select n_tup_upd from pg_stat_all_tables where relid = 'fastq.job'::regclass").fetchone()[0])


def unknown(connection: psycopg.Connection, url: str, latencies: Path) -> None:
    """Answer the first question."""
    with running(url, latencies, "alpha"):
        while producers(connection) < 1:
            time.sleep(0.01)
        before = updates(connection)
        with Client(url) as client:
            client.enqueue_many([Beta(0.0)] * UNKNOWN)
        time.sleep(60.0)
        print(f"unknown: {updates(connection) - before:,} updates of {UNKNOWN:,} jobs in a minute", flush=True)
        with running(url, latencies, "beta"):
            while producers(connection) < 2:
                time.sleep(0.001)
            began = time.monotonic()
            wait_until_drained(connection)
            print(f"unknown: all done {time.monotonic() - began:.3f} s after a process that knows them has connected", flush=True)


def shared(connection: psycopg.Connection, url: str, latencies: Path, label: str = "shared") -> None:
    """Answer the second question."""
    latencies.write_text("")
    sent = 0
    with running(url, latencies, "alpha", "beta"):
        while producers(connection) < 2:
            time.sleep(0.01)
        time.sleep(1.0)
        before = updates(connection)
        with Client(url) as client:
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                client.enqueue(Beta(time.time()))
                client.enqueue(Alpha(time.time()))
                sent += 2
                time.sleep(EVERY)
        wait_until_drained(connection)
        took = sorted(float(line.split()[1]) * 1000 for line in latencies.read_text().splitlines())
        changed = (updates(connection) - before) / sent
    middle, late = took[len(took) // 2], took[len(took) * 99 // 100]
    times = f"p50 {middle:.1f} ms, p99 {late:.1f}, max {took[-1]:.1f}"
    print(f"{label}: {len(took)} of {sent} jobs, {times}, {changed:.2f} updates a job", flush=True)


def pinned(connection: psycopg.Connection, url: str, latencies: Path) -> None:
    """Answer the third question, after 100,000 jobs have been through the state waiting."""
    with psycopg.connect(url) as old:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select count(*) from fastq.job")
        backlog(connection, url, latencies, [("alpha", "beta")], "pinned, backlog")
        shared(connection, url, latencies, "pinned")
        old.rollback()


def backlog(
    connection: psycopg.Connection,
    url: str,
    latencies: Path,
    services: list[tuple[str, str]] | None = None,
    label: str = "backlog",
) -> None:
    """Answer the last question."""
    for names in services or [("alpha", "beta"), ("both", "both")]:
        with Client(url) as client:
            for _ in range(BACKLOG // 5_000):
                client.enqueue_many([Alpha(0.0), Beta(0.0)] * 2_500)
        before = updates(connection)
        with running(url, latencies, *names):
            while connection.execute("select count(*) from fastq.job").fetchone()[0] == BACKLOG:
                time.sleep(0.005)
            began = time.monotonic()
            wait_until_drained(connection)
            rate = BACKLOG / (time.monotonic() - began)
            changed = (updates(connection) - before) / BACKLOG
        print(f"{label}, {' and '.join(names)}: {rate:,.0f} jobs a second, {changed:.2f} updates a job", flush=True)


def index(connection: psycopg.Connection, url: str, latencies: Path) -> None:  # noqa: ARG001 - as the other questions
    """Answer the one about plain jobs: the variants take turns, and each other round in the other order."""
    connection.execute("alter table fastq.job set (autovacuum_enabled = off)")
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in INDEXES}
    for number in range(ROUNDS):
        for name in [*INDEXES][:: 1 if number % 2 else -1]:
            connection.execute("truncate fastq.job, fastq.job_archive")
            connection.execute("drop index if exists fastq.job_waiting")
            if INDEXES[name]:
                connection.execute(f"create index job_waiting on fastq.job ({INDEXES[name]}) where waits_for is not null")
            found[name].append(route(url))
    for name, rounds in found.items():
        insert, claim, end = (statistics.median(step) / JOBS / 1000 for step in zip(*rounds[WARM:], strict=True))
        print(f"index, {name}: insert {insert:.3f}, claim {claim:.3f}, end {end:.3f} us a job", flush=True)


def route(url: str) -> tuple[float, ...]:
    """Insert jobs, claim and end them by the batch; return the nanoseconds of CPU that each step took the backend."""
    session = db.connect(url, role="bench")
    clock = Path(f"/proc/{session.backend_pid}/schedstat")

    def spent() -> int:
        return int(clock.read_text().split()[0])

    took, first = [0, 0, 0], spent()
    session.execute(f"insert into fastq.job (kind, args) select 'nap', '{{\"seconds\": 1}}' from generate_series(1, {JOBS})")
    took[0] = spent() - first
    low = session.execute("select min(seq) - 1 from fastq.job")[0][0]
    for number in range(1, JOBS // BATCH + 1):
        claim, ends = 1 << 32 | number, (low + (number - 1) * BATCH, low + number * BATCH)
        before = spent()
        _, row = session.run_blobs("job_claim_part", [NUMBER(claim), b"default", *map(NUMBER, (*ends, *SIZES))])
        between = spent()
        ids = sorted(integers(row[0]))
        last = spent()
        session.run_blobs("job_complete_archive", [encode_ids(ids), encode_ids([claim])])
        took[1] += between - before
        took[2] += spent() - last
    session.close()
    return tuple(took)


@contextmanager
def database() -> Iterator[str]:
    """Give the URL of a migrated database."""
    with tempfile.TemporaryDirectory(prefix="fastq-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # root's server runs as another user, who must pass
        given = os.environ.get("FASTQ_DATABASE_URL")
        if given:
            yield from made(given)
            return
        with embedded.start(folder / "server") as server:
            yield from made(server.url)
        shutil.rmtree(folder / "server", ignore_errors=True)


def made(server: str) -> Iterator[str]:
    """Make it, and drop it."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"drop database if exists {DATABASE} with (force)")
        connection.execute(f"create database {DATABASE}")
        url = make_conninfo(server, dbname=DATABASE)
        migrate(url)
        yield url
        connection.execute(f"drop database {DATABASE} with (force)")


QUESTIONS = {"unknown": unknown, "shared": shared, "backlog": backlog, "pinned": pinned, "index": index}


def main() -> None:
    """Answer what was asked, or all."""
    with database() as url, psycopg.connect(url, autocommit=True) as connection, tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or QUESTIONS:
            QUESTIONS[name](connection, url, Path(folder) / "latencies")
        connection.close()


if __name__ == "__main__":
    main()
