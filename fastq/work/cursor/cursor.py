"""Where the next claim of a queue starts, and how jobs that are committed late are found behind it.

Run by the producer threads of all worker processes of a host, one at a time (the turn); the cursor's words are on the board,
so the host shares one frontier per queue and priority. Between hosts `for update skip locked` settles it.

A claimed row stays in the index until it is deleted, so a scan from the left edge would walk over everything that ran
lately (and, while a forgotten transaction pins xmin, over everything that ran since). Instead:

    frontier   the last seq claimed, per priority. While there is backlog, claims go on from here, in parts (backlog.py).
    low        nothing available lies at or below it. The re-scan walks from here to the frontier (rescan.py), whenever the
               frontier finds too little, on a wake-up, and at least once a second: a transaction may take its seq early and
               commit late, behind the frontier.
    mark       a frontier of a while ago, to which `low` moves up once nothing can appear below it any more (low_water.py).

looks.py plans the statements of a look as data; claims.py chooses between the two statements that claim.

Released jobs get a new seq and so lie ahead. The numbers themselves can go back: a restore, a failover to a standby that
lagged, a schema made anew. New jobs then lie behind low. So the sequence is looked at now and then, and after each lost
connection; where it is behind the frontier, all starts at zero. If it has overtaken the frontier again by the time we look,
only the sweep, a re-scan from zero, finds the numbers that were given out in between: a lost connection calls for one as well. It
also finds the jobs that all this should ever miss.
It deliberately does not know why a claim is made, or how the jobs end.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from fastq.events import emit
from fastq.work.cursor.backlog import Backlog
from fastq.work.cursor.claims import Claims
from fastq.work.cursor.looks import Look
from fastq.work.cursor.low_water import LowWater
from fastq.work.cursor.rescan import SWEEP_INTERVAL, Rescan

if TYPE_CHECKING:
    from fastq.board.board import Board
    from fastq.work.codec.claimed import Claimed
    from fastq.work.cursor.claims import Part, Tried

TURN_WAIT, TURN_WAIT_AGAIN = 0.25, 0.02
"""Seconds to wait for the turn, and once more after that was in vain: a claim in it takes 1 to 5 ms. Its holder may be stopped,
or a job may hold its interpreter, and a claim without the turn is still right."""

CHECK_INTERVAL = 20.0
"""Seconds between looks at the sequence: an idle host asks hardly more for it, and a lost connection calls for one at once. For
so long a new trigger before inserts goes unnoticed, and the jobs that it holds up are left to the sweep."""


class Cursor:
    """The cursor of one queue on this host. `due`, `wait`, `distrust` and `learn_part` need no turn, the others have it."""

    def __init__(self, board_: Board, queue: int, name: str, poll_interval: float) -> None:
        self.name = name
        self.words = words = board_.cursor(queue)
        self.claims = Claims(name)
        self.low_water = LowWater(name, words)
        self.rescan = Rescan(words)
        self.parts = Backlog(words)
        self.waited_in_vain = False  # for the turn, the last time
        self._board = board_
        self._queue = queue
        self._poll_ns = int(poll_interval * 1e9)

    @property
    def backlog(self) -> bool:
        """Tell whether the last look took all that it had room for."""
        return bool(self.words.backlog)

    def due(self) -> bool:
        """Tell whether a look at the database can find something: backlog, a wake-up since the last look, or the poll."""
        words = self.words
        if words.backlog or words.drained != words.wakes:
            return True
        now = time.monotonic_ns()
        return now - words.looked_at >= self._poll_ns or bool(words.owed and self.rescan.due(now))

    def wait(self) -> float:
        """Return the seconds until the poll, or a re-scan that was put off, is due."""
        words, now = self.words, time.monotonic_ns()
        wait = self._poll_ns - (now - words.looked_at)
        if words.owed:
            wait = min(wait, self.rescan.rest(now))
        return max(0.0, wait / 1e9)

    def take_turn(self) -> bool:
        """Wait for the turn, but not for long; False if it did not come."""
        pause, deadline = 0.0002, time.monotonic() + (TURN_WAIT_AGAIN if self.waited_in_vain else TURN_WAIT)
        while not (taken := self._board.try_turn(self._queue)) and time.monotonic() < deadline:
            time.sleep(pause)  # the kernel's own waiting cannot be given up
            pause = min(pause * 2, 0.002)
        self.waited_in_vain = not taken
        return taken

    def end_turn(self) -> None:
        """Let the next process claim."""
        self._board.end_turn(self._queue)

    def look(self, limit: int) -> Look:
        """Begin a look for up to so many jobs; its statements are for the caller to send."""
        return Look(self, limit)

    def take_part(self, limit: int) -> Part | None:
        """Take the next part of the backlog, and leave its claim for after the turn; None where a look has more to do."""
        now = time.monotonic_ns()
        if not self.words.backlog or self.rescan.due(now) or self.low_water.due(now):
            return None
        return self.parts.take(limit, now)

    def learn_part(self, part: Part, claimed: Claimed) -> None:
        """Take in the jobs of a part; those beyond its limit are left, and the frontier goes back before them."""
        reached = self.parts.claimed(part, claimed)
        if reached is None:
            if part.brought_little(claimed):
                self.claims.be_careful()  # as where another host has been there before us
        elif self.take_turn():
            self.parts.set_back(part, reached)
            self.end_turn()  # had there been no turn to be had, the re-scan finds the jobs that were left

    def lowest(self) -> int:
        """Return a seq below everything that the next claim can take."""
        words = self.words
        if self.rescan.sweep_due(time.monotonic_ns(), soon=True):
            return 0
        return min(*words.low, *(words.rescan if words.rescanning else ()))

    def check_due(self, now: int) -> bool:
        """Tell whether the sequence is to be compared with the frontiers."""
        return now - self.words.checked_at >= CHECK_INTERVAL * 1e9

    def distrust(self) -> None:
        """Have the next look check that all is as we left it: a connection was lost, and the next may be to another server."""
        words, now = self.words, time.monotonic_ns()
        words.checked_at = now - int(CHECK_INTERVAL * 1e9)
        words.swept_at = now - int(SWEEP_INTERVAL * 1e9)
        words.top = 0  # no part is taken before it is known again which numbers have been given out
        self.look_again()

    def look_again(self) -> None:
        """Have the next look come at once: the last one has failed."""
        self.words.looked_at = time.monotonic_ns() - self._poll_ns

    def pass_by(self, tried: Tried, priority: int, seq: int) -> None:
        """Go on behind a job that cannot be claimed; the re-scan comes by again."""
        for positions in (self.words.frontier, tried.positions):
            if positions is not None:
                positions[priority - 1] = max(positions[priority - 1], seq)

    def start_over(self, reached: int, last: int) -> None:
        """Start at zero: the sequence is behind the frontier, so this database is an earlier one than we have seen."""
        emit("cursor.reset", level=logging.WARNING, queue=self.name, reached=reached, last=last)
        words = self.words
        for positions in (words.low, words.frontier, words.mark, words.rescan, words.rescan_end, words.earlier):
            positions[:] = memoryview(bytes(positions.nbytes)).cast("q")
        words.rescanning = words.mark_at = words.top = 0
        self.look_again()
