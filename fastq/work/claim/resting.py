"""Put available jobs to waiting if no process is to work their kind, before they are claimed: one write each instead of two.

Run by the producer's thread of a worker process, in the queue's turn or after it has waited for the turn in vain: before the
first claim that can bring a job to this host, and later when a claim has brought jobs of kinds without a worker here and there
is backlog behind them, for there may be thousands. The jobs of such a claim are put to waiting by the completer. A job that is
put to waiting leaves the index that claims go by, so it does not hold the low-water mark, as a job that claims pass over would.
The main thread makes a `Resting` before the threads start; its attributes are then the producer's thread's alone.

Jobs of kinds that another living process of the queue knows are left where they are: it is as likely to claim them itself. So a
look that puts nothing to waiting is followed by a rest, and where services share a queue this costs nothing that counts.

It deliberately decides nothing about the jobs that a claim takes. A job that begins to wait while a process starts that knows it
is found by that process: it looks after it has begun to listen, and this sends a hint (waiting.py).
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from fastq.args.versions.names import unpaused
from fastq.events import Seldom, emit
from fastq.postgres import db, hints, sqlstate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastq.board.cursor_words import CursorWords
    from fastq.postgres.db import Connection

LOOK, SMALLEST_LOOK = 5_000, 100
"""Jobs that one look reads, and may write: some 50 ms, in the turn, when all are written; 5 ms when none is. The several queues
of a process share the first number, down to the second: the first looks into a hundred queues would read a whole backlog."""

REST = 10.0
"""Seconds without a look after one that put nothing to waiting, or was refused: a guess; the completer does the same, later."""


class Resting:
    """The looks of one process into one queue; the words are the host's."""

    def __init__(self, words: CursorWords, queue: str, kinds: Iterable[str], queues: int = 1) -> None:
        self.met = False  # a claim has brought jobs of unknown kinds since the last look; the receiver sets it
        self._anew = False  # a kind was paused since the last look
        self._words = words
        self._queue = queue
        self._known = frozenset(kinds)
        self._kinds = sorted(self._known)  # without the paused ones
        self._most = max(SMALLEST_LOOK, LOOK // queues)
        self._rests_until = 0.0  # monotonic
        self._seldom = Seldom()

    def pause(self, paused: frozenset[str]) -> None:
        """Put jobs of these kinds to waiting from now on, too, before the next claim."""
        self._kinds = unpaused(self._known, paused)
        self._anew, self._rests_until = True, 0.0

    @property
    def first(self) -> bool:
        """Tell whether no process of this host, which all know the same kinds, has seen a job here yet; read by the producer."""
        return self._anew or not self._words.rested

    def look(self, connection: Connection) -> list[tuple[str, int]]:
        """Put jobs ahead of the cursor to waiting if nobody knows their kind; return these kinds, and a job of each."""
        words, now = self._words, time.monotonic()
        called = self.first or (self.met and words.backlog)
        if not called or now < self._rests_until:
            return []
        self.met = False
        try:
            what = (self._queue, self._kinds, *words.frontier, self._most)
            looked, _, kinds, ids, _ = hints.sending(connection, lambda channel: connection.run_one("job_rest", *what, channel))
        except db.Error as error:  # a trigger of the user's, say: the claims go on without this
            if not sqlstate.row_refused(error):
                raise
            looked, kinds, ids = self._most, [], []
            if self._seldom.lets(text := db.first_line(error)):
                emit("rest.refused", level=logging.WARNING, queue=self._queue, again=REST, error=text)
        if looked:
            self._anew, self._words.rested = False, 1
            self._rests_until = 0.0 if kinds else now + REST
        return list(zip(kinds, ids, strict=True))
