"""Hosts: supervisors and worker processes, their memory, threads and executors, queues and kinds, and the jobs that run in them.

`load` runs in a thread of the source, over its connection. The figures of a process are those of its last beat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from fastq.admin.running import list_processes, list_running
from fastq.web.routing.view import View

if TYPE_CHECKING:
    from fastq.admin.running import ProcessRow
    from fastq.web.routing.view import Visit

COUNTED = 2_000
"""Running jobs that are counted: more says that there are more."""

SHOWN = 20
"""Running jobs in the table, the longest."""


class Host(NamedTuple):
    """A host with its processes, by supervisor."""

    name: str
    supervisors: dict[str, list[ProcessRow]]
    running: int
    lives: int


def load(visit: Visit) -> Mapping[str, Any]:
    """Read processes and running jobs."""
    processes = list_processes(visit.connection)
    running = list_running(visit.connection, COUNTED)
    per = Counter(job.process for job in running)
    names = sorted({process.host for process in processes})
    return {
        "hosts": [_host(name, processes, per) for name in names],
        "per": per,
        "running": running[:SHOWN],
        "more": max(0, len(running) - SHOWN),
        "counted": len(running) >= COUNTED,
        "lost": [job for job in running if job.host is None],
    }


def _host(name: str, processes: list[ProcessRow], per: Counter[int | None]) -> Host:
    found: dict[str, list[ProcessRow]] = {}
    for process in processes:
        if process.host == name:
            found.setdefault(process.supervisor, []).append(process)
    every = [process for one in found.values() for process in one]
    return Host(name, found, sum(per[process.id] for process in every), sum(process.lives for process in every))


CONTENT = (View("/hosts", "Hosts", "hosts.read", "hosts.html", load, every=2.0, menu=True),)
