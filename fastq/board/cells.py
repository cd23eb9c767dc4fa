"""The jobs of a desk that are gathered into bundles, waiting and executing: more jobs than a slot's one word can show.

A slot that executes a bundle shows the id of its first job; all of its jobs stand here, each in a cell of its own, from when it
is gathered until it has ended. A ring holds the ids that have ended lately, for they may be unwritten.

    a cell     0: free; an id below 0: the job of -id waits for others; above 0: it executes
    the ring   ids in the order in which they ended; the first one of a bundle with a minus before it

In a worker process the threads that gather and execute bundles write, under a lock. After the death of the process the recovery's
thread of the supervisor reads. There are as many cells as a process may hold jobs, and no job that is unwritten is pushed out of
the ring: since it ended, at most as many jobs have ended as are unwritten. It deliberately knows no bundle: a bundle knows its
cells.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

USED = 0  # cells that were ever used: those behind them hold anything
HEAD = 1  # ids that were ever put into the ring
HEADER = 8  # words, with six to spare

RING_TIMES = 2
"""The ring holds twice as many ids as may be unwritten: outcomes that the completer sets aside are written behind later ones."""


class Cells:
    """The cells of one desk, and the ring of ids that have ended."""

    def __init__(self, words: memoryview, count: int) -> None:
        self._head = words[:HEADER]
        self._cells = words[HEADER : HEADER + count]
        self._ring = words[HEADER + count : self.words_for(count)]
        self._free: list[int] = []  # below USED; under the lock, like all that follows
        self._lock = threading.Lock()

    @staticmethod
    def words_for(count: int) -> int:
        """Return how many words a desk needs for so many jobs."""
        return HEADER + (1 + RING_TIMES) * count

    def hold(self, ids: Sequence[int]) -> list[int]:
        """Show jobs that wait; return their cells."""
        with self._lock:
            cells, free = self._cells, self._free
            split = max(0, len(free) - len(ids))
            taken = free[split:]
            del free[split:]
            used = self._head[USED]
            end = used + len(ids) - len(taken)
            taken += range(used, end)
            for cell, id_ in zip(taken, ids, strict=True):
                cells[cell] = -id_
            self._head[USED] = end  # behind the words: what is below it has been written
            return taken

    def start(self, taken: Sequence[int], ids: Sequence[int]) -> None:
        """Show that jobs execute from now on."""
        cells = self._cells
        for cell, id_ in zip(taken, ids, strict=True):
            cells[cell] = id_

    def end(self, taken: Sequence[int], ids: Sequence[int]) -> None:
        """Show that jobs have ended, together, or do not start at all; their cells are free."""
        if not ids:
            return
        cells = self._cells
        with self._lock:
            at, size = self._head[HEAD], len(self._ring)
            for place, id_ in enumerate(ids, at):
                self._ring[place % size] = id_
            self._ring[at % size] = -ids[0]
            self._head[HEAD] = at + len(ids)
            for cell in taken:
                cells[cell] = 0
            self._free += taken

    def outstanding(self) -> tuple[set[int], set[int]]:
        """Return all ids that may still be held, and those of them that were executing."""
        words = self._cells[: min(self._head[USED], len(self._cells))].tolist()
        return {abs(word) for word in (*words, *self._ended()) if word}, {word for word in words if word > 0}

    def ended_with(self, first: set[int]) -> set[int]:
        """Return the ids of the bundles that have ended lately and whose first job is one of these."""
        found: set[int] = set()
        ours = False
        for word in self._ended():
            ours = -word in first if word < 0 else ours
            if ours:
                found.add(abs(word))
        return found

    def clear(self) -> None:
        """Wipe everything: the words are read up to the numbers in the head alone."""
        self._head[USED] = self._head[HEAD] = 0

    def _ended(self) -> list[int]:
        """Return the words of the ring, the oldest first."""
        head, size = self._head[HEAD], len(self._ring)
        words = self._ring[: min(head, size)].tolist()
        at = head % size if head > size else 0
        return words[at:] + words[:at]
