"""`Jobs` and `AsyncJobs`: what a test asks about the jobs that it has enqueued, and how it has them worked.

Each belongs to one test, and is used in the thread of that test, or on its event loop. `Jobs` works jobs of `async def` on an
event loop of its own, which it runs for that; `AsyncJobs` works all on the loop of the test.

With `conn` both see and work the jobs of a transaction that nobody has committed, on that connection. A connection that was
given to the object counts for each call that names none.

It deliberately works no job by itself: `drain` and `work_one` are asked for, and `inline` is asked for by name.
"""

from __future__ import annotations

import asyncio
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from fastq.adapters import drivers, drivers_async
from fastq.enqueue.client import Client
from fastq.enqueue.client_async import AsyncClient
from fastq.errors import FastqError
from fastq.sql.qualified import qualified
from fastq.sql.statements import in_schema
from fastq.testing.at_work import AtWork, driver, driver_async, inlined
from fastq.testing.matching import STATEMENT, expected, presence, refusal
from fastq.testing.working import Working

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fastq.jobs.registry import Registry
    from fastq.testing.matching import Expected, Seen
    from fastq.testing.ran import Ran

LIMIT = 1_000
"""Attempts of one `drain` at most: a job that snoozes for no time, or enqueues itself, would keep a test for ever."""


class Jobs(AtWork):
    """The jobs of a test: `jobs.assert_enqueued(MailArgs, to="ada")`, `jobs.drain()`.

    `registry` has the workers; `url` leads to the database, or `conn` is a connection or session of the test's own.
    """

    def enqueued(self, what: Any, /, *, conn: Any = None, args: Mapping[str, Any] | None = None, **given: Any) -> list[Seen]:
        """Return the jobs of a kind that were enqueued and have not ended, those alone of which all that is given is true.

        `what`: an args class, args, a Kind, or the name of a kind. Given may be fields of the args (those that have the name of a
        column in `args={...}`) and `queue`, `priority`, `max_attempts`, `tags`, `state`, `attempt`, `scheduled_at`.
        """
        wanted = expected(what, args, given)
        return [job for job in self._seen(wanted, self._rows(conn)) if wanted.fits(job)]

    def assert_enqueued(
        self, what: Any, /, *, count: int | None = None, conn: Any = None, args: Mapping[str, Any] | None = None, **given: Any
    ) -> Seen:
        """Return the first of the jobs that `enqueued` returns; AssertionError if there is none, or are not `count` of them."""
        wanted = expected(what, args, given)
        return _first(wanted, self._seen(wanted, self._rows(conn)), count)

    def assert_not_enqueued(self, what: Any, /, *, conn: Any = None, args: Mapping[str, Any] | None = None, **given: Any) -> None:
        """Raise AssertionError if `enqueued` would return a job."""
        wanted = expected(what, args, given)
        _none(wanted, self._seen(wanted, self._rows(conn)))

    def work_one(self, *, registry: Registry | None = None, raising: bool = True, conn: Any = None) -> Ran | None:
        """Have the next job worked; return how it ended, None if no job is available. Of a batch worker's jobs that is the first.

        The exception of an attempt that failed is raised, once its outcome is written, unless `raising=False`.
        """
        results = self._work(conn, registry, once=True, raising=raising)
        return results[0] if results else None

    def drain(
        self,
        *,
        registry: Registry | None = None,
        until: datetime | timedelta | float | None = None,
        limit: int = LIMIT,
        raising: bool = True,
        conn: Any = None,
    ) -> list[Ran]:
        """Have jobs worked until none is available, also those that they enqueue; return how each attempt ended, in their order.

        `until`: also the jobs that come due until then (a time, or seconds or a timedelta from now), each at its time.
        """
        return self._work(conn, registry, once=False, raising=raising, limit=limit, until=until)

    def tick(self, *, registry: Registry | None = None, conn: Any = None) -> int:
        """Enqueue the jobs of periodic schedules that are due; return how many. The first call defines the schedules."""
        wanted = self._wanted(registry)
        conn = conn if conn is not None else self._conn
        with self._at(driver(conn), conn) as connection:
            return self._tick(connection, wanted)

    @contextmanager
    def inline(self, *, registry: Registry | None = None, raising: bool = True) -> Iterator[None]:
        """Have each enqueue by a `Client` work its jobs before it returns; why not to: docs/testing-your-workers.md."""

        def working(method: Callable[..., Any]) -> Callable[..., Any]:
            def enqueue(client: Client, *given: Any, **options: Any) -> Any:
                told = method(client, *given, **options)
                if not self._works:
                    self.drain(registry=registry, raising=raising, conn=options.get("conn"))
                return told

            return enqueue

        with inlined(Client, working):
            yield

    def _rows(self, conn: Any) -> Any:
        conn = conn if conn is not None else self._conn
        if conn is None:
            return self._own().ask(in_schema(STATEMENT, self.config.schema))
        return drivers.run(conn, in_schema(qualified(STATEMENT), self.config.schema), ())

    def _work(
        self,
        conn: Any,
        registry: Registry | None,
        *,
        once: bool,
        raising: bool,
        limit: int = LIMIT,
        until: datetime | timedelta | float | None = None,
    ) -> list[Ran]:
        wanted, loop = self._wanted(registry), self._loop()
        conn = conn if conn is not None else self._conn
        with self._at(driver(conn), conn) as connection, self._until(connection, until) as times:
            working = Working(connection, self.config, wanted, self._own_things, loop)
            with closing(working.run(once=once, limit=limit, raising=raising, **times)) as steps:
                for coroutine in steps:
                    _run(loop, coroutine)
        return working.results

    def _loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of this object, which stands still between two calls."""
        loop: asyncio.AbstractEventLoop | None = getattr(self, "_event_loop", None)
        if loop is None or loop.is_closed():
            loop = self._event_loop = asyncio.new_event_loop()
            self._closing.callback(loop.close)
        return loop


class AsyncJobs(AtWork):
    """The jobs of a test that awaits: `await jobs.assert_enqueued(MailArgs, to="ada")`, `await jobs.drain()`.

    The methods are those of `Jobs`. `conn` may be an AsyncConnection of psycopg, or one or a session of SQLAlchemy's on it; the
    questions are answered on a connection of asyncpg, too.
    """

    async def enqueued(
        self, what: Any, /, *, conn: Any = None, args: Mapping[str, Any] | None = None, **given: Any
    ) -> list[Seen]:
        """Return the jobs of which all that is given is true, as `Jobs.enqueued` does."""
        wanted = expected(what, args, given)
        return [job for job in self._seen(wanted, await self._rows(conn)) if wanted.fits(job)]

    async def assert_enqueued(
        self, what: Any, /, *, count: int | None = None, conn: Any = None, args: Mapping[str, Any] | None = None, **given: Any
    ) -> Seen:
        """Return the first such job; AssertionError if there is none, or are not `count` of them."""
        wanted = expected(what, args, given)
        return _first(wanted, self._seen(wanted, await self._rows(conn)), count)

    async def assert_not_enqueued(
        self, what: Any, /, *, conn: Any = None, args: Mapping[str, Any] | None = None, **given: Any
    ) -> None:
        """Raise AssertionError if there is such a job."""
        wanted = expected(what, args, given)
        _none(wanted, self._seen(wanted, await self._rows(conn)))

    async def work_one(self, *, registry: Registry | None = None, raising: bool = True, conn: Any = None) -> Ran | None:
        """Have the next job worked on this event loop; one of `def work` holds the loop up meanwhile."""
        results = await self._work(conn, registry, once=True, raising=raising)
        return results[0] if results else None

    async def drain(
        self,
        *,
        registry: Registry | None = None,
        until: datetime | timedelta | float | None = None,
        limit: int = LIMIT,
        raising: bool = True,
        conn: Any = None,
    ) -> list[Ran]:
        """Have jobs worked until none is available, on this event loop."""
        return await self._work(conn, registry, once=False, raising=raising, limit=limit, until=until)

    async def tick(self, *, registry: Registry | None = None, conn: Any = None) -> int:
        """Enqueue the jobs of periodic schedules that are due; return how many."""
        wanted = self._wanted(registry)
        conn = conn if conn is not None else self._conn
        with self._at(await driver_async(conn), conn) as connection:
            return self._tick(connection, wanted)

    @contextmanager
    def inline(self, *, registry: Registry | None = None, raising: bool = True) -> Iterator[None]:
        """Have each enqueue by an `AsyncClient` work its jobs before it returns, as `Jobs.inline` does."""

        def working(method: Callable[..., Any]) -> Callable[..., Any]:
            async def enqueue(client: AsyncClient, *given: Any, **options: Any) -> Any:
                told = await method(client, *given, **options)
                if not self._works:
                    await self.drain(registry=registry, raising=raising, conn=options.get("conn"))
                return told

            return enqueue

        with inlined(AsyncClient, working):
            yield

    async def _rows(self, conn: Any) -> Any:
        conn = conn if conn is not None else self._conn
        if conn is None:
            return self._own().ask(in_schema(STATEMENT, self.config.schema))
        return await drivers_async.run(conn, in_schema(qualified(STATEMENT), self.config.schema), ())

    async def _work(
        self,
        conn: Any,
        registry: Registry | None,
        *,
        once: bool,
        raising: bool,
        limit: int = LIMIT,
        until: datetime | timedelta | float | None = None,
    ) -> list[Ran]:
        wanted, loop = self._wanted(registry), asyncio.get_running_loop()
        conn = conn if conn is not None else self._conn
        with self._at(await driver_async(conn), conn) as connection, self._until(connection, until) as times:
            working = Working(connection, self.config, wanted, self._own_things, loop)
            with closing(working.run(once=once, limit=limit, raising=raising, **times)) as steps:
                for coroutine in steps:
                    await coroutine
        return working.results


@contextmanager
def inline(registry: Registry, url: str | None = None, *, conn: Any = None, raising: bool = True) -> Iterator[Jobs]:
    """Have each enqueue by a `Client` work its jobs before it returns; why that is seldom right: docs/testing-your-workers.md.

    `url` and `conn` are those of `Jobs`, which is given back.
    """
    jobs = Jobs(registry, url, conn=conn)
    try:
        with jobs.inline(raising=raising):
            yield jobs
    finally:
        jobs.close()


def _run(loop: asyncio.AbstractEventLoop, coroutine: Any) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        loop.run_until_complete(coroutine)
        return
    coroutine.close()
    raise FastqError("an event loop runs in this thread, so the jobs of `async def` need it: expected AsyncJobs, and `await`")


def _first(wanted: Expected, jobs: list[Seen], count: int | None) -> Seen:
    fitting = [job for job in jobs if wanted.fits(job)]
    if not fitting or (count is not None and len(fitting) != count):
        raise AssertionError(refusal(wanted, jobs, count, len(fitting)))
    return fitting[0]


def _none(wanted: Expected, jobs: list[Seen]) -> None:
    fitting = [job for job in jobs if wanted.fits(job)]
    if fitting:
        raise AssertionError(presence(wanted, fitting))
