"""Tell on the desk what a worker process alone knows of itself, for people: how many jobs it has, and its share of memory.

A part of each worker process; runs in its main thread alone, at each tick, and writes two words of the desk (board/board.py). The
supervisor reads them with the other figures before each beat (host/vitals/gauges.py).

The kernel tells the proportional memory of a process only while nobody changes its mappings. So the process asks for its own: a
supervisor that asked for that of a process which hangs would hang as well, and with it the beat of the host.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fastq.board import board
from fastq.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable

OWN = Path("/proc/self/smaps_rollup")

PAUSE = 60.0
"""Seconds between two measurements of the memory: the kernel walks all pages for it, a millisecond for 100 MB. A guess."""


class Telling(Service):
    """The words of one process. `held` says how many jobs it has."""

    def __init__(self, desk: memoryview, held: Callable[[], int]) -> None:
        self._desk = desk
        self._held = held
        self._again_at = 0.0  # monotonic time of the next measurement

    def tick(self) -> None:
        """Write the words."""
        self._desk[board.HELD] = self._held()
        if (now := time.monotonic()) >= self._again_at:
            self._again_at = now + PAUSE
            self._desk[board.PSS] = memory_of(OWN).get("pss", 0)


def memory_of(path: Path) -> dict[str, int]:
    """Return resident, proportional and shared bytes of a process by its `smaps_rollup`; empty where the kernel does not tell."""
    try:
        text = path.read_text()
    except OSError:
        return {}
    sizes = {name: int(kilobytes) * 1024 for name, kilobytes in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
    return {"rss": sizes["Rss"], "pss": sizes["Pss"], "shared": sizes["Shared_Clean"] + sizes["Shared_Dirty"]}
