"""Lend connections to functions that read or change the database for a page, in a few threads.

The event loop that serves hands a function in; it runs in one of THREADS threads of a `Source`, over a connection of an
operator's kind (admin/session.py). A connection belongs to one thread at a time; those that rest are kept in a list, of which
each change is one step, and closed by a timer's thread when they have rested for long, and so are those of the client. There is
one Source for a dashboard, however many event loops serve it.

Invariant: no function holds a thread for longer than LIMIT: the server ends a slow statement first, and where no answer comes
at all, the connection is cut by a timer's thread. A function that only reads is run once more on a new connection if the old
one was lost; one that changes something is not, for it may have been done.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from fastq import admin
from fastq.enqueue.client import Client
from fastq.postgres import db

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.config import Config
    from fastq.postgres.db import Connection

T = TypeVar("T")

THREADS = 4
"""Threads of a dashboard at most, each with a connection, and with one of the client's where a page asks that: a page is read in
some milliseconds, and viewers share it. A guess."""

SLOWEST = 3.0
"""Seconds that a statement of a page may take at most: as long as a person waits without wondering. A guess."""

LIMIT = 15.0
"""Seconds after which the connection of a page is cut: a page has some five statements."""

RESTED = 60.0
"""Seconds of rest after which a connection is closed: nobody looks at the dashboard any more. Longer than LIMIT, so none of the
client's is in use then."""


class Source:
    """The threads and connections of a dashboard."""

    def __init__(self, config: Config) -> None:
        self.config = replace(config, statement_timeout=min(config.statement_timeout, SLOWEST))
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="fastq web")
        self._resting: list[tuple[float, Connection]] = []
        self._client: Client | None = None
        self._asked_at = 0.0  # monotonic: when the client was asked for last
        self._closing: threading.Timer | None = None
        self._lock = threading.Lock()

    @property
    def client(self) -> Client:
        """Return a client for changes that only clients do; it connects when it is first used."""
        with self._lock:
            if self._client is None:
                self._client = Client(config=self.config)
            self._asked_at = time.monotonic()
            return self._client

    def read(self, function: Callable[[Connection], T]) -> Future[T]:
        """Run a function that reads."""
        return self._threads.submit(self._run, function, 2)

    def change(self, function: Callable[[Connection], T]) -> Future[T]:
        """Run a function that may change something."""
        return self._threads.submit(self._run, function, 1)

    def close(self) -> None:
        """Close the connections that rest; it goes on with new ones if it is used again."""
        while self._resting:
            self._resting.pop()[1].close()
        with self._lock:
            client, self._client = self._client, None
            closing, self._closing = self._closing, None
        if closing is not None:
            closing.cancel()
        if client is not None:
            client.close()

    def _run(self, function: Callable[[Connection], T], tries: int) -> T:
        while True:
            tries -= 1
            connection = self._taken()
            timer = threading.Timer(LIMIT, connection.cut)
            timer.daemon = True
            timer.start()
            try:
                return function(connection)
            except db.Lost:
                if not tries or connection.usable:
                    raise
            finally:
                timer.cancel()
                self._give_back(connection)

    def _taken(self) -> Connection:
        """Return a connection that has not rested for long, or a new one."""
        while True:
            try:
                since, connection = self._resting.pop()
            except IndexError:
                return admin.connect(self.config, self.config.database_url)
            if connection.usable and time.monotonic() - since < RESTED:
                return connection
            connection.close()

    def _give_back(self, connection: Connection) -> None:
        now = time.monotonic()
        if connection.usable:
            self._resting.append((now, connection))
        else:
            connection.close()
        self._close_later()

    def _close_later(self) -> None:
        """Have a timer look at the connections that rest, unless one does already."""
        with self._lock:
            if self._closing is None:
                self._closing = threading.Timer(RESTED, self._close_rested)
                self._closing.daemon = True
                self._closing.start()

    def _close_rested(self) -> None:
        """Close the connections that have rested for long; look again as long as others rest."""
        now, client = time.monotonic(), None
        with self._lock:
            self._closing = None
            if self._client is not None and now - self._asked_at >= RESTED:
                client, self._client = self._client, None
        if client is not None:
            client.close()
        while self._resting and now - self._resting[0][0] >= RESTED:
            with suppress(IndexError):  # a page has taken it
                self._resting.pop(0)[1].close()
        if self._resting or self._client is not None:
            self._close_later()
