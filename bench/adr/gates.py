"""Measure what docs/adr/0024 rests on, jobs that go through a gate: `python bench/adr/gates.py [--keys N,...] [--pin S]`.

For each number of keys it fills a queue with jobs that wait at one gate, at most LIMIT of each key at once, and has `fastq run
--procs 2` work them, which do nothing; in turns with as many plain jobs, and jobs with a limit that never binds. Then, with one
key and a limit of 1, it tells how long it takes from the end of a job to the start of the next. With `--pin` a transaction with a
snapshot stays open for so many seconds while jobs with a limit keep coming: it tells the jobs a second in each tenth of the time,
and how large the tables and indexes of the gates have become, dead rows and all.

With `--profile` it tells instead where the CPU time of a job goes that has a limit which never binds: by session of the server,
in which each role has its own statements. This needs a server on this machine.

Jobs leave no row. Server and workers share the machine. It works in a database of its own, on the server of FASTQ_DATABASE_URL,
or on an embedded one.
"""

import argparse
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from fastq import Args, Client, Job, Registry, Worker
from fastq.args.gates import Fair, Limit
from fastq.postgres import embedded
from fastq.schema.migrate import migrate

DATABASE = "fastq_adr_gates"
LIMIT = 20
BATCH = 5_000
PATIENCE = 180.0
SESSIONS = "select pid, application_name from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
SIZES = """select relname, n_dead_tup, pg_size_pretty(pg_relation_size(relid)), pg_size_pretty(pg_indexes_size(relid))
    from pg_stat_user_tables where relname in ('job', 'gate_permit', 'gate_event') order by relname"""
SLOT = struct.Struct("=d")

registry = Registry()


@dataclass
class Limited(Args, kind="limited", gates=[Limit("keys", at_most=LIMIT, by="key")]):
    """A job of a key."""

    key: int


@dataclass
class Free(Args, kind="free", gates=[Limit("free", at_most=1_000_000)]):
    """A job with a limit that never binds."""

    key: int


@dataclass
class Shared(Args, kind="shared", gates=[Fair("shared", by="key")]):
    """A job of a tenant, which waits for its turn."""

    key: int


@dataclass
class Plain(Args, kind="plain"):
    """A job without a gate."""

    key: int


@dataclass
class Chain(Args, kind="chain", gates=[Limit("chain", at_most=1)]):
    """A job that tells how long after the end of the one before it has started."""

    key: int


class Nothing:
    """Does nothing, and leaves nothing."""

    archive = False

    def work(self, _: Job) -> None:
        """Do nothing."""


class LimitedWorker(Nothing, Worker[Limited]):
    """See Nothing."""


class FreeWorker(Nothing, Worker[Free]):
    """See Nothing."""


class SharedWorker(Nothing, Worker[Shared]):
    """See Nothing."""


class PlainWorker(Nothing, Worker[Plain]):
    """See Nothing."""


class ChainWorker(Worker[Chain]):
    """Tells when it started and ended."""

    archive = False

    def work(self, _: Job[Chain]) -> None:
        """Write the two times, one write."""
        started = time.monotonic()
        with Path(os.environ["GATES_TIMES"]).open("ab") as file:
            file.write(SLOT.pack(started) + SLOT.pack(time.monotonic()))


for worker in (LimitedWorker, FreeWorker, SharedWorker, PlainWorker, ChainWorker):
    registry.register(worker)


@contextmanager
def running(url: str, times: Path) -> Iterator[None]:
    """Run a supervisor with two processes."""
    here = Path(__file__)
    words = [sys.executable, "-m", "fastq", "run", "--app-dir", str(here.parent), "--procs", "2", "--log-level", "error"]
    variables = os.environ | {"FASTQ_DATABASE_URL": url, "GATES_TIMES": str(times)}
    program = subprocess.Popen([*words, f"{here.stem}:registry"], env=variables, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        program.terminate()
        program.wait()


def left(connection: psycopg.Connection) -> int:
    """Count the jobs that have not ended."""
    return int(connection.execute("select count(*) from fastq.job").fetchone()[0])


def drained(connection: psycopg.Connection, jobs: int) -> float:
    """Wait until no job is left; return the jobs a second, from the first that ended."""
    began, last = None, time.monotonic() + PATIENCE
    while (now := left(connection)) and time.monotonic() < last:
        if began is None and now < jobs:
            began = time.monotonic(), now
        time.sleep(0.01)
    at, rest = began or (time.monotonic(), jobs)
    return rest / max(1e-9, time.monotonic() - at)


def fill(client: Client, kind: type[Args], jobs: int, keys: int) -> None:
    """Enqueue jobs while nobody works."""
    client.enqueue_copy(kind(number % keys) for number in range(jobs))  # type: ignore[call-arg]


def throughput(url: str, times: Path, kind: type[Args], jobs: int, keys: int, spent: Counter[str] | None = None) -> float:
    """Return the jobs a second of a backlog; note the seconds of CPU time that each role's sessions have spent."""
    with psycopg.connect(url, autocommit=True) as connection, Client(url) as client:
        connection.execute("truncate fastq.job, fastq.gate_permit, fastq.gate_event")
        fill(client, kind, jobs, keys)
        connection.execute("vacuum analyze fastq.job")
        with running(url, times):
            rate = drained(connection, jobs)
            if spent is not None:
                spent.update(cpu(connection.execute(SESSIONS).fetchall()))
            return rate


def cpu(sessions: list[tuple[int, str]]) -> Counter[str]:
    """Return the seconds of CPU time of some sessions, by the names given with them."""
    spent: Counter[str] = Counter()
    for pid, name in sessions:
        with suppress(FileNotFoundError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            spent[name] += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return spent


def profile(url: str, times: Path, options: argparse.Namespace) -> None:
    """Tell the CPU time of a job by session, of plain jobs and of those with a limit that never binds."""
    found = {}
    for name, kind in (("plain", Plain), ("never binds", Free)):
        found[name] = Counter()
        for _ in range(options.rounds):
            throughput(url, times, kind, options.jobs, 1, found[name])
    per_job = 1e6 / (options.jobs * options.rounds)
    for name in sorted({name for spent in found.values() for name in spent}):
        print(f"{name:32}" + "".join(f"{label} {spent[name] * per_job:6.2f} us   " for label, spent in found.items()), flush=True)


def hand_over(url: str, times: Path, jobs: int) -> list[float]:
    """Return the seconds between the end of a job and the start of the next of its key."""
    times.write_bytes(b"")
    throughput(url, times, Chain, jobs, 1)
    numbers = [SLOT.unpack_from(times.read_bytes(), at)[0] for at in range(0, times.stat().st_size, SLOT.size)]
    pairs = sorted(zip(numbers[::2], numbers[1::2], strict=True))
    return sorted(start - end for (_, end), (start, _) in pairwise(pairs))


def pinned(url: str, times: Path, seconds: float, keys: int) -> list[float]:
    """Keep limited jobs coming while an old snapshot lives; return the jobs a second of each tenth of the time."""
    with psycopg.connect(url) as pin, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("truncate fastq.job, fastq.gate_permit, fastq.gate_event")
        connection.execute("select setval('fastq.job_seq', 1), setval('fastq.job_id_seq', 1)")
        pin.execute("set transaction isolation level repeatable read")
        pin.execute("select txid_current()")
        pin.execute("select count(*) from fastq.job")
        over = threading.Event()
        feeder = threading.Thread(target=feed, args=(url, keys, over))
        with running(url, times):
            feeder.start()
            rates = []
            for _ in range(10):
                (before, _), at = let_go(connection), time.monotonic()
                time.sleep(seconds / 10)
                rates.append((let_go(connection)[0] - before) / (time.monotonic() - at))
            over.set()
            feeder.join()
        for name, rows, size, indexes in connection.execute(SIZES):
            print(f"{name:24} {rows:10,} dead rows   {size:>9}   indexes {indexes:>9}", flush=True)
    return rates


def let_go(connection: psycopg.Connection) -> tuple[int, int]:
    """Return how many jobs were let go so far, and how many wait, as sequences tell: counting rows would walk over dead ones."""
    text = "select (select last_value from fastq.job_seq), (select last_value from fastq.job_id_seq)"
    seqs, ids = connection.execute(text).fetchone()
    return int(seqs), int(ids) - int(seqs)


def feed(url: str, keys: int, over: threading.Event) -> None:
    """Keep some jobs waiting."""
    with Client(url) as client, psycopg.connect(url, autocommit=True) as connection, suppress(psycopg.Error):
        number = 0
        while not over.is_set():
            if let_go(connection)[1] > 10 * BATCH:
                time.sleep(0.02)
                continue
            client.enqueue_many([Limited((number + step) % keys) for step in range(BATCH)])
            number += BATCH


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", default="10000,100,10")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pin", type=float, default=0.0)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        given = os.environ.get("FASTQ_DATABASE_URL")
        with embedded.start(Path(folder) / "server") if not given else nullcontext() as server:
            base = given or server.url
            with psycopg.connect(base, autocommit=True) as connection:
                connection.execute(f"drop database if exists {DATABASE} with (force)")
                connection.execute(f"create database {DATABASE}")
            url = make_conninfo(base, dbname=DATABASE)
            migrate(url)
            (profile if options.profile else measure)(url, Path(folder) / "times", options)


def measure(url: str, times: Path, options: argparse.Namespace) -> None:
    """Answer all questions, in turns."""
    questions = [("plain", Plain, 1), ("never binds", Free, 1), ("1,000 fair tenants", Shared, 1_000)]
    questions += [(f"{keys} keys, {LIMIT} each", Limited, int(keys)) for keys in options.keys.split(",")]
    found: dict[str, list[float]] = {name: [] for name, *_ in questions}
    for _ in range(options.rounds):
        for name, kind, keys in questions:
            found[name].append(throughput(url, times, kind, options.jobs, keys))
    for name, rates in found.items():
        print(f"{name:24} {statistics.median(rates):10,.0f} jobs/s   {min(rates):10,.0f} .. {max(rates):,.0f}", flush=True)
    waits = hand_over(url, times, 1_000)
    at = [waits[int(len(waits) * part)] * 1e3 for part in (0.5, 0.9, 0.99)]
    print(f"end to next start        p50 {at[0]:.2f}  p90 {at[1]:.2f}  p99 {at[2]:.2f} ms", flush=True)
    if options.pin:
        rates = pinned(url, times, options.pin, 1_000)
        print(f"old snapshot, {options.pin:.0f} s     " + " ".join(f"{rate:,.0f}" for rate in rates), flush=True)


if __name__ == "__main__":
    main()
