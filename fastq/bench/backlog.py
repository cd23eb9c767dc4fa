"""Whether a claim notices how much waits behind it: the rate of claims at a small and at a large backlog, and the memory.

Run in the main thread of the program that measures, which owns the connections; nothing is kept between two calls. The claims are
the runtime's own (`Cursor`, `Claimed`, the board), made by one connection that completes nothing, so that nothing but the backlog
differs. A round is as many jobs as the small backlog holds. Its first claim is left out: on a new connection it is the one that
plans.

Then the real supervisor works on the large backlog for a while: its memory must not know how large that is.
"""

from __future__ import annotations

import itertools
import time
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from fastq.args.options import DEFAULT_QUEUE
from fastq.bench.child import Program
from fastq.bench.cost import memory, title, tree
from fastq.bench.load import fill, left, open_queue
from fastq.board.board import Board
from fastq.postgres import db
from fastq.work.cursor.cursor import Cursor

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.postgres.db import Connection
    from fastq.work.codec.claimed import Claimed

SMALL = 50_000
"""Jobs of the small backlog, and of a round."""

WORK_FOR = 10.0
"""Seconds that the supervisor works on the large backlog."""

SAMPLES = 5
"""Looks at its memory meanwhile."""


class Comparison(NamedTuple):
    """Claims per second at the small and at the large backlog; how the supervisor fared on the large one."""

    small: list[float]
    large: list[float]
    worked_per_s: float
    worker_rss: list[int]

    @property
    def ratio(self) -> float:
        """Return the rate at the large backlog as a share of that at the small one."""
        return median(self.large) / median(self.small)


def measure(connection: Connection, config: Config, jobs: int, rounds: int) -> Comparison:
    """Compare the two, the small one before and after the large one; then work on the large one."""
    small = [_claim_rate(connection, config, SMALL, 1)[0] for _ in range(rounds)]
    large = _claim_rate(connection, config, jobs, rounds)
    small += [_claim_rate(connection, config, SMALL, 1)[0] for _ in range(rounds)]
    return Comparison(small, large, *_work(connection, config, jobs))


def _claim_rate(connection: Connection, config: Config, backlog: int, rounds: int) -> list[float]:
    """Fill the table, claim round after round; return jobs per second of each."""
    fill(connection, backlog, paused=False)
    session = db.connect(config.database_url, role="backlog", schema=config.schema)
    cursor = Cursor(Board.make([1], 1, 1), 0, DEFAULT_QUEUE, config.poll_interval)
    claims = itertools.count(1 << 32)
    rates: list[float] = []
    try:
        for _ in range(rounds):
            claimed, began = 0, 0.0
            while claimed < SMALL - config.batch:
                found: list[Claimed] = []
                last = cursor.send_look(session, lambda _: next(claims), config.batch, found.append)
                count = sum(map(len, found)) + (len(last) if last is not None else 0)
                if not began:
                    began = time.perf_counter()
                else:
                    claimed += count
                if not count:
                    break
            rates.append(claimed / (time.perf_counter() - began))
    finally:
        session.close()
    return rates


def _work(connection: Connection, config: Config, jobs: int) -> tuple[float, list[int]]:
    """Work on the backlog for a while; return jobs per second, and the memory of the worker processes meanwhile."""
    fill(connection, jobs, paused=True)
    samples: list[int] = []
    with Program("route", config, jobs=jobs) as program:
        program.hear("ready")
        open_queue(connection)
        began = time.monotonic_ns()
        for _ in range(SAMPLES):
            time.sleep(WORK_FOR / SAMPLES)
            workers = [pid for pid in tree(program.pid) if title(pid).startswith("fastq: worker")]
            samples.append(sum(memory(pid).get("rss", 0) for pid in workers) // max(1, len(workers)))
        took, rest = time.monotonic_ns() - began, left(connection)
        if not rest:  # the backlog was too small to last
            took = program.hear("done")[0] - began
    return (jobs - rest) / took * 1e9, samples
