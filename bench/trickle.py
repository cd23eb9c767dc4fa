"""What one job costs when jobs come one by one: `python -m bench.trickle [--rate N] [--programs N] [--seconds N] [--procs N]`.

Some programs enqueue one job at a time, each in a transaction of its own, at random moments of a given rate; a supervisor works
them. It tells the CPU per job of the worker processes with their supervisor, of Postgres and of the programs that enqueue, the
transactions per job, and the time from the return of `enqueue` to the start of `work`. The kernel counts CPU, and Postgres its
transactions, those of the start and the end among them. It works in the schema `fastq_bench` of FASTQ_DATABASE_URL or of an
embedded Postgres; server and client must be on one machine.

`--rate 0` enqueues as fast as it goes, without a supervisor: single enqueues a second (by `--threads` threads of each program),
beside that of bare inserts.
"""

import argparse
import json
import os
import random
import resource
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from bench.adr.measure import database
from bench.clocked import RECORD, ClockedArgs, Served, note, percentile
from fastq.bench import load
from fastq.bench.child import order, tell
from fastq.bench.cost import Meter
from fastq.config import Config
from fastq.enqueue.client import Client
from fastq.postgres.db import Connection

WARM_UP = 200  # jobs of each program that are not counted: connections, plans, modules that are imported late
STRIDE = 10_000_000  # numbers of a program's jobs
BARE = f"insert into {load.SCHEMA}.job (kind, args) values ('bench.clocked', $1) returning id"
_TRANSACTIONS = "select xact_commit from pg_stat_database where datname = current_database()"


def enqueue() -> None:
    """Be a program that enqueues: wait for a line, enqueue, tell the CPU that it took; twice, first to warm up."""
    given = order()
    numbers = given.numbers
    pause = 1e6 / numbers["micro_rate"] if numbers["micro_rate"] else 0.0
    with Client(config=given.config) as client:
        for begin, jobs in ((0, WARM_UP), (WARM_UP, numbers["jobs"])):
            tell("ready")
            input()
            before = resource.getrusage(resource.RUSAGE_SELF)
            begun = time.monotonic_ns()
            first = begin + numbers["program"] * STRIDE
            if numbers["threads"] > 1:
                _in_threads(client, first, jobs, numbers["threads"])
            elif numbers["bare"]:
                _bare(given.config, first, jobs)
            else:
                _one_by_one(client, first, jobs, pause)
            spent = resource.getrusage(resource.RUSAGE_SELF)
            cpu = spent.ru_utime - before.ru_utime + spent.ru_stime - before.ru_stime
            tell("done", int(cpu * 1e6), begun, time.monotonic_ns())


def _one_by_one(client: Client, first: int, jobs: int, pause: float) -> None:
    due = time.monotonic()
    for number in range(first, first + jobs):
        if pause:
            due += random.expovariate(1 / pause)
            time.sleep(max(0.0, due - time.monotonic()))
        client.enqueue(ClockedArgs(number))
        if pause:
            note(-number - 1, time.monotonic_ns())


def _in_threads(client: Client, first: int, jobs: int, threads: int) -> None:
    share = jobs // threads
    running = [
        threading.Thread(target=_one_by_one, args=(client, first + thread * share, share, 0.0)) for thread in range(threads)
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def _bare(config: Config, first: int, jobs: int) -> None:
    with psycopg.connect(config.database_url, autocommit=True, prepare_threshold=0) as raw:
        cursor = psycopg.RawCursor(raw)
        for number in range(first, first + jobs):
            cursor.execute(BARE, (json.dumps({"number": number}),)).fetchone()


def _order(programs: list[Served]) -> tuple[float, float]:
    """Have all programs enqueue once; return their CPU seconds, and the seconds from the first begin to the last end."""
    for program in programs:
        assert program.hear() == ["ready"]
    for program in programs:
        program.say("go")
    told = [[int(word) for word in program.hear()[1:]] for program in programs]
    return sum(cpu for cpu, _, _ in told) / 1e6, (max(end for *_, end in told) - min(begin for _, begin, _ in told)) / 1e9


def _programs(config: Config, file: Path, options: argparse.Namespace, jobs: int, *, bare: bool = False) -> list[Served]:
    micro_rate = int(options.rate / options.programs * 1e6)
    numbers = {"micro_rate": micro_rate, "jobs": jobs, "threads": options.threads, "bare": int(bare)}
    return [Served("bench.trickle.enqueue()", config, file, program=nth, **numbers) for nth in range(options.programs)]


def _transactions(connection: Connection) -> int:
    connection.execute("select pg_stat_clear_snapshot()")
    return int(connection.execute(_TRANSACTIONS)[0][0])


def trickle(connection: Connection, config: Config, options: argparse.Namespace) -> dict[str, Any]:
    """Let jobs trickle in for so long."""
    load.fill(connection, 0, paused=False)
    meter, jobs = Meter(connection), int(options.rate * options.seconds / options.programs)
    with tempfile.NamedTemporaryFile(prefix="fastq-bench-") as named:
        file, before = Path(named.name), _transactions(connection)
        with Served("bench.clocked.serve()", config, file) as served:
            assert served.hear() == ["ready"]
            programs = _programs(config, file, options, jobs)
            _order(programs)
            begun = meter.read(served.process.pid)
            cpu, seconds = _order(programs)
            while load.left(connection):
                time.sleep(0.01)
            spent = meter.read(served.process.pid).since(begun)
            for program in programs:
                program.__exit__()
        time.sleep(0.2)
        count = options.programs * jobs
        transactions = (_transactions(connection) - before) / (count + options.programs * WARM_UP)
        records = list(RECORD.iter_unpack(file.read_bytes()))
    started = {number: at for number, at in records if number >= 0}
    counted = [(started[-number - 1], at) for number, at in records if number < 0 and (-number - 1) % STRIDE >= WARM_UP]
    latencies = sorted((start - returned) / 1e6 for start, returned in counted)
    assert spent.postgres is not None
    return {
        "jobs_per_s": count / seconds,
        "worker_us": spent.program / count * 1e6,
        "postgres_us": spent.postgres / count * 1e6,
        "client_us": cpu / count * 1e6,
        "transactions": transactions,
        "wal_bytes": spent.wal / count,
        "p50_ms": percentile(latencies, 0.5),
        "p90_ms": percentile(latencies, 0.9),
        "p99_ms": percentile(latencies, 0.99),
    }


def rate(connection: Connection, config: Config, options: argparse.Namespace) -> dict[str, Any]:
    """Enqueue as fast as it goes, and insert rows as fast."""
    found: dict[str, Any] = {}
    meter = Meter(connection)
    for name, bare in (("enqueue", False), ("bare_insert", True)):
        if bare and options.threads > 1:
            continue
        load.fill(connection, 0, paused=True)
        with tempfile.NamedTemporaryFile(prefix="fastq-bench-") as named:
            programs = _programs(config, Path(named.name), options, options.jobs // options.programs, bare=bare)
            _order(programs)
            before = meter.read(os.getpid())
            cpu, seconds = _order(programs)
            spent = meter.read(os.getpid()).since(before)
            for program in programs:
                program.__exit__()
        assert spent.postgres is not None
        found[f"{name}_per_s"] = options.jobs / seconds
        found[f"{name}_client_us"] = cpu / options.jobs * 1e6
        found[f"{name}_postgres_us"] = spent.postgres / options.jobs * 1e6
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=2_000, help="jobs per second of all programs; 0: as fast as it goes")
    parser.add_argument("--programs", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1, help="that enqueue in each program, with --rate 0")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--jobs", type=int, default=8_000, help="of all programs, with --rate 0")
    parser.add_argument("--procs", type=int, default=2)
    options = parser.parse_args()
    with database() as url:
        config = replace(
            Config.load(schema=load.SCHEMA, queues={"default": 0}, poll_only=False, log_level="warning"),
            database_url=url,
            procs=options.procs,
        )
        with load.fresh_schema(config) as connection:
            found = (trickle if options.rate else rate)(connection, config, options)
            busy = os.getloadavg()[0]
    print(json.dumps({name: round(value, 3) for name, value in found.items()} | {"load": round(busy, 1)}))


if __name__ == "__main__":
    main()
