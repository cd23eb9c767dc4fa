"""What the jobs themselves say they did, kept outside the database: the witness that the database's word is held against.

Each worker process appends records of a fixed size to a file of its own, one write per record, so that a SIGKILL at any
moment leaves whole records: what was written is in the kernel's cache, which outlives the process. Threads share the file;
O_APPEND puts each record behind the last. The time is CLOCK_BOOTTIME, the same for all processes of the machine.
"""

import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

START, END, FAILED = "S", "E", "F"
LAYOUT = struct.Struct("<cxxxiqqq")  # what, attempt, job, pid, time


class Record(NamedTuple):
    """One line of the ledger; `at` is in nanoseconds."""

    what: str
    job: int
    attempt: int
    pid: int
    at: int


class Ledger:
    """The writing side, in a worker process. Made before the fork, it opens its file after it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[int, int] = {}  # descriptor by pid; two threads that come first open the file twice, which does no harm

    def write(self, what: str, job: int, attempt: int) -> None:
        """Append one record."""
        pid = os.getpid()
        file = self._files.get(pid)
        if file is None:
            file = self._files[pid] = os.open(self._folder / f"{pid}.ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(file, LAYOUT.pack(what.encode(), attempt, job, pid, now()))


def now() -> int:
    """Return the time of the ledger in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def read(folder: Path) -> Iterator[Record]:
    """Yield the records of all processes, each file in its order; a torn record would be an error of ours."""
    for path in folder.glob("*.ledger"):
        data = path.read_bytes()
        if len(data) % LAYOUT.size:
            raise ValueError(f"{path}: expected records of {LAYOUT.size} bytes, got {len(data)} bytes")
        for what, attempt, job, pid, at in LAYOUT.iter_unpack(data):
            yield Record(what.decode(), job, attempt, pid, at)
