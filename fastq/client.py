"""Enqueue jobs, from programs with threads. `AsyncClient` (client_async.py) is the same for asyncio.

One client per program, made anywhere, shared by all threads; it connects when it is first used, and a child that is forked
connects for itself. With `conn` a job is part of the caller's transaction: there when that commits, gone when it does
not. Without, it is a transaction of its own, on a small pool of autocommit connections.

What is decided about args and options is in enqueue.py, how callers' connections differ in adapters.py, when a wake-up
may be sent in wake_limiter.py. It deliberately starts no thread but a timer for the last of several wake-ups.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, TypeVar, Unpack, overload

from fastq import adapters, enqueue, pool
from fastq.admin import ATTEMPTS_TO_FIND, JobDetail, detail_of
from fastq.args import Args, Kind
from fastq.config import Config, settled
from fastq.enqueue import Call, Enqueue, Options
from fastq.errors import ConfigError, OptionError
from fastq.statements import qualified
from fastq.wake_limiter import WakeLimiter

if TYPE_CHECKING:
    from fastq.conn import Conn

A = TypeVar("A")

MAX_ID = 2**63 - 1
"""What a column of type bigint can hold."""


class Settings:
    """What both clients know: the configuration, and how a statement and a wake-up are made from it."""

    def __init__(self, url: str | None, schema: str | None, config: Config | None) -> None:
        config = settled(config, database_url=url, schema=schema)
        if not config.database_url:
            raise ConfigError("a client needs a database: set FASTQ_DATABASE_URL, or write Client('postgresql://...')")
        self.config = config
        self.url = config.database_url
        self.schema = config.schema
        self.max_bytes = config.max_args_bytes
        self.prepare = not config.poll_only
        self.seconds = config.statement_timeout

    def text(self, name: str) -> str:
        """Return a statement of fastq/sql for our schema, to be run in a session whose search path is not ours."""
        return qualified(name, self.schema)

    def text_for_one(self, name: str) -> str:
        """Return a statement over ids for a single one: asyncpg asks the server, in a statement of its own, what an array is."""
        return self.text(name).replace("$1::bigint[]", "array[$1::bigint]")

    def parameters(self, call: Call, *, wake: bool) -> tuple[object, ...]:
        """Return the parameters of a prepared call."""
        return call.parameters(self.config.channel, wake=wake)

    def number(self, job_id: SupportsIndex) -> int | None:
        """Return an id as the database wants it; None if no job can have it, OptionError if it is no id at all."""
        if not hasattr(job_id, "__index__"):
            raise OptionError(f"job_id {job_id!r}: expected an integer, as enqueue returns it")
        number = int(operator.index(job_id))
        return number if 0 < number <= MAX_ID else None

    def waking(self, names: Iterable[str]) -> tuple[str, tuple[str, str]]:
        """Return the statement that wakes queues, and its parameters."""
        return self.text("wake"), (self.config.channel, enqueue.RECORD.join(names))


class Client:
    """Enqueue jobs: `Client().enqueue(SortArgs(["whale", "tiger"]))` uses FASTQ_DATABASE_URL."""

    def __init__(self, url: str | None = None, *, schema: str | None = None, config: Config | None = None) -> None:
        self._settings = Settings(url, schema, config)
        # By process: a forked child finds nothing of its own here and makes it. It must neither use nor close what it
        # inherited (that would end the parent's sessions), and keeping it here also keeps it from being collected.
        self._sessions: dict[int, _Sessions] = {}

    @property
    def config(self) -> Config:
        """Return the configuration that this client goes by."""
        return self._settings.config

    @overload
    def enqueue(self, args: Args, *, conn: Conn | None = None, **options: Unpack[Options]) -> int: ...
    @overload
    def enqueue(self, args: A, *, kind: Kind[A], conn: Conn | None = None, **options: Unpack[Options]) -> int: ...
    def enqueue(self, args: Any, *, kind: Kind[Any] | None = None, conn: Conn | None = None, **options: Unpack[Options]) -> int:
        """Enqueue one job and return its id.

        `conn`: a connection or session of yours, whose transaction the job is part of. `kind`: for args whose class names none.
        The options `queue`, `priority` (1 is first, 4 last), `max_attempts`, `delay` (seconds) or `at` (with a time zone), and
        `tags` come before those of the kind.
        """
        call = enqueue.one(args, kind, options, self._settings.max_bytes)
        return int(self._run(call, conn)[0][0])

    @overload
    def enqueue_many(
        self, items: Iterable[Args | Enqueue], *, conn: Conn | None = None, **options: Unpack[Options]
    ) -> list[int]: ...
    @overload
    def enqueue_many(
        self, items: Iterable[A], *, kind: Kind[A], conn: Conn | None = None, **options: Unpack[Options]
    ) -> list[int]: ...
    def enqueue_many(
        self,
        items: Iterable[Any],
        *,
        kind: Kind[Any] | None = None,
        conn: Conn | None = None,
        **options: Unpack[Options],
    ) -> list[int]:
        """Enqueue all of them or none, in one statement; return the ids in their order.

        The options, those of `enqueue`, hold for each job; `Enqueue(args, priority=2)` among the items is a job with its own.
        """
        call = enqueue.many(items, kind, options, self._settings.max_bytes)
        return [int(row[0]) for row in self._run(call, conn)] if call else []

    @overload
    def enqueue_copy(self, items: Iterable[Args | Enqueue], *, conn: Conn | None = None, **options: Unpack[Options]) -> int: ...
    @overload
    def enqueue_copy(self, items: Iterable[A], *, kind: Kind[A], conn: Conn | None = None, **options: Unpack[Options]) -> int: ...
    def enqueue_copy(
        self,
        items: Iterable[Any],
        *,
        kind: Kind[Any] | None = None,
        conn: Conn | None = None,
        **options: Unpack[Options],
    ) -> int:
        """Enqueue any number of jobs as they are read, by COPY, all or none; return how many there were.

        A delay or time is for all of them. Where one is refused none is stored; roll your transaction back then.
        """
        delay, at = enqueue.copied_at(options)
        if conn is not None:
            return self._copy(conn, items, kind, options, delay, at)
        with self._here().connection() as connection, connection.transaction():
            connection.execute(pool.copy_limits(self._settings.seconds), prepare=False)
            return self._copy(connection, items, kind, options, delay, at)

    def cancel(self, job_id: int, *, conn: Conn | None = None) -> bool:
        """End a job that waits, or have its process end it; False if it had finished or does not exist."""
        return self._change("job_cancel", job_id, conn) in ("cancelled", "asked")

    def retry(self, job_id: int, *, conn: Conn | None = None) -> bool:
        """Make a job available now, also one that has finished; False if it runs or does not exist."""
        return self._change("job_rerun", job_id, conn) == "available"

    def get(self, job_id: int) -> JobDetail | None:
        """Return everything about a job, living or finished; None if there is none, or no longer."""
        number = self._settings.number(job_id)
        if number is None:
            return None
        for _ in range(ATTEMPTS_TO_FIND):
            if rows := self._rows(self._settings.text("job_show"), (number,), None):
                return detail_of(rows[0])
        return None

    def close(self) -> None:
        """Send what wake-ups wait and close the connections.

        That is no end: whoever enqueues with it afterwards opens new ones, and is to call `close` again.
        """
        here = self._sessions.pop(os.getpid(), None)
        if here is not None:
            here.close()

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close as `close` does."""
        self.close()

    def _here(self) -> _Sessions:
        process = os.getpid()
        here = self._sessions.get(process)
        # setdefault is atomic: of two threads that come first one has made what nobody uses, and it has opened nothing.
        return here or self._sessions.setdefault(process, _Sessions(self._settings))

    def _run(self, call: Call, conn: Conn | None) -> adapters.Rows:
        text = self._settings.text(call.statement)
        if conn is not None:
            return adapters.run(conn, text, self._settings.parameters(adapters.suited(conn, call), wake=True))
        return self._here().run(text, call)

    def _rows(self, text: str, parameters: tuple[object, ...], conn: Conn | None) -> adapters.Rows:
        if conn is not None:
            return adapters.run(conn, text, parameters)
        with self._here().connection() as connection:
            return adapters.run(connection, text, parameters)

    def _change(self, name: str, job_id: int, conn: Conn | None) -> str:
        outcome = "missing"
        number = self._settings.number(job_id)
        if number is None:
            return outcome
        text = self._settings.text_for_one(name)
        for _ in range(ATTEMPTS_TO_FIND):
            [(_id, _was, outcome)] = self._rows(text, (number, self.config.channel), conn)
            if outcome != "missing":
                break
        return outcome

    def _copy(
        self,
        conn: Conn,
        items: Iterable[Any],
        kind: Kind[Any] | None,
        options: Options,
        delay: float | None,
        at: datetime | None,
    ) -> int:
        settings = self._settings
        if delay is not None:
            at = enqueue.time_of(adapters.run(conn, settings.text("copy_at"), (delay,))[0][0])
        rows = enqueue.Copy(items, kind, options, at)
        adapters.copy(conn, settings.schema, rows.columns, rows.blocks(settings.max_bytes))
        if rows.wakes:
            adapters.run(conn, *settings.waking(rows.wakes))
        return rows.count


class _Sessions:
    """One process's connections and its wake-ups; all threads of the process share it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._limiter = WakeLimiter()
        self._lock = Lock()  # guards the opening and closing of the pool
        self._pool: pool.Pool | None = None
        self._timer: Timer | None = None

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Lend a connection, the first time after opening the pool."""
        try:
            with self._opened().connection() as connection:
                yield connection
        except pool.Failed as error:
            explained = pool.explained(error, self._settings.schema)
            if explained is error:
                raise
            raise explained from error

    def run(self, text: str, call: Call) -> adapters.Rows:
        """Run a call in a transaction of its own, and see to it that its queues are woken."""
        lead = self._limiter.lead(call.wakes)
        with self.connection() as connection, pool.cursor(connection) as cursor:
            rows = cursor.execute(text.encode(), self._settings.parameters(call, wake=lead)).fetchall()
        if not lead:
            self._come_back(self._limiter.trail(call.wakes))
        return rows

    def close(self) -> None:
        """Wake whoever still waits for it, and close the pool."""
        with self._lock:
            opened, self._pool = self._pool, None
        if opened is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._wake(opened, everything=True)
        opened.close()

    def _opened(self) -> pool.Pool:
        if self._pool is None:
            with self._lock:
                if self._pool is None:
                    self._pool = pool.Pool(self._settings.url, prepare=self._settings.prepare, seconds=self._settings.seconds)
        return self._pool

    def _come_back(self, delay: float | None) -> None:
        if delay is not None:
            # Not a daemon: a program that ends now waits these few milliseconds for its last wake-up.
            self._timer = Timer(delay, self._trailing)
            self._timer.start()

    def _trailing(self) -> None:
        opened = self._pool
        if opened is not None:
            self._wake(opened)

    def _wake(self, opened: pool.Pool, *, everything: bool = False) -> None:
        names, delay = self._limiter.take(everything)
        if names:
            with (
                suppress(*pool.Failed),
                opened.connection(patient=False) as connection,
            ):  # a hint: without it the next poll finds the jobs
                adapters.run(connection, *self._settings.waking(names))
        if not everything:
            self._come_back(delay)
