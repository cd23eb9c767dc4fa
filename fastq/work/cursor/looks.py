"""One look at a queue, as data: which statements it sends, in which order, and what their answers say of the next ones.

A look is planned and learned: `next_step` returns the next statement, its sender hands the answer to `learn`, which moves the
marks, and so on until there is no next step. `next_claim` chooses its claims, in five cases. Then come up to three reads, each
only when it is due: the highest number given out (where parts can be taken of the backlog), the low-water mark, and the check
of the sequence against the frontiers (docs/adr/0021).

Run in the producer's thread, in its turn, or after it has waited for the turn in vain; a look is used once. It deliberately
does no I/O: the producer sends the statements.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from fastq.board.cursor_words import raise_to
from fastq.work.cursor.backlog import END
from fastq.work.cursor.claims import Tried
from fastq.work.cursor.low_water import Read

if TYPE_CHECKING:
    from fastq.work.codec.claimed import Claimed
    from fastq.work.cursor.cursor import Cursor


class Kind(Enum):
    """The claims of a look, by where they begin and end."""

    AHEAD = "from the frontier on"
    BEHIND = "a pass of the re-scan, or some of it"
    BOTH = "from the low-water mark on"


class Pass(Enum):
    """How it stands with the re-scan."""

    RESTS = "it is not due"
    DUE = "it is due"
    SHORT = "it is due, and the last one was so short that a claim can be one in passing"


class View(NamedTuple):
    """All that the next claim depends on."""

    sent: tuple[Kind, ...]  # the claims of this look so far
    backlog: bool
    rescan: Pass


class Claim(NamedTuple):
    """A step that claims."""

    kind: Kind
    tried: Tried


Step: TypeAlias = Claim | Read
"""One statement of a look."""


def next_claim(view: View) -> Kind | None:
    """Return the next claim of a look, None when there is no other."""
    match view:
        case View((), True, Pass.DUE):  # the pass goes first: claims at the frontier would use up all the room, look after look
            return Kind.BEHIND
        case View((), False, Pass.SHORT):
            return Kind.BOTH
        case View(() | (Kind.BEHIND,), _, _):
            return Kind.AHEAD
        case View((Kind.AHEAD,), False, Pass.DUE | Pass.SHORT):
            return Kind.BEHIND
        case _:
            return None


class Look:
    """The steps of one look for up to `room` jobs; `learn` takes in each answer before the next step is asked for."""

    def __init__(self, cursor: Cursor, room: int) -> None:
        self.sent: tuple[Kind, ...] = ()
        self._cursor = cursor
        self._words = words = cursor.words
        self._limit = self._room = room
        self._now = self._began = time.monotonic_ns()  # of the look; of the last claim that may tell how long a pass takes
        self._wakes = words.wakes  # as of the start: a notification during this look calls for another
        self._newest = self._marks = self._check = False  # reads that are to come
        self._reached = 0  # the highest frontier before the sequence was read
        words.looked_at = self._now

    def next_step(self) -> Step | None:
        """Return the next statement to send, None when the look is over."""
        while (kind := next_claim(self._view())) is not None:
            self.sent += (kind,)
            tried = self._tried(kind)
            if tried is not None:
                return Claim(kind, tried)
        return self._next_read()

    def learn(self, step: Claim | Read, answer: Any) -> None:
        """Take in the answer to a statement: the jobs of a claim, the rows of a read."""
        match step:
            case Claim(Kind.BEHIND):
                self._learn_behind(answer)
            case Claim():
                self._learn_ahead(step.kind, answer)
            case Read("job_seq_last"):
                self._cursor.parts.lead_to(answer[0][0])
            case Read("cursor_check"):
                last, self._words.slow_inserts = answer[0]
                self._words.top = min(self._words.top, last)
                if last < self._reached:
                    self._cursor.start_over(self._reached, last)
            case Read():
                self._cursor.low_water.learn(step.statement, answer)

    def _view(self) -> View:
        cursor, backlog = self._cursor, bool(self._words.backlog)
        if not cursor.rescan.due(self._now):
            return View(self.sent, backlog, Pass.RESTS)
        short = not cursor.claims.bound.aside and cursor.rescan.short(self._now)
        return View(self.sent, backlog, Pass.SHORT if short and not backlog else Pass.DUE)

    def _tried(self, kind: Kind) -> Tried | None:
        """Say from where to where a claim goes; None if it would bring nothing."""
        words, cursor = self._words, self._cursor
        match kind:
            case Kind.AHEAD if self._room:
                return Tried(words.frontier.tolist(), None, END, self._room)
            case Kind.AHEAD:  # the pass before it has filled the look
                self._found(more=True)
                return None
            case Kind.BOTH:
                self._began = time.monotonic_ns()
                return Tried(words.low.tolist(), None, END, self._room)
            case Kind.BEHIND:
                self._began = time.monotonic_ns()
                if not cursor.rescan.begin(self._began, behind=cursor.low_water.behind()):
                    return None
                return Tried(words.rescan.tolist(), words.rescan, words.rescan_end.tolist(), self._room)

    def _learn_behind(self, claimed: Claimed) -> None:
        self._room -= len(claimed)
        raise_to(self._words.frontier, claimed.last_seqs())
        self._cursor.rescan.learn(claimed, self._began, time.monotonic_ns())
        if claimed.full:
            self._cursor.parts.more()  # there may be more behind: do not wait for a notification

    def _learn_ahead(self, kind: Kind, claimed: Claimed) -> None:
        words, cursor = self._words, self._cursor
        self._room -= len(claimed)
        raise_to(words.frontier, claimed.last_seqs())
        if kind is Kind.BOTH and not claimed.full:
            cursor.rescan.learn_whole(claimed, self._began, time.monotonic_ns())
        self._found(more=claimed.full or bool(words.rescanning))
        if claimed.full:
            self._newest = cursor.parts.is_at(claimed.priorities[-1], self._limit)

    def _found(self, *, more: bool) -> None:
        """Note whether there is backlog, and which statements this look is still to send."""
        cursor, now = self._cursor, self._now
        if more:
            cursor.parts.more()
        else:
            cursor.parts.drain(self._wakes)
            if self.sent == (Kind.AHEAD,) and not cursor.rescan.due(now):
                cursor.rescan.put_off()
        # Marks are moved in the turn alone: without it, another process may have noted a newer mark meanwhile, and the low-water
        # mark would move up to it before anybody asked whether its transactions still write.
        self._marks = not cursor.waited_in_vain and cursor.low_water.due(now)
        self._check = cursor.check_due(now)

    def _next_read(self) -> Read | None:
        if self._newest:
            self._newest = False
            return Read("job_seq_last", brief=True)
        if self._marks:
            self._marks = False
            self._cursor.low_water.begin(self._now)
        read = self._cursor.low_water.next_read()
        if read is None and self._check:
            self._check, self._words.checked_at = False, self._now
            self._reached = max(self._words.frontier)  # before the sequence is read: a part may move it any moment
            return Read("cursor_check")
        return read
