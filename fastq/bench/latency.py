"""From commit to the start of `work`, on a system that has nothing else to do.

Run in the main thread of the program that measures, which keeps nothing after a call: one job at a time, in a transaction of its
own, at irregular intervals. The clock is read when the commit is sent and when it has returned here, and when `work` begins
there; it is the same clock for all processes of a machine. A latency counts from the commit's return: notification, supervisor,
pipe, claim, decode, thread. On a busy machine that can be below 0, since work may have begun before we are scheduled again to
hear of the commit; so the time that the commits took themselves is shown beside it.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fastq.bench.app import STARTED, ClockArgs
from fastq.bench.child import Program
from fastq.bench.load import fill
from fastq.enqueue.client import Client
from fastq.errors import FastqError

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.postgres.db import Connection

SHORTEST, LONGEST = 0.010, 0.030
"""Seconds between two jobs: longer than a job takes, short enough for hundreds of them in a few seconds, and no rhythm."""

WARM_UP = 20
"""Jobs that are not counted: the first ones connect the completers and import the modules that are imported late."""

PATIENCE = 10.0
"""Seconds to wait for the last job; a job that a wake-up has missed is found by a poll after one."""


def measure(connection: Connection, config: Config, jobs: int) -> tuple[list[float], list[float]]:
    """Return the latencies and the times of the commits, in milliseconds, sorted."""
    fill(connection, 0, paused=False)
    with tempfile.NamedTemporaryFile(prefix="fastq-bench-") as file, Program("route", config, jobs=0) as program:
        program.hear("ready")
        committed = _enqueue(connection, config, file.name, jobs + WARM_UP)
        path = Path(file.name)
        give_up = time.monotonic() + PATIENCE
        while path.stat().st_size < STARTED.size * len(committed):
            if time.monotonic() > give_up:
                raise FastqError(f"{path.stat().st_size // STARTED.size} of {len(committed)} jobs have started, and no more do")
            time.sleep(LONGEST)
        started = dict(STARTED.iter_unpack(path.read_bytes()))
    counted = list(enumerate(committed))[WARM_UP:]
    latencies = sorted((started[number] - returned) / 1e6 for number, (_, returned) in counted)
    return latencies, sorted((returned - sent) / 1e6 for _, (sent, returned) in counted)


def _enqueue(connection: Connection, config: Config, path: str, jobs: int) -> list[tuple[int, int]]:
    """Enqueue jobs one by one; return when each commit was sent and when it had returned."""
    committed = []
    with Client(config=config) as client:
        for number in range(jobs):
            time.sleep(random.uniform(SHORTEST, LONGEST))  # noqa: S311 - no secret
            connection.execute("begin")
            client.enqueue(ClockArgs(path, number), conn=connection.raw)
            sent = time.monotonic_ns()
            connection.execute("commit")
            committed.append((sent, time.monotonic_ns()))
    return committed


def percentile(ordered: list[float], share: float) -> float:
    """Return the smallest value that at least this share of the sorted values does not exceed."""
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]
