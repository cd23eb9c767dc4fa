"""Know the kinds that are paused: for this process they are kinds without a worker, until somebody resumes them.

The main thread of a worker process makes a `Paused`; from then on the producer's thread alone uses it and writes it: it asks
before the first claim of each connection, after the hint '@pause', and now and then. The producer hands the answer on to
receiver.py, waiting.py and resting.py. So a claim decides nothing. A job of a paused kind that it brings is put to `waiting`,
uncharged, like one of a kind that nobody knows; jobs ahead of the cursor are put there without a claim (resting.py), and no look
takes them from there (waiting.py) before the kind is resumed.

Invariant: after the answer that tells of a pause this process starts no job of that kind that it claims then. A job that it had
claimed before runs. It deliberately keeps nothing of the jobs: their rows say that they wait for a worker of their kind.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastq.events import emit

if TYPE_CHECKING:
    from fastq.board.cursor_words import CursorWords
    from fastq.config import Config
    from fastq.postgres.db import Connection

INTERVAL = 10.0
"""Seconds between questions that no hint calls for: with a lost hint a pause holds so much later. The figure of waiting.py, for
the same reason; without LISTEN it is that of the poll."""


class Paused:
    """The paused kinds, as one process knows them; `words` are those of its first queue, for the hints concern all queues."""

    def __init__(self, words: CursorWords, config: Config) -> None:
        self.kinds: frozenset[str] = frozenset()  # as of the last answer
        self.look_at = 0.0  # monotonic
        self.words = words
        self.heard = -1  # hints when the last question was sent: where there are others by now, it is to be asked again
        self._interval = config.poll_interval if config.poll_only else INTERVAL

    def soon(self) -> None:
        """Ask before the next claim: hints may have been missed."""
        self.heard = -1

    def look(self, connection: Connection) -> bool:
        """Ask which kinds are paused; tell whether they are others than before."""
        heard = self.words.pause_hints
        (kinds,) = connection.run_one("pause_kinds")
        self.heard, self.look_at = heard, time.monotonic() + self._interval
        before, self.kinds = self.kinds, frozenset(kinds)
        for name, changed in (("kind.paused", self.kinds - before), ("kind.resumed", before - self.kinds)):
            if changed:
                emit(name, kinds=sorted(changed))
        return self.kinds != before
