"""The bounds of a job's process: how much memory it may take, who dies first when the host has none left, where its trace goes.

Called by the process of an isolated job, in its only thread, before any code of the user's runs there. Nothing is kept here.

The limit is RLIMIT_DATA, which the kernel checks at each growth of the heap and each private mapping that can be written: an
allocation beyond it fails at once, in Python with a MemoryError. It deliberately is not RLIMIT_AS, which counts address space
that nobody uses (the arenas of malloc, the libraries of numpy), and no watch over the resident memory, which sees a fast
allocation when it is too late. It counts the memory of this process: one that the job starts has the same limit for itself.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastq.isolate import Isolate

FIRST_TO_GO = b"1000"
"""The highest `oom_score_adj`: the kernel ends this process before any other of the host's when there is no memory left."""

DATA = 5
"""Which number of /proc/self/statm is the data: the pages that RLIMIT_DATA counts, and the stack's."""


def set_bounds(isolation: Isolate | None, trace: int) -> None:
    """Set all of them; `trace` is a descriptor of the file for the trace of a crash, or of a job that hangs."""
    with suppress(OSError):  # Linux has it; by its descriptor, since a Path would touch a hundred pages in each process
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        try:
            os.write(file, FIRST_TO_GO)
        finally:
            os.close(file)
    if isolation is not None and isolation.memory is not None and sys.platform == "linux":
        _set_limit(started_with() + isolation.memory)
    faulthandler.enable(trace)


def trace_when_told(trace: int) -> None:
    """Have the signal that tells the job to end write down first where it is, whatever C code it is in.

    Another signal writes that alone: it is for looks, and begins an interrupted call of the system again.
    """
    faulthandler.register(signal.SIGTERM, trace, all_threads=True, chain=True)
    faulthandler.register(signal.SIGQUIT, trace, all_threads=True)


def lift_limit(isolation: Isolate | None) -> None:
    """Take the limit away again, so that the end of the attempt can be told."""
    if isolation is not None and isolation.memory is not None:
        _set_limit(None)


def started_with() -> int:
    """Return the bytes of data that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[DATA]) * os.sysconf("SC_PAGE_SIZE")


def _set_limit(limit: int | None) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = hard if limit is None else limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
