"""The words of one queue's cursor on the board, as attributes: the meaning of each, its writers and its readers.

A view of 64-bit integers in the memory that the processes of a host share (board.py). Times are monotonic, in ns; numbers are
seqs, and there is one of them for each priority where a word is a list. A word is written by the producer that has the queue's
turn, or has waited for the turn in vain, and read by the producers' threads of all worker processes of the host, but for what
stands beside it.

It deliberately knows no rule: which values may follow one another is for the machines in work/cursor, and for the statements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from typing import Self

PRIORITIES = 4
"""Priorities of jobs, 1 to 4: the database's rule."""


class Word:
    """One word of a view, as an attribute that reads and writes it."""

    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        self.at = at

    @overload
    def __get__(self, view: None, owner: type) -> Self: ...
    @overload
    def __get__(self, view: CursorWords, owner: type) -> int: ...
    def __get__(self, view: CursorWords | None, owner: type) -> int | Self:
        """Read the word; the class's attribute is the word itself."""
        return self if view is None else view.words[self.at]

    def __set__(self, view: CursorWords, value: int) -> None:
        """Write the word whole, so that no reader sees half a value."""
        view.words[self.at] = value


class CursorWords:
    """The words of one queue's cursor. Lists of a number for each priority are slices of the same memory."""

    __slots__ = ("earlier", "frontier", "low", "mark", "rescan", "rescan_end", "words")

    COUNT = 44

    rescanning = Word(20)  # 1: a pass of the re-scan is under way
    rescanned_at = Word(21)  # when the last pass ended
    rescan_took = Word(22)  # ns that the last statement of the last pass took
    owed = Word(23)  # when a pass is due that was put off, for the last one was long (0: none was)
    mark_xid = Word(24)  # each transaction that was writing at the mark has a lower xid (0: not asked yet)
    mark_at = Word(25)  # when to ask whether the mark's transactions still write (0: there is no mark)
    wakes = Word(26)  # notifications for the queue so far; the supervisor's listener alone counts them
    drained = Word(27)  # `wakes` when the last look that left no backlog began; the listener reads it, too
    looked_at = Word(28)  # when the last look began, or the last part was taken; set back without the turn after a failed claim
    swept_at = Word(29)  # when the last pass from zero began; set back without the turn by a process that lost its connection
    backlog = Word(30)  # 1: the last look took all that it had room for, or its pass is not through; the listener reads it, too
    top = Word(31)  # the highest seq known to be given out: no part reaches beyond it; set to 0 as `swept_at` is set back
    part_at = Word(32)  # the index of the priority that has the backlog
    stretch = Word(33)  # numbers per wanted job in a part (0 counts as 1); the claims of parts set it without the turn
    checked_at = Word(38)  # when the sequence was last compared with the frontiers; set back as `swept_at`
    slow_inserts = Word(39)  # 1: a trigger may hold up inserts between number and xid; as of the last such comparison
    waiting_hints = Word(40)  # hints so far that jobs of the queue wait for a worker; the supervisor's listener alone counts them
    waiting_seen = Word(41)  # `waiting_hints` when the last look for them began that found no more than it had room for
    waiting_looked_at = Word(42)  # when the last look for them began
    pause_hints = Word(43)  # hints so far that kinds may be paused or resumed; the supervisor's listener alone counts them

    def __init__(self, words: memoryview) -> None:
        self.words = words
        self.frontier = words[0:4]  # the last seq claimed, or the end of the last part; claims of parts raise it without the turn
        self.low = words[4:8]  # nothing available lies at or below it
        self.rescan = words[8:12]  # how far the pass has come
        self.rescan_end = words[12:16]  # where the pass ends
        self.mark = words[16:20]  # the frontier when the mark was noted: `low` moves up to it
        self.earlier = words[34:38]  # the frontier when the last pass began: under backlog the next one ends there
