"""Forward the events of this process to the programs that subscribe to them, through the database.

A part of each worker process, and of each supervisor. Its thread looks at the table `subscription` when the process starts, and
after that when it is hinted at a change (`hint`, called by the main thread of a worker process and by the listener's of a
supervisor); without LISTEN it looks every POLL seconds. Where nobody subscribes, that is all: no session stays open, and nothing
hears the events of the process. While somebody does, `_hear` and `_hear_each` are called by each thread that emits an event with
one of the names that are wanted. They put it into the trays of the subscriptions that want it (subscribing/tray.py), and this
thread writes what has come, ten times a second at most, in one statement.

Invariants:
- No thread that emits waits, for the database or for a program that reads. What finds no room in a tray is counted.
- A subscription that is not renewed is forgotten at its end, also when the database is away.
- A sheet is written once, also if the answer to its statement was lost.

It deliberately removes no subscription: rows are the business of the programs that subscribe and of the leader
(lead/observed/subscriptions.py). It takes away its own old sheets alone, so that a program that does not read fills no table.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from fastq import events
from fastq.backoff import Backoff
from fastq.errors import FastqError
from fastq.hooks.timing import STARTED
from fastq.postgres import db, sqlstate
from fastq.postgres.kept import FIRST_PAUSE, LONGEST_PAUSE, Rebuilt
from fastq.service import Threaded
from fastq.subscribing import filters
from fastq.subscribing.tray import Sheet, Tray, encoded, encoded_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fastq.config import Config
    from fastq.events import Event, FieldsOf, Subscription
    from fastq.jobs.job import Job
    from fastq.postgres.db import Connection

    Start = tuple[Job[Any], float, FieldsOf]
    """A job that has started, the time at which, and the function that makes the fields of its event."""

INTERVAL = 0.1
"""Seconds between two writes at least: an event is heard so late."""

LOOK = 5.0
"""Seconds between two looks at the subscriptions while there are some: they are renewed as often."""

POLL = 5.0
"""Seconds between two looks of a process without LISTEN, while there are none: a stream begins so late there."""

REST = 60.0
"""Seconds between two attempts at a look at most, where nobody is known to subscribe: a role without the right to look, say."""

KEPT = 15.0
"""Seconds that a sheet stays: as long as a program may read nothing (TTL in event_stream.py)."""

STARTS = 10_000
"""Starts that are noted before they are put into trays: as many as a process may come to between two writes. Beyond that, as when
the database is slow, each thread puts its own. It bounds the jobs that are kept in memory for it."""

SUBSCRIPTIONS = 16
"""Rows that are looked at: as many streams as there may be (event_stream.py)."""


class Heard:
    """One subscription, as this process knows it."""

    def __init__(self, number: int, sieve: filters.Sieve, place: str) -> None:
        self.sieve = sieve
        self.tray = Tray(number, f"{place}:{secrets.randbits(32):08x}")
        self.until = 0.0  # monotonic time; the forwarder's thread writes it


class Forwarder(Threaded):
    """The forwarder's thread. It writes all attributes that name no other writer."""

    def __init__(self, config: Config, connect: Callable[[], Connection]) -> None:
        super().__init__("events")
        self._polls = config.poll_only
        self._session = Rebuilt("events", connect, Backoff(FIRST_PAUSE, REST))
        self._place = f"{socket.gethostname()}:{os.getpid()}"
        self._heard: dict[int, Heard] = {}  # by subscription; replaced as a whole, read by all threads that emit
        self._lock = (
            threading.RLock()
        )  # over the trays, for a moment; the same thread may come back, by a finalizer of the user's
        self._bell = threading.Event()  # a hint, the first event of a sheet, the end; any thread sets it
        self._rung = False  # by an event, since the thread woke last; the threads that emit set it
        self._starts: deque[Start] = deque()  # jobs that have started; their threads add; taken out under the lock
        self._hinted = True  # set by the threads that hint; the first look is the start's
        self._ending = threading.Event()  # set by the main thread
        self._by = 0.0  # monotonic time after which nothing is tried again, once it ends; the main thread's
        self._look_at = 0.0  # monotonic time of the next look that no hint calls for
        self._subscribed: Subscription | None = None
        self._unwritten: list[Sheet] = []  # taken out of their trays; one of each at most

    def hint(self) -> None:
        """Look at the subscriptions: they may be others now. Any thread may call this, any number of times."""
        self._hinted = True
        self._bell.set()

    def finish(self, by: float) -> float:
        """Write what has come, and end."""
        self._by = by
        self._ending.set()
        self._bell.set()
        return max(0.0, by - time.monotonic()) if self._heard else 0.0

    def watched(self) -> Iterable[Connection]:
        """Give the session to the watchdog."""
        return self._session.watched()

    def _run(self) -> None:
        try:
            while True:
                ending = self._ending.is_set()  # before all is taken: behind it nothing comes
                pause = self._round()
                if ending and (not pause or not self._heard or time.monotonic() + pause > self._by):
                    return
                self._wait(pause)
        finally:
            self._hear_of({})
            self._session.drop()

    def _round(self) -> float:
        """Look if it is due, write what has come; return how long to wait after a failure, 0 after a success."""
        self._forget(time.monotonic())
        try:
            if not self._ending.is_set() and (self._hinted or time.monotonic() >= self._look_at):
                self._look()
            if self._heard:
                self._write()
        except (db.Error, FastqError) as error:
            unwatched = not self._heard and not sqlstate.forbidden(error)  # others tell that the database is away
            pause = self._session.failed(db.first_line(error), quiet=self._ending.is_set() or unwatched)
            return min(pause, LONGEST_PAUSE) if self._heard else pause
        self._session.pauses.reset()
        if not self._heard and not self._polls:
            self._session.drop()
        return 0.0

    def _wait(self, pause: float) -> None:
        """Sleep until there is something to do."""
        if not self._heard:
            self._bell.wait(pause or (POLL if self._polls else None))
            self._hush()
        elif pause:
            self._ending.wait(pause)
        else:
            if not any(heard.tray.due for heard in self._heard.values()):
                self._bell.wait(max(0.0, min(self._look_at, *(heard.until for heard in self._heard.values())) - time.monotonic()))
            self._hush()
            self._ending.wait(INTERVAL)  # gather

    def _hush(self) -> None:
        """Have the bell rung by the next event; before all is taken that has come."""
        self._bell.clear()
        self._rung = False

    def _look(self) -> None:
        """Learn which subscriptions there are; look again if that fails, for the hint does not come again."""
        self._hinted, self._look_at = False, 0.0
        rows = self._session.open().run("subscription_list", SUBSCRIPTIONS)
        now = time.monotonic()
        heard: dict[int, Heard] = {}
        for number, text, left in rows:
            one = self._heard.get(number) or self._begun(number, text)
            if one is not None:
                one.until = now + left
                heard[number] = one
        self._look_at = now + (LOOK if heard else POLL)
        self._hear_of(heard)

    def _begun(self, number: int, text: str) -> Heard | None:
        try:
            return Heard(number, filters.Sieve(filters.read(text)), self._place)
        except msgspec.DecodeError:  # of a newer fastq, whose processes hear for it
            return None

    def _forget(self, now: float) -> None:
        """Forget the subscriptions that have come to their end."""
        if any(heard.until <= now for heard in self._heard.values()):
            self._hear_of({number: heard for number, heard in self._heard.items() if heard.until > now})

    def _hear_of(self, heard: dict[int, Heard]) -> None:
        """Hear the events for these subscriptions from now on, and no others."""
        if heard.keys() == self._heard.keys():
            return
        self._heard = heard
        self._unwritten = [sheet for sheet in self._unwritten if sheet.subscription in heard]
        names = {name for one in heard.values() for name in one.sieve.names.texts}
        if not names:
            if self._subscribed is not None:
                self._subscribed()
                self._subscribed = None
            self._starts.clear()
        elif self._subscribed is None:
            self._subscribed = events.subscribe(self._hear, names, each=self._hear_each)
        else:
            self._subscribed.change(names)

    def _write(self) -> None:
        """Write the sheets that are left of the last time, if it failed; then one of each tray that has something to tell."""
        self._send()
        self._put_starts()
        with self._lock:
            taken = [heard.tray.take() for heard in self._heard.values()]
        self._unwritten = [sheet for sheet in taken if sheet is not None]
        self._send()

    def _send(self) -> None:
        if self._unwritten:
            columns = map(list, zip(*self._unwritten, strict=True))
            self._session.open().run("event_write", *columns, KEPT)
            self._unwritten = []

    def _hear(self, event: Event) -> None:
        """Put an event into the trays for which it is. Called by the thread that emits."""
        if self._starts:
            self._put_starts()
        text: bytes | None = None
        for heard in self._heard.values():
            if not heard.sieve.takes(event.name, event.fields):
                continue
            if text is None and heard.tray.room:
                text = encoded(event.name, event.level, event.fields)
            with self._lock:
                heard.tray.put(text)
        self._ring()

    def _hear_each(self, name: str, jobs: Sequence[Job[Any]], fields_of: FieldsOf) -> None:
        """Take events about jobs. Called by the thread that emits; one that is about to work a job notes the start alone."""
        now = time.time()
        if name == STARTED and len(self._starts) < STARTS:
            self._starts.extend([(job, now, fields_of) for job in jobs])
        else:
            self._put_starts()
            for heard in self._heard.values():
                if name in heard.sieve.names:
                    mine = heard.sieve.jobs_of(jobs)
                    self._put(heard, name, [(job, now, fields_of) for job in mine[: heard.tray.room]], len(mine))
        self._ring()

    def _put_starts(self) -> None:
        """Put the starts that were noted into the trays: before each other event, or a job would end there before it starts."""
        with self._lock:
            starts: list[Start] = []
            with suppress(IndexError):  # a finalizer of the user's may have come in between, with an event of its own
                for _ in range(len(self._starts)):
                    starts.append(self._starts.popleft())  # noqa: PERF401 - those that came before the error count
            for heard in self._heard.values() if starts else ():
                if STARTED in heard.sieve.names:
                    mine = heard.sieve.of_jobs(starts)
                    self._put(heard, STARTED, mine[: heard.tray.room], len(mine))

    def _put(self, heard: Heard, name: str, taken: Sequence[Start], count: int) -> None:
        """Put some events of one name into a tray, of so many that pass: only these are made."""
        texts = encoded_each(name, [(at, fields_of(job, at)) for job, at, fields_of in taken])
        with self._lock:
            for text in texts:
                heard.tray.put(text)
            heard.tray.miss(count - len(texts))

    def _ring(self) -> None:
        """Wake the forwarder's thread if it sleeps."""
        if not self._rung:
            self._rung = True
            self._bell.set()
