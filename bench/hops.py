"""What a job waits for between its commit and its work, hop by hop: `python -m bench.hops [TIMES]`.

On an idle machine a job's latency is a chain of wake-ups. A whole supervisor runs here, jobs are enqueued one by one at random
moments, and each of its processes notes when the chain passes it:

    heard      the supervisor's listener has the notification
    called     the producer's thread has come out of its sleep
    asked      it sends the claim
    answered   it has the answer
    handed     the job is about to go into an inbox, and an executor to be called
    work       the user's code begins

The notes are made by functions put around those of fastq, for this program alone; a note takes 2 µs. What is between two of them
is one hop; the table tells the median, the ninth decile and the 99th percentile of each, and of the whole. Works in the schema
`fastq_bench` of FASTQ_DATABASE_URL or of an embedded Postgres; server and client must be on one machine.
"""

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench import clocked
from bench.adr.measure import database
from bench.clocked import FILE, RECORD, ClockedArgs, Served, note, percentile, registry
from fastq.bench import load
from fastq.config import Config
from fastq.enqueue.client import Client
from fastq.host.waker import Waker
from fastq.work.claim.producer import Producer
from fastq.work.cursor.claims import Claims
from fastq.work.execute.threads import ThreadLane

__all__ = ["registry", "serve"]  # what the supervisor and its processes take from here

TIMES, WARM_UP = 400, 20
SHORTEST, LONGEST = 0.010, 0.030  # s between two jobs, as in `fastq bench`
HOPS = ("heard", "called", "asked", "answered", "handed")


def noting(owner: type, method: str, *, before: str = "", after: str = "") -> None:
    """Have a method note when it is called and when it has returned."""
    original: Callable[..., Any] = getattr(owner, method)

    @wraps(original)
    def noted(*args: Any, **kwargs: Any) -> Any:
        if before:
            note(-1 - HOPS.index(before), time.monotonic_ns())
        returned = original(*args, **kwargs)
        if after:
            note(-1 - HOPS.index(after), time.monotonic_ns())
        return returned

    setattr(owner, method, noted)


def serve() -> None:
    """Be a supervisor whose processes note how far the chain has come."""
    clocked.serve("bench.hops:registry")


def enqueue(config: Config, times: int) -> list[tuple[int, int]]:
    """Enqueue jobs one by one; return when each call began and when it had returned."""
    calls = []
    with Client(config=config) as client:
        for number in range(times):
            time.sleep(random.uniform(SHORTEST, LONGEST))
            began = time.monotonic_ns()
            client.enqueue(ClockedArgs(number))
            calls.append((began, time.monotonic_ns()))
    return calls


def chains(calls: list[tuple[int, int]], records: list[tuple[int, int]]) -> list[list[int]]:
    """Return for each job the times at which the chain passed each place, the return of `enqueue` first."""
    started = {number: at for number, at in records if number >= 0}
    notes = sorted((at, -1 - number) for number, at in records if number < 0)
    found, place = [], 0
    for number, (began, returned) in enumerate(calls):
        chain = [returned]
        while place < len(notes) and notes[place][0] < began:
            place += 1
        wanted = 0
        for at, hop in notes[place:]:
            if wanted == len(HOPS) or at > started[number]:
                break
            if hop == wanted:
                chain.append(at)
                wanted += 1
        if wanted == len(HOPS):
            found.append([*chain, started[number]])
    return found


def tell(name: str, times: list[float]) -> None:
    """Print the percentiles of some times in nanoseconds."""
    ordered = sorted(times)
    p50, p90, p99 = (percentile(ordered, share) / 1e6 for share in (0.5, 0.9, 0.99))
    print(f"  {name:36s} {p50:7.3f} {p90:7.3f} {p99:7.3f}", flush=True)


def main(times: int) -> None:
    """Measure and print."""
    with database() as url, tempfile.NamedTemporaryFile(prefix="fastq-bench-") as named:
        settings = Config.load(schema=load.SCHEMA, queues={"default": 0}, poll_only=False, log_level="warning")
        config, file = replace(settings, database_url=url), Path(named.name)
        with load.fresh_schema(config) as connection:
            load.fill(connection, 0, paused=False)
            with Served("bench.hops.serve()", config, file) as served:
                assert served.hear() == ["ready"]
                calls = enqueue(config, times + WARM_UP)
                while load.left(connection):
                    time.sleep(LONGEST)
            [(version,)] = connection.execute("show server_version")
        found = chains(calls, list(RECORD.iter_unpack(file.read_bytes())))[WARM_UP:]
        busy = os.getloadavg()[0]
    python = sys.version.split()[0]
    print(
        f"Postgres {version}, Python {python}, {os.cpu_count()} cores, load {busy:.1f}; {len(found)} of {times} chains are whole"
    )
    print(f"  {'ms':36s} {'p50':>7s} {'p90':>7s} {'p99':>7s}")
    names = ["enqueue returned", *HOPS, "work"]
    for place, (one, next_) in enumerate(pairwise(names)):
        tell(f"{one} -> {next_}", [float(chain[place + 1] - chain[place]) for chain in found])
    tell("enqueue returned -> work", [float(chain[-1] - chain[0]) for chain in found])
    tell("enqueue called -> returned", [float(returned - began) for began, returned in calls[WARM_UP:]])


if os.environ.get(FILE):  # in the supervisor and its processes, not in the program that measures
    noting(Waker, "wake_one", before="heard")
    noting(Producer, "_hear", after="called")
    noting(Claims, "send", before="asked", after="answered")
    noting(ThreadLane, "put", before="handed")

if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TIMES)
