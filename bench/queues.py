"""What many queues, and several supervisors on one queue, cost: `python -m bench.queues --help`.

    --queues 1,16,100      jobs a second by the number of queues that a process works, the jobs spread evenly over them
    --idle SECONDS         CPU and transactions with these numbers of queues and nothing to do, in place of jobs a second
    --supervisors 1,2,4    one queue worked by so many supervisors with --procs processes in all: jobs a second, Postgres' CPU a
    job

The variants take turns, round after round; a figure is the median of its rounds. It works in a schema of its own, which is
dropped before and after, on an embedded Postgres in a temporary folder, or on that of FASTQ_DATABASE_URL. A queue has the threads
of one process (--threads) divided by the number of queues, one at least.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from fastq import admin
from fastq.bench import load, report
from fastq.bench.child import Program
from fastq.bench.cost import Meter
from fastq.bench.idle import SETTLE
from fastq.config import Config
from fastq.postgres import embedded
from fastq.postgres.db import Connection

ALL = {"everything": True}
"""What is paused while the processes start."""

FILL = """
insert into fastq_bench.job (queue, kind, args)
select 'queue-' || number % $2::bigint, 'bench.noop', ('{"number":' || number || '}')::json
from generate_series(1, $1::bigint) as number
"""

TRANSACTIONS = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
FLUSHED = "select pg_stat_clear_snapshot(), pg_sleep(1.1)"
"""A backend tells its transactions once a second at most."""

LEFT = "select count(*) from fastq_bench.job"
GLANCE = 0.1
"""Seconds between two looks at the jobs that are left, where no single supervisor counts them all."""


def main() -> None:
    options = _parser().parse_args()
    base = Config.load(
        schema=load.SCHEMA, procs=options.procs, threads=options.threads, archive=options.archive, log_level="warning"
    )
    with _database(base) as config, load.fresh_schema(config) as connection:
        variants = options.supervisors or options.queues
        rounds: dict[int, list[dict[str, float]]] = {variant: [] for variant in variants}
        load.settle(connection, options.jobs)
        for round_ in range(options.rounds):
            for variant in variants:
                print(f"round {round_ + 1} of {options.rounds}: {variant}", file=sys.stderr)
                if options.supervisors:
                    figures = hosts(connection, config, options.jobs, variant)
                elif options.idle:
                    figures = idle(connection, _of(config, variant), options.idle)
                else:
                    figures = route(connection, _of(config, variant), options.jobs)
                rounds[variant].append(figures)
        versions = report.versions(connection)
    result = {variant: {name: median(one[name] for one in found) for name in found[0]} for variant, found in rounds.items()}
    if options.json:
        print(json.dumps({"machine": report.machine(), "versions": versions, "figures": result, "rounds": rounds}))
    else:
        show(result)


def route(connection: Connection, config: Config, jobs: int) -> dict[str, float]:
    """Work so many jobs that lie in all queues of the configuration."""
    _fill(connection, jobs, len(config.queues))
    meter = Meter(connection)
    with Program("route", config, jobs=jobs) as program:
        program.hear("ready")
        before, began, claims = meter.read(program.pid), time.monotonic_ns(), _transactions(connection)
        admin.resume(connection, ALL)
        ended, *_ = program.hear("done")
        spent = meter.read(program.pid).since(before)
        connection.execute(FLUSHED)
        claims = _transactions(connection) - claims
    assert not connection.ask(LEFT)[0][0]
    return {
        "jobs_per_s": jobs / (ended - began) * 1e9,
        "postgres_us_per_job": (spent.postgres or 0.0) / jobs * 1e6,
        "process_us_per_job": spent.program / jobs * 1e6,
        "transactions_per_1000_jobs": claims / jobs * 1e3,
    }


def hosts(connection: Connection, config: Config, jobs: int, supervisors: int) -> dict[str, float]:
    """Work so many jobs of one queue by so many supervisors that share the processes."""
    load.fill(connection, jobs, paused=True)
    meter = Meter(connection)
    config = replace(config, procs=config.process_count // supervisors, queues={"default": config.threads})
    with ExitStack() as programs:
        running = [programs.enter_context(Program("route", config, jobs=0)) for _ in range(supervisors)]
        for program in running:
            program.hear("ready")
        time.sleep(1.0)  # all have joined
        before, began = meter.read(running[0].pid), time.monotonic()
        load.open_queue(connection)
        while connection.ask("select exists (select from fastq_bench.job)")[0][0]:
            time.sleep(GLANCE)
        ended = time.monotonic()
        spent = meter.read(running[0].pid).since(before)
    return {"jobs_per_s": jobs / (ended - began), "postgres_us_per_job": (spent.postgres or 0.0) / jobs * 1e6}


def idle(connection: Connection, config: Config, seconds: float) -> dict[str, float]:
    """Let a supervisor idle for so long with all queues of the configuration."""
    load.fill(connection, 0, paused=False)
    meter = Meter(connection)
    with Program("route", config, jobs=0) as program:
        program.hear("ready")
        time.sleep(SETTLE)
        before, began, transactions = meter.read(program.pid), time.monotonic(), _transactions(connection)
        time.sleep(seconds)
        spent, took = meter.read(program.pid).since(before), time.monotonic() - began
        transactions = _transactions(connection) - transactions
    return {
        "process_cpu_percent": spent.program / took * 100,
        "postgres_cpu_percent": (spent.postgres or 0.0) / took * 100,
        "transactions_per_s": transactions / took,
    }


def show(result: dict[int, dict[str, float]]) -> None:
    """Print a row for each variant."""
    names = list(next(iter(result.values())))
    print("".join(f"{name:>28}" for name in ("", *names)))
    for variant, figures in result.items():
        print(f"{variant:>28}" + "".join(f"{figures[name]:>28,.2f}" for name in names))


def _of(config: Config, queues: int) -> Config:
    each = max(1, config.threads // queues)
    return replace(config, queues={f"queue-{number}": each for number in range(queues)})


def _fill(connection: Connection, jobs: int, queues: int) -> None:
    load.fill(connection, 0, paused=False)
    admin.pause(connection, ALL)
    connection.ask(FILL, jobs, queues)
    connection.execute("vacuum (analyze) fastq_bench.job")


def _transactions(connection: Connection) -> int:
    connection.execute("select pg_stat_clear_snapshot()")
    return int(connection.execute(TRANSACTIONS)[0][0])


@contextmanager
def _database(config: Config) -> Iterator[Config]:
    if config.database_url:
        yield config
        return
    folder = Path(tempfile.mkdtemp(prefix="fastq-bench-"))  # on a disk: a commit waits for it, as in production
    folder.chmod(0o711)  # root's server runs as another user, who must pass
    with embedded.start(folder) as server:
        yield replace(config, database_url=server.url)
    shutil.rmtree(folder)


def _parser() -> argparse.ArgumentParser:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(
        prog="python -m bench.queues", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--queues", type=numbers, default=[1, 4, 16, 100, 1000], metavar="N,...", help="numbers of queues")
    parser.add_argument("--supervisors", type=numbers, metavar="N,...", help="numbers of supervisors, on one queue")
    parser.add_argument("--idle", type=float, metavar="SECONDS", help="measure what idling costs, for so long")
    parser.add_argument("--jobs", type=int, default=300_000, metavar="N", help="jobs of a run (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="repetitions (%(default)s)")
    parser.add_argument("--procs", default="2", metavar="N", help="worker processes in all (%(default)s)")
    parser.add_argument("--threads", default="16", metavar="N", help="threads of a process (%(default)s)")
    parser.add_argument("--archive", action=argparse.BooleanOptionalAction, default=None, help="keep a row of each completed job")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    main()
