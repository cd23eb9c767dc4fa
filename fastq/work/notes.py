"""Write how far jobs are: the newest note of each job that has told something, once a second at most.

`take` is called in the threads and on the event loop that execute jobs, by `job.progress(...)` (results/progress.py): it puts the
note into a dict and never waits. The first note of the process starts the service's thread, which has a session of its own and
writes the notes that have come since, all in one statement. A process whose jobs tell nothing has neither.

Invariants:
- A job's note is written within a second after it came, also when the job has ended by then: so the last one is written.
- A note that could not be written stays, unless a newer one of that job has come.

It deliberately says nothing to the completer: a completion waits for no note, and is not delayed by one.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from fastq.backoff import Backoff
from fastq.errors import FastqError
from fastq.postgres import db
from fastq.postgres.kept import FIRST_PAUSE, LONGEST_PAUSE, Rebuilt
from fastq.results import progress
from fastq.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fastq.postgres.db import Connection
    from fastq.results.progress import Note

INTERVAL = 1.0
"""Seconds between two writes: as often as a person looks. It bounds what a job that tells of each row costs."""


class Notes(Service):
    """The notes of one worker process that are not written yet, and the thread that writes them."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._session = Rebuilt("progress", connect, Backoff(FIRST_PAUSE, LONGEST_PAUSE))
        self._coming: dict[int, Note] = {}  # by job; under the lock
        self._lock = threading.Lock()  # held for a moment, by nobody who waits
        self._started = False  # the same
        self._thread: threading.Thread | None = None  # the same
        self._came = threading.Event()
        self._ending = threading.Event()
        self._by = 0.0  # monotonic time after which nothing is tried again, once it ends; written by the main thread

    def start(self) -> None:
        """Take the notes of this process; the thread starts with the first one."""
        progress.use(self.take)
        with self._lock:
            self._started = True
            self._begin()

    def take(self, job_id: int, note: Note) -> None:
        """Keep the newest note of a job until it is written."""
        with self._lock:
            self._coming[job_id] = note
            self._begin()
        self._came.set()

    def _begin(self) -> None:
        """Start the thread if there is something to write; under the lock."""
        if self._thread is None and self._started and self._coming and not self._ending.is_set():
            self._thread = threading.Thread(target=self._run, name="fastq progress", daemon=True)
            self._thread.start()

    @property
    def ended(self) -> bool:
        """Tell whether the thread does not run."""
        return self._thread is None or not self._thread.is_alive()

    def finish(self, by: float) -> float:
        """Write what has come, and end."""
        self._by = by
        with self._lock:
            self._ending.set()
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
            while True:
                self._came.wait()
                self._came.clear()
                pause = self._write()
                if not self._ending.is_set():
                    self._ending.wait(pause or INTERVAL)
                elif not self._coming or time.monotonic() + pause > self._by:
                    return
                else:
                    time.sleep(pause)
                if pause:
                    self._came.set()
        finally:
            self._session.drop()

    def _write(self) -> float:
        """Write the notes that have come; return how long to wait after a failure, 0 after a success."""
        with self._lock:
            notes, self._coming = self._coming, {}
        if not notes:
            return 0.0
        ids = sorted(notes)
        attempts, fractions, texts = zip(*(notes[job_id] for job_id in ids), strict=True)
        try:
            self._session.open().run("progress_note", ids, list(attempts), list(fractions), list(texts))
        except (db.Error, FastqError) as error:
            with self._lock:
                self._coming = notes | self._coming
            return self._session.failed(db.first_line(error))
        self._session.pauses.reset()
        return 0.0
