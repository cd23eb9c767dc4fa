"""The claim that is under way, as the desk shows it: the supervisor must know of it if the process dies, for it may commit.

    none          no claim is under way: all that were answered are in the rings of the board
    sent          a claim was named and sent, or is about to be
    unanswered    its session is gone, and its answer with it: whether it has committed is for unanswered.py to find out

Written by the producer's thread of a worker process alone: `last` in this process, all else on the desk, where the supervisor
reads it after the death of the process. One claim is under way at a time, so the jobs of a claim must be in the rings before the
next one is named. It deliberately talks to no database.
"""

from __future__ import annotations

from enum import Enum

from fastq.board import board


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
