"""The only LISTEN of a host: a thread of the supervisor that hands each hint on and keeps nothing but its session.

A notification is a hint to look, never a command: any role of the database may send one; postgres/hints.py lists them. A lost
connection is rebuilt; a look at everything makes up for the hints that were missed meanwhile. With FASTQ_POLL_ONLY there is no
listener, and the producers poll. The supervisor's main thread makes the `Listener`, from the table that `table_of` returns, and
calls `start`, `finish` and `watched`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fastq.backoff import Backoff
from fastq.errors import DatabaseUnavailable
from fastq.postgres import db
from fastq.postgres.hints import HINTS, MISSED, QUEUE
from fastq.postgres.kept import Rebuilt
from fastq.service import Threaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from fastq.config import Config
    from fastq.postgres.db import Connection
    from fastq.postgres.hints import Hint

    Table = Mapping[Hint, Sequence[Callable[[str], None]]]

PATIENCE = 10.0
"""Seconds to wait for a notification before a round trip proves that the connection still lives. While it does not, producers
poll, so this bounds for how long a wake-up may take the length of a poll."""

PAUSE = 0.5
"""Seconds between attempts to connect; the producers poll meanwhile."""


def table_of(*hears: Mapping[Hint, Callable[[str], None]]) -> Table:
    """Unite the hints that the parts of a host hear: by hint, the functions to call with the name that follows it."""
    known = [hint for part in hears for hint in part]
    return {hint: [part[hint] for part in hears if hint in part] for hint in known}


def read(payload: str) -> tuple[Hint | None, str]:
    """Take a payload apart into the hint and the name; None if it is no hint of ours, since anybody may notify."""
    if not payload.startswith("@"):
        return (QUEUE if payload else MISSED), payload
    word, blank, name = payload.partition(" ")
    hint = HINTS.get(word)
    return (hint, name) if hint and bool(blank) == bool(hint.names) else (None, "")


class Listener(Threaded):
    """The listener's thread.

    In it the functions of `table` are called with the name that follows the hint, and those of MISSED after a (re)connection; and
    `look` after that, which returns the seconds until it is to be called again if no hint comes before, None for never.
    """

    def __init__(self, config: Config, url: str, table: Table, look: Callable[[], float | None]) -> None:
        super().__init__("listener")
        self._config = config
        self._table = table
        self._look = look
        self._stopping = threading.Event()
        self._session = Rebuilt("listener", lambda: db.session(config, url, "listener"), Backoff(PAUSE, PAUSE))

    def start(self) -> None:
        """Begin, unless this host only polls."""
        if not self._config.poll_only:
            super().start()

    def finish(self, by: float) -> float:
        """End: the socket is shut, so that waiting ends at once. Nothing is lost where it does not."""
        del by
        self._stopping.set()
        for connection in self.watched():
            connection.cut()
        return 0.0

    def watched(self) -> Iterable[Connection]:
        """Give the connection, for the watchdog."""
        return self._session.watched()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                connection = self._session.open()
                connection.listen(self._config.channel)
                self._hear("")  # any may have come while nobody listened
                self._receive(connection)
            except (db.Error, DatabaseUnavailable) as error:
                self._stopping.wait(self._session.failed(db.first_line(error), quiet=self._stopping.is_set()))
        self._session.drop()

    def _hear(self, payload: str) -> None:
        """Hand a hint on to all that hear it; a payload that is no hint of ours is left alone."""
        hint, name = read(payload)
        for hear in self._table.get(hint, ()) if hint else ():
            hear(name)

    def _receive(self, connection: Connection) -> None:
        while not self._stopping.is_set():
            quiet, again = True, self._look()
            for hint in connection.notifications(PATIENCE if again is None else again):
                quiet = False
                self._hear(hint)
            if quiet and again is None and not self._stopping.is_set():
                connection.execute("select 1")
