"""Show what docs/adr/0025 says of one key that many programs enqueue at once: `python bench/adr/unique.py [--programs N]`.

So many programs, each a process with a client of its own, enqueue jobs of one key at the same time, one call after the other. It
tells how many jobs that made, how many ids it took, how many calls were told of the job that holds the key, and how many failed.
It fails unless there was one job of the key at a time, each call was told of such a job, and no call failed. With `--ends` a
session ends the job again and again: then as many jobs are made as were ended, and one more at most.

It works in a database of its own, on the server of FASTQ_DATABASE_URL, or on an embedded one. Server and programs share the
machine. 64 programs with 10,000 calls each take some minutes on two cores.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from fastq import Args, Client, Unique
from fastq.errors import FastqError
from fastq.postgres import embedded
from fastq.schema.migrate import migrate

DATABASE = "fastq_adr_unique"
END = "delete from fastq.job where id in (select job_id from fastq.unique_key)"
ANSWERS = ("new", "held", "failed")
FORK = multiprocessing.get_context("fork")  # the programs are made before this one has a connection or a thread


@dataclass
class One(Args, kind="one", unique=Unique("number")):
    """A job of a key."""

    number: int


def program(url: str, enqueues: int, together: Barrier, told: "multiprocessing.SimpleQueue[Counter[str]]") -> None:
    """Enqueue one key again and again, and count the answers."""
    answers: Counter[str] = Counter()
    with Client(url) as client:
        together.wait()
        for _ in range(enqueues):
            try:
                job = client.enqueue(One(1))
            except FastqError as error:
                answers[f"failed {type(error).__name__}"] += 1
            else:
                answers[f"{'new' if job.new else 'held'} {int(job)}"] += 1
    told.put(answers)


def keep_ending(connection: psycopg.Connection, over: threading.Event, ended: list[int]) -> None:
    """End the job that holds the key until it is over."""
    while not over.wait(0.001):
        ended.append(connection.execute(END).rowcount)


def measure(url: str, options: argparse.Namespace) -> bool:
    """Run the programs, print the figures, and tell whether there was one job of the key at a time and no error."""
    together, told = FORK.Barrier(options.programs + 1), FORK.SimpleQueue()
    programs = [FORK.Process(target=program, args=(url, options.enqueues, together, told)) for _ in range(options.programs)]
    for each in programs:
        each.start()
    over, ended = threading.Event(), []
    with psycopg.connect(url, autocommit=True) as connection:
        ending = threading.Thread(target=keep_ending, args=(connection, over, ended))
        together.wait()
        began = time.monotonic()
        if options.ends:
            ending.start()
        answers = sum((told.get() for _ in programs), Counter())
        took = time.monotonic() - began
        over.set()
        if options.ends:
            ending.join()
        for each in programs:
            each.join()
        (living,) = connection.execute("select count(*) from fastq.job").fetchone()
        (ids,) = connection.execute("select last_value from fastq.job_id_seq").fetchone()
    calls = options.programs * options.enqueues
    made, held, failed = ({name.split()[1]: answers[name] for name in answers if name.startswith(word)} for word in ANSWERS)
    print(f"{options.programs} programs, {calls:,} enqueues of one key in {took:.1f} s, {calls / took:,.0f} a second")
    print(
        f"jobs made {len(made):,}, told of them {sum(held.values()):,}, failed {failed or 0}; living {living}, ids taken {ids:,}"
    )
    one_at_a_time = set(made.values()) == {1} and len(made) == living + sum(ended)
    return not failed and one_at_a_time and held.keys() <= made.keys() and len(made) + sum(held.values()) == calls


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=64, help="processes that enqueue (%(default)s)")
    parser.add_argument("--enqueues", type=int, default=10_000, help="calls of each (%(default)s)")
    parser.add_argument("--ends", action="store_true", help="end the job again and again")
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
            good = measure(url, options)
            with psycopg.connect(base, autocommit=True) as connection:
                connection.execute(f"drop database {DATABASE} with (force)")
    print("one job at a time, and no error" if good else "this is not as it must be")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
