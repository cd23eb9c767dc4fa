"""The costs of a supervisor and its processes while there is nothing to do: CPU, statements, memory.

Run in the main thread of the program that measures, and keeps nothing. It counts from a moment at which all processes are up and
have looked once; the transactions of the database are Postgres' own count, without those of the measurement. Autovacuum's are in
it, but come in bursts (30 a minute, measured): so transactions are counted in windows, and the median of these is the figure.
Nobody else may use the database meanwhile.
"""

from __future__ import annotations

import time
from itertools import pairwise
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

from fastq.bench.child import Program
from fastq.bench.cost import memory, title, tree, tree_seconds
from fastq.bench.load import fill

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.postgres.db import Connection

SETTLE = 11.0
"""Seconds until it counts, if it counts for that long: a session that idles tells its transactions after 10 at the latest, so
by then those of the start are in; so are the first beat, the first lease and the archive's partitions."""

WINDOW = 5.0
"""Seconds of one count of transactions: the interval of the beat, the longest of ours."""

_TRANSACTIONS = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"


class Rest(NamedTuple):
    """The costs of idling; each process with its title and its bytes (rss, pss, shared)."""

    cpu_percent: float
    statements_per_s: list[float]
    processes: list[dict[str, str | int]]

    def mean(self, size: str) -> float:
        """Return the mean of a size over the worker processes."""
        workers = [process for process in self.processes if str(process["process"]).startswith("fastq: worker")]
        return mean(float(worker[size]) for worker in workers)


def measure(connection: Connection, config: Config, seconds: float) -> Rest:
    """Let a supervisor idle for so long."""
    fill(connection, 0, paused=False)
    with Program("route", config, jobs=0) as program:
        program.hear("ready")
        time.sleep(min(SETTLE, seconds))
        cpu, began = tree_seconds(program.pid), time.monotonic()
        rates = _transactions_per_s(connection, min(WINDOW, seconds), max(1, int(seconds / WINDOW)))
        cpu, took = tree_seconds(program.pid) - cpu, time.monotonic() - began
        processes: list[dict[str, str | int]] = [{"process": title(pid), **memory(pid)} for pid in tree(program.pid)]
    return Rest(cpu / took * 100, rates, processes)


def _transactions_per_s(connection: Connection, window: float, windows: int) -> list[float]:
    counts = [_transactions(connection)]
    for _ in range(windows):
        time.sleep(window)
        counts.append(_transactions(connection))
    # Each reading is in the next one, but for the shortest windows: a session tells its transactions once a second at most.
    return [max(0, after - before - 1) / window for before, after in pairwise(counts)]


def _transactions(connection: Connection) -> int:
    return int(connection.execute(_TRANSACTIONS)[0][0])
