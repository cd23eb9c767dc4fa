"""Measure the worker processes of this host: memory, threads and processor time, as the kernel and the board tell them.

Called by the registrar's thread before each beat, which writes the figures into the rows of the processes; the port of the probes
reads the newest ones (exposition.py). A `Gauges` keeps the last figures of each process, for what lies between two of them.

Invariant: nothing here waits for a worker process, so the beat does not: of /proc it reads what the kernel tells without a lock
of that process, and a process that hangs is measured as any other. It deliberately measures no process of an isolated job, whose
memory is bounded by other means (isolate.py). Where there is no /proc, as on macOS, only the figures of the board are there.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fastq.admin.running.hosts import ProcessVitals
from fastq.board import board

if TYPE_CHECKING:
    from fastq.board.board import Board

PROC = Path("/proc")

TICK = 1 / os.sysconf("SC_CLK_TCK")
"""Seconds in which the kernel counts the processor time of a process."""


class Gauges:
    """The figures of a host's processes. The registrar's thread calls `measure`, and alone writes here."""

    def __init__(self, shared: Board) -> None:
        self.newest: Mapping[int, ProcessVitals] = {}  # by desk; replaced as a whole, any thread may read it
        self._board = shared
        self._before: dict[int, ProcessVitals] = {}  # by the number of the process
        self._at = 0.0  # monotonic time of these

    def measure(self, processes: Mapping[int, tuple[int, int | None]]) -> list[str | None]:
        """Measure processes, given by number as pid and desk (None: it has none yet); return their figures as JSON."""
        now = time.monotonic()
        found: dict[int, ProcessVitals] = {}
        desks: dict[int, ProcessVitals] = {}
        for number, (pid, desk) in processes.items():
            if desk is not None:
                found[number] = desks[desk] = self._measured(number, pid, desk, now)
        self.newest, self._before, self._at = desks, found, now
        return [msgspec.json.encode(found[number]).decode() if number in found else None for number in processes]

    def _measured(self, number: int, pid: int, desk: int, now: float) -> ProcessVitals:
        before, cpu, words = self._before.get(number), cpu_of(pid), self._board.desk(desk)
        load = None
        if cpu is not None and before is not None and before.cpu is not None and now > self._at:
            load = round(max(0.0, cpu - before.cpu) / (now - self._at), 3)
        return ProcessVitals(
            **status_of(pid),
            pss=int(words[board.PSS]) or None,
            cpu=cpu,
            load=load,
            executors=sum(self._board.concurrency),
            busy=self._board.executing_at(desk),
            held=max(0, int(words[board.HELD])),
        )


def status_of(pid: int) -> dict[str, int]:
    """Return the resident bytes and the number of threads of a process; empty where the kernel does not tell."""
    try:
        text = (PROC / str(pid) / "status").read_text()
    except OSError:
        return {}
    fields = dict(re.findall(r"^(VmRSS|Threads):\s+(\d+)", text, re.MULTILINE))
    return {"rss": int(fields.get("VmRSS", 0)) * 1024, "threads": int(fields.get("Threads", 0))}


def cpu_of(pid: int) -> float | None:
    """Return the seconds of processor time of a process, without its children; None where the kernel does not tell."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return round((int(fields[11]) + int(fields[12])) * TICK, 2)
