"""The part that both sides of a test's jobs have: the database, the registry, the clock, and enqueues that work at once.

Used in the thread of a test. `Jobs` and `AsyncJobs` (jobs_here.py) are derived from `AtWork`. It keeps a session and the ways of
jobs to the database, and nothing of the jobs.

`inlined` is for a test that asks for it by name. The jobs are enqueued as ever, by the clients' own methods, and then worked by
the real route on the connection that the call was given. The order of things is another one than in production: a job runs before
the enqueue returns, so before the rest of the code that enqueues it and before its transaction commits. A mistake that needs the
true order to be seen stays unseen. A job that a job enqueues comes when that one has ended.
"""

from __future__ import annotations

import asyncio
import functools
import math
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from fastq.adapters.joined import joined
from fastq.adapters.libraries import known
from fastq.adapters.library import AsyncLibrary, Library
from fastq.config import Config, settled
from fastq.enqueue.client import Client
from fastq.enqueue.settings import Settings
from fastq.errors import ConfigError, FastqError, OptionError
from fastq.postgres import db
from fastq.testing.clock import checked, moved, span_of
from fastq.testing.leading import Leading
from fastq.testing.matching import read
from fastq.testing.reached import Ways, joining
from fastq.testing.working import Own
from fastq.work.shared.django_jobs import left_alone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastq.enqueue.client_async import AsyncClient
    from fastq.jobs.registry import Registry
    from fastq.postgres.db import Connection
    from fastq.testing.clock import Clock
    from fastq.testing.matching import Expected, Seen

ENQUEUES = ("enqueue", "enqueue_many", "enqueue_copy", "enqueue_workflow")
"""The methods of a client that make jobs."""


class AtWork:
    """The part that both sides have: the database, the registry, the clock."""

    def __init__(
        self,
        registry: Registry | None = None,
        url: str | None = None,
        *,
        conn: Any = None,
        schema: str | None = None,
        config: Config | None = None,
    ) -> None:
        self.registry = registry
        self.config = settled(config, database_url=url, schema=schema)
        if conn is None and not self.config.database_url:
            raise ConfigError("expected a database of tests: give url or conn, or set FASTQ_DATABASE_URL")
        self._conn = conn
        self._own_things = Own()
        self._closing = ExitStack()
        self._session: Connection | None = None
        self._ways: Ways | None = None
        self._works = False  # a call is under way: a job has asked for another one

    def share(self, session: Connection) -> None:
        """Take a session that others use as well, and that somebody else closes."""
        self._session = session

    def close(self) -> None:
        """Close the session and the event loop, if there are any."""
        self._closing.close()
        self._session = self._ways = None

    @contextmanager
    def frozen(self, at: datetime) -> Iterator[Clock]:
        """Have the database's clock stand still at a time, for fastq's statements; `clock.forward(60)` moves it on."""
        with moved(self._own()) as clock:
            clock.stand(at)
            yield clock

    @contextmanager
    def travel(self, by: float | timedelta) -> Iterator[Clock]:
        """Have the database's clock be ahead, by seconds or a timedelta, for fastq's statements, and go on from there."""
        with moved(self._own()) as clock:
            clock.forward(by)
            yield clock

    def redirect(self, client: Client | AsyncClient) -> None:
        """Have a client that the application has made lead to this database, until this object is closed."""
        kept = vars(client)  # a client cannot be led elsewhere by anything that a program may call
        before = {"_settings": kept["_settings"], "_sessions": kept["_sessions"]}

        def restore() -> None:
            end(client)
            kept.update(before)

        kept.update(_settings=Settings(None, None, self.config, kept["_settings"].hooks), _sessions={})
        self._closing.callback(restore)

    def _own(self) -> Connection:
        """Return the session of this object; it commits."""
        if self._session is None:
            if not self.config.database_url:
                raise ConfigError("expected a URL, since the clock of a database is moved on a connection of its own: give url=")
            self._session = session(self.config)
            self._closing.callback(self._session.close)
        return self._session

    def _wanted(self, registry: Registry | None) -> Registry:
        found = registry or self.registry
        if found is None:
            raise OptionError(
                "expected the registry with the workers of the jobs: give registry=, set fastq_app in pytest's settings, or "
                "write a fixture fastq_registry that returns it"
            )
        return found

    def _seen(self, wanted: Expected, rows: Any) -> list[Seen]:
        kinds = [worker.kind for worker in self.registry.workers.values()] if self.registry is not None else []
        return read(rows, [*kinds, *([wanted.kind] if wanted.kind is not None else [])])

    def _tick(self, connection: Connection, registry: Registry) -> int:
        """Enqueue the ticks that are due."""
        own = self._own_things
        return Leading(connection, self.config, own.gatekeeper).tick(registry, own.take_number(connection))

    @contextmanager
    def _at(self, raw: Any, conn: Any) -> Iterator[Connection]:
        """Give the session to work on, and have jobs reach the database by it: `raw` is the driver's connection, or None."""
        if self._works:
            raise FastqError(
                "a job has asked for jobs to be worked: expected a test to; the call that works this job does the rest"
            )
        self._works = True
        try:
            with left_alone(), self._reaching(raw, conn) as connection:
                yield connection
        finally:
            self._works = False

    @contextmanager
    def _reaching(self, raw: Any, conn: Any) -> Iterator[Connection]:
        if raw is None:
            self._ways = self._ways or Ways(self.config)
            with self._ways.used():
                yield self._own()
            return
        with joined(raw, self.config.schema, self.config.statement_timeout) as connection:
            connection.no_hints_until = math.inf
            with joining(connection, conn, self.config):
                yield connection

    @contextmanager
    def _until(self, connection: Connection, until: datetime | timedelta | float | None) -> Iterator[dict[str, Any]]:
        """Give the clock and the time for a call that works jobs which are not due yet."""
        if until is None:
            yield {}
            return
        with moved(connection) as clock:
            now = clock.now
            clock.stand(now)  # or the time that the jobs take would count
            yield {"clock": clock, "until": checked(until) if isinstance(until, datetime) else now + span_of(until)}


@contextmanager
def inlined(of: type[Any], working: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """Have the methods of a class of clients that enqueue be others for a while: `working` makes them of the clients' own."""
    before = {name: (getattr(of, name), name in vars(of)) for name in ENQUEUES}
    for name, (method, _) in before.items():
        setattr(of, name, functools.wraps(method)(working(method)))
    try:
        yield
    finally:
        for name, (method, own) in before.items():
            if own:
                setattr(of, name, method)
            else:
                delattr(of, name)


def end(client: Client | AsyncClient) -> None:
    """Close the connections of a client; of one for event loops also where its loop has ended with a test."""
    if isinstance(client, Client):
        client.close()
        return

    async def close(sessions: Any) -> None:
        await sessions.aclose()

    of_loops = client._sessions  # noqa: SLF001 - `aclose` closes those of the loop that it is called on
    while of_loops:
        asyncio.run(close(of_loops.popitem()[1]))


def session(config: Config) -> Connection:
    """Open a session as a worker process has them; nothing is prepared, since a test that moves the clock changes statements."""
    seconds = config.statement_timeout
    limit = {"statement_timeout": str(int(seconds * db.SERVER_FIRST * 1000))}
    opened = db.connect(config.database_url, role="test", schema=config.schema, prepare=False, timeout=seconds, settings=limit)
    opened.no_hints_until = math.inf  # nobody listens
    return opened


def driver(conn: Any) -> Any:
    """Return the driver's connection of one that a test has given; None for none."""
    if conn is None:
        return None
    library = known(conn, Library)
    return conn if library.driver is None else library.driver(conn)


async def driver_async(conn: Any) -> Any:
    """Return the same of a connection of an event loop."""
    if conn is None:
        return None
    library = known(conn, AsyncLibrary)
    return conn if library.driver is None else await library.driver(conn)
