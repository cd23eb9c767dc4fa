"""The statements that claim: which one is sent, with which parameters, and the claim that is under way. A part of the cursor.

    job_claim        from numbers on, in their order: it locks row by row and steps over rows that others have locked
    job_claim_part   a range of numbers that is nearly always ours alone: it finds and changes its rows in one step

A part of the first priority that is no longer than the claim may be goes the second way, which takes a fifth less of the database
(docs/adr/0012). Where somebody else does touch its rows, another host or a transaction that was forgotten, the statement gives up
after 20 ms at a row, the part is claimed row lock by row lock, and so are all parts for a while. Where several hosts work a queue
that is nearly always.

Both take large args up to the bytes that they are given, and tell the first job that was left for that: such a claim counts as
full, and its last numbers end before that job (docs/adr/0015).

The claim under way, a machine, stands on the desk of its process: the supervisor must know of it if the process dies, for it may
commit. One claim is under way at a time, so the jobs of a claim must be in the rings before the next one is named.

    none          no claim is under way: all that were answered are in the rings of the board
    sent          a claim was named and sent, or is about to be
    unanswered    its session is gone, and its answer with it: whether it has committed is for unanswered.py to find out

Run by the producer's thread of a worker process, which alone has and writes a `Claims` for each queue, and one `UnderWay`: in the
turn, or for a part that was taken in it. It deliberately moves no mark: the machines of the cursor do, when they learn the
answer.
"""

from __future__ import annotations

import struct
import time
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from fastq.board import board
from fastq.board.cursor_words import PRIORITIES
from fastq.postgres import db, sqlstate
from fastq.work.codec import twin
from fastq.work.codec.claimed import Claimed
from fastq.work.codec.codec import encode_ids

if TYPE_CHECKING:
    from fastq.postgres.db import Connection

CAREFUL = 30.0
"""Seconds in which this queue's parts are claimed with row locks after one met somebody else. Such a part takes some five times
as long as another (docs/adr/0012), a tenth of a second: that is 0.3 % of a process's claiming time."""


END = [2**62] * PRIORITIES
"""Above every seq, by priority."""


class Bound(NamedTuple):
    """The bounds of a claim, beside its count."""

    bytes: int  # of large args
    counted_from: int  # bytes from which on args are large
    aside: list[int]  # ids that it passes over


NO_BOUND = Bound(2**62, 2**62, [])
"""The bound of claims until the producer sets one: none."""

NO_IDS = twin.encode_ints([])
"""The ids that nearly every claim passes over: none."""

_NUMBER = struct.Struct(">q")


class Part(NamedTuple):
    """A range of the backlog to claim from: all of higher priorities, `upto` in the priority with the backlog, nothing below."""

    at: int  # the index of that priority
    after: list[int]
    upto: list[int]
    limit: int

    def brought_little(self, claimed: Claimed) -> bool:
        """Tell whether a claim of it brought so few jobs that the numbers are thin here, or another host has been before us."""
        return len(claimed.ids) < self.limit // 4


class Tried(NamedTuple):
    """A claim that was sent: from where, with the marks that say so (none: the frontier, or a part), to where, and how many."""

    after: list[int]
    positions: memoryview | None
    upto: list[int]
    limit: int


class State(Enum):
    """The states of the claim under way."""

    NONE = "none"
    SENT = "sent"
    UNANSWERED = "unanswered"


ARROWS = {
    (State.NONE, "send"): (State.SENT,),
    (State.SENT, "answered"): (State.NONE,),
    (State.NONE, "connecting"): (State.NONE,),
    (State.SENT, "connecting"): (State.UNANSWERED,),
    (State.UNANSWERED, "connecting"): (State.UNANSWERED,),  # the attempt before this one has failed
    (State.NONE, "settled"): (State.NONE,),
    (State.UNANSWERED, "settled"): (State.NONE,),
}
"""From a state, by an event (a method of `UnderWay`), to states."""


class UnderWay:
    """The words of a desk that tell of the claim under way; `last` is the number of the claim that was named last."""

    def __init__(self, desk: memoryview, process: int) -> None:
        self.last = process << 32
        self._desk = desk

    @property
    def state(self) -> State:
        """Tell the state of the claim."""
        if not self._desk[board.CLAIM]:
            return State.NONE
        return State.UNANSWERED if self._desk[board.CUT_SESSION] else State.SENT

    @property
    def number(self) -> int:
        """Return the claim's number, 0 if there is none."""
        return self._desk[board.CLAIM]

    @property
    def queue(self) -> int:
        """Return the number of its queue."""
        return self._desk[board.CLAIM_QUEUE]

    @property
    def after(self) -> int:
        """Return a seq below everything that it can take."""
        return self._desk[board.CLAIM_AFTER]

    @property
    def cut_session(self) -> int:
        """Return the pid of the session that it was sent on, if that is gone; else 0."""
        return self._desk[board.CUT_SESSION]

    def send(self, queue: int, after: int) -> int:
        """Name the next claim, and note that it is about to be sent."""
        self.last += 1
        desk = self._desk
        desk[board.CLAIM_QUEUE], desk[board.CLAIM_AFTER] = queue, after
        desk[board.CLAIM] = self.last
        return self.last

    def answered(self) -> None:
        """Note that the jobs of the claim are in the rings, or that it was refused and none of it has happened."""
        self._desk[board.CLAIM] = 0

    def connecting(self) -> None:
        """Keep the pid of the session that a claim was sent on: the next session's takes its place."""
        desk = self._desk
        if desk[board.CLAIM] and not desk[board.CUT_SESSION]:
            desk[board.CUT_SESSION] = desk[board.SESSIONS[0]]

    def settled(self) -> None:
        """Note that the jobs of the claim were handed back, or that it can take none any more."""
        self._desk[board.CLAIM] = self._desk[board.CUT_SESSION] = 0


class Claims:
    """The claims of one queue by one process. The producer's thread alone uses and writes this."""

    def __init__(self, name: str) -> None:
        self.bound = NO_BOUND  # of the next claims; demand.py sets it
        self.tried: Tried | None = None  # the claim that has no good answer yet; the producer clears it when the claim has failed
        self._name = name
        self._careful_until = 0.0  # monotonic seconds: parts may not be ours alone

    def prepare(self, connection: Connection) -> None:
        """Have a new session read the catalogue and plan the claims, by some that find nothing: the first job waits less."""
        nothing = [0] * PRIORITIES
        self.send(connection, 0, Tried(nothing, None, nothing, 0))
        connection.run_blobs("job_claim_part", self._packed(0, 0, 0, *self.bound[:2]))
        self.tried = None

    def send(self, connection: Connection, claim: int, tried: Tried) -> Claimed:
        """Claim row lock by row lock."""
        self.tried, bound = tried, self.bound
        packed = self._packed(claim, *tried.after, tried.limit, *tried.upto, bound.bytes, bound.counted_from)
        _, row = connection.run_blobs("job_claim", [*packed, encode_ids(bound.aside) if bound.aside else NO_IDS])
        self.tried = None
        return Claimed(self._name, claim, row, tried.limit)

    def send_part(self, connection: Connection, claim: int, part: Part) -> Claimed:
        """Claim a part, without the turn: in one step where it seems to be ours alone, else as any other claim."""
        tried = self.tried = Tried(part.after, None, part.upto, part.limit)
        after, upto = part.after[0], part.upto[0]
        alone = part.at == 0 and upto - after <= part.limit and not self.bound.aside
        if not alone or time.monotonic() < self._careful_until:
            return self.send(connection, claim, tried)
        try:
            _, row = connection.run_blobs("job_claim_part", self._packed(claim, after, upto, *self.bound[:2]))
        except db.Error as error:
            if not sqlstate.taken_by_others(error):
                raise
            self.be_careful()
            return self.send(connection, claim, tried)
        self.tried = None
        return Claimed(self._name, claim, row, part.limit)

    def first(self, connection: Connection, tried: Tried) -> tuple[Any, ...] | None:
        """Return id, kind, priority and seq of the job that a claim like the one tried would take first."""
        rows = connection.run("job_first", self._name, *tried.after, *tried.upto, self.bound.aside)
        return rows[0] if rows else None

    def be_careful(self) -> None:
        """Claim parts with row locks for a while: somebody else touches their rows."""
        self._careful_until = time.monotonic() + CAREFUL

    def _packed(self, claim: int, *numbers: int) -> list[bytes]:
        """Pack the parameters of a claim: its number, the queue, other numbers."""
        first, *others = map(_NUMBER.pack, (claim, *numbers))
        return [first, self._name.encode(), *others]
