"""A session that its owner keeps: opened when it is first needed, dropped after an error, opened again by the next use.

One thread owns it, opens and drops it, and runs statements on it; the main thread of its process reads `connection`, and cuts an
overdue statement (`cut_overdue`). Two stages: `Kept` opens and drops, for an owner that reports its failures in its own way;
`Rebuilt` reports them and has the pauses, for a thread that tries the same thing for as long as the database is away.

Invariant: a session on which a statement has failed is not used again, since nobody knows which answer would come.
It deliberately sends no statement, and starts no thread.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Generic, ParamSpec

from fastq.events import Seldom, emit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fastq.backoff import Backoff
    from fastq.postgres.db import Connection

P = ParamSpec("P")

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
"""Seconds between a worker process's attempts to reach the database again: quick after a restart, patient in an outage."""


class Kept(Generic[P]):
    """One session at a time, made by `connect` with the arguments of `open`."""

    def __init__(self, connect: Callable[P, Connection]) -> None:
        self.connection: Connection | None = None  # written by the owner's thread, read by the watchdog's
        self._connect = connect

    def open(self, *args: P.args, **kwargs: P.kwargs) -> Connection:
        """Return the session; open one if there is none."""
        if self.connection is None:
            self.connection = self._connect(*args, **kwargs)
        return self.connection

    def drop(self) -> bool:
        """Close the session; tell whether there was one."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()
        return connection is not None

    def watched(self) -> list[Connection]:
        """Give the session to the watchdog, if there is one."""
        connection = self.connection  # read once: its owner may drop it at any moment
        return [] if connection is None else [connection]


class Rebuilt(Kept[P]):
    """A session that a thread opens again and again while the database is away, with growing pauses. `role` names its event."""

    def __init__(self, role: str, connect: Callable[P, Connection], pauses: Backoff) -> None:
        super().__init__(connect)
        self.pauses = pauses
        self._role = role
        self._seldom = Seldom()

    def failed(self, text: str, *, quiet: bool = False) -> float:
        """Drop the session after an error, report it once in a while, and return the seconds until the next attempt."""
        if not quiet and self._seldom.lets(text):
            emit(f"{self._role}.waits", level=logging.WARNING, error=text)
        self.drop()
        return self.pauses.next()


def cut_overdue(connections: Iterable[Connection], now: float) -> None:
    """Free threads from statements that Postgres, or the network, has not answered by their deadlines. A watchdog calls this."""
    for connection in connections:
        deadline = connection.deadline  # read once: its owner may take it away any moment
        if deadline is not None and now > deadline:
            emit("connection.cut", level=logging.WARNING, after=connection.timeout)
            connection.cut()
