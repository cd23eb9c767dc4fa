"""Enqueue jobs, from programs with threads. `AsyncClient` (client_async.py) is the same for asyncio.

One client per program, made anywhere, shared by all threads; it connects when it is first used, and a child that is forked
connects for itself. With `conn` a job is part of the caller's transaction: there when that commits, gone when it does
not. Without, it is a transaction of its own, on one of a few autocommit connections (pool.py).

What is decided about args and options is in calls.py, how callers' connections differ in drivers.py, when a wake-up
may be sent in wake_limiter.py. It deliberately starts no thread but a timer for the last of several wake-ups.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from threading import Lock, Timer
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
    from fastq.adapters.conn import Conn

A = TypeVar("A")


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
    def enqueue(self, args: Args, *, conn: Conn | None = None, wake: bool = True, **options: Unpack[Options]) -> int: ...
    @overload
    def enqueue(
        self, args: A, *, kind: Kind[A], conn: Conn | None = None, wake: bool = True, **options: Unpack[Options]
    ) -> int: ...
    def enqueue(
        self, args: Any, *, kind: Kind[Any] | None = None, conn: Conn | None = None, wake: bool = True, **options: Unpack[Options]
    ) -> int:
        """Enqueue one job and return its id.

        `conn`: a connection or session of yours, whose transaction the job is part of. `kind`: for args whose class names none.
        `wake=False` sends no notification, and the job starts up to FASTQ_POLL_INTERVAL later: for a commit in two phases, which
        may not notify, and for a transaction that must commit whether the server has room for notifications or not.
        The options `queue`, `priority` (1 is first, 4 last), `max_attempts`, `delay` (seconds) or `at` (with a time zone), and
        `tags` come before those of the kind.
        """
        call = calls.one(args, kind, options, self._settings.max_bytes)
        return int(self._run(call, conn, wake=wake)[0][0])

    @overload
    def enqueue_many(
        self, items: Iterable[Args | Enqueue], *, conn: Conn | None = None, wake: bool = True, **options: Unpack[Options]
    ) -> list[int]: ...
    @overload
    def enqueue_many(
        self, items: Iterable[A], *, kind: Kind[A], conn: Conn | None = None, wake: bool = True, **options: Unpack[Options]
    ) -> list[int]: ...
    def enqueue_many(
        self,
        items: Iterable[Any],
        *,
        kind: Kind[Any] | None = None,
        conn: Conn | None = None,
        wake: bool = True,
        **options: Unpack[Options],
    ) -> list[int]:
        """Enqueue all of them or none, in one statement; return the ids in their order.

        The options and `wake` are those of `enqueue`, and hold for each job; `Enqueue(args, priority=2)` among the items is a job
        with options of its own.
        """
        call = calls.many(items, kind, options, self._settings.max_bytes)
        return [int(row[0]) for row in self._run(call, conn, wake=wake)] if call else []

    @overload
    def enqueue_copy(
        self, items: Iterable[Args | Enqueue], *, conn: Conn | None = None, wake: bool = True, **options: Unpack[Options]
    ) -> int: ...
    @overload
    def enqueue_copy(
        self, items: Iterable[A], *, kind: Kind[A], conn: Conn | None = None, wake: bool = True, **options: Unpack[Options]
    ) -> int: ...
    def enqueue_copy(
        self,
        items: Iterable[Any],
        *,
        kind: Kind[Any] | None = None,
        conn: Conn | None = None,
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
                rows = self._copy(conn, items, kind, options, delay, at)
                here.wake_on(conn, rows.wakes if wake else ())
            return rows.count
        with here.connection() as connection:
            with connection.transaction():
                connection.execute(pool.copy_limits(self._settings.seconds), prepare=False)
                rows = self._copy(connection, items, kind, options, delay, at)
            with suppress(*pool.Failed):  # the jobs are there
                here.wake_on(connection, rows.wakes if wake else ())
        return rows.count

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

    def _run(self, call: Call, conn: Conn | None, *, wake: bool) -> drivers.Rows:
        text, here, settings = self._settings.text(call.statement), self._here(), self._settings
        if conn is None:
            return here.run(text, call, wake=wake)
        call = drivers.suited(conn, call)
        with settings.remedy:
            return here.sending(conn, lambda hint: drivers.run(conn, text, settings.parameters(call, wake=hint)), wake=wake)

    def _rows(self, text: str, parameters: tuple[object, ...], conn: Conn | None) -> drivers.Rows:
        if conn is not None:
            with self._settings.remedy:
                return drivers.run(conn, text, parameters)
        with self._here().connection() as connection:
            return drivers.run(connection, text, parameters)

    def _hinting(self, text: str, number: int, conn: Conn | None) -> drivers.Rows:
        """Run a statement over one id that notifies."""
        here, channel = self._here(), self.config.channel
        if conn is not None:
            return here.sending(conn, lambda hint: drivers.run(conn, text, (number, channel if hint else None)))
        with here.connection() as own:
            return here.sending(own, lambda hint: drivers.run(own, text, (number, channel if hint else None)))

    def _change(self, name: str, job_id: int, conn: Conn | None) -> str:
        outcome = "missing"
        number = self._settings.number(job_id)
        if number is None:
            return outcome
        text = self._settings.text_for_one(name)
        for _ in range(ATTEMPTS_TO_FIND):
            [(_id, _was, outcome)] = self._hinting(text, number, conn)
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
    ) -> Copy:
        settings = self._settings
        if delay is not None:
            at = calls.time_of(drivers.run(conn, settings.text("copy_at"), (delay,))[0][0])
        rows = Copy(items, kind, options, at)
        drivers.copy(conn, settings.schema, rows.columns, rows.blocks(settings.max_bytes))
        return rows


class _Sessions:
    """One process's connections and its wake-ups; all threads of the process share it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._limiter = WakeLimiter()
        if settings.config.poll_only:
            self._limiter.rest(math.inf)  # nobody listens
        self._lock = Lock()  # guards the opening and closing of the pool
        self._pool: pool.Pool | None = None
        self._timers: set[Timer] = set()  # those that have not ended; each change is one step, of whatever thread

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """Lend a connection, the first time after opening the pool."""
        try:
            with self._opened().connection() as connection:
                yield connection
        except pool.Failed as error:
            explained = refusals.explained(error, self._settings.schema)
            if explained is error:
                raise
            raise explained from error

    def run(self, text: str, call: Call, *, wake: bool) -> drivers.Rows:
        """Run a call in a transaction of its own, and see to it that its queues are woken."""
        lead = wake and self._limiter.lead(call.wakes)

        def run(hint: bool) -> drivers.Rows:
            return cursor.execute(text.encode(), self._settings.parameters(call, wake=hint)).fetchall()

        with self.connection() as connection, pool.cursor(connection) as cursor:
            rows = self.sending(connection, run, wake=lead)
        if wake and not lead:
            self._come_back(self._limiter.trail(call.wakes))
        return rows

    def sending(self, conn: Any, run: Callable[[bool], drivers.Rows], *, wake: bool = True) -> drivers.Rows:
        """Run a statement with its hint, and once more without one if the server has no room for it.

        In a transaction of the caller's nothing of this happens here: there it is the commit that is refused.
        """
        if not wake or self._limiter.resting:
            return run(False)
        try:
            return run(True)
        except Exception as error:
            if not hints.refused(error):
                raise
            self._limiter.rest(hints.REST)
            rows = run(False)
            with suppress(Exception):  # done for its effect and for the log, by whatever library
                if hints.tell(error, *drivers.run(conn, self._settings.text("hint_queue"), ())[0]):
                    self._limiter.rest(0.0)
            return rows

    def wake_on(self, conn: Any, names: Collection[str]) -> None:
        """Wake queues by a statement of its own."""
        if names:
            self.sending(conn, lambda hint: drivers.run(conn, *self._settings.waking(names)) if hint else [])

    def close(self) -> None:
        """Wake whoever still waits for it, and close the pool."""
        with self._lock:
            opened, self._pool = self._pool, None
        if opened is None:
            return
        for timer in list(self._timers):
            timer.cancel()
            if timer.is_alive():
                timer.join()  # it may have begun: what it has taken is sent before this returns
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
            timer = Timer(delay, lambda: self._trailing(timer))
            self._timers.add(timer)
            timer.start()

    def _trailing(self, timer: Timer) -> None:
        opened = self._pool
        try:
            if opened is not None:
                self._wake(opened)
        finally:
            self._timers.discard(timer)

    def _wake(self, opened: pool.Pool, *, everything: bool = False) -> None:
        names, delay = self._limiter.take(everything)
        if names:
            with (
                suppress(*pool.Failed),
                opened.connection(patient=False) as connection,
            ):  # a hint: without it the next poll finds the jobs
                self.wake_on(connection, names)
        if not everything:
            self._come_back(delay)
