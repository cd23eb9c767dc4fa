"""One look at all queues of a host at once, in place of a look at each: where processes work several queues.

A look that finds nothing costs a transaction, and a queue that nobody writes to would be looked at once a poll, for the hints
that were lost and the jobs that were inserted without one. A *peek* asks one question for all of these queues: which of them have
something available above their low-water marks? Those are called, and looked at as ever; the others are left alone. So a poll
costs one or two short statements, however many queues there are.

Nor is even that question asked while nothing can have come. The numbers tell: a job that becomes available gets a number. The
*calm* is the low-water mark of all queues together, and is moved by the same proof (low_water.py):

    calm         nothing is available in any queue at or below this number, and nothing can appear there any more
    last number  the highest that was ever given out, as the peek has read it; where it is the calm, there is nothing to ask

The last step of that proof is a question of its own, to all queues. It also shows for each queue whether anything lies between
its low-water mark and the calm's mark, whose writers have ended by then; where nothing does, the queue's low-water mark moves up,
as far as its frontier goes. So queues that are drained need no statements of their own for their marks.

Beside that, each only when it is due: the comparison of the sequence with the frontiers, the sweep of some queues (a question
from zero), and the question which queues have jobs that wait for a worker.

Run by the producer's thread of one process of the host at a time, in the turn of the peeks, and skipped by one that does not have
it. A `Peek` is its own, and used once; the words are on the board, for all processes of the host:

    looked_at, rescan_took     when the last peek began; how long its longest question took
    wakes, drained             hints were missed (the supervisor's listener counts); as of the last peek
    frontier, low, mark ...    the last number, the calm, and the proof's words; the same in all priorities
    checked_at, slow_inserts   as those of a queue
    waiting_...                the same, of all queues together

For safety: a queue's mark moves in that queue's turn, and never beyond the proof's mark; the calm moves only if all queues were
asked, those with backlog too, and none had anything. It deliberately claims nothing: it calls for looks, by `looked_at` of the
queues.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fastq.board import turns
from fastq.board.cursor_words import CALLED, PRIORITIES
from fastq.work.cursor.looks import CHECK_INTERVAL, SWEEP_INTERVAL
from fastq.work.cursor.low_water import LowWater, Read, behind, marks_due

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.board.board import Board
    from fastq.postgres.db import Connection
    from fastq.work.cursor.cursor import Cursor

REST = 20
"""A question is followed by this many times its own length without one, as a pass of the re-scan is, and for the same reason."""

LONGEST = 0.25
"""Seconds of a question that count for its rest, as of a pass."""

SWEPT = 100
"""Queues that one peek sweeps at most: it walks over all that is left in the index of a queue, and a statement has a limit."""


class Calm(LowWater):
    """The low-water mark of all queues together."""

    def _look(self) -> Read:
        return Read("job_peek")  # the peek says for which queues


class Peeks:
    """The peeks of a host, as one process has them: made by the main thread, then the producer's thread's alone."""

    def __init__(self, board_: Board, cursors: Sequence[Cursor], poll_interval: float, waiting_interval: float) -> None:
        self.cursors = list(cursors)
        self.words = words = board_.peeks()
        self.calm = Calm("", words)
        self._fd = board_.fd
        self._poll_ns = int(poll_interval * 1e9)
        self._waiting_ns = int(waiting_interval * 1e9)

    def due(self) -> bool:
        """Tell whether it is time for a peek."""
        words = self.words
        if words.wakes != words.drained or not words.looked_at or self.waiting_due(time.monotonic_ns()):
            return True
        return time.monotonic_ns() >= words.looked_at + max(self._poll_ns, REST * words.rescan_took)

    def waiting_due(self, now: int) -> bool:
        """Tell whether it is time to ask for waiting jobs."""
        words = self.words
        asked_at = words.waiting_looked_at
        return words.waiting_hints != words.waiting_seen or not asked_at or now >= asked_at + self._waiting_ns

    def try_turn(self) -> bool:
        """Take the turn of the peeks if no process of this host has it."""
        return turns.take(self._fd, len(self.cursors))

    def end_turn(self) -> None:
        """Give the turn back."""
        turns.end(self._fd, len(self.cursors))

    def send(self, connection: Connection) -> None:
        """Peek, in the turn."""
        peek = Peek(self)
        while (read := peek.next_read()) is not None:
            peek.learn(read, connection.run(read.statement, *read.params))

    def distrust(self) -> None:
        """Have the next peek come at once, and believe nothing: a connection was lost, and the next may be to another server."""
        words = self.words
        for at in range(PRIORITIES):
            words.low[at] = 0
        words.mark_at = words.looked_at = 0
        words.checked_at = CALLED

    def drained(self) -> list[Cursor]:
        """Return the queues that are looked at for no backlog."""
        return [cursor for cursor in self.cursors if not cursor.words.backlog]


class Peek:
    """The steps of one peek; `learn` takes in each answer before the next step is asked for."""

    def __init__(self, peeks: Peeks) -> None:
        self._peeks, self._words, self._calm = peeks, peeks.words, peeks.calm
        words = self._words
        self._now = words.looked_at = time.monotonic_ns()
        self._began = 0  # of the question under way
        self._wakes, self._hints = words.wakes, words.waiting_hints  # as of the start
        self._numbers = True  # reads that are to come
        self._marks = self._question = False
        self._sweep = True
        self._waiting = peeks.waiting_due(self._now)
        self._asked: list[Cursor] = []  # the queues of the question under way
        self._proves = self._sweeps = False  # what that question is for, beside finding jobs
        self._reached = words.frontier[0]  # the highest number known, before the sequence is read
        if words.checked_at == CALLED or self._now - words.checked_at >= CHECK_INTERVAL * 1e9:
            words.checked_at = self._now
            self._reached = max([self._reached, *(max(one.words.frontier) for one in peeks.cursors)])
        words.rescan_took = 0

    def next_read(self) -> Read | None:
        """Return the next statement to send, None when the peek is over."""
        if self._numbers:
            self._numbers = False
            return Read("cursor_check")
        read = self._calm.next_read() if self._marks else None
        if read is not None and read.statement != "job_peek":
            return read
        self._marks = False
        if read is not None or self._question:
            self._question, self._proves = False, read is not None
            return self._ask(self._peeks.drained())
        if self._sweep and (unswept := self._unswept()):
            self._sweep, self._proves, self._sweeps = False, False, True
            return self._ask(unswept)
        if self._waiting:
            self._waiting = False
            return Read("job_peek_waiting", ([cursor.name for cursor in self._peeks.cursors],))
        self._words.drained = self._wakes
        return None

    def learn(self, read: Read, rows: Sequence[tuple[Any, ...]]) -> None:
        """Take in the answer to a statement."""
        match read.statement:
            case "cursor_check":
                self._learn_numbers(*rows[0])
            case "job_peek":
                took = time.monotonic_ns() - self._began
                self._words.rescan_took = min(max(self._words.rescan_took, took), int(LONGEST * 1e9))
                self._learn_found(dict(rows))
            case "job_peek_waiting":
                self._words.waiting_looked_at, self._words.waiting_seen = self._now, self._hints
                for (place,) in rows:
                    self._peeks.cursors[place - 1].words.waiting_looked_at = CALLED
            case statement:
                self._calm.learn(statement, rows)

    def _learn_numbers(self, last: int, slow_inserts: int) -> None:
        words = self._words
        if slow_inserts != words.slow_inserts:
            for each in (words, *(cursor.words for cursor in self._peeks.cursors)):
                each.slow_inserts = slow_inserts
        if last < self._reached:
            self._start_over(last)
        for at in range(PRIORITIES):
            words.frontier[at] = last
        if words.low[0] == last:
            return  # nothing can have come
        self._question = True
        if marks_due(words, self._now):
            self._marks = True
            self._calm.begin(self._now)

    def _start_over(self, last: int) -> None:
        """Have the queues look that have seen higher numbers than this database has given out: they start at zero."""
        self._peeks.distrust()
        self._words.looked_at, self._words.checked_at = self._now, self._now
        for cursor in self._peeks.cursors:
            if max(cursor.words.frontier) > last:
                cursor.words.checked_at = CALLED
                cursor.look_again()

    def _unswept(self) -> list[Cursor]:
        return [one for one in self._peeks.drained() if self._now - one.words.swept_at >= SWEEP_INTERVAL * 1e9][:SWEPT]

    def _ask(self, cursors: list[Cursor]) -> Read:
        """Ask which of these queues have something available."""
        self._asked, self._began = cursors, time.monotonic_ns()
        if self._sweeps:
            lows = [[0] * len(cursors)] * PRIORITIES
        else:
            lows = [list(of_priority) for of_priority in zip(*(cursor.words.low.tolist() for cursor in cursors), strict=True)]
            lows = lows or [[] for _ in range(PRIORITIES)]
        return Read("job_peek", ([cursor.name for cursor in cursors], *lows))

    def _learn_found(self, found: dict[int, bool]) -> None:
        """Call for a look at each queue that has something; move the marks of the others where the proof's last step is done."""
        words, now = self._words, self._now
        upto = words.mark[0] if self._proves else 0
        whole = self._proves and not found and len(self._asked) == len(self._peeks.cursors)
        for place, cursor in enumerate(self._asked, 1):
            paused = found.get(place)
            if paused is False:
                cursor.look_again()
            elif self._sweeps or not cursor.words.swept_at:  # the first question of all is one from zero
                cursor.words.swept_at = now
            elif paused is None and self._proves:
                whole = _settle(cursor, upto) and whole
        if self._proves:
            self._calm.move([None if whole else words.low[0] + 1] * PRIORITIES)


def _settle(cursor: Cursor, upto: int) -> bool:
    """Move a queue's low-water marks up to a number, or its frontier: nothing is available between, and nothing can appear.

    False if another process has the queue's turn; then it is left to the next proof.
    """
    words = cursor.words
    if words.backlog or not behind(words):
        return True
    if not cursor.try_turn():
        return False
    try:
        for at, front in enumerate(words.frontier.tolist()):
            words.low[at] = max(words.low[at], min(front, upto))
    finally:
        cursor.end_turn()
    return True
