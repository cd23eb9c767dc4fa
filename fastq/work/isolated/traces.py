"""The file in which an isolated job's process writes where it is: when it dies, is told to end, or is looked at.

A slot has one (apart.py), which it empties before each attempt; the process of the job has its descriptor, and Python's
faulthandler writes there from a signal handler, whatever code in C runs and whoever holds the interpreter (bounds.py). The slot's
thread calls all but `looked`, which the thread of stacks.py calls; both read the file, and `_seen` says up to where it was only
looked at.

Invariant: the trace of a death has nothing in it of looks before. It deliberately parses nothing but the order of the lines.
"""

from __future__ import annotations

import os
import tempfile
import time
from typing import TYPE_CHECKING

from fastq.texts import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONGEST = 8_192
"""Bytes of a trace that are kept, the last ones: a dozen threads, some dozen lines each. A guess."""

PATIENCE = 1.0
"""Seconds for which a look waits for the process: its handler writes within milliseconds, unless the process was stopped."""

PAUSE = 0.01
"""Seconds between two looks at the file: what has not grown in between is whole."""

FIRST, LAST = "most recent call first", "most recent call last"
"""The words by which faulthandler says in which order it writes, and those for the order of all other stacks."""


class Trace:
    """The file of one slot."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile("ab+", buffering=0)  # noqa: SIM115 - as long as the process lives
        self._seen = 0  # bytes that belong to looks; each side writes whole numbers

    def fileno(self) -> int:
        """Return the descriptor, for the process of the job."""
        return self._file.fileno()

    def empty(self) -> None:
        """Begin anew, with the next attempt."""
        self._file.truncate(0)
        self._seen = 0

    def last(self) -> str:
        """Return the last trace that the process has written by itself, or when it was told to end."""
        size = self._size()
        return self._read(max(self._seen, size - LONGEST), size)

    def looked(self, ask: Callable[[], object]) -> str:
        """Have the process write down where it is, by `ask`, and return that; '' if it does not."""
        before = self._size()
        ask()
        after = before
        until = time.monotonic() + PAUSE + PATIENCE
        while time.monotonic() < until:
            time.sleep(PAUSE)
            size = self._size()
            if size > before and size == after:
                self._seen = size
                return clean("".join(_turned(self._read(max(before, size - LONGEST), size))))
            after = size
        return ""

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def _read(self, begin: int, end: int) -> str:
        return os.pread(self._file.fileno(), max(0, end - begin), begin).decode(errors="replace")


def _turned(text: str) -> Iterator[str]:
    """Yield the lines of a trace with the innermost call of each thread last."""
    calls: list[str] = []
    for line in text.splitlines(keepends=True):
        if line.startswith("  "):
            calls.append(line)
            continue
        yield from reversed(calls)
        calls = []
        yield line.replace(FIRST, LAST)
    yield from reversed(calls)
