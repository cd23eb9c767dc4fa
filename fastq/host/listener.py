"""The only LISTEN of a host: a thread of the supervisor that hands each hint on and keeps nothing but its session.

A notification is a hint to look, never a command: any role of the database may send one; postgres/hints.py lists them. A lost
connection is rebuilt; a look at everything makes up for the hints that were missed meanwhile. With FASTQ_POLL_ONLY there is no
listener, and the producers poll. The supervisor's main thread makes the `Listener`, from the table that `table_of` returns, and
calls `start`, `finish` and `watched`.

Where jobs come by the hundred a second, a hint for each would cost more than the job: it wakes a process, which claims one job.
So a client that has many says so once in a while, and the listener hands that hint on by itself, every few milliseconds
(`Repeated`). Where many clients have a job now and then, it reads their hints some milliseconds apart (`Gathering`). A hint after
a rest is handed on at once.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from fastq.backoff import Backoff
from fastq.errors import DatabaseUnavailable
from fastq.postgres import db
from fastq.postgres.hints import HINTS, LASTS, MISSED, OFTEN, QUEUE
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

GATHER = 0.004
"""Seconds between two looks while jobs, or their hints, come often: 250 claims a second, and a job waits half of that in the
mean (docs/adr/0045)."""

MANY = 300.0
"""Hints a second from which on they gather: one for each `GATHER` and some, or nothing would be gained."""

KEPT = 0.5
"""Share of their rate that must come while they gather. Where jobs wait for one another (a gate of one, a chain), fewer hints
come while they are not read, and gathering only slows them: a hand-over takes 1 to 2 ms, so a third would be left."""

WINDOW, READINGS = 32, 8
"""Hints after which their rate is told, while each is read at once; readings, while they gather. Few enough to notice a change
within some hundredths of a second, enough to tell a third from all."""

JUDGED = 16
"""Times `READINGS` for which they gather, until the rate is told anew: half a second."""

FIRST_PAUSE, LONGEST_PAUSE = 64, 1_024
"""Windows without another attempt after hints failed to come while they gathered, doubling: an attempt holds such jobs up for
some hundredths of a second, which is a hundredth of the time and less."""


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


class Repeated:
    """Hints that are due again and again for a while. The listener's thread alone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.at: float | None = None  # monotonic time of their next turn; None: there are none
        self._until: dict[str, float] = {}  # by payload, in monotonic time

    def add(self, payload: str) -> None:
        """Have a hint repeated from now on."""
        now = self._clock()
        if self.at is None:
            self.at = now + GATHER
        self._until[payload] = now + LASTS

    def due(self, heard: list[str]) -> Iterable[str]:
        """Return the hints to hand on now: those that were heard and are not repeated anyway, and those whose turn it is.

        The last time of a hint is not before its end: it is for jobs that came just before that.
        """
        found = dict.fromkeys(heard)
        if self.at is None:
            return found
        if (now := self._clock()) < self.at:
            return [payload for payload in found if payload not in self._until]
        found.update(dict.fromkeys(self._until))
        self._until = {payload: until for payload, until in self._until.items() if until > now}
        self.at = now + GATHER if self._until else None
        return found


class Gathering:
    """Tells whether to let hints gather: they come often, and as often while nobody reads them. The listener's thread alone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.gathers = False
        self._clock = clock
        self._since = clock()  # since when hints and readings are counted
        self._hints = self._readings = 0
        self._rate = 0.0  # hints a second, when each was read at once
        self._fewer = False  # the last readings while they gathered brought less than their share
        self._windows = 0  # for which it stays as it is
        self._pauses = Backoff(FIRST_PAUSE, LONGEST_PAUSE)

    def rest(self, hints: int) -> float:
        """Take note that so many hints were read together; return the seconds to wait before the next are."""
        self._hints += hints
        self._readings += 1
        if (self._readings >= READINGS) if self.gathers else (self._hints >= WINDOW):
            self._judge()
        return GATHER if self.gathers else 0.0

    def _judge(self) -> None:
        now = self._clock()
        rate = self._hints / max(now - self._since, 1e-9)
        self._since, self._hints, self._readings = now, 0, 0
        self._windows -= 1
        if not self.gathers:
            self._rate = min(rate, (self._rate + rate) / 2)  # a few that come together at random are no rate
            if self._windows <= 0 and rate >= MANY:
                self.gathers, self._windows = True, JUDGED
        elif rate < KEPT * self._rate and self._fewer:  # twice in a row: so few at random are rare
            self.gathers, self._windows = False, int(self._pauses.next())
        elif self._windows <= 0:
            self.gathers = False
            self._pauses.reset()
        self._fewer = self.gathers and rate < KEPT * self._rate


class Listener(Threaded):
    """The listener's thread.

    In it the functions of `table` are called with the name that follows the hint, and those of MISSED after a (re)connection; and
    `look` after that, which returns the seconds until it is to be called again if no hint comes before, None for never.
    """

    def __init__(self, config: Config, url: str, table: Table, look: Callable[[], float | None]) -> None:
        super().__init__("listener")
        self._config = config
        self._repeated = Repeated()
        self._table = {**table, OFTEN: [self._repeated.add]}
        self._look = look
        self._gathering = Gathering()
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
            again, at = self._look(), self._repeated.at
            if at is not None:
                again = max(0.0, at - time.monotonic())
            heard = connection.notifications(PATIENCE if again is None else again)
            rest = self._gathering.rest(len(heard)) if heard else 0.0
            for hint in self._repeated.due(heard):
                self._hear(hint)
            if rest:
                self._stopping.wait(rest)
            elif not heard and again is None and not self._stopping.is_set():
                connection.execute("select 1")
