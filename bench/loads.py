"""Work jobs that are not no-ops, through the real supervisor: `python -m bench.loads [--cells NAME,...] [--rounds N]`.

    async, threads   sleep for 5 ms, 200 at a time in each of 2 processes; also as a share of the ideal rate
    bare-async, bare-threads, bare-punctual
                     as many coroutines or threads that do nothing else, without a queue; on asyncio's own loop, and on that of a
                     worker process
    cpu16, cpu1      compute for 1 ms, in 16 threads and in one
    retry            fail once, and run again at once
    delay            wait for one moment, at which all become due
    large            carry 1 kB in 12 fields

Jobs per second from the opening of the queue (of `delay`: from the moment) to the last completion; CPU of our processes and of
Postgres, and WAL, by the job. It works in the schema of `fastq bench`, of FASTQ_DATABASE_URL or of an embedded Postgres.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from bench.loads_app import compute
from fastq import log
from fastq.bench import load, route
from fastq.bench.child import END_TIMEOUT, Order, Program, order, tell
from fastq.bench.cost import Meter
from fastq.board import board
from fastq.cli.terminal.database import found
from fastq.config import Config
from fastq.errors import FastqError
from fastq.host.supervisor import Supervisor
from fastq.postgres.db import Connection
from fastq.work.execute.punctual import new_loop

TARGETS = ("bench.loads_app:functions", "bench.loads_app:coroutines")
PROCESSES, SLOTS = 2, 200
NAP = 0.005  # s that a job sleeps
BEFORE = 8.0  # s until delayed jobs are due: the program that works them is there by then
BARE = 2.0  # s for which bare sleepers are counted
WAYS = ("async", "threads", "punctual")


class Cell(NamedTuple):
    """One way to load the queue."""

    kind: str
    args: str  # SQL of the args of a job, by `number`
    jobs: int
    slots: int = 16
    target: int = 0  # of TARGETS
    attempts: int = 1
    ideal: float | None = None  # jobs per second
    delayed: bool = False


LARGE = """json_build_object('id', number, 'tenant', number % 100, 'email', 'customer-' || number || '@example.org',
    'name', 'Customer ' || number, 'template', 'order-confirmation', 'subject', 'Your order ' || number,
    'body', repeat('lorem ipsum ', 62),
    'weight', number / 4.0::float8, 'urgent', number % 3 = 0, 'attempts', number % 10, 'locale', 'en-GB', 'reply_to', null)"""

IDEAL = PROCESSES * SLOTS / NAP
CELLS = {
    "async": Cell("wait", f"json_build_object('seconds', {NAP}::float8)", 160_000, SLOTS, target=1, ideal=IDEAL),
    "threads": Cell("sleep", f"json_build_object('seconds', {NAP}::float8)", 120_000, SLOTS, ideal=IDEAL),
    "cpu16": Cell("compute", "json_build_object('steps', {steps})", 6_000),
    "cpu1": Cell("compute", "json_build_object('steps', {steps})", 6_000, slots=1),
    "retry": Cell("fail", "json_build_object('number', number)", 30_000, attempts=2),
    "delay": Cell("compute", "json_build_object('steps', 0)", 200_000, delayed=True),
    "large": Cell("large", LARGE, 150_000),
}


class Worked(Program):
    """A supervisor that works one of TARGETS: `serve` below."""

    def __init__(self, config: Config, **numbers: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from bench.loads import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.say(json_of(Order(config, numbers)))


def json_of(given: Order) -> str:
    import msgspec  # noqa: PLC0415 - as child.py sends it

    return msgspec.json.encode(given).decode()


def serve() -> None:
    """Be the supervisor, as fastq/bench/route.py is."""
    given = order()
    log.set_up(given.config)
    supervisor = Supervisor(given.config, TARGETS[given.numbers["target"]], given.config.database_url, route.APP_DIR)
    threading.Thread(target=watch, args=(supervisor._board, given), daemon=True).start()  # noqa: SLF001 - as there
    sys.exit(supervisor.run())


def watch(shown: board.Board, given: Order) -> None:
    """Report the completions, then those of each process."""
    desks = [shown.desk(place) for place in range(given.config.process_count)]
    try:
        while not (shown.cursor(0).looked_at and all(desk[board.SESSIONS[0]] for desk in desks)):
            if route._stopped(route.LONGEST):  # noqa: SLF001
                return
        tell("ready")
        if route._completed(desks, given.numbers["ends"]):  # noqa: SLF001
            tell("shares", *[desk[board.ENDED] for desk in desks])
            while not route._stopped(END_TIMEOUT):  # noqa: SLF001
                pass
    finally:
        os.kill(os.getpid(), route.TERMINATE)


def work(connection: Connection, config: Config, cell: Cell, args: str, meter: Meter) -> dict[str, float]:
    """Work the jobs of a cell once."""
    config = replace(config, queues={"default": cell.slots})
    load.fill(connection, 0, paused=True)
    if cell.delayed:
        load.open_queue(connection)
    else:
        insert(connection, cell, args, 0.0)
    with Worked(config, target=cell.target, ends=cell.jobs * cell.attempts) as program:
        program.hear("ready")
        due = insert(connection, cell, args, BEFORE) if cell.delayed else 0.0
        time.sleep(max(0.0, due - time.monotonic()))
        before, began = meter.read(program.pid), time.monotonic_ns()
        if not cell.delayed:
            load.open_queue(connection)
        ended, _, stall, _ = program.hear("done")
        shares = program.hear("shares")
        spent = meter.read(program.pid).since(before)
    if rest := load.left(connection):
        raise FastqError(f"{rest} of {cell.jobs} jobs are left")
    rate = cell.jobs / (ended - began) * 1e9
    told = {
        "jobs_per_s": rate,
        "process_us": spent.program / cell.jobs * 1e6,
        "postgres_us": (spent.postgres or 0.0) / cell.jobs * 1e6,
        "wal_bytes": spent.wal / cell.jobs,
        "stall_ms": stall / 1e6,
        "least_share": min(shares) / sum(shares),
    }
    return told if cell.ideal is None else {**told, "of_ideal": rate / cell.ideal}


def insert(connection: Connection, cell: Cell, args: str, seconds: float) -> float:
    """Put the jobs of a cell into the table, due in so many seconds; return when that is by the monotonic clock."""
    columns = "'scheduled', null::bigint, $2::timestamptz" if seconds else "'available', nextval('fastq_bench.job_seq'), null"
    [(now, at)] = connection.ask(
        "select extract(epoch from clock_timestamp())::float8, clock_timestamp() + make_interval(secs => $1)", seconds
    )
    here = time.monotonic() - now
    connection.ask(
        f"insert into fastq_bench.job (kind, args, state, seq, scheduled_at) select '{cell.kind}', {args}, {columns} "
        "from generate_series(1, $1::bigint) as number",
        *((cell.jobs, at) if seconds else (cell.jobs,)),
    )
    connection.execute("vacuum (analyze) fastq_bench.job")
    return here + at.timestamp()


def steps_of(seconds: float) -> int:
    """Return how many steps of `compute` take so long on this machine, undisturbed."""
    count = 200_000
    return int(count * seconds / min(took(lambda: compute(count)) for _ in range(10)))


def took(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def bare(way: str) -> dict[str, float]:
    """Sleep in as many processes and slots, and do nothing else."""
    context = multiprocessing.get_context("fork")
    counts = context.Queue()
    processes = [context.Process(target=_sleepers, args=(way, counts)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    told = [counts.get() for _ in processes]
    for process in processes:
        process.join()
    naps, spent = (sum(column) for column in zip(*told, strict=True))
    return {"jobs_per_s": naps / BARE, "process_us": spent / naps * 1e6, "of_ideal": naps / BARE / IDEAL}


def _sleepers(way: str, counts: "multiprocessing.Queue[tuple[int, float]]") -> None:
    done, until = [0] * SLOTS, time.monotonic() + BARE

    async def wait(slot: int) -> None:
        while time.monotonic() < until:
            await asyncio.sleep(NAP)
            done[slot] += 1

    def nap(slot: int) -> None:
        while time.monotonic() < until:
            time.sleep(NAP)
            done[slot] += 1

    async def all_of_them() -> None:
        await asyncio.gather(*map(wait, range(SLOTS)))

    began = time.process_time()
    if way != "threads":
        loop = new_loop() if way == "punctual" else asyncio.new_event_loop()
        loop.run_until_complete(all_of_them())
        loop.close()
    else:
        threads = [threading.Thread(target=nap, args=(slot,)) for slot in range(SLOTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    counts.put((sum(done), time.process_time() - began))


def measured(
    names: list[str], rounds: int, connection: Connection, config: Config, share: float
) -> Iterator[tuple[str, dict[str, float]]]:
    """Give the figures of each round, the cells taking turns."""
    meter, steps = Meter(connection), steps_of(0.001)
    for _ in range(rounds):
        for name in names:
            if name.startswith("bare-"):
                yield name, bare(name.removeprefix("bare-"))
            else:
                cell = CELLS[name]
                cell = cell._replace(jobs=max(1, int(cell.jobs * share)))
                yield name, work(connection, config, cell, cell.args.replace("{steps}", str(steps)), meter)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", default=",".join([*CELLS, *(f"bare-{way}" for way in WAYS)]), metavar="NAME,...")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="of the jobs of each cell [default 1]")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    config = Config.load(schema=load.SCHEMA, procs=PROCESSES)
    figures: dict[str, dict[str, list[float]]] = {}
    with found(config, create=True) as database, load.fresh_schema(replace(config, database_url=database.url)) as connection:
        config = replace(config, database_url=database.url)
        load.settle(connection, 100_000)
        for name, told in measured(options.cells.split(","), options.rounds, connection, config, options.share):
            for what, value in told.items():
                figures.setdefault(name, {}).setdefault(what, []).append(round(value, 3))
            if not options.json:
                print(f"{name:13s}", *(f"{what} {value:,.2f}" for what, value in told.items()), flush=True)
    if options.json:
        print(json.dumps(figures))
        return
    print("medians")
    for name, told_of in figures.items():
        print(f"{name:13s}", *(f"{what} {statistics.median(values):,.2f}" for what, values in told_of.items()))


if __name__ == "__main__":
    main()
