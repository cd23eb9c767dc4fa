"""Measure what docs/adr/0029 rests on: `python bench/adr/wait.py [--jobs N] [--programs N] [--length FROM,TO] [--threads]`.

Some programs enqueue jobs that sleep for FROM to TO seconds, and wait for each of them, all at once: in coroutines or threads. It
tells how long it takes from the commit of a job's completion (`track_commit_timestamp`) to the return of the wait, how many
statements a second all the waiting takes, and how much of a core the programs use.

It works on an embedded server of its own, in a temporary folder; programs, workers and server share the machine, so it first
tells how busy that is with other things.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from fastq import Args, AsyncClient, Client, Job, Registry, Worker
from fastq.awaiting import ends, ends_async
from fastq.postgres import embedded
from fastq.schema.migrate import migrate

registry = Registry()
PATIENCE = 300.0
COUNTED = {"statements": 0}


@dataclass
class Nap(Args, kind="nap"):
    """A job of some length."""

    seconds: float


@registry.register
class NapWorker(Worker[Nap, float]):
    """Sleeps, and returns how long."""

    async def work(self, job: Job[Nap]) -> float:
        """Sleep."""
        await asyncio.sleep(job.args.seconds)
        return job.args.seconds


def main() -> None:
    """Be the whole measurement, or one program of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--programs", type=int, default=8)
    parser.add_argument("--length", default="0.05,4")
    parser.add_argument("--threads", action="store_true", help="wait in threads, not in coroutines")
    parser.add_argument("--program", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program:
        program(options)
    else:
        measure(options)


def lengths(options: argparse.Namespace) -> list[float]:
    """Draw the lengths of the jobs of one program."""
    first, last = map(float, options.length.split(","))
    return [random.uniform(first, last) for _ in range(options.jobs // options.programs)]


def program(options: argparse.Namespace) -> None:
    """Enqueue jobs, wait for each of them, and write the times at which the waits returned, and what they cost."""
    count_statements()
    used, began = time.process_time(), time.time()
    returned = in_threads(options) if options.threads else asyncio.run(in_loop(options))
    told = {
        "returned": returned,
        "seconds": time.time() - began,
        "used": time.process_time() - used,
        "statements": COUNTED["statements"],
    }
    print(json.dumps(told))


def count_statements() -> None:
    """Count the statements that waits run."""
    for module, name in ((ends, "Ends"), (ends_async, "AsyncEnds")):
        waits = getattr(module, name)
        begin = waits.__init__

        def counted(self: object, read: object, reached: object, begin: object = begin) -> None:
            def reading(*given: object) -> object:
                COUNTED["statements"] += 1
                return read(*given)

            begin(self, reading, reached)

        waits.__init__ = counted


async def in_loop(options: argparse.Namespace) -> list[tuple[int, float]]:
    """Wait in coroutines."""
    async with AsyncClient(options.program) as client:

        async def one(job_id: int) -> tuple[int, float]:
            await client.wait(job_id, timeout=PATIENCE)
            return job_id, time.time()

        ids = await client.enqueue_many([Nap(seconds) for seconds in lengths(options)])
        return await asyncio.gather(*map(one, ids))


def in_threads(options: argparse.Namespace) -> list[tuple[int, float]]:
    """Wait in threads."""
    with Client(options.program) as client:
        returned: list[tuple[int, float]] = []

        def one(job_id: int) -> None:
            client.wait(job_id, timeout=PATIENCE)
            returned.append((job_id, time.time()))

        ids = client.enqueue_many([Nap(seconds) for seconds in lengths(options)])
        threads = [threading.Thread(target=one, args=(job_id,)) for job_id in ids]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return returned


@contextmanager
def working(url: str) -> Iterator[None]:
    """Run a host of two processes that has room for all jobs."""
    here = Path(__file__)
    words = [sys.executable, "-m", "fastq", "run", "--app-dir", str(here.parent), "--procs", "2", "--log-level", "error"]
    words += ["--queue", "default=600", f"{here.stem}:registry"]
    host = subprocess.Popen(words, env=os.environ | {"FASTQ_DATABASE_URL": url}, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        host.terminate()
        host.wait()


def measure(options: argparse.Namespace) -> None:
    """Start the server, the host and the programs, and print what they tell."""
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    folder = Path(tempfile.mkdtemp(prefix="fastq-wait-", dir="/tmp"))
    folder.chmod(0o711)
    with embedded.start(folder, settings={"track_commit_timestamp": "on"}) as server:
        migrate(server.url)
        with working(server.url), Client(server.url) as client:
            client.wait(client.enqueue(Nap(0.0)), timeout=60)
            words = [sys.executable, __file__, *sys.argv[1:], "--program", server.url]
            programs = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(options.programs)]
            told = [json.loads(each.communicate()[0]) for each in programs]
            with psycopg.connect(server.url) as connection:
                rows = connection.execute(
                    "select id, extract(epoch from pg_xact_commit_timestamp(xmin))::float8 from fastq.job_archive"
                ).fetchall()
    print_figures(dict(rows), told)


def print_figures(committed: dict[int, float], told: list[dict]) -> None:
    """Print the delays, and what the waits cost."""
    late = sorted(at - committed[job_id] for each in told for job_id, at in each["returned"])
    seconds = max(each["seconds"] for each in told)
    statements = sum(each["statements"] for each in told)
    p50, p90, p99 = (late[min(len(late) - 1, int(len(late) * part))] * 1000 for part in (0.5, 0.9, 0.99))
    print(f"{len(late)} waits in {len(told)} programs, {seconds:.1f} s: from the commit to the return")
    print(f"  p50 {p50:.2f} ms, p90 {p90:.2f} ms, p99 {p99:.2f} ms, most {late[-1] * 1000:.1f} ms")
    print(f"  {statements / seconds:.0f} statements a second, {statements / seconds / len(told):.0f} of each program")
    print(f"  {sum(each['used'] for each in told) / seconds * 100:.0f} % of a core for all programs")


if __name__ == "__main__":
    main()
