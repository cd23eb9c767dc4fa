"""Put the figures together: JSON for scripts, a table with one line of explanation each for people.

Run in the main thread of the program that measures, which fills one `Figures` and prints it at its end. A figure is the median of
its repetitions and its spread is their range, because a machine that is shared is slow at times and never fast by accident; of
standstills the figure is the worst, since one is enough to be noticed. JSON has each repetition under `rounds`. A figure that was
not measured is null and not in the table.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from fastq.cli.terminal import output
from fastq.postgres import db
from fastq.work.codec import codec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.config import Config
    from fastq.postgres.db import Connection

EXPLAINED = {
    "jobs_per_s": ("jobs/s", "no-op jobs through the supervisor, from the opening of the queue to the last completion"),
    "floor_jobs_per_s": ("jobs/s", "the same statements pumped without a runtime: the limit of this machine right now"),
    "floor_ratio": ("", "route to floor, each pair measured one after the other"),
    "longest_stall_ms": ("ms", "the longest time without a completion while the route had backlog; the worst round"),
    "floor_longest_stall_ms": ("ms", "the same of the floor: what the server and the disk do by themselves; the worst round"),
    "postgres_us_per_job": ("us", "CPU of all of Postgres, claim and complete"),
    "floor_postgres_us_per_job": ("us", "the same while the floor was measured"),
    "process_us_per_job": ("us", "CPU of the supervisor and all worker processes"),
    "wal_bytes_per_job": ("bytes", "written to the WAL, claim and complete"),
    "enqueue_single_per_s": ("jobs/s", "one thread, a transaction for each job"),
    "enqueue_many_per_s": ("jobs/s", "one thread, a thousand in a call, ids returned"),
    "enqueue_copy_per_s": ("jobs/s", "one thread, COPY"),
    "latency_p50_ms": ("ms", "from the commit's return to the start of work, idle system"),
    "latency_p95_ms": ("ms", ""),
    "latency_p99_ms": ("ms", ""),
    "commit_p50_ms": ("ms", "from sending a commit to its return"),
    "idle_cpu_percent": ("%", "of one core: the supervisor and all worker processes, nothing to do"),
    "idle_statements_per_s": ("/s", "transactions in the database meanwhile"),
    "worker_rss_bytes": ("bytes", "resident memory of a worker process"),
    "worker_pss_bytes": ("bytes", "the same, what is shared counted by share"),
    "worker_shared_share": ("", "how much of the resident memory is shared"),
    "backlog_small_claims_per_s": ("jobs/s", "claimed by one connection, 50,000 jobs waiting"),
    "backlog_large_claims_per_s": ("jobs/s", "the same with the whole backlog waiting"),
    "backlog_ratio": ("", "large to small"),
    "backlog_jobs_per_s": ("jobs/s", "the supervisor on the whole backlog"),
    "backlog_worker_rss_bytes": ("bytes", "resident memory of a worker process meanwhile"),
}
"""Every figure with its unit and its explanation, in the order of the table."""

WORST = {"longest_stall_ms", "floor_longest_stall_ms"}
"""Figures of which the worst repetition counts."""

SMALL = 100
"""Figures below show decimals."""


LONGEST = max(map(len, EXPLAINED))
"""Characters of a figure's name."""


class Figures:
    """The measured values by name."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def add(self, name: str, *values: float | None) -> None:
        """Add repetitions of a figure; None was not measured."""
        assert name in EXPLAINED
        self._values.setdefault(name, []).extend(value for value in values if value is not None)

    def of_all(self, names: Sequence[str]) -> dict[str, float | None]:
        """Return the figures of these names, null where there is none, and of all others that there are."""
        wanted = [name for name in EXPLAINED if name in names or self._values.get(name)]
        return {name: self._of(name) if self._values.get(name) else None for name in wanted}

    def _of(self, name: str) -> float:
        return _rounded((max if name in WORST else median)(self._values[name]))

    def spreads(self) -> dict[str, tuple[float, float]]:
        """Return the least and the most of each repeated measurement."""
        return {name: (_rounded(min(values)), _rounded(max(values))) for name, values in self._values.items() if len(values) > 1}

    def rounds(self) -> dict[str, list[float]]:
        """Return the repeated measurements, each repetition in its order."""
        return {name: [_rounded(value) for value in values] for name, values in self._values.items() if len(values) > 1}


def machine() -> dict[str, object]:
    """Describe the machine."""
    model = re.search(r"^model name\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cpu": model[1] if model else platform.processor() or platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def versions(connection: Connection) -> dict[str, str]:
    """Return the versions of the measured programs."""
    return {
        "fastq": importlib.metadata.version("fastq-jobs"),
        "python": platform.python_version(),
        "postgres": str(connection.execute("show server_version")[0][0]).split()[0],
        **db.driver(),
    }


def settings(connection: Connection, config: Config, jobs: int, rounds: int) -> dict[str, object]:
    """Say how it was measured."""
    return {
        "jobs": jobs,
        "rounds": rounds,
        "procs": config.process_count,
        "threads": config.threads,
        "batch": config.batch,
        "archive": config.archive,
        "synchronous_commit": connection.execute("show synchronous_commit")[0][0],
        "fsync": connection.execute("show fsync")[0][0],
        "codec": codec.in_use(),
    }


def show(result: dict[str, Any]) -> None:
    """Print the figures for a person."""
    for part in ("machine", "versions", "settings"):
        line = f"{part:9s} " + ", ".join(f"{name} {value}" for name, value in result[part].items())
        output.out(output.folded(line, 10, sys.stdout))
    output.out()
    spreads = result["spreads"]
    rows, explained = [], []
    for name, (unit, explanation) in EXPLAINED.items():
        if result.get(name) is not None:
            low, high = spreads.get(name, ("", ""))
            spread = f"{_written(low)} .. {_written(high)}" if low != "" else ""
            rows.append((name, _written(result[name]), unit, spread))
            explained += [f"{name:{LONGEST}s}  {explanation}"] if explanation else []
    if rows:
        output.table(("figure", "value", "unit", "range"), rows)
        output.out()
    for line in explained:
        output.out(output.folded(line, LONGEST + 2, sys.stdout))


def _rounded(value: float) -> float:
    return round(value, 3) if value < SMALL else round(value)


def _written(value: float) -> str:
    return f"{value:,.3f}".rstrip("0").rstrip(".") if value < SMALL else f"{value:,.0f}"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
