"""Where the next claim of a queue starts, and how what is committed late is found behind it.

Run by the producer threads of all worker processes of a host, one at a time (the turn); the cursor's words are on the board,
so the host shares one frontier per queue and priority. Between hosts `for update skip locked` settles it.

A claimed row stays in the index until it is deleted, so a scan from the left edge would walk over everything that ran
lately (and, while a forgotten transaction pins xmin, over everything that ran since). Instead:

    frontier   the last seq claimed, per priority. While there is backlog, claims go on from here.
    low        nothing available lies at or below it. The re-scan walks from here to the frontier (rescan.py), whenever the
               frontier finds too little, on a wake-up, and at least once a second: a transaction may take its seq early and
               commit late, behind the frontier.
    mark       a frontier of a while ago, to which `low` moves up once nothing can appear below it any more: see low_water.py.

While there is backlog, the turn is short: whoever has it takes the next part, as many numbers as he wants jobs, moves the
frontier to its end and lets the next one in; the claims of the parts run side by side and do not meet a row of each other's
(but where one that was stretched did not fit: then the frontier goes back, into parts that others may have taken since).
A part never reaches beyond the highest number given out, so nothing that is still to come can fall behind the frontier; what
within it is not committed yet is a late commit like any other. Where the numbers are thin the parts are stretched.

Released jobs get a new seq and so lie ahead. The numbers themselves can go back: a restore, a failover to a standby that
lagged, a schema made anew. New jobs then lie behind low. So the sequence is looked at now and then, and after each lost
connection; where it is behind the frontier, all starts at zero. If it has overtaken the frontier again by the time we look,
only the sweep, a re-scan from zero, finds what was given out in between: a lost connection calls for one as well. It also
finds what all this should ever miss.
It deliberately does not know why a claim is made, or what becomes of the jobs.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from fastq import board
from fastq.events import emit
from fastq.work.cursor.claims import Part, Tried
from fastq.work.cursor.rescan import LONGEST_PASS, RESCAN_REST, SWEEP_INTERVAL, Rescan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastq.board import Board
    from fastq.postgres.db import Connection
    from fastq.work.codec.claimed import Claimed

RESCAN_INTERVAL = 1.0
"""Seconds between re-scans while the frontier finds enough: twice this bounds how late a late commit can be then."""

TURN_WAIT, TURN_WAIT_AGAIN = 0.25, 0.02
"""Seconds to wait for the turn, and once more after that was in vain: a claim in it takes 1 to 5 ms. Its holder may be stopped,
or a job may hold its interpreter, and a claim without the turn is still right."""

SHORT_PASS, FEW = 0.005, 100
"""Seconds of a pass up to which the claim itself makes the next one, which saves a round trip before jobs are handed out; and
jobs up to which such a claim tells how long a pass takes. The first covers a round trip to a database not so near; guesses."""

CHECK_INTERVAL = 20.0
"""Seconds between looks at the sequence: an idle host asks hardly more for it, and a lost connection calls for one at once. For
so long a new trigger before inserts goes unnoticed, and what it holds up is left to the sweep."""

END = (2**62,) * board.PRIORITIES
"""Above every seq, by priority."""


MAX_STRETCH = 1_024
"""Numbers per wanted job in a part, at most: thinner than that, a claim from the frontier finds them as quickly."""


class Cursor(Rescan):
    """The cursor of one queue on this host. `due`, `wait`, `distrust` and `claim_part` need no turn, the others have it."""

    def __init__(self, board_: Board, queue: int, name: str, poll_interval: float) -> None:
        super().__init__(name, board_.cursor(queue))
        self._waited_in_vain = False  # for the turn, the last time
        self._board = board_
        self._queue = queue
        self._poll_ns = int(poll_interval * 1e9)

    @property
    def backlog(self) -> bool:
        """Tell whether the last look took all that it had room for."""
        return bool(self._words[board.BACKLOG])

    def due(self) -> bool:
        """Tell whether a look at the database can find something: backlog, a wake-up since the last look, or the poll."""
        words = self._words
        if words[board.BACKLOG] or words[board.DRAINED] != words[board.WAKES]:
            return True
        now = time.monotonic_ns()
        return now - words[board.LOOKED_AT] >= self._poll_ns or bool(words[board.OWED] and self._rescan_due(now, 0.0))

    def wait(self) -> float:
        """Return the seconds until the poll, or a re-scan that was put off, is due."""
        words, now = self._words, time.monotonic_ns()
        wait = self._poll_ns - (now - words[board.LOOKED_AT])
        if words[board.OWED]:
            wait = min(wait, RESCAN_REST * words[board.RESCAN_TOOK] - (now - words[board.RESCANNED_AT]))
        return max(0.0, wait / 1e9)

    def take_turn(self) -> bool:
        """Wait for the turn, but not for long; False if it did not come."""
        pause, deadline = 0.0002, time.monotonic() + (TURN_WAIT_AGAIN if self._waited_in_vain else TURN_WAIT)
        while not (taken := self._board.try_turn(self._queue)) and time.monotonic() < deadline:
            time.sleep(pause)  # the kernel's own waiting cannot be given up
            pause = min(pause * 2, 0.002)
        self._waited_in_vain = not taken
        return taken

    def end_turn(self) -> None:
        """Let the next process claim."""
        self._board.end_turn(self._queue)

    def claim(self, connection: Connection, next_claim: Callable[[], int], limit: int) -> Iterator[tuple[Claimed, bool]]:
        """Claim up to `limit` jobs in one or two statements, ahead of the frontier and behind it; then keep the marks moving.

        Yields what each statement brought, as it comes, with whether more is to be done in this turn. What was yielded must
        be on the board before the next statement is let run.
        """
        words = self._words
        wakes, now = words[board.WAKES], time.monotonic_ns()
        words[board.LOOKED_AT] = now
        # While the frontier alone fills every claim, the re-scan must go first or it would never have room.
        behind = bool(words[board.BACKLOG]) and self._rescan_due(now, RESCAN_INTERVAL)
        room = limit
        if behind:
            late = self._rescan(connection, next_claim, room)
            room -= len(late)
            yield late, True
        both = not behind and self._at_once(now)
        if both:
            ahead = self._claim_all(connection, next_claim(), limit)
        else:
            ahead = self._claim(connection, next_claim(), board.FRONTIER, END, room) if room else self._nothing()
        words[board.BACKLOG] = words[board.RESCANNING] or ahead.full or not room
        if ahead.full:
            self._note_backlog(connection, ahead, limit)
        room -= len(ahead)
        look_behind = not words[board.BACKLOG] and not behind and not both
        if look_behind and not self._rescan_due(now, 0.0):
            look_behind, words[board.OWED] = False, 1  # the last pass was long: let the next one wait its share
        if not words[board.BACKLOG]:
            words[board.DRAINED] = wakes  # as of the start of this look: a wake-up during it calls for another
        tidy, check = self._mark_due(now), now - words[board.CHECKED_AT] >= CHECK_INTERVAL * 1e9
        yield ahead, look_behind or tidy or check
        if look_behind:
            yield self._rescan(connection, next_claim, room), tidy or check
        if tidy:
            self._move_low(connection, now)
        if check:
            self._check(connection, now)

    def take_part(self, limit: int) -> Part | None:
        """Take the next part of the backlog, and leave its claim for after the turn; None where `claim` has more to do."""
        words, now = self._words, time.monotonic_ns()
        if not words[board.BACKLOG] or self._rescan_due(now, RESCAN_INTERVAL) or self._mark_due(now):
            return None
        lane = words[board.PART_LANE]
        after = [words[at] for at in board.FRONTIER]
        end = after[lane] + limit * max(1, words[board.STRETCH])
        if end > words[board.TOP]:
            return None
        words[board.FRONTIER[lane]], words[board.LOOKED_AT] = end, now
        return Part(lane, after, [*END[:lane], end, *after[lane + 1 :]])

    def claim_part(self, connection: Connection, claim: int, part: Part, limit: int) -> Claimed:
        """Claim what a part holds; what is beyond the limit goes back before the frontier."""
        words, front = self._words, board.FRONTIER
        claimed = self._run_part(connection, claim, part, limit)
        last = claimed.last_seqs()
        for lane in range(part.lane):
            words[front[lane]] = max(words[front[lane]], last.get(lane + 1, 0))
        reached = last.get(part.lane + 1, part.after[part.lane])
        if claimed.full and reached < part.upto[part.lane]:
            words[board.STRETCH] = words[board.STRETCH] // 2
            if self.take_turn():
                words[front[part.lane]] = min(words[front[part.lane]], reached)
                self.end_turn()  # had there been no turn to be had, the re-scan finds what was left
        elif len(claimed) < limit // 4:
            words[board.STRETCH] = min(max(1, words[board.STRETCH]) * 2, MAX_STRETCH)
            self._be_careful()  # as where another host has been there before us
        return claimed

    def lowest(self) -> int:
        """Return a seq below everything that the next claim can take."""
        words = self._words
        if time.monotonic_ns() - words[board.SWEPT_AT] >= SWEEP_INTERVAL * 0.9e9:  # a sweep may begin with it
            return 0
        return min(int(words[at]) for at in (*board.LOW, *(board.RESCAN if words[board.RESCANNING] else ())))

    def distrust(self) -> None:
        """Have the next look check that all is as we left it: a connection was lost, and the next may be to another server."""
        words, now = self._words, time.monotonic_ns()
        words[board.CHECKED_AT] = now - int(CHECK_INTERVAL * 1e9)
        words[board.SWEPT_AT] = now - int(SWEEP_INTERVAL * 1e9)
        self.look_again()

    def look_again(self) -> None:
        """Have the next look come at once: the last one has failed."""
        self._words[board.LOOKED_AT] = time.monotonic_ns() - self._poll_ns

    def _note_backlog(self, connection: Connection, ahead: Claimed, limit: int) -> None:
        """Note where the backlog is, and how far parts of it may reach."""
        words = self._words
        words[board.PART_LANE] = lane = ahead.priorities[-1] - 1
        if words[board.FRONTIER[lane]] + limit > words[board.TOP]:
            words[board.TOP] = connection.run_one("job_seq_last")[0]

    def _at_once(self, now: int) -> bool:
        """Tell whether one claim from the low-water mark on costs hardly more than one from the frontier and a short pass."""
        words = self._words
        quiet = not words[board.BACKLOG] and not words[board.RESCANNING] and not self.bound.aside
        due = now - words[board.SWEPT_AT] < SWEEP_INTERVAL * 1e9 and self._rescan_due(now, 0.0)
        return quiet and due and words[board.RESCAN_TOOK] < SHORT_PASS * 1e9

    def _claim_all(self, connection: Connection, claim: int, limit: int) -> Claimed:
        """Claim behind the frontier and ahead of it at once; where all of it did not fit, that was no pass."""
        words, began = self._words, time.monotonic_ns()
        claimed = self._run(connection, claim, Tried([words[at] for at in board.LOW], None, list(END), limit))
        for priority, seq in claimed.last_seqs().items():
            at = board.FRONTIER[priority - 1]
            words[at] = max(words[at], seq)
        if not claimed.full:
            words[board.OWED], words[board.RESCANNED_AT] = 0, time.monotonic_ns()
            if len(claimed) <= FEW:
                words[board.RESCAN_TOOK] = min(words[board.RESCANNED_AT] - began, int(LONGEST_PASS * 1e9))
        return claimed

    def pass_by(self, tried: Tried, priority: int, seq: int) -> None:
        """Go on behind a job that cannot be claimed; the re-scan comes by again."""
        for positions in (tried.positions or board.FRONTIER, board.FRONTIER):
            at = positions[priority - 1]
            self._words[at] = max(self._words[at], seq)

    def _check(self, connection: Connection, now: int) -> None:
        """Start at zero where the sequence is behind the frontier: this database is an earlier one than we have seen."""
        words = self._words
        words[board.CHECKED_AT] = now
        reached = max(words[at] for at in board.FRONTIER)  # before the sequence is read: a part may move it any moment
        last, words[board.SLOW_INSERTS] = connection.run_one("cursor_check")
        if last >= reached:
            return
        emit("cursor.reset", level=logging.WARNING, queue=self.name, reached=reached, last=last)
        positions = (*board.LOW, *board.FRONTIER, *board.MARK, *board.RESCAN, *board.RESCAN_END, *board.EARLIER)
        for at in (*positions, board.RESCANNING, board.BARRIER_AT, board.TOP):
            words[at] = 0
        self.look_again()
