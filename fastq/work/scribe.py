"""Write the transcripts of jobs of kinds with logs: every two seconds while they run, and soon after an attempt has ended.

`take` is called in the threads and on the event loop that execute jobs, at the first log line of an attempt since the last time:
it notes the transcript and never waits. The first one starts the service's thread, which has a session of its own and writes the
log lines of all attempts since then, in one statement. A process without a log line has neither. In an application without such a
kind nothing that is printed is even looked at.

Invariants:
- No job waits for its log to be written. While the database is away, or slower than the jobs, transcripts wait up to MOST; those
  that come then are dropped, and an event says how many log lines that were.
- No log line is written twice: a statement whose answer was lost changes nothing the second time.

It deliberately says nothing to the completer: a job may have ended a moment before the last sheet of its log is there.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from fastq.backoff import Backoff
from fastq.errors import FastqError
from fastq.events import SAID_AGAIN, emit
from fastq.joblogs import keeping, streams
from fastq.joblogs.transcript import Transcript
from fastq.postgres import db, sqlstate
from fastq.postgres.kept import FIRST_PAUSE, LONGEST_PAUSE, Rebuilt
from fastq.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fastq.joblogs.transcript import Sheet
    from fastq.postgres.db import Connection

INTERVAL = 2.0
"""Seconds between two writes while jobs run: a log line is seen live so late at most."""

SOON = 0.1
"""Seconds from the end of an attempt until the last of its log is written: so the ends of many attempts share a statement."""

MOST = 16 * 2**20
"""Bytes of memory, about, that the transcripts of ended attempts may take until they are written. A guess: seconds of them."""

SHEETS = 256
"""Sheets that one statement writes at most: 2 MB, some 20 ms."""

OFF = "off"


class Scribe(Service):
    """The transcripts of one worker process that are to be written, and the thread that writes them."""

    def __init__(self, level: str, connect: Callable[[], Connection]) -> None:
        self._level = level
        self._session = Rebuilt("logs", connect, Backoff(FIRST_PAUSE, LONGEST_PAUSE))
        self._coming: dict[Transcript, None] = {}  # in their order; under the lock
        self._weight = 0  # of those that have ended; the same
        self._dropped = 0  # log lines; the same
        self._lock = threading.RLock()  # held for a moment; the same thread may come back, by a finalizer of the user's
        self._started = False  # under the lock
        self._thread: threading.Thread | None = None  # the same
        self._came, self._soon, self._ending = threading.Event(), threading.Event(), threading.Event()
        self._by = 0.0  # monotonic time after which nothing is tried again, once it ends; written by the main thread
        self._sheets: deque[Sheet] = deque()  # taken, and not written; these three are the thread's
        self._singly = 0  # so many of them are written one by one: the database has refused one of them
        self._told_at = -SAID_AGAIN  # monotonic time of the last event about dropped lines

    def start(self) -> None:
        """Hear the jobs, if the application has a kind with logs; the thread starts with the first log line."""
        if self._level == OFF or not keeping.is_wanted() or self._ending.is_set():
            return
        keeping.use(lambda job: Transcript(job, self.take))
        streams.listen(self._level)
        with self._lock:
            self._started = True
            self._begin()

    def take(self, transcript: Transcript) -> None:
        """Note that an attempt has new log lines, or has ended; forget them if too many wait already."""
        with self._lock:
            if transcript.ended:
                weight = transcript.weight
                if self._weight + weight > MOST:
                    self._dropped += transcript.drop()
                    self._coming.pop(transcript, None)
                    return
                self._weight += weight
            self._coming[transcript] = None
            self._begin()
        self._came.set()
        if transcript.ended:
            self._soon.set()

    def _begin(self) -> None:
        """Start the thread if there is something to write; under the lock."""
        if self._thread is None and self._started and self._coming and not self._ending.is_set():
            self._thread = threading.Thread(target=self._run, name="fastq logs", daemon=True)
            self._thread.start()

    @property
    def ended(self) -> bool:
        """Tell whether the thread does not run."""
        return self._thread is None or not self._thread.is_alive()

    def finish(self, by: float) -> float:
        """Hear nothing any longer, write all that is left, and end."""
        self._by = by
        with self._lock:
            self._ending.set()
            if self._started:
                streams.leave()
                keeping.use(None)
        self._soon.set()
        self._came.set()
        return 0.0 if self.ended else max(0.0, by - time.monotonic())

    def join(self, seconds: float) -> None:
        """Wait for the thread's end, so long at most."""
        if self._thread is not None:
            self._thread.join(seconds)

    def watched(self) -> Iterable[Connection]:
        """Give the session to the watchdog."""
        return self._session.watched()

    def _run(self) -> None:
        try:
            pause = 0.0
            while True:
                if not (pause or self._ending.is_set()):
                    self._came.wait()
                    self._soon.wait(INTERVAL)
                self._ending.wait(pause or SOON)
                ending = self._ending.is_set()  # before all is taken: behind it nothing comes
                pause = self._write()
                if not pause:
                    self._gather()
                    pause = self._write()
                if not ending:
                    continue
                if not pause or time.monotonic() + pause > self._by:
                    return
                time.sleep(pause)
        finally:
            self._session.drop()

    def _write(self) -> float:
        """Write the sheets that were taken; return how long to wait after a failure, 0 after a success."""
        while self._sheets:
            count = 1 if self._singly else min(SHEETS, len(self._sheets))
            sheets = [self._sheets[place] for place in range(count)]
            try:
                self._session.open().run("log_write", *map(list, zip(*sheets, strict=True)))
            except (db.Error, FastqError) as error:
                if not sqlstate.row_refused(error):
                    return self._session.failed(db.first_line(error))
                self._session.drop()
                if count > 1:
                    self._singly = count
                    continue
                emit("logs.dropped", level=logging.WARNING, lines=sheets[0].lines, error=db.first_line(error))
            self._singly = max(self._singly - count, 0)
            for _ in sheets:
                self._sheets.popleft()
        self._session.pauses.reset()
        return 0.0

    def _gather(self) -> None:
        """Take the log lines out of the transcripts."""
        self._came.clear()
        self._soon.clear()
        with self._lock:
            coming, self._coming, self._weight = self._coming, {}, 0
            dropped = self._dropped
        for transcript in coming:
            self._sheets.extend(transcript.take())
        now = time.monotonic()
        if dropped and (now - self._told_at > SAID_AGAIN or self._ending.is_set()):
            self._told_at = now
            with self._lock:
                self._dropped -= dropped
            emit("logs.dropped", level=logging.WARNING, lines=dropped, error="they came faster than they could be written")
