"""Carry the statements about steps to the database, in an event loop.

Runs in the event loop that executes the jobs. Each statement is a transaction of its own, on a connection from a pool for these
alone: a block of `job.transaction()` holds one of another pool while the user's statements run, so none waits for the other.

A statement whose connection was lost is run again on another one. It may have taken effect then: each of them does the same
when it is run twice, and only while the row carries our claim.

It deliberately gives up after a while: the attempt fails then, and its retry finds the records that are there.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from fastq.backoff import Backoff, spread
from fastq.postgres import sqlstate
from fastq.postgres.pool import in_loop, pool_async
from fastq.postgres.pool.pool_async import Failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.enqueue.settings import Settings
    from fastq.steps.through import Said, Saying

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds for which a statement is tried again: a restart of the server takes about a second, a failover some. A guess."""

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 1.0
"""Seconds between two attempts at a statement. Guesses."""


class AsyncRecords:
    """The way to the records of steps from the event loops of one process.

    Made by the main thread of a worker process (work/reach.py). Whoever executes a job may add to `_pools` in one step; there
    is an entry for each home of connections: the process, or an event loop.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pools: dict[in_loop.Home, pool_async.AsyncPool] = {}

    async def run(self, saying: Saying[T]) -> T:
        """Run the statements; return the result."""
        try:
            said = next(saying)
            while True:
                said = saying.send(await self._one(said))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _one(self, said: Said) -> Sequence[Sequence[Any]]:
        text = self._settings.text(said.statement)
        by, pauses = time.monotonic() + PATIENCE, Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        with self._settings.remedy:
            while True:
                try:
                    async with self._here().connection() as own:
                        return await pool_async.run(own, text, said.parameters)
                except Failed as error:
                    if not sqlstate.passes(error) or time.monotonic() > by:
                        raise
                await in_loop.sleep(spread(pauses.next()))

    def _here(self) -> pool_async.AsyncPool:
        """Return the connections of this event loop."""
        home = in_loop.home()
        found = self._pools.get(home)
        if found is None:
            settings = self._settings
            in_loop.forget_ended(self._pools)
            made = pool_async.AsyncPool(settings.url, prepare=settings.prepare, seconds=settings.seconds)
            found = self._pools.setdefault(home, made)
        return found
