"""The only LISTEN of a host: a thread of the supervisor that hands each hint on and keeps nothing.

A notification is a hint to look, never a command: any role of the database may send one; postgres/hints.py lists them. A lost
connection is rebuilt; a look at everything makes up for the hints that were missed meanwhile. With FASTQ_POLL_ONLY there is no
listener, and the producers poll.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fastq.errors import DatabaseUnavailable
from fastq.pauses import Pauses
from fastq.postgres import db
from fastq.postgres.kept import Rebuilt

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
        self._on_hint = on_hint
        self._look = look
        self._stopping = threading.Event()
        self._session = Rebuilt("listener", lambda: db.session(config, url, "listener"), Pauses(PAUSE, PAUSE))
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
        return self._session.watched()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                connection = self._session.open()
                connection.listen(self._config.channel)
                self._on_hint("")  # whatever came while nobody listened
                self._receive(connection)
            except (db.Error, DatabaseUnavailable) as error:
                self._stopping.wait(self._session.failed(db.first_line(error), quiet=self._stopping.is_set()))
        self._session.drop()

    def _receive(self, connection: Connection) -> None:
        while not self._stopping.is_set():
            quiet, again = True, self._look()
            for hint in connection.notifications(PATIENCE if again is None else again):
                quiet = False
                self._on_hint(hint)
            if quiet and again is None and not self._stopping.is_set():
                connection.execute("select 1")
