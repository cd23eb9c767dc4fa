"""Look at the database again and again, and do the deeds that were confirmed, in a thread of its own.

The thread owns the one session; the main thread names the figures that it wants, hands deeds in, reads `told`, and cuts a
statement that got no answer. `told` and `wanted` are replaced as wholes, each by one writer. After each look a byte goes through
a pipe, so that the main thread can wait for keys and for news at once.

Invariants: keys never wait for the database. Between two looks lies TIMES as long as the look took, so that a slow database is
asked less often. A deed is done once or not at all: after an error nobody repeats it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from fastq.backoff import Backoff
from fastq.cli.top.figures import Figures, Looker, Wanted
from fastq.errors import FastqError
from fastq.postgres import db, sqlstate
from fastq.postgres.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.cli.top.deeds import Deed
    from fastq.postgres.db import Connection

EVERY = 2.0
"""Seconds between two looks, as on the dashboard: four statements of some milliseconds, and few cells that differ."""

TIMES = 10
"""Times as long as a look took until the next one: the views cost a database a tenth of one session at most."""

SLOWEST = 3.0
"""Seconds that a statement may take at most, as on the dashboard: the look is given up then, and the next one comes later."""

RAREST = 60.0
"""Seconds between two looks at most: the figures of a minute ago are still of use. A guess."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds between attempts to reach the database again: somebody sits in front of it and waits."""


class Told(NamedTuple):
    """The news of the watcher; times are monotonic."""

    figures: Figures | None = None
    at: float = 0.0
    every: float = EVERY
    trouble: str | None = None
    since: float = 0.0  # when the trouble began
    slow: bool = False


class Watcher:
    """The thread that looks."""

    def __init__(self, connect: Callable[[], Connection], wanted: Wanted) -> None:
        self.told = Told()  # written by the thread
        self.wanted = wanted  # written by the main thread
        self.session = Kept(connect)
        self.said: deque[str] = deque()  # filled by the thread: answers to deeds, and that the database is back
        self.failure: BaseException | None = None  # of the thread, which has ended: a bug
        self.bell, self._ring = os.pipe()
        self._deeds: deque[Deed] = deque()  # filled by the main thread
        self._looker = Looker()
        self._pauses = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._wake = threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="fastq top", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def ask(self, wanted: Wanted) -> None:
        """Have other figures read, at once if they differ."""
        if wanted != self.wanted:
            self.wanted = wanted
            self._wake.set()

    def do(self, deed: Deed) -> None:
        """Have a deed done."""
        self._deeds.append(deed)
        self._wake.set()

    def stop(self) -> None:
        """End the thread: a statement under way is cut, and nobody waits long for a connection that is being made."""
        self._ending = True
        self._wake.set()
        for connection in self.session.watched():
            connection.cut()
        self._thread.join(0.5)

    def _run(self) -> None:
        try:
            while not self._ending:
                pause = self._turn()
                os.write(self._ring, b".")
                self._wake.wait(pause)
                self._wake.clear()
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            self.failure = error
            os.write(self._ring, b".")
        finally:
            self.session.drop()

    def _turn(self) -> float:
        """Do the deeds that wait, look once, and return the seconds until the next look."""
        began = time.monotonic()
        try:
            self._do_deeds()
            figures = self._looker.look(self.session.open(), self.wanted)
        except (db.Error, FastqError, OSError) as error:
            return self._failed(error)
        now = time.monotonic()
        if self.told.trouble is not None and not self.told.slow:
            self.said.append(f"the database answers again, after {now - self.told.since:.0f} s")
        self._pauses.reset()
        every = min(max(EVERY, TIMES * (now - began)), RAREST)
        self.told = Told(figures, now, every, slow=every > EVERY)
        return every

    def _do_deeds(self) -> None:
        while self._deeds:
            try:
                connection = self.session.open()
            except (FastqError, OSError) as error:
                self._deeds.popleft()
                self.said.append(f"nothing was done: {_text(error)}")
                raise
            deed = self._deeds.popleft()
            try:
                self.said.append(deed.do(connection))
            except db.Lost as error:
                self.said.append(f"nobody knows whether it was done: {_text(error)}")
                raise
            except (db.Error, FastqError) as error:
                self.said.append(f"it failed: {_text(error)}")
                if not connection.usable:
                    raise
            self._looker.forget()

    def _failed(self, error: Exception) -> float:
        now, told = time.monotonic(), self.told
        if isinstance(error, db.Error) and sqlstate.too_slow(error) and self.session.watched():
            every = min(2 * max(told.every, EVERY), RAREST)
            self.told = told._replace(every=every, slow=True, trouble=f"a look took longer than {SLOWEST:g} s", since=now)
            return every
        self.session.drop()
        self._looker.forget()
        since = now if told.trouble is None or told.slow else told.since
        self.told = told._replace(trouble=_text(error), since=since, slow=False)
        return self._pauses.next()


def _text(error: Exception) -> str:
    return db.first_line(error) or type(error).__name__
