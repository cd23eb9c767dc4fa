"""One look at a queue, as data: which statements it sends, in which order, and what their answers say of the next ones.

A look is planned and learned: `next_step` returns the next statement, its sender hands the answer to `learn`, which moves the
marks, and so on until there is no next step. `next_claim` chooses its claims, in five cases. Then come up to three reads, each
only when it is due: the highest number given out (where parts can be taken of the backlog), the low-water mark, and the check
of the sequence against the frontiers (docs/adr/0021).

The re-scan, a machine, claims jobs that became available behind the frontier, a batch a time. A pass walks from the low-water
mark to the frontier; while there is backlog only to where the frontier was at the pass before. Where the claim was full,
the pass goes on from there the next time. A sweep is a pass from zero: it finds jobs that everything else should ever miss.

    resting      no pass is called for, or the last one has not had its rest yet
    owed         a look has drained the queue, and the pass that it called for was put off: the last one was long
    under way    a claim of the pass was full, so it goes on where that claim ended

The pass itself is for safety: nothing else looks behind the frontier. Where it ends, and how long it rests, is for promptness.
Run in the producer's thread of a worker process, in its turn, or after it has waited for the turn in vain. A `Look` is its own,
and used once; the marks are on the board, for all processes of the host. It deliberately does no I/O, and moves no low-water
mark: low_water.py does, once it is proven that nothing can appear below.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from fastq.board.cursor_words import CALLED, PRIORITIES
from fastq.work.cursor.claims import END, Tried
from fastq.work.cursor.low_water import Read, behind, marks_due

if TYPE_CHECKING:
    from fastq.board.cursor_words import CursorWords
    from fastq.work.codec.claimed import Claimed
    from fastq.work.cursor.cursor import Cursor

CHECK_INTERVAL = 20.0
"""Seconds between looks at the sequence: an idle host asks hardly more for it, and a lost connection calls for one at once. For
so long a new trigger before inserts goes unnoticed, and the jobs that it holds up are left to the sweep."""

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
        self._marking = False  # the low-water mark has begun to ask
        self._reached = 0  # the highest frontier before the sequence was read
        words.looked_at = self._now

    def next_step(self) -> Step | None:
        """Return the next statement to send, None when the look is over."""
        while (kind := next_claim(self._view())) is not None:
            self.sent += (kind,)
            tried = self._tried(kind)
            if tried is not None:
                return Claim(kind, tried)
        return self._next_read() if self._newest or self._marks or self._marking or self._check else None

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
        """Say where a claim begins and ends; None if it would bring nothing."""
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
                if not cursor.rescan.begin(self._began, behind=behind(words)):
                    return None
                return Tried(words.rescan.tolist(), words.rescan, words.rescan_end.tolist(), self._room)

    def _learn_behind(self, claimed: Claimed) -> None:
        self._room -= len(claimed.ids)
        raise_to(self._words.frontier, claimed.last_seqs)
        self._cursor.rescan.learn(claimed, self._began, time.monotonic_ns())
        if claimed.full:
            self._cursor.parts.more()  # there may be more behind: do not wait for a notification

    def _learn_ahead(self, kind: Kind, claimed: Claimed) -> None:
        words, cursor = self._words, self._cursor
        self._room -= len(claimed.ids)
        raise_to(words.frontier, claimed.last_seqs)
        if kind is Kind.BOTH and not claimed.full:
            cursor.rescan.learn_whole(claimed, self._began, time.monotonic_ns())
        self._found(more=claimed.full or bool(words.rescanning))
        if claimed.full:
            self._newest = cursor.parts.is_at(claimed, self._limit)

    def _found(self, *, more: bool) -> None:
        """Note whether there is backlog, and which statements this look is still to send."""
        cursor, words, now = self._cursor, self._words, self._now
        # In the turn alone: without it, another process may have noted a newer mark meanwhile, and the low-water mark would move
        # up to it before anybody asked whether its transactions still write.
        # A queue that is drained is left to the looks at all queues, where there are such.
        self._marks = not cursor.waited_in_vain and (more or not cursor.peeked) and marks_due(words, now)
        self._check = words.checked_at == CALLED if cursor.peeked else now - words.checked_at >= CHECK_INTERVAL * 1e9
        if more:
            cursor.parts.more()
            return
        if self.sent == (Kind.AHEAD,) and not words.rescanning and now < cursor.rescan.rests_until():
            cursor.rescan.put_off()
        cursor.parts.drain(self._wakes)

    def _next_read(self) -> Read | None:
        if self._newest:
            self._newest = False
            return Read("job_seq_last", brief=True)
        if self._marks:
            self._marks, self._marking = False, True
            self._cursor.low_water.begin(self._now)
        read = self._cursor.low_water.next_read() if self._marking else None
        if read is None and self._check:
            self._check, self._words.checked_at = False, self._now
            self._reached = max(self._words.frontier)  # before the sequence is read: a part may move it any moment
            return Read("cursor_check")
        return read


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
    """The re-scan of one queue; how far a pass has come is on the board, for all processes of the host."""

    def __init__(self, words: CursorWords) -> None:
        self._words = words

    @property
    def state(self) -> State:
        """Tell the state of the re-scan."""
        if self._words.rescanning:
            return State.UNDER_WAY
        return State.OWED if self._words.owed else State.RESTING

    def due(self, now: int) -> bool:
        """Tell whether a pass may begin: passes take a twentieth of the time at most."""
        words = self._words
        if words.rescanning:
            return True
        interval = int(RESCAN_INTERVAL * 1e9) if words.backlog else 0
        return now >= max(self.rests_until(), words.rescanned_at + interval)

    def rests_until(self) -> int:
        """Return when the last pass has had its rest."""
        return self._words.rescanned_at + RESCAN_REST * self._words.rescan_took

    def short(self, now: int) -> bool:
        """Tell whether a claim from the low-water mark on costs hardly more than one from the frontier and a pass that is due."""
        words = self._words
        quiet = not words.rescanning and not self.sweep_due(now)
        return quiet and words.rescan_took < SHORT_PASS * 1e9

    def sweep_due(self, now: int, *, soon: bool = False) -> bool:
        """Tell whether the next pass starts at zero; with `soon`, whether it may do so by the time that a claim begins it."""
        return now - self._words.swept_at >= SWEEP_INTERVAL * (0.9e9 if soon else 1e9)

    def lowest(self) -> int:
        """Return a seq below everything that the next claim can take."""
        words = self._words
        if self.sweep_due(time.monotonic_ns(), soon=True):
            return 0
        return min(*words.low, *(words.rescan if words.rescanning else ()))

    def put_off(self) -> None:
        """Owe a pass: the last one was long, and the next waits its share."""
        self._words.owed = self.rests_until()

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
        # Up to the last pass nearly all rows are gone for all by now, and the first walk over an index entry without a row marks
        # it, so that no later one looks for the row again.
        ends = words.earlier if words.backlog else words.frontier
        for at, (low, end) in enumerate(zip(lows, ends, strict=True)):
            words.rescan[at], words.rescan_end[at] = low, max(low, end)
        words.earlier[:] = words.frontier
        words.rescanning = 1
        return True

    def learn(self, claimed: Claimed, began: int, now: int) -> None:
        """Move on behind the jobs that a claim of the pass brought; one that was not full has ended the pass."""
        words = self._words
        for priority, seq in claimed.last_seqs.items():
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
        if len(claimed.ids) <= FEW:
            words.rescan_took = min(now - began, int(LONGEST_PASS * 1e9))


def raise_to(positions: memoryview, numbers: dict[int, int]) -> None:
    """Move positions up to these numbers, which are given by priority; none moves down."""
    for priority, number in numbers.items():
        positions[priority - 1] = max(positions[priority - 1], number)
