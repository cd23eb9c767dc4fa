"""The statements that claim: which one is sent, with what, and what is made of its answer. A part of the cursor.

    job_claim        from places on, in their order: it locks row by row and steps over what others have locked
    job_claim_part   a range of numbers that is nearly always ours alone: it finds and changes its rows in one step

A part of the first priority that is no longer than the claim may be goes the second way, which takes a fifth less of the database
(docs/adr/0012). Where somebody else does touch its rows, another host or a transaction that was forgotten, the statement gives up
after 20 ms at a row, the part is claimed row lock by row lock, and so are all parts for a while. Where several hosts work a queue
that is nearly always.

Both take large args up to the bytes that they are given, and tell the first job that was left for that: what they brought counts
as full, and its last places end before that job (docs/adr/0015). It deliberately moves no cursor: that is cursor.py's.
"""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from fastq import board
from fastq.postgres import db, sqlstate
from fastq.work.codec.claimed import Claimed
from fastq.work.codec.codec import encode_ids
from fastq.work.cursor.low_water import LowWater

if TYPE_CHECKING:
    from fastq.postgres.db import Connection

CAREFUL = 30.0
"""Seconds in which this queue's parts are claimed with row locks after one met somebody else. Such a part takes some five times
as long as another (docs/adr/0012), a tenth of a second: once in so long, half a hundredth of a process's claims."""


class Bound(NamedTuple):
    """What a claim is bounded by, beside its count."""

    bytes: int  # of large args
    counted_from: int  # bytes from which on args are large
    aside: list[int]  # ids that it passes over


NO_BOUND = Bound(2**62, 2**62, [])
"""What bounds claims until the producer says more: nothing."""

_NUMBER = struct.Struct(">q")


class Part(NamedTuple):
    """A range of seqs to claim from: all of higher priorities, `upto` in the lane with the backlog, nothing below."""

    lane: int
    after: list[int]
    upto: list[int]


class Tried(NamedTuple):
    """A claim that was sent: from where, with the words that say so (none: a part), to where, and how many."""

    after: list[int]
    positions: range | None
    upto: list[int]
    limit: int


class Claims(LowWater):
    """The claims of one queue by one process."""

    def __init__(self, name: str, words: memoryview) -> None:
        super().__init__(name, words)
        self.bound = NO_BOUND  # of the next claims; the producer's
        self.tried: Tried | None = None  # the claim that has no good answer yet
        self._careful_until = 0.0  # monotonic seconds: parts may not be ours alone

    def prepare(self, connection: Connection) -> None:
        """Have a new session read the catalogue and plan the claims, by some that find nothing: the first job waits less."""
        nothing = [0] * board.PRIORITIES
        self._run(connection, 0, Tried(nothing, None, nothing, 0))
        connection.run_blobs("job_claim_part", self._packed(0, 0, 0, *self.bound[:2]))
        self.tried = None

    def first(self, connection: Connection, tried: Tried) -> tuple[Any, ...] | None:
        """Return id, kind, priority and seq of the job that a claim like the one tried would take first."""
        rows = connection.run("job_first", self.name, *tried.after, *tried.upto, self.bound.aside)
        return rows[0] if rows else None

    def _run_part(self, connection: Connection, claim: int, part: Part, limit: int) -> Claimed:
        """Claim a part in one step where it seems to be ours alone, else as any other claim."""
        tried = self.tried = Tried(part.after, None, part.upto, limit)
        after, upto = part.after[0], part.upto[0]
        alone = part.lane == 0 and upto - after <= limit and not self.bound.aside
        if not alone or time.monotonic() < self._careful_until:
            return self._run(connection, claim, tried)
        try:
            _, row = connection.run_blobs("job_claim_part", self._packed(claim, after, upto, *self.bound[:2]))
        except db.Error as error:
            if not sqlstate.taken_by_others(error):
                raise
            self._be_careful()
            return self._run(connection, claim, tried)
        return self._answered(claim, row, limit)

    def _run(self, connection: Connection, claim: int, tried: Tried) -> Claimed:
        self.tried, bound = tried, self.bound
        packed = self._packed(claim, *tried.after, tried.limit, *tried.upto, bound.bytes, bound.counted_from)
        _, row = connection.run_blobs("job_claim", [*packed, encode_ids(bound.aside)])
        return self._answered(claim, row, tried.limit)

    def _answered(self, claim: int, row: list[bytes | None], limit: int) -> Claimed:
        self.tried, claimed = None, Claimed(self.name, claim, row)
        claimed.full = len(claimed) >= limit or (len(claimed) > 0 and claimed.left is not None)
        return claimed

    def _be_careful(self) -> None:
        self._careful_until = time.monotonic() + CAREFUL

    def _packed(self, claim: int, *numbers: int) -> list[bytes]:
        """Pack the parameters of a claim: its number, the queue, other numbers."""
        first, *others = map(_NUMBER.pack, (claim, *numbers))
        return [first, self.name.encode(), *others]

    def _nothing(self) -> Claimed:
        return Claimed(self.name, 0, [])
