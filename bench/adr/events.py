"""Measure what docs/adr/0034 rests on: `python bench/adr/events.py [--jobs N] [--rounds N]`.

Two worker processes work a backlog of jobs that do nothing, in turns: while nobody hears events; while one program hears the
completed jobs; while one hears everything; while one hears everything and reads nothing. It tells how much CPU the worker
processes took for a job, beside that of the first turn, and how many events were heard and how many were dropped.

It works on FASTQ_DATABASE_URL, in the schema fastq_bench, or on an embedded server of its own in a temporary folder. It counts
CPU and not time, for a machine that others use, too.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fastq import Client
from fastq.bench.load import SCHEMA, fill, fresh_schema, left, open_queue
from fastq.config import Config
from fastq.postgres import embedded
from fastq.postgres.db import Connection

PROCESSES = 2
READY = "select count(*) from pg_stat_activity where application_name = 'fastq producer' and datname = current_database()"
ROOT = Path(__file__).parents[2]
HEARS = {"nobody": None, "job.completed": ["job.completed"], "everything": [], "everything, unread": []}


def main() -> None:
    """Measure in turns, and print a line for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    figures: dict[str, list[tuple[float, int, int]]] = {turn: [] for turn in HEARS}
    with server() as url, fresh_schema(Config(database_url=url, schema=SCHEMA)) as connection:
        for _ in range(options.rounds):
            for turn, names in HEARS.items():
                fill(connection, options.jobs, paused=True)
                figures[turn].append(one(connection, url, options.jobs, names, reads="unread" not in turn))
    base = statistics.median(cpu for cpu, _, _ in figures["nobody"])
    for turn, measured in figures.items():
        cpu = statistics.median(cpu for cpu, _, _ in measured)
        heard, dropped = (int(statistics.median(figure[place] for figure in measured)) for place in (1, 2))
        print(f"{turn:20s} {1e6 * cpu / options.jobs:6.2f} us a job, {cpu / base:.3f}; heard {heard}, dropped {dropped}")


@contextmanager
def server() -> Iterator[str]:
    """Give the URL of a server."""
    if url := os.environ.get("FASTQ_DATABASE_URL"):
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="fastq-events-") as folder:
        Path(folder).chmod(0o711)
        with embedded.start(Path(folder)) as started:
            yield started.url


def one(connection: Connection, url: str, jobs: int, names: list[str] | None, *, reads: bool) -> tuple[float, int, int]:
    """Work the backlog once; return the CPU of the worker processes in seconds, and the events heard and dropped."""
    counts = [0, 0]
    begun, over = threading.Event(), threading.Event()

    def hear() -> None:
        with Client(url, schema=SCHEMA) as client, client.events(*names or ()) as stream:
            begun.set()
            while not over.wait(0.01):
                for event in stream if reads else ():
                    counts[event.dropped] += event.fields["count"] if event.dropped else 1
                    if over.is_set() or (names and sum(counts) >= jobs):
                        break

    environment = {**os.environ, "FASTQ_DATABASE_URL": url, "FASTQ_SCHEMA": SCHEMA}
    run = [sys.executable, "-m", "fastq", "run", "fastq.bench.app:registry", "--queue", "default=8", "--procs", "2"]
    supervisor = subprocess.Popen(run, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    hearing = threading.Thread(target=hear, daemon=True)
    try:
        until(lambda: connection.ask(READY)[0][0] == PROCESSES)
        if names is not None:
            hearing.start()
            begun.wait()
        before = used(supervisor.pid)
        open_queue(connection)
        until(lambda: not left(connection))
        until(lambda: not (names and reads) or sum(counts) >= jobs, 5.0)
        return used(supervisor.pid) - before, *counts
    finally:
        over.set()
        supervisor.terminate()
        supervisor.wait()


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for a condition, so long at most."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


def workers(supervisor: int) -> list[int]:
    """Return the pids of the worker processes of a supervisor."""
    pids, parents = [], [supervisor]
    while parents:
        for task in Path(f"/proc/{parents.pop()}/task").iterdir():
            children = [int(pid) for pid in (task / "children").read_text().split()]
            parents += children
            pids += children
    title = "fastq: worker"
    return [pid for pid in pids if Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").startswith(title)]


def used(supervisor: int) -> float:
    """Return the CPU that the threads of the worker processes have used so far, in seconds: exactly, not by the tick."""
    tasks = [task for pid in workers(supervisor) for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


if __name__ == "__main__":
    main()
