"""Where the next claim of a queue starts, and how jobs that are committed late are found behind it.

Run by the producer threads of all worker processes of a host, one at a time (the turn); the cursor's words are on the board,
so the host shares one frontier per queue and priority. Between hosts `for update skip locked` settles it.

A claimed row stays in the index until it is deleted, so a scan from the left edge would walk over everything that ran
lately (and, while a forgotten transaction pins xmin, over everything that ran since). Instead:

    frontier   the last seq claimed, per priority. While there is backlog, claims go on from here, in parts.
    low        nothing available lies at or below it. The re-scan walks from here to the frontier (looks.py), whenever the
               frontier finds too little, on a wake-up, and at least once a second: a transaction may take its seq early and
               commit late, behind the frontier.
    mark       a frontier of a while ago, to which `low` moves up once nothing can appear below it any more (low_water.py).

looks.py plans the statements of a look as data; claims.py chooses between the two statements that claim; `send_look`
sends them.

The backlog, a machine, tells whether a look has left jobs to claim, and how processes take them in parts:

    drained     the last look found less than it had room for, and no notification has come since it began
    woken       the same, and one has come: a look is called for
    backlog     the last look took all that it had room for
    in parts    the same, and numbers beyond the frontier are known to be given out: parts of them can be taken

While there is backlog, the turn is short: the process that has it takes the next part, as many numbers as it wants jobs, moves
the frontier to the part's end and lets the next process in; the claims of the parts run side by side and do not meet a row of
each other's. If a stretched part holds more jobs than were wanted, the frontier is set back to the last job taken, and may then
overlap a part that another process took meanwhile; the row locks sort that out.

For safety: a part never reaches beyond the highest number given out, so nothing that is still to come can fall behind the
frontier; numbers within it that are not committed yet are late commits like any other. For promptness alone: the setting back
of the frontier, and that parts are stretched where the numbers are thin. Without these, jobs wait for the re-scan.

Released jobs get a new seq and so lie ahead. The numbers themselves can go back: a restore, a failover to a standby that
lagged, a schema made anew. New jobs then lie behind low. So the sequence is looked at now and then, and after each lost
connection; where it is behind the frontier, all starts at zero. If it has overtaken the frontier again by the time we look,
only the sweep, a re-scan from zero, finds the numbers that were given out in between: a lost connection calls for one as well. It
also finds the jobs that all this should ever miss.
Where processes work several queues, a look that would find nothing is not made at all: one look at all queues at once (peeks.py)
takes the place of each queue's poll. It calls for a look where there is something, moves low-water marks up, and compares the
sequence.
It deliberately does not know why a claim is made, or how the jobs end.
"""

from __future__ import annotations

import logging
import time
from enum import Enum
from typing import TYPE_CHECKING

from fastq.board import turns
from fastq.board.cursor_words import CALLED
from fastq.events import emit
from fastq.work.cursor.claims import END, Claims, Part
from fastq.work.cursor.looks import SWEEP_INTERVAL, Claim, Look, Rescan, raise_to
from fastq.work.cursor.low_water import LowWater, marks_due

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.board.board import Board
    from fastq.board.cursor_words import CursorWords
    from fastq.postgres.db import Connection
    from fastq.work.codec.claimed import Claimed
    from fastq.work.cursor.claims import Tried

TURN_WAIT, TURN_WAIT_AGAIN = 0.25, 0.02
"""Seconds to wait for the turn, and once more after that was in vain: a claim in it takes 1 to 5 ms. Its holder may be stopped,
or a job may hold its interpreter, and a claim without the turn is still right."""

NEVER = 2**62
"""Above every monotonic time in ns."""

MAX_STRETCH = 1_024
"""Numbers per wanted job in a part, at most: thinner than that, a claim from the frontier finds them as quickly."""


THIN = 4
"""Numbers per job from which on a part is not worth its statement, where another process of the host works another queue: it
brings a quarter of what is wanted then."""


class State(Enum):
    """The states of the backlog."""

    DRAINED = "drained"
    WOKEN = "woken"
    BACKLOG = "backlog"
    IN_PARTS = "in parts"


_BACKLOG = (State.BACKLOG, State.IN_PARTS)
_NONE = (State.DRAINED, State.WOKEN)
ARROWS = {
    (State.DRAINED, "more"): _BACKLOG,  # a look at the poll, or for a wake-up of another process that has drained it meanwhile
    (State.WOKEN, "more"): _BACKLOG,
    (State.BACKLOG, "more"): (State.BACKLOG,),
    (State.IN_PARTS, "more"): (State.IN_PARTS,),
    (State.DRAINED, "drain"): (State.DRAINED,),
    (State.WOKEN, "drain"): _NONE,  # woken still: by a notification that came during the look
    (State.BACKLOG, "drain"): _NONE,
    (State.IN_PARTS, "drain"): _NONE,
    (State.BACKLOG, "lead_to"): _BACKLOG,  # the highest number given out has been read
    (State.IN_PARTS, "lead_to"): (State.IN_PARTS,),
    (State.BACKLOG, "take"): (State.BACKLOG,),  # no part: it would reach beyond the numbers given out
    (State.IN_PARTS, "take"): _BACKLOG,
}
"""From a state, by an event (a method of `Backlog`) in the turn, to states. A notification leads from drained to woken alone."""


class Backlog:
    """The backlog of one queue; the words are the cursor's.

    Where there are several queues, the numbers of each are thin, and the processes meet in different queues: so parts are taken
    only where a claim has shown that the numbers are not.
    """

    def __init__(self, words: CursorWords, *, thick_only: bool = False) -> None:
        self._words = words
        self._thick_only = thick_only

    @property
    def state(self) -> State:
        """Tell the state of the backlog."""
        words = self._words
        if not words.backlog:
            return State.DRAINED if words.drained == words.wakes else State.WOKEN
        return State.IN_PARTS if words.frontier[words.part_at] < words.top else State.BACKLOG

    def more(self) -> None:
        """Note that a look took all that it had room for."""
        self._words.backlog = 1

    def drain(self, wakes: int) -> None:
        """Note that a look found less; `wakes` as of its start: a notification during the look calls for another."""
        words = self._words
        words.backlog, words.drained = 0, wakes

    def is_at(self, claimed: Claimed, limit: int) -> bool:
        """Note which priority has the backlog; tell whether the highest number must be read before a part can be taken of it."""
        words, priority = self._words, claimed.priorities[-1]
        words.part_at = priority - 1
        if self._thick_only:
            span = max(claimed.seqs) - min(claimed.seqs)
            words.stretch = 1 if span < THIN * (len(claimed.ids) - 1) else THIN
            if words.stretch > 1:
                return False
        return words.frontier[priority - 1] + limit > words.top

    def lead_to(self, top: int) -> None:
        """Note the highest number that was ever given out."""
        self._words.top = top

    def take(self, limit: int, now: int) -> Part | None:
        """Take the next part, and leave its claim for after the turn; None beyond the numbers that are known to be given out."""
        words = self._words
        if self._thick_only and words.stretch > 1:
            return None
        at, after = words.part_at, words.frontier.tolist()
        end = after[at] + limit * max(1, words.stretch)
        if end > words.top:
            return None
        words.frontier[at], words.looked_at = end, now
        return Part(at, after, [*END[:at], end, *after[at + 1 :]], limit)

    def claimed(self, part: Part, claimed: Claimed) -> int | None:
        """Take in the jobs of a part, without the turn; return the last number taken if more are in the part, else None."""
        words, last = self._words, claimed.last_seqs
        raise_to(words.frontier, {priority: seq for priority, seq in last.items() if priority <= part.at})
        reached = last.get(part.at + 1, part.after[part.at])
        if claimed.full and reached < part.upto[part.at]:
            words.stretch = words.stretch // 2
            return reached
        if part.brought_little(claimed):
            words.stretch = min(max(1, words.stretch) * 2, MAX_STRETCH)
        return None

    def set_back(self, part: Part, reached: int) -> None:
        """Set the frontier back to the last job taken, never below the low-water mark: nothing is left up to there."""
        words, at = self._words, part.at
        words.frontier[at] = max(words.low[at], min(words.frontier[at], reached))


class Cursor:
    """The cursor of one queue on this host, as one process has it; the words alone are shared with the others.

    The main thread makes it, and the producer's thread alone uses it. The methods that look or take a part are called in the
    turn, or after it was waited for in vain; the others need no turn: they ask, send what was taken in it, or set a word that the
    next look puts right.
    """

    def __init__(self, board_: Board, queue: int, name: str, poll_interval: float, *, peeked: bool = False) -> None:
        self.name = name
        self.peeked = peeked  # looks at all queues at once take the place of this one's polls
        self.words = words = board_.cursor(queue)
        self.claims = Claims(name)
        self.low_water = LowWater(name, words)
        self.rescan = Rescan(words)
        self.parts = Backlog(words, thick_only=peeked)
        self.waited_in_vain = False  # for the turn, the last time; looks.py reads it
        self._fd = board_.fd
        self._queue = queue
        self._poll_ns = int(poll_interval * 1e9)

    def due_at(self) -> int:
        """Return the monotonic ns from which on a look can find something, by the poll and by a re-scan that was put off.

        It is 0 while there is backlog, after a wake-up since the last look, and when a look was called for.
        """
        words = self.words
        if words.backlog or words.drained != words.wakes or words.looked_at == CALLED:
            return 0
        poll_at = NEVER if self.peeked else words.looked_at + self._poll_ns
        return min(poll_at, words.owed) if words.owed else poll_at

    def due(self) -> bool:
        """Tell whether a look at the database can find something."""
        return time.monotonic_ns() >= self.due_at()

    def take_turn(self) -> bool:
        """Wait for the turn, but not for long; False if it did not come."""
        pause, deadline = 0.0002, time.monotonic() + (TURN_WAIT_AGAIN if self.waited_in_vain else TURN_WAIT)
        while not (taken := self.try_turn()) and time.monotonic() < deadline:
            time.sleep(pause)  # the kernel's own waiting cannot be given up
            pause = min(pause * 2, 0.002)
        self.waited_in_vain = not taken
        return taken

    def try_turn(self) -> bool:
        """Take the turn if no process of this host has it: a lock on the board's file. The kernel frees it if its holder dies."""
        return turns.take(self._fd, self._queue)

    def end_turn(self) -> None:
        """Let the next process claim."""
        turns.end(self._fd, self._queue)

    def send_look(
        self, connection: Connection, name: Callable[[int], int], limit: int, take: Callable[[Claimed], object]
    ) -> Claimed | None:
        """Look for up to so many jobs; return those of the last claim, for after the turn.

        `take` is given those of the claims before it: they must be on the board before the next claim is sent. Each claim is
        named just before, by `name`, which is given a seq below all that it can take.
        """
        look, last = Look(self, limit), None
        while (step := look.next_step()) is not None:
            if last is not None and (isinstance(step, Claim) or not step.brief):
                take(last)
                last = None
            if isinstance(step, Claim):
                last = self.claims.send(connection, name(self.rescan.lowest()), step.tried)
                look.learn(step, last)
            else:
                look.learn(step, connection.run(step.statement, *step.params))
        return last

    def send_part(self, connection: Connection, name: Callable[[int], int], part: Part) -> Claimed:
        """Claim a part, without the turn."""
        claimed = self.claims.send_part(connection, name(self.rescan.lowest()), part)
        self.learn_part(part, claimed)
        return claimed

    def take_part(self, limit: int) -> Part | None:
        """Take the next part of the backlog, and leave its claim for after the turn; None where a look has more to do."""
        now = time.monotonic_ns()
        if not self.words.backlog or self.rescan.due(now) or marks_due(self.words, now):
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

    def distrust(self) -> None:
        """Have the next look check that all is as we left it: a connection was lost, and the next may be to another server."""
        words, now = self.words, time.monotonic_ns()
        words.checked_at = CALLED
        words.swept_at = now - int(SWEEP_INTERVAL * 1e9)
        words.top = 0  # no part is taken before it is known again which numbers have been given out
        self.look_again()

    def look_again(self) -> None:
        """Have the next look come at once: the last one has failed, or a look at all queues has found something."""
        self.words.looked_at = CALLED

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
