"""The whole route: preloaded jobs through the real supervisor, from the opening of the queue to the last completion.

`work` runs in the program that measures. `serve` runs in the main thread of another program, which becomes the supervisor's as in
`fastq run`; `_watch` is a thread beside it there, which reads the board and reports. The board is the supervisor's; nothing else
is shared. The queue is paused while the processes start, so their start-up is not counted. The clock starts when the queue is
opened, so the wake-up and the first small claims are counted.

Completions are counted on the supervisor's board, where each process adds up what it has committed. That costs the
measured program one glance every two milliseconds; asking the database would make it count rows instead of working jobs.
The same glances give the longest standstill: the longest time in which no glance found more completions than the one before,
from the opening of the queue to the last completion. Its precision is the time between two glances, and a machine that is
busy makes them rarer: a glance that comes late may make a standstill seem longer, or join two to one. The CPU time of the
glances does not belong to the jobs, so it is subtracted.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import fastq
from fastq import log
from fastq.bench.child import Program, order, tell
from fastq.bench.load import left, open_queue
from fastq.board import board
from fastq.errors import FastqError
from fastq.host.supervisor import Supervisor

if TYPE_CHECKING:
    from fastq.bench.cost import Meter
    from fastq.board.board import Board
    from fastq.config import Config
    from fastq.postgres.db import Connection

TARGET = "fastq.bench.app:registry"
APP_DIR = Path(fastq.__file__).parent.parent
"""The folder that `fastq` itself was imported from: the measurement must not depend on the current directory."""

GLANCE, LONGEST = 0.002, 0.05
"""Seconds between two glances at the board: while jobs are worked, and before that. A batch takes 10 ms and more."""

PATIENCE = 30.0
"""Seconds without a completion after which something is wrong; a batch takes milliseconds."""

TERMINATE = 15
"""SIGTERM: the supervisor's own way to stop in order."""


class Run(NamedTuple):
    """The figures of one run. CPU is None if the server is not on this machine."""

    jobs_per_s: float
    postgres_us: float | None
    process_us: float
    wal_bytes: float
    longest_stall: float  # seconds


def work(connection: Connection, config: Config, jobs: int, meter: Meter) -> Run:
    """Work the jobs that wait in the paused queue."""
    with Program("route", config, jobs=jobs) as program:
        program.hear("ready")
        before, began = meter.read(program.pid), time.monotonic_ns()
        open_queue(connection)
        ended, first, stall, glances = program.hear("done")
        spent = meter.read(program.pid).since(before)
        if rest := left(connection):
            raise FastqError(f"{rest} of {jobs} jobs are left although {jobs} completions were counted")
    return Run(
        jobs_per_s=jobs / (ended - began) * 1e9,
        postgres_us=None if spent.postgres is None else spent.postgres / jobs * 1e6,
        process_us=(spent.program - glances / 1e9) / jobs * 1e6,
        wal_bytes=spent.wal / jobs,
        longest_stall=max(first - began, stall) / 1e9,
    )


def serve() -> None:
    """Be the supervisor until stdin ends; tell when all processes are there, and when so many jobs have been completed."""
    given = order()
    config = given.config
    log.set_up(config)
    supervisor = Supervisor(config, TARGET, config.database_url, APP_DIR)
    shown = supervisor._board  # noqa: SLF001 - the memory that a supervisor shares with its processes; a measurement reads along
    threading.Thread(target=_watch, args=(shown, config.process_count, given.numbers["jobs"]), daemon=True).start()
    sys.exit(supervisor.run())


def _watch(shown: Board, processes: int, jobs: int) -> None:
    """Report the completions on the board, then wait for the end of stdin, and stop the supervisor."""
    try:
        desks = [shown.desk(place) for place in range(processes)]
        while not is_up(shown, processes):
            if _stopped(LONGEST):
                return
        tell("ready")
        if not jobs or _completed(desks, jobs):
            while not _stopped(PATIENCE):
                pass
    finally:
        os.kill(os.getpid(), TERMINATE)


def is_up(shown: Board, processes: int) -> bool:
    """Say whether all processes of a supervisor are there, and have looked for jobs."""
    looked = shown.cursor(0) if len(shown.concurrency) == 1 else shown.peeks()
    return bool(looked.looked_at) and all(shown.desk(place)[board.SESSIONS[0]] for place in range(processes))


def _completed(desks: list[memoryview], jobs: int) -> bool:
    """Wait until so many jobs have been completed; False if it does not get there.

    Tells when the last and the first were found completed, the longest standstill in between, and the CPU time of the glances.
    """
    cpu = time.thread_time_ns()
    moved = time.monotonic_ns()
    first = last = longest = 0
    while True:
        ended, now = sum(desk[board.ENDED] for desk in desks), time.monotonic_ns()
        if ended > last:
            longest = max(longest, now - moved if first else 0)
            first, last, moved = first or now, ended, now
        if ended >= jobs:
            tell("done", now, first, longest, time.thread_time_ns() - cpu)
            return True
        if now - moved > PATIENCE * 1e9:
            tell("stalled", ended)
            return False
        if _stopped(GLANCE):
            return False


def _stopped(seconds: float) -> bool:
    """Sleep so long; True if stdin has ended, and with it the measurement."""
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready)
