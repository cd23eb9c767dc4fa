"""The words of one queue's cursor on the board, as attributes: the meaning of each, its writers and its readers.

A view of 64-bit integers in the memory that the processes of a host share (board.py). Times are monotonic, in ns; numbers are
seqs, and there is one of them for each priority where a word is a list. A word is written by the producer that has the queue's
turn, or has waited for the turn in vain, and read by the producers' threads of all worker processes of the host, but for what
stands beside it.

It deliberately knows no rule: which values may follow one another is for the machines in work/cursor, and for the statements.
"""

from __future__ import annotations

import ctypes
import inspect
from typing import Self

CALLED = -1
"""In place of a time: this is to be done at once."""

PRIORITIES = 4
"""Priorities of jobs, 1 to 4: the database's rule."""


class CursorWords(ctypes.Structure):
    """The words of one queue's cursor: first those that are a list, then the others, in the order in which they stand here.

    A word is read and written whole, so no reader sees half a value.
    """

    frontier: memoryview  # the last seq claimed, or the end of the last part; claims of parts raise it without the turn
    low: memoryview  # nothing available lies at or below it
    rescan: memoryview  # how far the pass has come
    rescan_end: memoryview  # where the pass ends
    mark: memoryview  # the frontier when the mark was noted: `low` moves up to it
    earlier: memoryview  # the frontier when the last pass began: under backlog the next one ends there
    rescanning: int  # 1: a pass of the re-scan is under way
    rescanned_at: int  # when the last pass ended
    rescan_took: int  # ns that the last statement of the last pass took
    owed: int  # when a pass is due that was put off, for the last one was long (0: none was)
    mark_xid: int  # each transaction that was writing at the mark has a lower xid (0: not asked yet)
    mark_at: int  # when to ask whether the mark's transactions still write (0: there is no mark)
    wakes: int  # notifications for the queue so far; the supervisor's listener alone counts them
    drained: int  # `wakes` when the last look that left no backlog began; the listener reads it, too
    looked_at: int  # when the last look began, or the last part was taken; CALLED, without the turn: a look is called for
    swept_at: int  # when the last pass from zero began; set back without the turn by a process that lost its connection
    backlog: int  # 1: the last look took all that it had room for, or its pass is not through; the listener reads it, too
    top: int  # the highest seq known to be given out: no part reaches beyond it; set to 0 as `swept_at` is set back
    part_at: int  # the index of the priority that has the backlog
    stretch: int  # numbers per wanted job in a part (0 counts as 1); the claims of parts set it without the turn
    checked_at: int  # when the sequence was last compared with the frontiers; CALLED as `swept_at` is set back
    slow_inserts: int  # 1: a trigger may hold up inserts between number and xid; as of the last such comparison
    waiting_hints: int  # hints so far that jobs of the queue wait for a worker; the supervisor's listener alone counts them
    waiting_seen: int  # `waiting_hints` when the last look for them began that found no more than it had room for
    waiting_looked_at: int  # when the last look for them began; CALLED by a look at all queues that has found some
    pause_hints: int  # hints so far that kinds may be paused or resumed; the supervisor's listener alone counts them
    rested: int  # 1: a process of the host has seen jobs in a look for kinds that nobody knows; they all know the same ones
    holder: int  # the number of the process that had the turn last

    @classmethod
    def at(cls, words: memoryview) -> Self:
        """Return the view of these words."""
        made = cls.from_buffer(words)
        for number, name in enumerate(_LISTS):
            setattr(made, name, words[number * PRIORITIES : (number + 1) * PRIORITIES])
        return made


_TYPES = inspect.get_annotations(CursorWords)
_LISTS = [name for name, type_ in _TYPES.items() if type_ == "memoryview"]
CursorWords._fields_ = [
    ("lists", ctypes.c_int64 * PRIORITIES * len(_LISTS)),
    *((name, ctypes.c_int64) for name, type_ in _TYPES.items() if type_ == "int"),
]
COUNT = ctypes.sizeof(CursorWords) // 8
"""How many words they are."""
