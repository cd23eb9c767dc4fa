"""Cells in which jobs are enqueued while others are worked: one now and then, a trickle, a load; and enqueueing alone.

Called in the main thread of the program that measures, with a stage that it owns; a cell keeps nothing between two calls. A
latency is the time from the moment in which the enqueue has returned to the start of work, by the one clock of the machine. It
may be below 0: work may begin before the program that enqueued is scheduled again.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from fastq.bench.cells.cell import COSTS, PATIENCE, Cell, go, ordered, per_job
from fastq.bench.cells.meters import between, resident
from fastq.bench.cells.speak import NOTE, SENT
from fastq.bench.latency import percentile

if TYPE_CHECKING:
    from typing import Any

    from fastq.bench.cells.cell import Figures, Stage

IDLE_JOBS, GAP = 300, (0.010, 0.030)
"""Jobs that come alone, and the seconds between two: longer than a job takes, and no rhythm."""

PROGRAMS = 8
"""Programs that enqueue beside each other: a web server's processes."""

TRICKLE, FULL, LOAD, BATCH = 2_000, 5_000, 20_000, 100
"""Jobs per second of a trickle, of a trickle that may be too much, of a load; the last in batches."""

SECONDS = 4.0
"""Seconds of each stream."""

SINGLE, MANY, AT_ONCE = 3_000, 60_000, 1_000
"""Jobs of an enqueue one by one, for each client or thread, and by the batch."""

GIVEN_UP = 1.5
"""A stream that takes this many times its time is ended there: the system does not hold the rate."""


def idle(stage: Stage) -> Figures:
    """Enqueue jobs that come alone."""
    jobs = max(20, int(IDLE_JOBS * stage.scale))
    return _stream(stage, 1, jobs, gap=GAP)


def trickle(stage: Stage) -> Figures:
    """Enqueue job by job from eight programs, at a rate that all should hold and at one that is much."""
    seconds = SECONDS * stage.scale
    found = _stream(stage, PROGRAMS, int(TRICKLE * seconds), rate=TRICKLE / PROGRAMS, seconds=seconds * GIVEN_UP)
    full = _stream(stage, PROGRAMS, int(FULL * seconds), rate=FULL / PROGRAMS, seconds=seconds)
    return found | {"full_per_s": full["held_per_s"], "full_p50_ms": full["p50_ms"]}


def load(stage: Stage) -> Figures:
    """Enqueue by the batch at a steady rate."""
    seconds = SECONDS * stage.scale
    return _stream(stage, 1, int(LOAD * seconds), batch=BATCH, rate=float(LOAD), seconds=seconds * GIVEN_UP)


def _stream(stage: Stage, programs: int, jobs: int, **pace: Any) -> Figures:
    """Enqueue so many jobs by so many programs while they are worked; return how long they waited, and what all took."""
    stage.system.empty()
    with tempfile.TemporaryDirectory(prefix="fastq-bench-") as folder, stage.working("clock") as working:
        go(working)
        started, sent = Path(folder, "started"), Path(folder, "sent")
        _warm_up(stage, started)
        share = jobs // programs
        orders = [
            ordered("clock", share, first=place * share, path=str(started), sent=f"{sent}{place}", **pace)
            for place in range(programs)
        ]
        with ExitStack() as running:
            clients = [running.enter_context(stage.system.enqueuer(order)) for order in orders]
            for client in clients:
                client.hear("ready")
            pids, senders = [program.pid for program in working], [client.pid for client in clients]
            meters = stage.system.meters()
            before = meters.read(pids, senders)
            go(clients)
            told = [client.hear("done") for client in clients]
            count = sum(each["jobs"] for each in told)
            _started(started, count)
            stage.wait()
            spent, memory = between(before, meters.read(pids, senders)), resident(pids)
        noted = dict(NOTE.iter_unpack(started.read_bytes()))
        rows = [row for place in range(programs) for row in SENT.iter_unpack(Path(f"{sent}{place}").read_bytes())]
    waited = sorted((noted[number] - returned) / 1e6 for number, _, returned in rows)
    stage.samples = waited
    calls = sorted((returned - began) / 1e6 for _, began, returned in rows)
    took = (max(each["ended"] for each in told) - min(each["began"] for each in told)) / 1e9
    percentiles = {f"p{share:g}_ms": percentile(waited, share / 100) for share in (50, 95, 99)}
    return {
        **percentiles,
        "enqueue_p50_ms": percentile(calls, 0.5),
        "held_per_s": count / took,
        "client_us": spent.clients / count * 1e6,
        **per_job(spent, count),
        "memory_mb": memory / 2**20,
    }


WARM_UP = 20
"""Jobs before the first one that counts: they connect what connects late."""


def _warm_up(stage: Stage, started: Path) -> None:
    order = ordered("clock", WARM_UP, path=str(started), gap=GAP)
    with stage.system.enqueuer(order) as client:
        client.hear("ready")
        go([client])
        client.hear("done")
    _started(started, WARM_UP)
    stage.wait()
    started.write_bytes(b"")


def _started(path: Path, jobs: int) -> None:
    """Wait until so many jobs have noted their start; a system that has lost one shows by the number of notes."""
    give_up = time.monotonic() + PATIENCE
    while not path.exists() or path.stat().st_size < jobs * NOTE.size:
        if time.monotonic() > give_up:
            return
        time.sleep(GAP[0])


def enqueue(stage: Stage) -> Figures:
    """Enqueue one by one and by the batch, while nobody works."""
    single, many = (max(20, int(jobs * stage.scale)) for jobs in (SINGLE, MANY))
    ways = {
        "single_per_s": (1, ordered("noop", single)),
        "threads_per_s": (1, ordered("noop", single * 4, threads=8)),
        "programs_per_s": (PROGRAMS, ordered("noop", single // 2)),
        "batch_per_s": (1, ordered("noop", many, batch=AT_ONCE)),
    }
    stage.system.empty()
    found: Figures = {}
    meters = stage.system.meters()
    first = meters.read([])
    for name, (programs, order) in ways.items():
        with ExitStack() as running:
            clients = [running.enter_context(stage.system.enqueuer(order)) for _ in range(programs)]
            for client in clients:
                client.hear("ready")
            go(clients)
            told = [client.hear("done") for client in clients]
        took = (max(each["ended"] for each in told) - min(each["began"] for each in told)) / 1e9
        found[name] = sum(each["jobs"] for each in told) / took
    return found | {"seconds": meters.read([]).at - first.at}


_WAITED = {
    "p50_ms": "from the return of the enqueue to the start of work, the median",
    "p95_ms": "the same, 95 of 100 are below",
    "p99_ms": "the same, 99 of 100 are below",
    "enqueue_p50_ms": "the enqueue itself, the median",
    "held_per_s": "jobs that were enqueued",
    "client_us": "CPU of the programs that enqueue, for a job",
    **COSTS,
}

IDLE = Cell("idle", "jobs that come alone, every 20 ms or so", _WAITED, idle, least=True)
TRICKLING = Cell(
    "trickle",
    "2,000 jobs a second, one by one, from 8 programs",
    {**_WAITED, "full_per_s": "jobs enqueued where 5,000 a second were asked for", "full_p50_ms": "how long these waited"},
    trickle,
    least=True,
)
LOADED = Cell("load", "20,000 jobs a second, by the hundred", _WAITED, load, least=True)
ENQUEUED = Cell(
    "enqueue",
    "enqueueing alone, while nobody works",
    {
        "single_per_s": "jobs, one by one, from one client",
        "threads_per_s": "the same from 8 threads or coroutines of it",
        "programs_per_s": "the same from 8 programs",
        "batch_per_s": "a thousand in a call",
        "seconds": "that all of this took",
    },
    enqueue,
)
