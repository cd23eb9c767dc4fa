"""The proof that nothing is left behind a queue's cursor: how far the low-water mark may move, and when. A part of the cursor.

    low ............ mark ............ frontier ............ highest number given out
    nothing available lies at or below low; between low and the frontier lie claimed jobs, and those that are committed late

    none     there is no mark
    noted    the mark is the frontier of a moment ago; LAG must pass, since nextval runs a little before its xid is there
    asked    each transaction that may have taken a number up to the mark has an xid below the one that was noted then
    moved    they have ended, a look in the database has found nothing available between low and mark, and low is the mark

The snapshots' xids show whether those transactions have ended. If an old transaction lives on, pg_locks shows whether it holds
the lock on job, which it must if it has written jobs: so a forgotten transaction that never touched job holds nothing back
(docs/adr/0008).
The look counts locked rows, too: the claim that has a row locked may fail. Where it finds a row, `low` moves to just below that
row.

Where job has a trigger that runs before an insert, it runs between the number and the xid, however long it likes. There the
transactions count as writing that hold the lock on job and own no xid yet, LAG after the mark. Each process notes them for
itself, for they do not fit the board; it costs two looks at the server's locks a mark, so it is not done without such a trigger.
An insert that is slow between number and xid for another reason, as `insert ... select slow()` may be, is found by the sweep
alone.

Run by the thread of the producer that has the turn, in its worker process, and by no other: the mark that one process has asked
for would else be taken for the mark that another has noted since. Each rule here is for safety: without it jobs are lost until
the next sweep, and the simulation in tests/simulation has a mutant for it. It deliberately claims nothing, and sends nothing: it
says which statement to send next, and learns the answer.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.board.cursor_words import CursorWords

LAG = 1.0
"""Seconds that a mark must be old at least. The adversary test holds numbers back for 0.8 s; in practice it is microseconds."""

RETRY = 0.25
"""Seconds between looks whether the writers of a mark have ended: a look costs a fraction of a millisecond, not every claim's."""


class State(Enum):
    """The states of the mark; `moved` is `none` again."""

    NONE = "none"
    NOTED = "noted"
    ASKED = "asked"


ARROWS = {
    (State.NONE, "note"): (State.NOTED,),
    (State.NOTED, "ask"): (State.ASKED,),
    (State.ASKED, "ask"): (State.ASKED,),  # again, after it was put off: for the same transactions
    (State.ASKED, "put_off"): (State.ASKED,),  # one of them still writes
    (State.ASKED, "move"): (State.NONE,),
}
"""From a state, by an event (a method of `LowWater`) in the turn, to states."""


class Read(NamedTuple):
    """A statement that claims nothing; its name says what it is for."""

    statement: str
    params: tuple[Any, ...] = ()
    brief: bool = False  # it takes so little that it is sent before the jobs of the claim before it are decoded


class Begun(NamedTuple):
    """The transactions that may hold numbers up to the marks, as one process saw them LAG or more after the marks."""

    marks: list[int]
    transactions: list[str]  # virtual ids of those that had no xid
    xid: int  # the xids of all others are below it


class LowWater:
    """The low-water mark of one queue; the words are the cursor's."""

    def __init__(self, name: str, words: CursorWords) -> None:
        self._name = name
        self._words = words
        self._now = 0  # of the look that is under way
        self._next: Read | None = None  # the statement to send next
        self._slow = False  # whether a trigger may hold up inserts; as of the start of that look
        self._without_xid: list[str] = []  # virtual ids, as read just now
        self._begun: Begun | None = None  # of the marks that this process saw last

    @property
    def state(self) -> State:
        """Tell the state of the mark."""
        if not self._words.mark_at:
            return State.NONE
        return State.ASKED if self._words.mark_xid else State.NOTED

    def begin(self, now: int) -> None:
        """Note a mark where there is none, or begin to ask whether low may move to it; `next_read` says by which statement."""
        words, begun = self._words, self._begun
        self._now, self._next, self._slow = now, None, bool(words.slow_inserts)
        if self.state is State.NONE:
            self.note(now)
        elif self._slow and (begun is None or begun.marks != words.mark.tolist()):
            # Before the snapshot: a transaction that gets its xid in between is below the snapshot's end.
            self._next = Read("cursor_begun")
        else:
            self._next = Read("snapshot")

    def next_read(self) -> Read | None:
        """Return the statement to send next, None when the marks have moved as far as they may for now."""
        read, self._next = self._next, None
        return read

    def learn(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Take in the answer to a statement."""
        match statement:
            case "cursor_begun":
                self._without_xid, self._begun = [virtual for (virtual,) in rows], None
                self._next = Read("snapshot")
            case "snapshot":
                self._next = self.ask(*rows[0])
            case "cursor_writers" if rows[0][0]:
                self.put_off()
            case "cursor_writers":
                self._next = self._look()
            case _:
                self.move(rows[0])

    def note(self, now: int) -> None:
        """Note a mark: the frontiers of now."""
        words = self._words
        assert all(low <= front for low, front in zip(words.low, words.frontier, strict=True)), "low has passed the frontier"
        words.mark[:] = words.frontier
        words.mark_xid, words.mark_at = 0, now + int(LAG * 1e9)

    def ask(self, oldest: int, following: int) -> Read:
        """Note which transactions may have taken a number up to the marks, once; return how to learn whether one still writes."""
        words = self._words
        transactions: list[str] = []
        if self._slow:
            if self._begun is None:
                self._begun = Begun(words.mark.tolist(), self._without_xid, following)
            _, transactions, xid = self._begun
            words.mark_xid = words.mark_xid or xid
        else:
            # Noted a lag after the mark: a transaction with a number up to it owns an xid by now, and it is below this one.
            xid = words.mark_xid = words.mark_xid or following
        return Read("cursor_writers", (xid, transactions)) if transactions or oldest < xid else self._look()

    def put_off(self) -> None:
        """Ask again soon: somebody still writes."""
        self._words.mark_at = self._now + int(RETRY * 1e9)

    def _look(self) -> Read:
        words = self._words
        return Read("job_first_available", (self._name, *words.low, *words.mark))

    def move(self, first: Sequence[int | None]) -> None:
        """Move low to the marks, or to just below the first row that is available up to them."""
        words = self._words
        for at, (mark, available) in enumerate(zip(words.mark, first, strict=True)):
            low = max(words.low[at], mark if available is None else available - 1)
            # A part that did not fit may have set the frontier back since the mark was noted; nothing is left up to low.
            words.frontier[at] = max(words.frontier[at], low)
            words.low[at] = low
        words.mark_at = 0


def behind(words: CursorWords) -> bool:
    """Tell whether there is anything between the low-water marks and the frontiers."""
    return any(front > low for front, low in zip(words.frontier, words.low, strict=True))


def marks_due(words: CursorWords, now: int) -> bool:
    """Tell whether the low-water marks can be moved: one is to be noted, or is old enough."""
    return now >= words.mark_at if words.mark_at else behind(words)
