"""Measure what docs/adr/0040 says that statistics cost: `python -m bench.adr.stats [QUESTION ...]`.

    path      the code that a plain job passes in its process, in one thread and without a database: decode, `work`, the sorting
              and encoding of its completion. CPU in ns a job, statistics off and on in turns
    route     the real supervisor over 60,000 jobs that do nothing, off and on in turns: CPU of process and server in us a job
    flush     the statements by which a process writes its counts, with 40 keys and 1,000 timed jobs

The last two work in the schema of `fastq bench`, on the server of FASTQ_DATABASE_URL, or on an embedded one.
"""

import struct
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.pieces import claimed
from fastq.bench import load, route
from fastq.bench.app import registry
from fastq.bench.cost import Meter
from fastq.config import Config
from fastq.postgres import db, embedded
from fastq.postgres.kept import Kept
from fastq.work.codec.claimed import BETWEEN_EPOCHS
from fastq.work.codec.codec import decode
from fastq.work.codec.timed import choose
from fastq.work.complete.tally import BATCH, Tally, Untold
from fastq.work.complete.writer import Writer
from fastq.work.complete.writes import parts_of

ROUNDS, BATCH_SIZE = 200, 5_000
FULL_CLAIMS = 60  # of 5,000 jobs, of a process at full speed between two writes
WRITER = Writer(Config(), lambda: db.connect("", role="bench"))
TURNS, JOBS = 3, 60_000


@contextmanager
def database() -> Iterator[Config]:
    """Give a configuration with a database."""
    config = replace(Config.load(), schema=load.SCHEMA, procs=2, log_level="error")
    if config.database_url:
        yield config
        return
    folder = Path(tempfile.mkdtemp(prefix="fastq-statistics-", dir="/tmp"))
    folder.chmod(0o711)  # root's server runs as another user, who must pass
    with embedded.start(folder) as server:
        yield replace(config, database_url=server.url)


class Notes:
    """Answers the question for notes without a server."""

    def run_one(self, *_: object) -> tuple[object, ...]:
        """Return a clock and a hundred notes."""
        return time.time(), [*range(0, 10_000, 100)], [None] * 100, [0.0] * 100


def path_once(args: list[bytes], tally: Untold, *, settle: bool) -> float:
    """Return the CPU of one batch in ns a job; `settle`: with that of the counts before they are written."""
    claim = claimed("bench.noop", args)
    began = time.process_time_ns()
    jobs = decode(claim, registry.workers, choose=choose if type(tally) is Tally else None).good
    inbox, done, batch, work = deque(jobs), [], None, None
    while inbox:  # as an executor does
        job = inbox.popleft()
        if job.batch is not batch:
            batch, work = job.batch, job.batch.work
        work(job)
        done.append(job)
    for part in parts_of(done, archive=True):
        batches = set(map(BATCH, part.jobs))
        WRITER._parameters(part, batches)  # noqa: SLF001 - a measurement of it
        tally.plain(part.jobs, batches, len(part.jobs))
    if settle and isinstance(tally, Tally):
        tally._settle_times()  # noqa: SLF001 - the same
        tally._settle_waits(Notes())  # type: ignore[arg-type]  # noqa: SLF001 - the same
        _ = [(*key, *cell.row()) for key, cell in tally._cells.items()]  # noqa: SLF001 - the same
        tally._cells.clear()  # noqa: SLF001 - the same
    return (time.process_time_ns() - began) / len(args)


def path() -> None:
    """Compare the two in turns, and off with off, which shows the noise."""
    args = [b'{"number":%d}' % number for number in range(BATCH_SIZE)]
    tallies = {"off": Untold(), "on": Tally(), "off again": Untold()}
    found: dict[str, list[float]] = {name: [] for name in tallies}
    for turn in range(ROUNDS):
        for name in tallies if turn % 2 else reversed(tallies):
            found[name].append(path_once(args, tallies[name], settle=turn % FULL_CLAIMS == 0))
    for name in ("on", "off again"):
        differences = [b - a for a, b in zip(found["off"], found[name], strict=True)]
        print(f"path: off {median(found['off']):.0f} ns a job; {name}: median of the differences {median(differences):.1f}")


def route_() -> None:
    """Work jobs off and on in turns."""
    figures: dict[bool, list[route.Run]] = {False: [], True: []}
    with database() as config, load.fresh_schema(config) as connection:
        meter = Meter(connection)
        for turn in range(TURNS + 1):
            for on in (False, True) if turn % 2 else (True, False):
                load.fill(connection, JOBS, paused=True)
                run = route.work(connection, replace(config, stats=on), JOBS, meter)
                if turn:
                    figures[on].append(run)
                    print(f"  {'on ' if on else 'off'} {run.jobs_per_s:8,.0f} jobs/s, process {run.process_us:.2f}, "
                          f"postgres {run.postgres_us or 0:.2f} us a job, WAL {run.wal_bytes:.0f} bytes")  # fmt: skip
    for name in ("process_us", "postgres_us", "wal_bytes", "jobs_per_s"):
        off, on = (median(getattr(run, name) or 0 for run in figures[which]) for which in (False, True))
        ratio = median(
            getattr(b, name) / getattr(a, name) for a, b in zip(figures[False], figures[True], strict=True) if getattr(a, name)
        )
        print(f"route: {name} off {off:,.2f}, on {on:,.2f}; median ratio of the pairs {ratio:.4f}")


def flush() -> None:
    """Write counts again and again."""
    moment = struct.pack(">25q", *[int((time.time() - BETWEEN_EPOCHS) * 1e6)] * 25)  # when the jobs were enqueued
    with database() as config, load.fresh_schema(config):
        session = Kept(lambda: db.connect(config.database_url, role="bench", schema=load.SCHEMA))
        took = []
        for _ in range(30):
            tally = Tally()
            for key in range(40):
                claim = claimed("bench.noop", [b'{"number":1}'] * 25)
                claim._created = moment  # noqa: SLF001 - the claim of the pieces is of the year 2000
                jobs = decode(claim, registry.workers).good
                for job in jobs:
                    choose([job])
                    job.batch.work(job)
                    job.batch.kind = f"kind {key}"
                tally.plain(jobs, set(map(BATCH, jobs)), len(jobs))
            began, cpu = time.monotonic(), time.process_time()
            tally.write(session)
            took.append((time.monotonic() - began, time.process_time() - cpu))
        session.drop()
    whole, own = (median(column) * 1e3 for column in zip(*took, strict=True))
    print(f"flush: {whole:.1f} ms, of which {own:.1f} ms CPU of the process")


QUESTIONS = {"path": path, "route": route_, "flush": flush}

if __name__ == "__main__":
    for question in sys.argv[1:] or QUESTIONS:
        QUESTIONS[question]()
