"""Measure what docs/adr/0026 says of newcomers: `python bench/adr/fair.py [--waiting N]`.

One tenant has a million jobs waiting at a fair gate, and `fastq run --procs 2` works them. Then a hundred tenants enqueue ten
jobs each. It tells how many jobs of the large tenant started before the last of these, and how long that took. Each job writes
its tenant and the time into a file when it starts, so the database is not asked. Jobs leave no row. It works in a database of
its own, on the server of FASTQ_DATABASE_URL, or on an embedded one.
"""

import argparse
import os
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from fastq import Args, Client, Fair, Job, Registry, Worker
from fastq.postgres import embedded
from fastq.schema.migrate import migrate

DATABASE = "fastq_adr_fair"
WINDOW = 100
TENANTS, EACH = 100, 10
PATIENCE = 120.0
START = struct.Struct("=id")

registry = Registry()


@dataclass
class Report(Args, kind="report", gates=[Fair("tenants", by="tenant", window=WINDOW)]):
    """A job of a tenant; 0 is the large one."""

    tenant: int


@registry.register
class ReportWorker(Worker[Report]):
    """Tells that it started, and takes a millisecond."""

    archive = False

    def work(self, job: Job[Report]) -> None:
        """Write tenant and time, one write."""
        with Path(os.environ["FAIR_STARTS"]).open("ab") as file:
            file.write(START.pack(job.args.tenant, time.monotonic()))
        time.sleep(0.001)


def started(starts: Path) -> list[tuple[int, float]]:
    """Return the tenants of the jobs that have started, and when, in that order."""
    data = starts.read_bytes()
    return sorted(START.iter_unpack(data[: len(data) // START.size * START.size]), key=lambda start: start[1])


def wait_for(starts: Path, jobs: int, late: bool) -> list[tuple[int, float]]:
    """Wait until so many jobs have started, of those that came late or of all."""
    until = time.monotonic() + PATIENCE
    while True:
        found = started(starts)
        if sum(tenant > 0 or not late for tenant, _ in found) >= jobs:
            return found
        if time.monotonic() > until:
            raise SystemExit(f"{len(found)} jobs have started after {PATIENCE} s")
        time.sleep(0.05)


def measure(url: str, starts: Path, waiting: int) -> None:
    """Have the large tenant wait, work its jobs, let the others come; print how they fared."""
    starts.touch()
    words = [
        sys.executable,
        "-m",
        "fastq",
        "run",
        "--app-dir",
        str(Path(__file__).parent),
        "--procs",
        "2",
        "--log-level",
        "error",
    ]
    variables = os.environ | {"FASTQ_DATABASE_URL": url, "FAIR_STARTS": str(starts)}
    with Client(url) as client:
        client.enqueue_copy(Report(0) for _ in range(waiting))
        program = subprocess.Popen([*words, "fair:registry"], env=variables, stdout=subprocess.DEVNULL)
        try:
            wait_for(starts, 20 * WINDOW, late=False)
            came = time.monotonic()
            client.enqueue_many([Report(tenant) for _ in range(EACH) for tenant in range(1, TENANTS + 1)])
            found = wait_for(starts, TENANTS * EACH, late=True)
        finally:
            program.terminate()
            program.wait()
    last = max(at for tenant, at in found if tenant)
    before = sum(not tenant and came < at < last for tenant, at in found)
    rounds = f"{WINDOW} of the window and {EACH} of as many rounds are its part"
    print(f"{waiting:,} jobs of a tenant waiting, {TENANTS} tenants with {EACH} each come", flush=True)
    print(f"before the last of these {before} jobs of the large one started ({rounds}); it took {last - came:.2f} s", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--waiting", type=int, default=1_000_000)
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
            measure(url, Path(folder) / "starts", options.waiting)


if __name__ == "__main__":
    main()
