"""Enqueue jobs from an event loop: `Client` again, with await.

One client per program; each event loop that uses it gets connections of its own, and so does a forked child. Loops in several
threads may share it: each writes what is its own, and drops what was a closed loop's. Everything but the waiting is shared with
client.py: this file holds the lines that await.

It deliberately takes plain iterables, not asynchronous ones: args are at hand or cheap to make, and a COPY awaits the
database after each block, so the loop goes on.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from fastq.adapters import drivers
from fastq.adapters.call import Call
from fastq.admin.jobs import ATTEMPTS_TO_FIND, JobDetail, detail_of
from fastq.args.kinds import Args, Kind
from fastq.config import Config
from fastq.enqueue import calls, refusals
from fastq.enqueue.calls import Copy, Enqueue
from fastq.enqueue.settings import Settings
from fastq.enqueue.wake_limiter import WakeLimiter
from fastq.jobs.spec import Options
from fastq.postgres import hints, pool

if TYPE_CHECKING:
    from fastq.adapters.conn import AsyncConn

A = TypeVar("A")


class AsyncClient:
    """Enqueue jobs: `await AsyncClient().enqueue(SortArgs(["whale", "tiger"]))` uses FASTQ_DATABASE_URL."""

    def __init__(self, url: str | None = None, *, schema: str | None = None, config: Config | None = None) -> None:
        self._settings = Settings(url, schema, config)
        # By process, as in Client, and by event loop: a connection is of use to the loop that made it, and to no other.
        self._sessions: dict[tuple[int, asyncio.AbstractEventLoop], _AsyncSessions] = {}

    @property
    def config(self) -> Config:
        """Return the configuration that this client goes by."""
        return self._settings.config

    @overload
    async def enqueue(
        self, args: Args, *, conn: AsyncConn | None = None, wake: bool = True, **options: Unpack[Options]
    ) -> int: ...
    @overload
    async def enqueue(
        self, args: A, *, kind: Kind[A], conn: AsyncConn | None = None, wake: bool = True, **options: Unpack[Options]
    ) -> int: ...
    async def enqueue(
        self,
        args: Any,
        *,
        kind: Kind[Any] | None = None,
        conn: AsyncConn | None = None,
        wake: bool = True,
        **options: Unpack[Options],
    ) -> int:
        """Enqueue one job and return its id.

        `conn`: a connection or session of yours, whose transaction the job is part of. `kind`: for args whose class names none.
        `wake=False` sends no notification, and the job starts up to FASTQ_POLL_INTERVAL later: for a commit in two phases, which
        may not notify, and for a transaction that must commit whether the server has room for notifications or not.
        The options `queue`, `priority` (1 is first, 4 last), `max_attempts`, `delay` (seconds) or `at` (with a time zone), and
        `tags` come before those of the kind.
        """
        call = calls.one(args, kind, options, self._settings.max_bytes)
        return int((await self._run(call, conn, wake=wake))[0][0])

    @overload
    async def enqueue_many(
        self, items: Iterable[Args | Enqueue], *, conn: AsyncConn | None = None, wake: bool = True, **options: Unpack[Options]
    ) -> list[int]: ...
    @overload
    async def enqueue_many(
        self, items: Iterable[A], *, kind: Kind[A], conn: AsyncConn | None = None, wake: bool = True, **options: Unpack[Options]
    ) -> list[int]: ...
    async def enqueue_many(
        self,
        items: Iterable[Any],
        *,
        kind: Kind[Any] | None = None,
        conn: AsyncConn | None = None,
        wake: bool = True,
        **options: Unpack[Options],
    ) -> list[int]:
        """Enqueue all of them or none, in one statement; return the ids in their order.

        The options and `wake` are those of `enqueue`, and hold for each job; `Enqueue(args, priority=2)` among the items is a job
        with options of its own.
        """
        call = calls.many(items, kind, options, self._settings.max_bytes)
        return [int(row[0]) for row in await self._run(call, conn, wake=wake)] if call else []

    @overload
    async def enqueue_copy(
        self, items: Iterable[Args | Enqueue], *, conn: AsyncConn | None = None, wake: bool = True, **options: Unpack[Options]
    ) -> int: ...
    @overload
    async def enqueue_copy(
        self, items: Iterable[A], *, kind: Kind[A], conn: AsyncConn | None = None, wake: bool = True, **options: Unpack[Options]
    ) -> int: ...
    async def enqueue_copy(
        self,
        items: Iterable[Any],
        *,
        kind: Kind[Any] | None = None,
        conn: AsyncConn | None = None,
        wake: bool = True,
        **options: Unpack[Options],
    ) -> int:
        """Enqueue any number of jobs as they are read, by COPY, all or none; return how many there were.

        A delay or time is for all of them. Where one is refused none is stored; roll your transaction back then.
        """
        delay, at = calls.copied_at(options)
        here = self._here()
        if conn is not None:
            with self._settings.remedy:
                rows = await self._copy(conn, items, kind, options, delay, at)
                await here.wake_on(conn, rows.wakes if wake else ())
            return rows.count
        async with here.connection() as connection:
            async with connection.transaction():
                await connection.execute(pool.copy_limits(self._settings.seconds), prepare=False)
                rows = await self._copy(connection, items, kind, options, delay, at)
            with suppress(*pool.Failed):  # the jobs are there
                await here.wake_on(connection, rows.wakes if wake else ())
        return rows.count

    async def cancel(self, job_id: int, *, conn: AsyncConn | None = None) -> bool:
        """End a job that waits, or have its process end it; False if it had finished or does not exist."""
        return await self._change("job_cancel", job_id, conn) in ("cancelled", "asked")

    async def retry(self, job_id: int, *, conn: AsyncConn | None = None) -> bool:
        """Make a job available now, also one that has finished; False if it runs or does not exist."""
        return await self._change("job_rerun", job_id, conn) == "available"

    async def get(self, job_id: int) -> JobDetail | None:
        """Return everything about a job, living or finished; None if there is none, or no longer."""
        number = self._settings.number(job_id)
        if number is None:
            return None
        for _ in range(ATTEMPTS_TO_FIND):
            if rows := await self._rows(self._settings.text("job_show"), (number,), None):
                return detail_of(rows[0])
        return None

    async def aclose(self) -> None:
        """Send what wake-ups wait and close the connections of this event loop.

        That is no end: whoever enqueues with it afterwards opens new ones, and is to call `aclose` again.
        """
        here = self._sessions.pop((os.getpid(), asyncio.get_running_loop()), None)
        if here is not None:
            await here.aclose()

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close as `aclose` does."""
        await self.aclose()

    def _here(self) -> _AsyncSessions:
        key = process, loop = os.getpid(), asyncio.get_running_loop()
        here = self._sessions.get(key)
        if here is None:
            for old in list(self._sessions):  # at once, for other threads add theirs
                if old[0] == process and old[1].is_closed():
                    self._sessions.pop(old, None)
            here = self._sessions[key] = _AsyncSessions(self._settings, loop)
        return here

    async def _run(self, call: Call, conn: AsyncConn | None, *, wake: bool) -> drivers.Rows:
        text, here, settings = self._settings.text(call.statement), self._here(), self._settings
        if conn is None:
            return await here.run(text, call, wake=wake)
        call = await drivers.suited_async(conn, call)
        with settings.remedy:
            return await here.sending(
                conn, lambda hint: drivers.run_async(conn, text, settings.parameters(call, wake=hint)), wake=wake
            )

    async def _rows(self, text: str, parameters: tuple[object, ...], conn: AsyncConn | None) -> drivers.Rows:
        if conn is not None:
            with self._settings.remedy:
                return await drivers.run_async(conn, text, parameters)
        async with self._here().connection() as connection:
            return await drivers.run_async(connection, text, parameters)

    async def _hinting(self, text: str, number: int, conn: AsyncConn | None) -> drivers.Rows:
        """Run a statement over one id that notifies."""
        here, channel = self._here(), self.config.channel
        if conn is not None:
            return await here.sending(conn, lambda hint: drivers.run_async(conn, text, (number, channel if hint else None)))
        async with here.connection() as own:
            return await here.sending(own, lambda hint: drivers.run_async(own, text, (number, channel if hint else None)))

    async def _change(self, name: str, job_id: int, conn: AsyncConn | None) -> str:
        outcome = "missing"
        number = self._settings.number(job_id)
        if number is None:
            return outcome
        text = self._settings.text_for_one(name)
        for _ in range(ATTEMPTS_TO_FIND):
            [(_id, _was, outcome)] = await self._hinting(text, number, conn)
            if outcome != "missing":
                break
        return outcome

    async def _copy(
        self,
        conn: AsyncConn,
        items: Iterable[Any],
        kind: Kind[Any] | None,
        options: Options,
        delay: float | None,
        at: datetime | None,
    ) -> Copy:
        settings = self._settings
        if delay is not None:
            at = calls.time_of((await drivers.run_async(conn, settings.text("copy_at"), (delay,)))[0][0])
        rows = Copy(items, kind, options, at)
        await drivers.copy_async(conn, settings.schema, rows.columns, rows.blocks(settings.max_bytes))
        return rows


class _AsyncSessions:
    """One event loop's connections and its wake-ups."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._settings = settings
        self._limiter = WakeLimiter()
        if settings.config.poll_only:
            self._limiter.rest(math.inf)  # nobody listens
        self._pool: pool.AsyncPool | None = None
        self._timer: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Lend a connection, the first time after opening the pool."""
        try:
            async with self._opened().connection() as connection:
                yield connection
        except pool.Failed as error:
            explained = refusals.explained(error, self._settings.schema)
            if explained is error:
                raise
            raise explained from error

    async def run(self, text: str, call: Call, *, wake: bool) -> drivers.Rows:
        """Run a call in a transaction of its own, and see to it that its queues are woken."""
        lead = wake and self._limiter.lead(call.wakes)

        async def run(hint: bool) -> drivers.Rows:
            return await drivers.run_async(connection, text, self._settings.parameters(call, wake=hint))

        async with self.connection() as connection:
            rows = await self.sending(connection, run, wake=lead)
        if wake and not lead:
            delay = self._limiter.trail(call.wakes)
            if delay is not None:
                self._timer = self.loop.create_task(self._trailing(delay))
        return rows

    async def sending(self, conn: Any, run: Callable[[bool], Awaitable[drivers.Rows]], *, wake: bool = True) -> drivers.Rows:
        """Run a statement with its hint, and once more without one if the server has no room for it, as Client's do."""
        if not wake or self._limiter.resting:
            return await run(False)
        try:
            return await run(True)
        except Exception as error:
            if not hints.refused(error):
                raise
            self._limiter.rest(hints.REST)
            rows = await run(False)
            with suppress(Exception):  # done for its effect and for the log, by whatever library
                if hints.tell(error, *(await drivers.run_async(conn, self._settings.text("hint_queue"), ()))[0]):
                    self._limiter.rest(0.0)
            return rows

    async def wake_on(self, conn: Any, names: Collection[str]) -> None:
        """Wake queues by a statement of its own."""

        async def wake(hint: bool) -> drivers.Rows:
            return await drivers.run_async(conn, *self._settings.waking(names)) if hint else []

        if names:
            await self.sending(conn, wake)

    async def aclose(self) -> None:
        """Wake whoever still waits for it, and close the pool."""
        opened, self._pool = self._pool, None
        if opened is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        await self._wake(opened, everything=True)
        await opened.close()

    def _opened(self) -> pool.AsyncPool:
        if self._pool is None:
            self._pool = pool.AsyncPool(self._settings.url, prepare=self._settings.prepare, seconds=self._settings.seconds)
        return self._pool

    async def _trailing(self, delay: float | None) -> None:
        while delay is not None and self._pool is not None:
            await asyncio.sleep(delay)
            delay = await self._wake(self._pool)

    async def _wake(self, opened: pool.AsyncPool, *, everything: bool = False) -> float | None:
        names, delay = self._limiter.take(everything)
        if names:
            with suppress(*pool.Failed):  # a hint: without it the next poll finds the jobs
                async with opened.connection(patient=False) as connection:
                    await self.wake_on(connection, names)
        return delay
