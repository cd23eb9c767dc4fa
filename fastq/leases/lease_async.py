"""Hold a name alone in the whole cluster, from an event loop: `fastq.AsyncLease`, a `Lease` with a thread for its statements.

Used by the coroutines of a program of yours. Each object has one thread, started with its first statement, in which its `Lease`
runs one statement after the other: that thread alone writes the `Lease`, and the event loop makes and ends the thread. Between
two attempts at a lease that somebody else has, the event loop sleeps, and no thread.

Invariants:
- A call that is cancelled leaves no lease behind: where its statement was under way, the thread frees the lease that it took.
- `trusted`, `term` and `fence` ask the clock and the last answer alone, so they never wait for the thread.

It deliberately renews nothing by itself, as `Lease` does: if the event loop hangs, the lease is lost. And it takes no
connection of yours: a statement in a thread would use that connection beside your event loop.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from fastq.errors import DatabaseUnavailable
from fastq.leases.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from fastq.config import Config
    from fastq.leases.lease import Fence

T = TypeVar("T")


class AsyncLease:
    """A lease by name: `async with AsyncLease("report"): ...` or `acquire`, `renew` now and then, `release`, `close`."""

    def __init__(
        self,
        name: str,
        *,
        url: str | None = None,
        schema: str | None = None,
        ttl: float | None = None,
        config: Config | None = None,
    ) -> None:
        self._lease = Lease(name, url=url, schema=schema, ttl=ttl, config=config)
        self._thread: ThreadPoolExecutor | None = None  # of one thread, so that statements come one after the other
        self._process = os.getpid()  # a fork has no thread of its parent's

    @property
    def name(self) -> str:
        """Give the name."""
        return self._lease.name

    @property
    def ttl(self) -> float:
        """Give the seconds that the lease lasts."""
        return self._lease.ttl

    async def try_acquire(self) -> bool:
        """Take the lease if it is to be had now; False as well when it is ours already (renewing is `renew`)."""
        return await self._take(self._lease.try_acquire)

    async def acquire(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as Lease.acquire
        """Wait for the lease; False if it was not to be had within `timeout` seconds."""
        attempts = self._lease.attempts(timeout)
        while (pause := await self._take(lambda: next(attempts, None))) is not None:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(pause)  # until another attempt makes sense
        return self._lease.trusted()

    async def renew(self) -> bool:
        """Prolong the lease; False when it is not ours any more: stop acting now. An error leaves it unknown: trust runs out."""
        return await self._run(self._lease.renew)

    async def release(self) -> bool:
        """Free the lease at once; False if it was not ours any more. A call that is cancelled frees it all the same."""
        return await self._run(self._lease.release)

    def trusted(self) -> bool:
        """Tell whether we may still act as the holder; costs no statement, and does not wait."""
        return self._lease.trusted()

    @property
    def term(self) -> int | None:
        """Return the term that we hold the lease in; None when we do not."""
        return self._lease.term

    @property
    def fence(self) -> Fence | None:
        """Return the fence for statements that shall do nothing once the term is over; None if the lease is not held."""
        return self._lease.fence

    async def aclose(self) -> None:
        """Release, and close the connection; if the database does not answer, the lease runs out by itself."""
        try:
            await self._run(self._lease.close)
        finally:
            if self._thread is not None:
                self._thread.shutdown(wait=False)  # it ends behind the statements that it was given
                self._thread = None

    async def __aenter__(self) -> Self:
        """Wait until we hold it."""
        await self.acquire()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Free it."""
        await self.aclose()

    async def _take(self, call: Callable[[], T]) -> T:
        """Call a function that may take the lease; a lease that it takes for nobody is freed."""
        held = self._lease.fence

        def undo() -> None:
            if self._lease.fence is not held:
                with suppress(DatabaseUnavailable):  # then it runs out by itself
                    self._lease.release()

        return await self._run(call, undo)

    async def _run(self, call: Callable[[], T], undo: Callable[[], object] | None = None) -> T:
        """Have the thread call a function; where we are cancelled meanwhile, have it call the other one behind that."""
        if self._thread is None or self._process != os.getpid():
            self._thread, self._process = ThreadPoolExecutor(1, f"fastq lease {self.name}"), os.getpid()
        under_way = self._thread.submit(call)
        try:
            return await asyncio.shield(asyncio.wrap_future(under_way))
        except asyncio.CancelledError:
            if undo is not None:
                self._thread.submit(undo)
            raise
