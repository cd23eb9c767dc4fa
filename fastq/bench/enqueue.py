"""How fast one thread enqueues, through the public client: one job at a time, by the thousand, and by COPY.

Run in the main thread of the program that measures, which owns the client, while nobody works the queue. Each single job is a
transaction with its own commit, which mostly waits for the disk, so its figure says as much about the machine as about fastq.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastq.bench.app import NoopArgs
from fastq.bench.load import fill
from fastq.enqueue.client import Client

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.config import Config
    from fastq.postgres.db import Connection

SINGLE, MANY, COPY = 2_000, 20_000, 100_000
"""Jobs in one repetition: a few tenths of a second each on a usual machine."""

AT_ONCE = 1_000
"""Jobs in one call of enqueue_many: as many as a program may collect before it writes. A guess."""


def measure(connection: Connection, config: Config, rounds: int, limit: int) -> dict[str, list[float]]:
    """Return jobs per second by way, one figure for each round; no repetition enqueues more than `limit` jobs."""
    single, many, copy = (min(count, limit) for count in (SINGLE, MANY, COPY))
    rates: dict[str, list[float]] = {"single": [], "many": [], "copy": []}
    with Client(config=config) as client:

        def one_by_one() -> None:
            for number in range(single):
                client.enqueue(NoopArgs(number))

        def by_the_thousand() -> None:
            for first in range(0, many, AT_ONCE):
                client.enqueue_many([NoopArgs(number) for number in range(first, min(first + AT_ONCE, many))])

        def by_copy() -> None:
            client.enqueue_copy(NoopArgs(number) for number in range(copy))

        client.enqueue(NoopArgs(0))  # connects
        for _ in range(rounds):
            fill(connection, 0, paused=True)
            rates["single"].append(single / _seconds(one_by_one))
            rates["many"].append(many / _seconds(by_the_thousand))
            rates["copy"].append(copy / _seconds(by_copy))
    return rates


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
