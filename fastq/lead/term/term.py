"""One term of one lease: its chores, each group of them (a track) in a thread and on a connection of its own.

Runs in the supervisor that leads: the elector's thread makes a term and ends it, a thread of its own starts the tracks, and
each track is a thread. A term is made when a lease was acquired and is thrown away when it ends. It shares nothing with the terms
before and after it: a thread of an old term that still runs, or wakes up late, can neither stop nor start anything of a new one,
and the fence makes its statements do nothing.

Starting is one thing: all tracks connect, all chores start and all threads do, or everything is torn down and begun anew, three
times with pauses between them; when the third has failed the lease is given up at once, so that another supervisor may try.

Invariants:
- No chore is run when the lease's trust is over; the statements of one that runs already are fenced.
- A term that finds out by itself that it is over gives the lease up: nobody holds a lease without doing its work.
- `end` returns at once and says why; each chore hears the reason in its own thread.
- A chore that fails is tried again after a pause and does not hold up the others of its track for longer than one statement.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from fastq.errors import DatabaseUnavailable, LeaseLost
from fastq.events import emit
from fastq.lead.term.chore import Site
from fastq.postgres import db

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fastq.config import Config
    from fastq.lead.term.chore import Chore
    from fastq.leases.elector import Trust
    from fastq.leases.lease import Fence
    from fastq.postgres.db import Connection

BACKOFF = (1.0, 2.0)
"""Seconds between two attempts to start: River's figures. After the last one there is no pause: nobody would do the work."""

FAILED_PAUSE = 5.0
"""Seconds until a chore that failed is tried again: a guess; the failure is in the log and in `fastq leader`."""

LOST_PAUSE = 0.5
"""Seconds until a chore whose session was lost is tried again on a new one: a server or pooler that restarts is back soon, and if
it is not, the term is over."""

NOTE_CHANGED = 5.0
"""Seconds at most until a run that changed rows is noted: an operator may look just then. A failed run is noted at once."""

NOTE_IDLE = 60.0
"""The same for runs that found nothing to do, so that an idle leader does not write all the time."""

HINTED = -1.0
"""When a chore is due that a hint calls for: before all times."""


class Ending:
    """Whether and why a term has ended: set once, by anybody, read by all its threads."""

    def __init__(self, trust: Trust, give_up: Callable[[], None]) -> None:
        self._trust = trust
        self._give_up = give_up
        self._set = threading.Event()
        self._lock = threading.Lock()
        self.reason = ""  # written under the lock

    def set(self, reason: str) -> None:
        """End it, for the first reason given."""
        with self._lock:
            self.reason = self.reason or reason
        self._set.set()

    def lost(self) -> None:
        """End the term since a thread of it found that it is over; release the lease if the elector has not noticed yet."""
        self.set("lost")
        self._give_up()

    def left(self) -> float:
        """Return the seconds until the trust is over, as far as it goes by now."""
        return self._trust.left()

    def wait(self, seconds: float) -> bool:
        """Sleep; True when the term has ended, or its trust is over."""
        until = time.monotonic() + seconds
        while not self._set.is_set():
            if not self._trust.holds():
                self.lost()
                break
            left = until - time.monotonic()
            if left <= 0:
                break
            self._set.wait(min(left, self._trust.left()))  # it may have been prolonged by then
        return self._set.is_set()


class Ran(NamedTuple):
    """The last run of a chore, and how many there were. The track's own, and replaced by each run."""

    name: str
    ago_from: float  # monotonic time of its start
    took: float
    runs: int
    changed: int
    fenced: int  # since the last note
    error: str | None


class Track:
    """A thread, a connection and some chores. Made and started by a term; `wake` may be called by any thread.

    Its own thread alone writes the attributes that name no other writer.
    """

    def __init__(self, name: str, chores: Sequence[Chore], site: Site, ending: Ending) -> None:
        self.site = site
        self.chores = chores
        self._ending = ending
        self._due = dict.fromkeys(chores, 0.0)  # monotonic times
        self._woken: set[str] = set()  # names; added to by others, taken by the thread
        self._wakeup = threading.Event()
        self._ran: dict[str, Ran] = {}
        self._noted_at = -math.inf  # monotonic
        self._note_at = math.inf  # monotonic: when to note the runs; infinite: that has been done
        self._gate = threading.Event()  # opened by the starting thread once it is decided: all tracks go on, or none
        self._abandoned = False  # written by the starting thread, before it opens the gate
        self.thread = threading.Thread(target=self._run, name=f"fastq {name}", daemon=True)

    def begin(self) -> None:
        """Let the thread, which has been started, go to work."""
        self._gate.set()

    def abandon(self) -> None:
        """End without having worked."""
        self._abandoned = True
        self._gate.set()
        if self.thread.ident is not None:
            self.thread.join()
        self.site.connection.close()

    def wake(self, name: str | None = None) -> None:
        """Run a chore now; without a name only look whether the term has ended."""
        if name is not None:
            self._woken.add(name)
        self._wakeup.set()

    def _run(self) -> None:
        self._gate.wait()
        while not self._abandoned:
            self._wakeup.clear()  # before looking: an end of the term after that wakes us again
            if self._ending.wait(0.0):
                self._end()
                break
            while self._woken:
                name = self._woken.pop()
                self._due.update({chore: HINTED for chore in self.chores if chore.name == name})
            for chore, due in list(self._due.items()):
                if time.monotonic() >= due and not self._ending.wait(0.0):
                    self.site.woken = due == HINTED
                    self._due[chore] = time.monotonic() + self._once(chore)
            self._note()
            self._sleep()

    def _sleep(self) -> None:
        """Until a chore or a note is due, somebody wakes us, or the trust is over."""
        left = min(self._note_at, *self._due.values()) - time.monotonic()
        if left > 0 and not self._woken and not self._ending.wait(0.0):
            self._wakeup.wait(min(left, self._ending.left()))

    def _once(self, chore: Chore) -> float:
        """Run a chore once; return in how many seconds it wants to run again."""
        began, pause, fenced, error = time.monotonic(), FAILED_PAUSE, 0, None
        self.site.changed, queues = 0, self.site.queues
        try:
            pause = chore.run(self.site)
        except LeaseLost as lost:
            fenced, error = 1, str(lost)
            emit("chore.fenced", level=logging.WARNING, chore=chore.name, lease=self.site.fence.name, term=self.site.fence.term)
            self._ending.lost()
        except (db.Error, DatabaseUnavailable) as failure:
            error = db.first_line(failure)
            pause = self._failed(chore, error)
        except Exception as failure:  # noqa: BLE001 - a mistake in one chore must not end the others
            error = f"{type(failure).__name__}: {failure}"
            emit("chore.broken", level=logging.ERROR, chore=chore.name, error=error)
        if self.site.queues != queues:  # the others of this track were about the old ones
            self._due.update({other: 0.0 for other in self.chores if other is not chore})
        last = self._ran.get(chore.name) or Ran(chore.name, 0.0, 0.0, 0, 0, 0, None)
        took, changed = time.monotonic() - began, last.changed + self.site.changed
        ran = self._ran[chore.name] = Ran(chore.name, began, took, last.runs + 1, changed, last.fenced + fenced, error)
        news = not last.runs or changed != last.changed or last.error
        self._note_at = 0.0 if ran.error else min(self._note_at, self._noted_at + (NOTE_CHANGED if news else NOTE_IDLE))
        return pause

    def _failed(self, chore: Chore, error: str) -> float:
        """Report the failure and replace a broken session; return in how many seconds to try again."""
        if self._ending.wait(0.0):
            return FAILED_PAUSE  # it was cut off because the term has ended
        emit("chore.failed", level=logging.WARNING, chore=chore.name, lease=self.site.fence.name, error=error)
        lost = not self.site.connection.usable
        self._reconnect()
        return LOST_PAUSE if lost else FAILED_PAUSE

    def _reconnect(self) -> None:
        if not self.site.connection.usable:
            self.site.connection.close()
            try:
                self.site.connection = connect(self.site.config, self.site.url, "maintainer")
            except DatabaseUnavailable as error:
                emit("maintainer.waits", level=logging.WARNING, error=db.first_line(error))

    def _note(self) -> None:
        """Write down the runs, if it is time to."""
        now = time.monotonic()
        if now >= self._note_at:
            self._noted_at, self._note_at = now, math.inf
            self._write_note(now)

    def _write_note(self, now: float) -> None:
        columns = zip(
            *((r.name, now - r.ago_from, r.took, r.runs, r.changed, r.fenced, r.error) for r in self._ran.values()), strict=True
        )
        try:
            self.site.connection.run("chore_note", self.site.fence.name, self.site.fence.term, *(list(c) for c in columns))
        except db.Error as error:
            emit("chore.not_noted", level=logging.WARNING, error=db.first_line(error))
            self._note_at = now + NOTE_CHANGED
            self._reconnect()
            return
        self._ran = {name: ran._replace(fenced=0) for name, ran in self._ran.items()}

    def _end(self) -> None:
        """Let each chore clean up, note the runs, and leave."""
        for chore in self.chores:
            try:
                chore.end(self.site, self._ending.reason)
            except Exception as error:  # noqa: BLE001 - a mistake in one chore must not keep the others from cleaning up
                emit("chore.failed", level=logging.WARNING, chore=chore.name, lease=self.site.fence.name, error=_said(error))
        if self._ran and self.site.connection.usable:
            self._write_note(time.monotonic())
        self.site.connection.close()


class Term:
    """The work of one term. The elector's thread calls `start` and `end`, the listener's `wake`, the main one `watched`."""

    def __init__(
        self,
        config: Config,
        url: str,
        fence: Fence,
        trust: Trust,
        make_chores: Callable[[], Sequence[Sequence[Chore]]],
        give_up: Callable[[Fence, str], None],
    ) -> None:
        self._config = config
        self._url = url
        self._make_chores = make_chores
        self._give_up = give_up
        self._tracks: tuple[Track, ...] = ()  # replaced as a whole by the starting thread
        self._starting: list[Track] = []  # the same tracks while they start; added to by that thread, for the watchdog
        self._ending = Ending(trust, lambda: give_up(fence, "a statement of it came too late"))
        self.fence = fence
        self._thread = threading.Thread(target=self._start, name=f"fastq {fence.name}", daemon=True)

    def start(self) -> None:
        """Begin, in a thread: starting may take long, and the elector must not wait for it."""
        self._thread.start()

    def end(self, reason: str) -> None:
        """End soon: chores stop after the statement that they run."""
        self._ending.set(reason)
        self.wake(None)

    def wake(self, name: str | None) -> None:
        """Run a chore now."""
        for track in self._tracks:
            if name is None or any(chore.name == name for chore in track.chores):
                track.wake(name)

    def watched(self) -> Iterable[Connection]:
        """Give the connections, for the watchdog."""
        return [track.site.connection for track in self._tracks or list(self._starting)]

    @property
    def ended(self) -> bool:
        """Tell whether all its threads have ended."""
        return not self._thread.is_alive() and not any(track.thread.is_alive() for track in self._tracks)

    def _start(self) -> None:
        """Start everything, or nothing; after the last attempt give the lease up."""
        for attempt, pause in enumerate((0.0, *BACKOFF), start=1):
            if self._ending.wait(pause):
                return
            tracks = self._starting = []
            try:
                self._prepare(tracks)
                for track in tracks:
                    track.thread.start()
            except Exception as error:  # noqa: BLE001 - any error is reported and tried again
                for track in tracks:
                    track.abandon()
                emit("term.not_started", level=logging.WARNING, lease=self.fence.name, attempt=attempt, error=_said(error))
                continue
            self._tracks = tuple(tracks)
            for track in tracks:
                track.begin()
            emit("term.started", level=logging.DEBUG, lease=self.fence.name, term=self.fence.term, attempt=attempt)
            return
        self._ending.set("resign")
        self._give_up(self.fence, "its chores could not start")

    def _prepare(self, tracks: list[Track]) -> None:
        """Connect all tracks and start all chores."""
        for number, chores in enumerate(self._make_chores(), start=1):
            connection = connect(self._config, self._url, "maintainer")
            site = Site(connection, self.fence, self._config, self._url, self._ending.wait)
            tracks.append(Track(f"{self.fence.name} {number}", chores, site, self._ending))
            for chore in chores:
                if self._ending.wait(0.0):
                    raise LeaseLost(f"term {self.fence.term} of '{self.fence.name}' ended while it was starting")
                chore.start(site)


def connect(config: Config, url: str, role: str) -> Connection:
    """Open a session for chores: no statement of it may outlast half of the lease on the server.

    Our own limit is half as long again, so that the server's comes first, and leaves the session usable.
    """
    seconds = min(config.statement_timeout, config.lease_ttl / 2)
    return db.session(config, url, role, timeout=seconds * 1.5, settings={"statement_timeout": str(int(seconds * 1000))})


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {db.first_line(error)}"
