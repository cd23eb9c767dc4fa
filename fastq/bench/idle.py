"""What a supervisor and its processes cost while there is nothing to do: CPU, statements, memory.

Run by the program that measures. It counts from a moment at which all processes are up and have looked once; the
transactions of the database are Postgres' own count, without those of the measurement. Nobody else may use the
database meanwhile.
"""

from __future__ import annotations

import time
from statistics import mean
from typing import TYPE_CHECKING, NamedTuple

from fastq.bench.child import Program
from fastq.bench.cost import memory, title, tree, tree_seconds
from fastq.bench.load import fill

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.db import Connection

SETTLE = 3.0
"""Seconds until it counts: the first beat, the first lease and the archive's partitions belong to the start."""

_TRANSACTIONS = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"


class Rest(NamedTuple):
    """What idling cost; each process with its title and its bytes (rss, pss, shared)."""

    cpu_percent: float
    statements_per_s: float
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
        time.sleep(SETTLE)
        statements, cpu, began = _transactions(connection), tree_seconds(program.pid), time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - began
        cpu = tree_seconds(program.pid) - cpu
        statements = _transactions(connection) - statements - 1  # the first reading counted itself after it had been read
        processes: list[dict[str, str | int]] = [{"process": title(pid), **memory(pid)} for pid in tree(program.pid)]
    return Rest(cpu / took * 100, statements / took, processes)


def _transactions(connection: Connection) -> int:
    return int(connection.execute(_TRANSACTIONS)[0][0])
