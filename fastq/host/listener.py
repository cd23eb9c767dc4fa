"""The only LISTEN of a host: a thread of the supervisor that hands each hint on and keeps nothing.

A notification is a hint to look, never a command: any role of the database may send one. Its payload is a queue's name,
'@due' (a job was scheduled), '@waiting QUEUE' (a job waits for a worker of its kind), '@cancel' (somebody asked for a
cancellation), '@periodic' (a periodic job changed) or '@lease NAME' (it was released, or its holder asked to resign). A lost
connection is rebuilt; what was missed meanwhile is covered by one look at everything. With FASTQ_POLL_ONLY there is no listener,
and the producers poll.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from fastq.errors import DatabaseUnavailable
from fastq.events import Seldom, emit
from fastq.postgres import db

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fastq.config import Config
    from fastq.postgres.db import Connection

PATIENCE = 10.0
"""Seconds to wait for a notification before a round trip proves that the connection still lives. While it does not, producers
poll, so this bounds for how long a wake-up may take the length of a poll."""

PAUSE = 0.5
"""Seconds between attempts to connect; the producers poll meanwhile."""


class Listener:
    """The listener's thread.

    In it `on_hint` is called with each payload, and with '' after a (re)connection; and `look` after that, which returns the
    seconds until it is to be called again if no hint comes before, None for never.
    """

    def __init__(self, config: Config, url: str, on_hint: Callable[[str], None], look: Callable[[], float | None]) -> None:
        self._config = config
        self._url = url
        self._on_hint = on_hint
        self._look = look
        self._stopping = threading.Event()
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._run, name="fastq listener", daemon=True)

    def start(self) -> None:
        """Begin, unless this host only polls."""
        if not self._config.poll_only:
            self._thread.start()

    def stop(self) -> None:
        """End: the socket is shut, so that waiting ends at once."""
        self._stopping.set()
        for connection in self.watched():
            connection.cut()

    def watched(self) -> Iterable[Connection]:
        """Give the connection, for the watchdog."""
        connection = self._connection
        return [] if connection is None else [connection]

    def _run(self) -> None:
        seldom = Seldom()
        while not self._stopping.is_set():
            try:
                self._connection = db.session(self._config, self._url, "listener")
                self._connection.listen(self._config.channel)
                self._on_hint("")  # whatever came while nobody listened
                self._receive(self._connection)
            except (db.Error, DatabaseUnavailable) as error:
                if not self._stopping.is_set() and seldom.lets(text := db.first_line(error)):
                    emit("listener.waits", level=logging.WARNING, error=text)
                self._drop()
                self._stopping.wait(PAUSE)

    def _receive(self, connection: Connection) -> None:
        while not self._stopping.is_set():
            quiet, again = True, self._look()
            for hint in connection.notifications(PATIENCE if again is None else again):
                quiet = False
                self._on_hint(hint)
            if quiet and again is None and not self._stopping.is_set():
                connection.execute("select 1")

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
