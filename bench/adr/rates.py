"""Show what a rate promises, with real processes and a ledger beside the database: `python bench/adr/rates.py [--kill S]`.

Two supervisors work jobs of one rate from a backlog, which do nothing but note the time in a file, each process in its own. After
`--kill` seconds the supervisor that leads the schema is killed with all of its processes, and later started again. At the end it
tells the most starts of any window of `per` seconds, and how many of the allowed starts were used: in all, and without the time
from the kill until the next start. The processes of one host share the clock by which the ledger is kept.

It works in a database of its own, on the server of FASTQ_DATABASE_URL, or on an embedded one.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from fastq import Args, Client, Job, Rate, Registry, Worker
from fastq.postgres import embedded
from fastq.schema.migrate import migrate

DATABASE = "fastq_adr_rates"
AT_MOST, PER, BURST = 60, 6.0, 6
LEADER = "select split_part(holder, ':', 2)::int from fastq.lease where name = 'schema' and expires_at > clock_timestamp()"

registry = Registry()


@dataclass
class Call(Args, kind="call", gates=[Rate("calls", at_most=AT_MOST, per=PER, burst=BURST)]):
    """A call of an interface that takes so many in a time."""


@registry.register
class CallWorker(Worker[Call]):
    """Note the time."""

    archive = False

    def work(self, job: Job[Call]) -> None:
        """Append a line to the process's ledger."""
        with Path(os.environ["LEDGER"], f"{os.getpid()}").open("a") as ledger:
            ledger.write(f"{time.time()} {job.id}\n")


def supervise(url: str, ledger: str) -> subprocess.Popen[bytes]:
    """Start a supervisor with two processes, in a group of its own."""
    environment = {**os.environ, "FASTQ_DATABASE_URL": url, "LEDGER": ledger, "FASTQ_LEASE_TTL": "2"}
    command = [sys.executable, "-m", "fastq", "run", "bench.adr.rates:registry", "--procs", "2", "--queue", "default=8"]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, env=environment, start_new_session=True, stdout=quiet, stderr=quiet)


def starts_in(ledger: str) -> list[float]:
    """Read the moments of all starts."""
    lines = [line for path in Path(ledger).iterdir() for line in path.read_text().splitlines()]
    return sorted(float(line.split()[0]) for line in lines)


def most_in_a_window(starts: list[float]) -> int:
    """Return the most starts of any window."""
    window: deque[float] = deque()
    most = 0
    for at in starts:
        window.append(at)
        while window[0] < at - PER:
            window.popleft()
        most = max(most, len(window))
    return most


def work(url: str, ledger: str, seconds: float, kill: float | None) -> list[float]:
    """Have the jobs worked for some time; return the moments of the starts."""
    with Client(url) as client:
        client.enqueue_many([Call() for _ in range(int(2 * AT_MOST * seconds / PER) + BURST)])
    hosts = [supervise(url, ledger) for _ in range(2)]
    try:
        ends = time.time() + seconds
        if kill is not None:
            time.sleep(kill)
            with psycopg.connect(url) as connection:
                (pid,) = connection.execute(LEADER).fetchone() or (0,)
            leader = next(host for host in hosts if host.pid == pid)
            os.killpg(leader.pid, signal.SIGKILL)
            print(f"killed the leader, {pid}, after {kill:.0f} s")
            hosts = [host for host in hosts if host is not leader]
            time.sleep(5.0)
            hosts.append(supervise(url, ledger))
        time.sleep(max(0.0, ends - time.time()))
    finally:
        for host in hosts:
            host.terminate()
        for host in hosts:
            host.wait()
    return starts_in(ledger)


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long (%(default)s)")
    parser.add_argument("--kill", type=float, help="kill the leader after so many seconds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        given = os.environ.get("FASTQ_DATABASE_URL")
        with embedded.start(Path(folder) / "server") if not given else nullcontext() as server:
            base = given or server.url
            with psycopg.connect(base, autocommit=True) as connection:
                connection.execute(f"drop database if exists {DATABASE} with (force)")
                connection.execute(f"create database {DATABASE}")
            url = make_conninfo(base, dbname=DATABASE)
            migrate(url)
            ledger = Path(folder, "ledger")
            ledger.mkdir()
            starts = work(url, str(ledger), options.seconds, options.kill)
    longest = max(after - before for before, after in pairwise(starts))
    took = starts[-1] - starts[0]
    print(f"{len(starts)} starts in {took:.1f} s; the most in {PER:.0f} s: {most_in_a_window(starts)}, of {AT_MOST + BURST}")
    print(f"used: {len(starts) / (took * AT_MOST / PER):.2%}; the longest pause: {longest:.2f} s")
    print(f"used without it: {len(starts) / ((took - longest) * AT_MOST / PER):.2%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
