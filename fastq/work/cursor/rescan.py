"""The re-scan: claims what became available behind a queue's frontier, a batch a time. A part of the cursor.

A pass walks from the low-water mark to the frontier; while there is backlog only to where the frontier was at the pass before.
Where the claim was full, by its count or by its bytes, the pass goes on from there the next time. A sweep is a pass from zero: it
finds what all else should ever miss. Run by the producer that has the turn; when it is time for a pass is the cursor's to say.
It deliberately moves no mark: low_water.py does, once it is proven that nothing can appear below.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastq import board
from fastq.work.cursor.claims import Claims, Tried

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fastq.postgres.db import Connection
    from fastq.work.codec.claimed import Claimed

RESCAN_REST = 20
"""A pass of the re-scan is followed by this many times its own length without one: a transaction that enqueued and was then
forgotten holds the low-water mark, the passes grow, and they may not eat the claims' time."""

LONGEST_PASS = 0.25
"""Seconds of a pass that count for its rest, which is 5 s then: what took longer was hardly the walk. A commit waited for a
standby, or we for an interpreter that a job held."""

SWEEP_INTERVAL = 300.0
"""Seconds between looks from zero. A guess: it is for what must not happen, and costs one walk over the index."""


class Rescan(Claims):
    """The re-scans of one queue; how far a pass has come is on the board, for all processes of the host."""

    def _claim(self, connection: Connection, claim: int, after: range, upto: Iterable[int], limit: int) -> Claimed:
        """Run the claim from one of the cursor's positions and move that position and the frontier."""
        words = self._words
        claimed = self._run(connection, claim, Tried([words[at] for at in after], after, list(upto), limit))
        for priority, seq in claimed.last_seqs().items():
            for positions in (after, board.FRONTIER):
                at = positions[priority - 1]
                words[at] = max(words[at], seq)
        return claimed

    def _rescan_due(self, now: int, interval: float) -> bool:
        """Tell whether a re-scan may begin: a pass may take a twentieth of the time, whatever it has to walk over."""
        words = self._words
        pause = max(int(interval * 1e9), RESCAN_REST * words[board.RESCAN_TOOK])
        return bool(words[board.RESCANNING]) or now - words[board.RESCANNED_AT] >= pause

    def _rescan(self, connection: Connection, next_claim: Callable[[], int], limit: int) -> Claimed:
        """Claim a batch of what lies between the low-water mark and the frontier; a full pass starts over next time."""
        words = self._words
        began = time.monotonic_ns()
        if not words[board.RESCANNING]:
            words[board.OWED] = 0
            lows = [words[at] for at in board.LOW]
            if began - words[board.SWEPT_AT] >= SWEEP_INTERVAL * 1e9:
                words[board.SWEPT_AT] = began
                lows = [0] * board.PRIORITIES
            elif not self._behind():
                words[board.RESCANNED_AT] = began
                return self._nothing()
            # Under backlog a pass ends where the frontier was at the last one. By now nearly all of those rows are gone for all,
            # and the first walk over an index entry whose row is gone marks it, so that no later one looks for the row again.
            ends = board.EARLIER if words[board.BACKLOG] else board.FRONTIER
            for at, low, end, upto in zip(board.RESCAN, lows, board.RESCAN_END, ends, strict=True):
                words[at], words[end] = low, max(low, words[upto])
            for earlier, front in zip(board.EARLIER, board.FRONTIER, strict=True):
                words[earlier] = words[front]
            words[board.RESCANNING] = 1
        late = self._claim(connection, next_claim(), board.RESCAN, [words[at] for at in board.RESCAN_END], limit)
        if not late.full:
            words[board.RESCANNING] = 0
            words[board.RESCANNED_AT] = time.monotonic_ns()
            words[board.RESCAN_TOOK] = min(words[board.RESCANNED_AT] - began, int(LONGEST_PASS * 1e9))
        else:
            words[board.BACKLOG] = 1  # there may be more behind: do not wait for a wake-up
        return late
