"""Put available jobs to waiting whose kind no living process knows, before they are claimed: one write for each instead of two.

Run by the producer's thread, in the queue's turn, when a claim has brought jobs of kinds that have no worker here and there is
backlog behind them: there may be thousands. What such a claim itself has brought is put to waiting by the completer. A job that
is put to waiting leaves the index that claims go by, so it does not hold the low-water mark, as one that is passed over would.

Jobs of kinds that another living process of the queue knows are left where they are: it is as likely to claim them itself. So a
look that puts nothing to waiting is followed by a rest, and where services share a queue this costs nothing that counts.

It deliberately decides nothing about what a claim takes. A job that begins to wait while a process starts that knows it is found
by that process: it looks after it has begun to listen, and this sends a hint (waiting.py).
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from fastq import board, db, hints, sqlstate
from fastq.events import Seldom, emit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastq.db import Connection

LOOK = 5_000
"""Jobs that one look reads, and may write: some 50 ms, in the turn, when all of them are written; 5 ms when none is."""

REST = 10.0
"""Seconds without a look after one that put nothing to waiting, or was refused: a guess; what it would do the completer does."""


class Resting:
    """The looks of one process into one queue; the words are the host's."""

    def __init__(self, words: memoryview, queue: str, kinds: Iterable[str]) -> None:
        self.met = False  # a claim has brought jobs of unknown kinds since the last look; the producer's to set
        self._words = words
        self._queue = queue
        self._kinds = sorted(kinds)
        self._rests_until = 0.0  # monotonic
        self._seldom = Seldom()

    def look(self, connection: Connection) -> None:
        """Put to waiting what is ahead of the cursor and nobody knows, if there may be something."""
        words, now = self._words, time.monotonic()
        if not self.met or not words[board.BACKLOG] or now < self._rests_until:
            return
        self.met = False
        frontier = [words[at] for at in board.FRONTIER]
        try:
            what = (self._queue, self._kinds, *frontier, LOOK)
            _, rested, _ = hints.sending(connection, lambda channel: connection.run_one("job_rest", *what, channel))
        except db.Error as error:  # a trigger of the user's, say: the claims go on without this
            if not sqlstate.row_refused(error):
                raise
            rested = 0
            if self._seldom.lets(text := db.first_line(error)):
                emit("rest.refused", level=logging.WARNING, queue=self._queue, again=REST, error=text)
        self._rests_until = 0.0 if rested else now + REST
