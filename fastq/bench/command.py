"""The command itself: its arguments, the order of the measurements, the output.

Run in the main thread of the program that measures, which owns the figures until they are printed.

Route and floor take turns, round after round, and the ratio of each pair counts: other users of the machine slow both runs of a
pair alike, but not two runs that are a minute apart.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastq.bench import backlog, enqueue, floor, idle, latency, load, report, route
from fastq.bench.cost import Meter
from fastq.cli.terminal import output
from fastq.cli.terminal.database import found
from fastq.cli.terminal.parser import Parser
from fastq.cli.terminal.settings import flag_of
from fastq.config import Config
from fastq.postgres.db import Connection

PARTS = ("route", "floor", "enqueue", "latency", "cells")

CELLS = "fastq.bench.cells.table"
"""The module that asks the cells. It is imported by its name, as commands are: its room stands on this one."""

FIGURES = (
    "jobs_per_s",
    "floor_jobs_per_s",
    "floor_ratio",
    "longest_stall_ms",
    "floor_longest_stall_ms",
    "postgres_us_per_job",
    "process_us_per_job",
    "wal_bytes_per_job",
    "enqueue_single_per_s",
    "enqueue_many_per_s",
    "enqueue_copy_per_s",
    "latency_p50_ms",
    "latency_p95_ms",
    "latency_p99_ms",
    "commit_p50_ms",
)
"""The keys that a script finds in every JSON, null where the part was skipped."""

JOBS, ROUNDS, LATENCIES = 300_000, 3, 400
"""Jobs of a run: a second or two of work, so that a hiccup of 10 ms is below 1 %. Four latencies above the 99th percentile."""

FEWEST, SHARE = 20, 50
"""Latencies of a run that was asked to be small: one for each SHARE jobs, and FEWEST at least."""

EPILOG = f"""\
examples:
  fastq bench                         {JOBS:,} jobs, one process per core,
                                      about three minutes
  fastq bench --cells trickle,queues --skip route,enqueue,latency
                                      some cells alone, --rounds times
  fastq bench --plot bench.svg        a picture of it all
  fastq bench --jobs 1000000 --procs 4 --no-archive --skip latency,enqueue
  fastq bench --json > before.json
  fastq bench --idle 20 --procs 2     what an idle supervisor costs
  fastq bench --backlog 5000000 --no-archive
                                      whether a claim notices what waits
                                      behind it

It works in a schema of its own, {load.SCHEMA}, which is dropped before and
after; no other schema is touched. Other settings are taken from the
environment (FASTQ_BATCH=500 fastq bench). The start-up of processes is not
counted, nor the making of the server's WAL files: it asks for checkpoints,
where its role may. Without a database it uses the embedded Postgres.
"""


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    options = _parser().parse_args(argv)
    config = Config.load(
        spelt=flag_of,
        database_url=options.database,
        data_dir=options.data_dir,
        procs=options.procs,
        threads=options.threads,
        archive=options.archive,
        log_level=options.log_level,
        schema=load.SCHEMA,
        queues={"default": 0},
        poll_only=False,  # the floor and the route must do the same
    )
    with found(config, create=True) as database:
        config = replace(config, database_url=database.url)
        with load.fresh_schema(config) as connection:
            result = _measure(connection, config, options)
    if options.plot:
        options.plot.write_text(importlib.import_module(CELLS).picture(result), encoding="utf-8")
    if options.json:
        output.json(result)
    else:
        report.show(result)
        if "cells" in result:
            importlib.import_module(CELLS).show(result["cells"])
    return 0


def _measure(connection: Connection, config: Config, options: argparse.Namespace) -> dict[str, Any]:
    result: dict[str, Any] = {
        "machine": report.machine(),
        "versions": report.versions(connection),
        "settings": report.settings(connection, config, options.jobs, options.rounds)
        | {"args": options.args, "decoder": load.decoder(options.args, config)},
    }
    figures = report.Figures()
    names: Sequence[str] = FIGURES
    if options.idle:
        names = ()
        _tell(f"a supervisor that idles, for {options.idle} s")
        _idle(connection, config, options, figures, result)
    elif options.backlog:
        names = ()
        _tell(f"claims with {options.backlog:,} jobs that wait, {options.rounds} rounds")
        _backlog(connection, config, options, figures)
    else:
        if "route" not in options.skip:
            _throughput(connection, config, options, figures)
        if "enqueue" not in options.skip:
            _tell("enqueueing: one by one, many in a statement, by COPY")
            for way, rates in enqueue.measure(connection, config, options.rounds, options.jobs).items():
                figures.add(f"enqueue_{way}_per_s", *rates)
        if "latency" not in options.skip:
            _tell("latencies of single jobs")
            ordered, commits = latency.measure(connection, config, min(LATENCIES, max(FEWEST, options.jobs // SHARE)))
            for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
                figures.add(f"latency_{name}_ms", latency.percentile(ordered, share))
            figures.add("commit_p50_ms", latency.percentile(commits, 0.5))
        if "cells" not in options.skip:
            result["cells"] = importlib.import_module(CELLS).asked(
                connection, config, options.jobs / JOBS, options.cells, options.rounds
            )
    return {**figures.of_all(names), **result, "spreads": figures.spreads(), "rounds": figures.rounds()}


def _tell(text: str) -> None:
    """Name the measurement under way, beside the result."""
    output.note(f"measuring {text}")


def _throughput(connection: Connection, config: Config, options: argparse.Namespace, figures: report.Figures) -> None:
    meter = Meter(connection)
    load.settle(connection, options.jobs)
    for round_ in range(options.rounds):
        _tell(f"round {round_ + 1} of {options.rounds}: {options.jobs:,} jobs, the route")
        load.fill(connection, options.jobs, paused=True, args=options.args)
        run = route.work(connection, config, options.jobs, meter)
        figures.add("jobs_per_s", run.jobs_per_s)
        figures.add("postgres_us_per_job", run.postgres_us)
        figures.add("process_us_per_job", run.process_us)
        figures.add("wal_bytes_per_job", run.wal_bytes)
        figures.add("longest_stall_ms", run.longest_stall * 1e3)
        if "floor" not in options.skip:
            _tell(f"round {round_ + 1} of {options.rounds}: the same jobs, the floor")
            load.fill(connection, options.jobs, paused=False, args=options.args)
            pumped = floor.pump(connection, config, options.jobs, meter)
            figures.add("floor_jobs_per_s", pumped.jobs_per_s)
            figures.add("floor_postgres_us_per_job", pumped.postgres_us)
            figures.add("floor_ratio", run.jobs_per_s / pumped.jobs_per_s)
            figures.add("floor_longest_stall_ms", pumped.longest_stall * 1e3)


def _idle(
    connection: Connection, config: Config, options: argparse.Namespace, figures: report.Figures, result: dict[str, Any]
) -> None:
    rest = idle.measure(connection, config, options.idle)
    figures.add("idle_cpu_percent", rest.cpu_percent)
    figures.add("idle_statements_per_s", *rest.statements_per_s)
    figures.add("worker_rss_bytes", rest.mean("rss"))
    figures.add("worker_pss_bytes", rest.mean("pss"))
    figures.add("worker_shared_share", rest.mean("shared") / max(1.0, rest.mean("rss")))
    result["processes"] = rest.processes


def _backlog(connection: Connection, config: Config, options: argparse.Namespace, figures: report.Figures) -> None:
    found = backlog.measure(connection, config, options.backlog, options.rounds)
    figures.add("backlog_small_claims_per_s", *found.small)
    figures.add("backlog_large_claims_per_s", *found.large)
    figures.add("backlog_ratio", found.ratio)
    figures.add("backlog_jobs_per_s", found.worked_per_s)
    figures.add("backlog_worker_rss_bytes", *found.worker_rss)


def _parser() -> Parser:
    parser = Parser(
        prog="fastq bench",
        description="Measure what fastq does on this machine, and the most that it could do at all.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--jobs", type=_whole, default=JOBS, metavar="N", help=f"no-op jobs of a run [default {JOBS:,}]")
    parser.add_argument("--rounds", type=_whole, default=ROUNDS, metavar="N", help=f"repetitions [default {ROUNDS}]")
    parser.add_argument("--procs", metavar="N", help="worker processes, and connections of the floor [default: one per core]")
    parser.add_argument("--threads", metavar="N", help="executor threads of a process [default 16]")
    parser.add_argument(
        "--archive", action=argparse.BooleanOptionalAction, default=None, help="keep a row of each completed job [default: on]"
    )
    parser.add_argument(
        "--args", choices=load.ARGS, default="flat", help="what the route's jobs carry: six fields, or one number [default flat]"
    )
    parser.add_argument("--skip", type=_parts, default=(), metavar="PART,...", help=f"leave out: {', '.join(PARTS)}")
    parser.add_argument(
        "--cells", type=_cells, default=(), metavar="CELL,...", help="the cells to ask, --rounds times [default: all, once]"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw a picture of the result")
    parser.add_argument("--idle", type=_whole, metavar="SECONDS", help="measure an idle supervisor instead, for so long")
    parser.add_argument("--backlog", type=_whole, metavar="N", help="measure claims with so many jobs waiting instead")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--log-level", metavar="LEVEL", default="warning", help="what the program logs [default warning]")
    parser.add_argument("--database", metavar="URL", help="the Postgres to use [FASTQ_DATABASE_URL; default: an embedded one]")
    parser.add_argument("--data-dir", metavar="FOLDER", help="the folder of the embedded Postgres [FASTQ_DATA_DIR]")
    return parser


def _whole(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return int(text)


def _cells(text: str) -> tuple[str, ...]:
    known = importlib.import_module(CELLS).NAMES
    cells = tuple(cell.strip() for cell in text.split(","))
    if unknown := [cell for cell in cells if cell not in known]:
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(known)}, got {unknown[0]!r}")
    return cells


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(","))
    if unknown := [part for part in parts if part not in PARTS]:
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(PARTS)}, got {unknown[0]!r}")
    return parts
