"""The proof that nothing is left behind a queue's cursor: how far the low-water mark may move, and when. A part of the cursor.

    mark       a frontier of a while ago. `low` moves up to it when (1) LAG is over, since nextval can run a little before
               its transaction owns an xid, (2) every transaction that was writing jobs then, LAG after the mark, has ended
               (by the snapshots' xids; where an old one lives on, by the lock on job that it would hold, so that a
               forgotten transaction which never touched job holds nothing back), and (3) a look in the database finds
               nothing available between low and mark, locked or not (the claim that has it locked may fail). Else `low`
               moves to just below what was found.

Where job has a trigger that runs before an insert, it runs between the number and the xid, however long it likes. There the
transactions count as writing that hold the lock on job and own no xid yet, LAG after the mark. Each process notes them for
itself, for they do not fit the board; it costs two looks at the server's locks a mark, so it is not done without such a trigger.
What else is slow between number and xid, as `insert ... select slow()` may be, is found by the sweep alone.

Run by the producer that has the turn. It deliberately claims nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fastq import board

if TYPE_CHECKING:
    from fastq.postgres.db import Connection

LAG = 1.0
"""Seconds that a mark must be old at least. The adversary test holds numbers back for 0.8 s; in practice it is microseconds."""

RETRY = 0.25
"""Seconds between looks whether the writers of a mark have ended: a look costs a fraction of a millisecond, not every claim's."""


class Begun(NamedTuple):
    """Who may hold numbers up to the marks, as one process saw it LAG or more after them."""

    marks: list[int]
    transactions: list[str]  # virtual ids of those that had no xid
    xid: int  # below which are those of all others


class LowWater:
    """The low-water mark of one queue; the words are the cursor's."""

    def __init__(self, name: str, words: memoryview) -> None:
        self.name = name
        self._words = words
        self._begun: Begun | None = None  # of the marks that this process saw last

    def _behind(self) -> bool:
        """Tell whether there is anything between the low-water marks and the frontiers."""
        words = self._words
        return any(words[front] > words[low] for front, low in zip(board.FRONTIER, board.LOW, strict=True))

    def _mark_due(self, now: int) -> bool:
        """Tell whether the marks can be moved: one is to be noted, or is old enough."""
        noted = self._words[board.BARRIER_AT]
        return now - noted >= LAG * 1e9 if noted else self._behind()

    def _move_low(self, connection: Connection, now: int) -> None:
        """Note a mark, or move the low-water mark to it once everybody who was writing then has ended."""
        words = self._words
        if not words[board.BARRIER_AT]:
            for mark, front in zip(board.MARK, board.FRONTIER, strict=True):
                words[mark] = words[front]
            words[board.BARRIER_XID], words[board.BARRIER_AT] = 0, now
            return
        if self._still_written(connection):
            words[board.BARRIER_AT] = now - int((LAG - RETRY) * 1e9)
            return
        lows, marks = [words[at] for at in board.LOW], [words[at] for at in board.MARK]
        first = connection.run_one("job_first_available", self.name, *lows, *marks)
        for at, mark, available in zip(board.LOW, marks, first, strict=True):
            words[at] = max(words[at], mark if available is None else available - 1)
        words[board.BARRIER_AT] = 0

    def _still_written(self, connection: Connection) -> bool:
        """Tell whether somebody still writes who may have taken a number up to the marks."""
        words, marks = self._words, [self._words[at] for at in board.MARK]
        slow, begun = bool(words[board.SLOW_INSERTS]), self._begun
        transactions: list[str] = []
        if slow and (begun is None or begun.marks != marks):  # before the snapshot: who gets his xid in between is below its end
            transactions, begun = [virtual for (virtual,) in connection.run("cursor_begun")], None
        oldest, next_ = connection.run_one("snapshot")
        if slow:
            self._begun = begun = begun or Begun(marks, transactions, next_)
            xid, transactions = begun.xid, begun.transactions
        else:
            # Noted a lag after the mark: whoever had taken a number by then owns an xid by now, and it is below this one.
            xid = words[board.BARRIER_XID] = words[board.BARRIER_XID] or next_
        if not transactions and oldest >= xid:
            return False
        return bool(connection.run_one("cursor_writers", xid, transactions)[0])
