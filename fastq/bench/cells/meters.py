"""The meters of a cell: CPU of the programs and of the server, WAL, transactions, memory, and how busy others keep the machine.

Run in the main thread of the program that measures, between two readings; a `Meters` keeps the pids of the server's roots and how
to ask it, and nothing changes them. CPU is that of whole trees of processes, from /proc (`fastq/bench/cost.py`). The share of
others is all the CPU time that the machine has spent, less that of the programs, the server and us.

A session tells its transactions to the server's statistics once a second at most, so their number is right for runs of many
seconds.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fastq.bench.cost import TICK, memory, tree, tree_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastq.postgres.db import Connection

WAL = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
TRANSACTIONS = "select coalesce(sum(xact_commit + xact_rollback), 0)::bigint from pg_stat_database"
_STOOD = (3, 4)
"""The places of idle and iowait among the numbers of /proc/stat: time in which a core had nothing to do."""


class Reading(NamedTuple):
    """All meters at a moment: seconds of CPU, bytes, transactions."""

    at: float
    workers: float
    clients: float
    server: float | None
    machine: float
    wal: int
    transactions: int


class Spent(NamedTuple):
    """What was spent between two readings."""

    seconds: float
    workers: float
    clients: float
    server: float | None  # None: it runs on another machine
    wal: int
    transactions: int
    others: float  # the share of the machine that was spent on something else, 0 to 1


class Meters:
    """Reads them, for one server."""

    def __init__(self, roots: Sequence[int], counted: Callable[[], tuple[int, int]]) -> None:
        self._roots = roots
        self._counted = counted

    @classmethod
    def of_postgres(cls, connection: Connection, postmaster: int | None) -> Meters:
        """Return those of a Postgres, asked on this connection."""

        def counted() -> tuple[int, int]:
            return int(connection.execute(WAL)[0][0]), int(connection.execute(TRANSACTIONS)[0][0])

        return cls([] if postmaster is None else [postmaster], counted)

    def read(self, workers: Sequence[int], clients: Sequence[int] = ()) -> Reading:
        """Read all meters; the programs by their pids."""
        wal, transactions = self._counted()
        server = sum(map(tree_seconds, self._roots)) if self._roots else None
        worked, sent = sum(map(tree_seconds, workers)), sum(map(tree_seconds, clients))
        return Reading(time.monotonic(), worked, sent, server, _machine() - time.process_time(), wal, transactions)


def between(before: Reading, after: Reading) -> Spent:
    """Return what was spent between two readings."""
    seconds, workers, clients = after.at - before.at, after.workers - before.workers, after.clients - before.clients
    server = None if after.server is None or before.server is None else after.server - before.server
    others = after.machine - before.machine - workers - clients - (server or 0.0)
    share = max(0.0, others / (seconds * (os.cpu_count() or 1)))
    return Spent(seconds, workers, clients, server, after.wal - before.wal, after.transactions - before.transactions, share)


def resident(pids: Sequence[int]) -> int:
    """Return the bytes of memory of some programs with all their processes, what is shared counted once."""
    return sum(memory(pid).get("pss", 0) for root in pids for pid in tree(root))


def _machine() -> float:
    """Return the seconds of CPU that the machine has spent on anything, all cores together; 0 where the kernel does not tell."""
    try:
        numbers = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0].split()[1:9]
    except OSError:
        return 0.0
    return sum(int(number) for place, number in enumerate(numbers) if place not in _STOOD) * TICK
