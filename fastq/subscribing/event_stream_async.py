"""Hear the events of all processes of a schema: a method of a client in an event loop, and the stream that it returns.

A base class of `AsyncClient` (client_async.py), which makes and owns the settings and the sessions that are used here; this
class keeps no state. Its methods run in the caller's event loop.

`Hearing` (event_stream.py) is the same part of `Client`, and is made from this file.

A stream is a row of the table `subscription` with a filter and an end, which the stream puts off while somebody reads from it.
Each process that finds the row writes the events that pass into the table `event`, by the sheet (work/forwarder.py), and the
stream asks for new sheets ten times a second, by the primary key. A program that dies, or that reads nothing for TTL seconds, is
forgotten by all processes; should it read on, the stream subscribes anew and says that events are missing.

Invariants:
- Nothing is missing without a word: `events.dropped` says how many events, or that nobody knows how many.
- The stream keeps one page of sheets in memory. It has no thread and no task: a program that does not read holds up nobody.
- The thread or task that reads from a stream runs all of it, and alone writes its attributes, but for `_id`: whoever closes the
  stream takes that away.

It deliberately has no history: events from before it began are in no table.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime
from os import getpid
from typing import TYPE_CHECKING, Any, Self

from fastq.errors import DatabaseUnavailable, FastqError
from fastq.postgres import db, hints
from fastq.postgres.pool import in_loop
from fastq.subscribing.event_reading import HeardEvent, Reading, missed
from fastq.subscribing.filters import EventFilter, filter_of

if TYPE_CHECKING:
    from fastq.adapters.library import Rows
    from fastq.enqueue.settings import Settings

TTL = 15.0
"""Seconds after which a program that has read nothing is forgotten. For so long each process goes on to write events for it."""

RENEWAL = TTL / 3
"""Seconds between two renewals: two of them may be lost."""

SUBSCRIPTIONS = 16
"""Streams of a schema at once. Each process keeps a tray for each of them, so this bounds its memory: some 2 MB. A guess."""

LOOK = 0.1
"""Seconds between two looks for new sheets: as often as a process writes them."""

PAGE = 50
"""Sheets that one statement reads: 6 MB at most."""

AWAY = 0.5
"""Seconds between two looks while the database is away: a restart takes about a second."""

READY = 1.0
"""Seconds for which `with` waits until all living processes hear for it. Those that have LISTEN take some ten milliseconds; for
one without, or one that has died and is not known to be dead yet, nobody waits longer."""

SOON = 0.01
"""Seconds between two looks whether they do."""


class AsyncEventStream:
    """Events as they happen, in `async with client.events(...) as events: async for event in events: ...`.

    With `async with` it begins at once, and ends with the block. Without, it begins when the first event is asked for.
    """

    def __init__(self, wanted: EventFilter, ask: Ask, ask_hinting: Ask) -> None:
        self._filter = wanted.text
        self._ask = ask
        self._ask_hinting = ask_hinting
        self._bell = in_loop.Bell()  # set when it was closed
        self._id: int | None = None  # of the subscription, while there is one
        self._renew_at = 0.0  # monotonic time
        self._reading = Reading()
        self._page: deque[HeardEvent] = deque()  # read, and not yielded yet
        self._gap = False  # events are missing, and nobody knows how many

    async def __aenter__(self) -> Self:
        """Begin, and return when the living processes know of it: they tell of all that happens from now on."""
        await self._begin()
        ready_by = time.monotonic() + READY
        while time.monotonic() < ready_by and not (await self._ask("subscription_heard", (self._id,)))[0][0]:
            await in_loop.sleep(SOON)
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close as `aclose` does."""
        await self.aclose()

    async def aclose(self) -> None:
        """End the stream, from any task: a loop over its events ends at the next one. All processes forget it at once."""
        self._bell.set()
        number, self._id = self._id, None
        if number is not None:
            try:
                await self._ask_hinting("subscription_end", (number,))
            except (*db.Lost, DatabaseUnavailable):
                return  # it runs out by itself

    async def __aiter__(self) -> AsyncIterator[HeardEvent]:
        """Yield events as they come; end when the stream was closed. While the database is away it goes on looking."""
        alone = self._id is None and not self._bell.is_set()
        if alone:
            await self._begin()
        try:
            while not self._bell.is_set():
                while self._page and not self._bell.is_set():
                    yield self._page.popleft()
                    await self._renew()
                await self._look()
        finally:
            if alone:
                await self.aclose()

    async def _begin(self) -> None:
        """Subscribe, or subscribe anew: the numbers of the events begin again."""
        rows = await self._ask_hinting("subscription_begin", (self._filter, TTL, SUBSCRIPTIONS))
        if not rows:
            raise FastqError(
                f"events: expected {SUBSCRIPTIONS} programs at most that hear events of this schema at once, and there are as "
                "many; end one, or have one program hear them for several"
            )
        self._id, self._reading = int(rows[0][0]), Reading()
        self._renew_at = time.monotonic() + RENEWAL

    async def _renew(self) -> None:
        """Put the end of the subscription off, if it is time to; begin anew if that has come."""
        if time.monotonic() < self._renew_at or self._bell.is_set():
            return
        try:
            if not await self._ask_hinting("subscription_renew", (self._id, TTL)):
                await self._begin()
                self._gap = True
        except (*db.Lost, DatabaseUnavailable):
            return  # the next look tries it again
        self._renew_at = time.monotonic() + RENEWAL

    async def _look(self) -> None:
        """Read the events that are new, as many as a page holds; wait a moment if there are none, or the database is away."""
        await self._renew()
        if self._gap:
            self._page.append(missed(None, datetime.now(UTC), socket.gethostname(), getpid()))
            self._gap = False
        try:
            rows = await self._ask("event_read", (self._id, *self._reading.seen(), PAGE))
        except (*db.Lost, DatabaseUnavailable):
            await self._bell.wait(AWAY)
            return
        self._page.extend(self._reading.events(rows))
        if not rows:
            await self._bell.wait(LOOK)


class AsyncHearing:
    """The part of a client that is about events."""

    _settings: Settings

    def events(
        self, *names: str, kinds: Iterable[str] = (), queues: Iterable[str] = (), jobs: Iterable[int] = ()
    ) -> AsyncEventStream:
        """Return a stream of the events of all processes: those of these names, about jobs of these kinds, queues or ids.

        Without names all events, `job.started` and `job.completed` among them; `job.*` stands for all that begin so. An event
        that says nothing of kinds, say, does not come where `kinds` are given. Nothing is stored that happened before.
        """
        ids = [number for job_id in jobs if (number := self._settings.number(job_id)) is not None]
        return AsyncEventStream(filter_of(names, kinds, queues, ids), self._ask, self._ask_calling)

    async def _ask_calling(self, name: str, parameters: tuple[Any, ...]) -> Rows:
        """Run a statement with its hint, with FASTQ_POLL_ONLY as well: processes with LISTEN look at nothing without one."""
        if not self._settings.config.poll_only:
            return await self._ask_hinting(name, parameters)
        try:
            return await self._ask(name, (*parameters, self._settings.channel))
        except Exception as error:
            if not hints.refused(error):
                raise
            return await self._ask(name, (*parameters, None))

    async def _ask(self, name: str, parameters: tuple[Any, ...]) -> Rows:
        """Run a statement that reads."""
        raise NotImplementedError

    async def _ask_hinting(self, name: str, parameters: tuple[Any, ...]) -> Rows:
        """Run a statement that notifies."""
        raise NotImplementedError


Ask = Callable[[str, tuple[Any, ...]], Awaitable["Rows"]]
"""A function that runs a statement of fastq/sql on a connection of the client's."""
