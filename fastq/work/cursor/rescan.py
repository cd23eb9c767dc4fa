"""The re-scan: claims jobs that became available behind a queue's frontier, a batch a time. A part of the cursor.

A pass walks from the low-water mark to the frontier; while there is backlog only to where the frontier was at the pass before.
Where the claim was full, by its count or by its bytes, the pass goes on from there the next time. A sweep is a pass from zero: it
finds jobs that everything else should ever miss.

    resting      no pass is called for, or the last one has not had its rest yet
    owed         a look has drained the queue, and the pass that it called for was put off: the last one was long
    under way    a claim of the pass was full, so it goes on where that claim ended

The pass itself is for safety: nothing else looks behind the frontier. Where it ends, and how long it rests, is for promptness.
Run in the producer's thread, in its turn, or after it has waited for the turn in vain. It deliberately sends nothing, and moves
no low-water mark: low_water.py does, once it is proven that nothing can appear below.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from fastq.board.cursor_words import PRIORITIES

if TYPE_CHECKING:
    from fastq.board.cursor_words import CursorWords
    from fastq.work.codec.claimed import Claimed

RESCAN_INTERVAL = 1.0
"""Seconds between re-scans while the frontier finds enough. While there is backlog, a job that is committed behind the frontier
is claimed within twice this."""

RESCAN_REST = 20
"""A pass of the re-scan is followed by this many times its own length without one: a transaction that enqueued and was then
forgotten holds the low-water mark, the passes grow, and they may not eat the claims' time."""

LONGEST_PASS = 0.25
"""Seconds of a pass that count for its rest, which is 5 s then: a longer one was hardly the walk. A commit waited for a
standby, or we for an interpreter that a job held."""

SHORT_PASS, FEW = 0.005, 100
"""If the last pass took less seconds than the first, the next claim starts at the low-water mark and is the pass: that saves a
round trip before jobs are handed out. Such a claim counts as a measurement only if it brought no more jobs than the second. The
first covers a round trip to a database not so near; guesses."""

SWEEP_INTERVAL = 300.0
"""Seconds between looks from zero. A guess: it is for jobs that no rule should miss, and costs one walk over the index."""


class State(Enum):
    """The states of the re-scan."""

    RESTING = "resting"
    OWED = "owed"
    UNDER_WAY = "under way"


ARROWS = {
    (State.RESTING, "put_off"): (State.OWED,),
    (State.OWED, "put_off"): (State.OWED,),
    (State.RESTING, "begin"): (State.UNDER_WAY, State.RESTING),  # resting still: nothing lies behind the frontier
    (State.OWED, "begin"): (State.UNDER_WAY, State.RESTING),
    (State.UNDER_WAY, "begin"): (State.UNDER_WAY,),  # it goes on
    (State.UNDER_WAY, "learn"): (State.UNDER_WAY, State.RESTING),
    (State.RESTING, "learn_whole"): (State.RESTING,),
    (State.OWED, "learn_whole"): (State.RESTING,),
}
"""From a state, by an event (a method of `Rescan`) in the turn, to states."""


class Rescan:
    """The re-scans of one queue; how far a pass has come is on the board, for all processes of the host."""

    def __init__(self, words: CursorWords) -> None:
        self._words = words

    @property
    def state(self) -> State:
        """Tell the state of the re-scan."""
        if self._words.rescanning:
            return State.UNDER_WAY
        return State.OWED if self._words.owed else State.RESTING

    def due(self, now: int) -> bool:
        """Tell whether a re-scan may begin: a pass may take a twentieth of the time, however much it has to walk over."""
        words = self._words
        interval = int(RESCAN_INTERVAL * 1e9) if words.backlog else 0
        return bool(words.rescanning) or now - words.rescanned_at >= max(interval, RESCAN_REST * words.rescan_took)

    def short(self, now: int) -> bool:
        """Tell whether a claim from the low-water mark on costs hardly more than one from the frontier and a pass that is due."""
        words = self._words
        quiet = not words.rescanning and not self.sweep_due(now)
        return quiet and words.rescan_took < SHORT_PASS * 1e9

    def sweep_due(self, now: int, *, soon: bool = False) -> bool:
        """Tell whether the next pass starts at zero; with `soon`, whether it may do so by the time that a claim begins it."""
        return now - self._words.swept_at >= SWEEP_INTERVAL * (0.9e9 if soon else 1e9)

    def rest(self, now: int) -> int:
        """Return the ns until a pass that was put off is due."""
        return RESCAN_REST * self._words.rescan_took - (now - self._words.rescanned_at)

    def put_off(self) -> None:
        """Owe a pass: the last one was long, and the next waits its share."""
        self._words.owed = 1

    def begin(self, now: int, *, behind: bool) -> bool:
        """Begin a pass, or go on with the one that is under way; False if nothing lies behind the frontier."""
        words = self._words
        if words.rescanning:
            return True
        words.owed = 0
        lows = words.low.tolist()
        if self.sweep_due(now):
            words.swept_at = now
            lows = [0] * PRIORITIES
        elif not behind:
            words.rescanned_at = now
            return False
        # Under backlog a pass ends where the frontier was at the last one. By now nearly all of those rows are gone for all,
        # and the first walk over an index entry without a row marks it, so that no later one looks for the row again.
        ends = words.earlier if words.backlog else words.frontier
        for at, (low, end) in enumerate(zip(lows, ends, strict=True)):
            words.rescan[at], words.rescan_end[at] = low, max(low, end)
        words.earlier[:] = words.frontier
        words.rescanning = 1
        return True

    def learn(self, claimed: Claimed, began: int, now: int) -> None:
        """Move on behind the jobs that a claim of the pass brought; one that was not full has ended the pass."""
        words = self._words
        for priority, seq in claimed.last_seqs().items():
            # Never beyond the end: a process that waited for the turn in vain may have begun another pass meanwhile.
            at = priority - 1
            words.rescan[at] = min(max(words.rescan[at], seq), words.rescan_end[at])
        if not claimed.full:
            words.rescanning, words.rescanned_at = 0, now
            words.rescan_took = min(now - began, int(LONGEST_PASS * 1e9))

    def learn_whole(self, claimed: Claimed, began: int, now: int) -> None:
        """Take a claim from the low-water mark on that was not full for the pass."""
        words = self._words
        words.owed, words.rescanned_at = 0, now
        if len(claimed) <= FEW:
            words.rescan_took = min(now - began, int(LONGEST_PASS * 1e9))
