"""Enqueue jobs from an event loop, look at them, cancel, retry and pause them; workflows_async.py adds workflows.

Discarded jobs are in admin/dead/letters_async.py.

`Client` (client.py) does the same in programs with threads, and is made from this file.

One client per program, made anywhere; it connects when it is first used. Each event loop that uses it gets connections of its
own, and so does a forked child; loops in several threads may share it. With `conn` a job is part of the caller's transaction:
there when that commits, gone when it does not. Without, it is a transaction of its own, on one of a few autocommit connections.

A client owns its settings, which never change, and its sessions. All else is values of the method that runs. Args and options are
checked in calls.py and copies.py, which make statements and rows of them; sessions_async.py sends these, on a connection of ours
or through the adapters for callers' connections, and wakes the workers.

It deliberately takes plain iterables, not asynchronous ones: args are at hand or cheap to make, and a COPY awaits the database
after each block, so the loop goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from fastq.adapters import drivers_async
from fastq.admin.dead.letters_async import AsyncDeadLetters
from fastq.admin.jobs import ATTEMPTS_TO_FIND, JobDetail, detail_of
from fastq.admin.why import ADMITTED, BEFORE, why_of
from fastq.args.hook import Hook
from fastq.args.kinds import Args, Kind, R
from fastq.args.meta import quoted
from fastq.args.rate import Rate
from fastq.awaiting.ends_async import AsyncEnds
from fastq.awaiting.results_async import AsyncResults
from fastq.config import Config
from fastq.enqueue import calls, copies
from fastq.enqueue.items import Enqueue, Enqueued
from fastq.enqueue.operate.looking_async import AsyncLooking
from fastq.enqueue.operate.many_jobs_async import AsyncManyJobs
from fastq.enqueue.operate.measuring_async import AsyncMeasuring
from fastq.enqueue.operate.operators_async import AsyncOperators
from fastq.enqueue.operate.signalling_async import AsyncSignalling
from fastq.enqueue.sessions_async import AsyncSessions
from fastq.enqueue.settings import Settings
from fastq.enqueue.uniques import Uniques
from fastq.enqueue.workflows_async import AsyncWorkflows
from fastq.errors import DuplicateJob
from fastq.joblogs.reading.job_logs_async import AsyncJobLogs
from fastq.jobs.spec import Options
from fastq.postgres.pool import in_loop
from fastq.postgres.pool.pool_async import Failed, copy_limits
from fastq.subscribing.event_stream_async import AsyncHearing

if TYPE_CHECKING:
    from fastq.adapters.conn import AsyncConn
    from fastq.adapters.library import Rows
    from fastq.admin.session import Asking

A = TypeVar("A")
T = TypeVar("T")


class AsyncClient(
    AsyncWorkflows,
    AsyncOperators,
    AsyncSignalling,
    AsyncMeasuring,
    AsyncLooking,
    AsyncResults,
    AsyncJobLogs,
    AsyncHearing,
    AsyncDeadLetters,
):
    """Enqueue jobs: `await AsyncClient().enqueue(SortArgs(["whale", "tiger"]))` uses FASTQ_DATABASE_URL."""

    def __init__(
        self, url: str | None = None, *, schema: str | None = None, config: Config | None = None, hooks: Sequence[Hook] = ()
    ) -> None:
        self._settings = Settings(url, schema, config, hooks)
        # By process and event loop. A forked child finds nothing of its own here and makes it. It must neither use nor close the
        # sessions that it inherited (closing would end the parent's), and keeping them here also keeps them from being collected.
        self._sessions: dict[in_loop.Home, AsyncSessions] = {}

    @property
    def config(self) -> Config:
        """Return the configuration that this client goes by."""
        return self._settings.config

    @property
    def jobs(self) -> AsyncManyJobs:
        """Give the jobs, to be found by a filter."""
        return AsyncManyJobs(self._asked)

    @overload
    async def enqueue(
        self, args: Args, *, conn: AsyncConn | None = None, wake: bool = True, **options: Unpack[Options]
    ) -> Enqueued: ...
    @overload
    async def enqueue(
        self, args: A, *, kind: Kind[A, R], conn: AsyncConn | None = None, wake: bool = True, **options: Unpack[Options]
    ) -> Enqueued[R]: ...
    async def enqueue(
        self,
        args: Any,
        *,
        kind: Kind[Any] | None = None,
        conn: AsyncConn | None = None,
        wake: bool = True,
        **options: Unpack[Options],
    ) -> Enqueued:
        """Enqueue one job and return its id, a number that also says whether the job is `new`.

        `conn`: a connection or session of yours; the job is part of its transaction. `kind`: for args of a class that names
        none. `wake=False` sends no notification, and the job starts up to FASTQ_POLL_INTERVAL later: for a commit in two
        phases, which may not notify, and for a transaction that must commit whether the server has room for notifications or
        not. The options `queue`, `priority` (1 is first, 4 last), `max_attempts`, `delay` (seconds) or `at` (with a time zone),
        and `tags` come before those of the kind. So does `unique`: where another job holds the key, the id is that job's, and
        the number tells more (`Enqueued`).
        """
        here = self._here()
        call = calls.one(args, kind, options, self._settings.max_bytes, self._settings.hooks)
        if call.rows:
            told = (await here.run_steps(Uniques(call.rows), conn, wake=wake))[0]
        else:
            told = Enqueued((await here.run(call, conn, wake=wake))[0][0])
        if call.result is not None:
            told.result = call.result
        if conn is not None:
            told.in_transaction = True
        return told

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

        The options and `wake` are those of `enqueue`, and hold for each job; `Enqueue(args, priority=2)` among the items is a
        job with options of its own. Where one of them is unique, each of the ids says whether that job is `new`, as that of
        `enqueue`.
        """
        call = calls.many(items, kind, options, self._settings.max_bytes, self._settings.hooks)
        here = self._here()
        if call is not None and call.rows:
            told: list[Any] = await here.run_steps(Uniques(call.rows), conn, wake=wake)
            return told
        return [int(row[0]) for row in await here.run(call, conn, wake=wake)] if call else []

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
        delay, at = copies.copied_at(options)
        here = self._here()
        if conn is not None:
            with self._settings.remedy:
                rows = await self._copy(conn, items, kind, options, delay, at)
                await here.wake_on(conn, rows.wakes if wake else ())
            return rows.count
        async with here.connection() as connection:
            async with connection.transaction():
                await connection.execute(copy_limits(self._settings.seconds), prepare=False)
                rows = await self._copy(connection, items, kind, options, delay, at)
            with suppress(*Failed):  # the jobs are there
                await here.wake_on(connection, rows.wakes if wake else ())
        return rows.count

    async def cancel(self, job_id: int, *, conn: AsyncConn | None = None) -> bool:
        """End a job that waits, or have its process end it; False if it had finished or does not exist."""
        return await self._change("job_cancel", job_id, conn) in ("cancelled", "asked")

    async def retry(self, job_id: int, *, conn: AsyncConn | None = None) -> bool:
        """Make a job available now, also one that has finished; False if it runs or does not exist.

        DuplicateJob if it has finished, is unique, and another job holds its key.
        """
        return await self._change("job_rerun", job_id, conn) == "available"

    async def spend(self, rate: Rate, key: object = None, weight: int = 1, *, conn: AsyncConn | None = None) -> None:
        """Count something that starts outside of jobs at a rate, as so much at this key: the jobs start that much later.

        `key` is a value of the field that the rate's `by` names (a list of values where it names several); without `by` there is
        none. It waits for nothing and refuses nothing.
        """
        await self._hinting(self._settings.text("gate_spend"), (quoted(rate.spent(key, weight)),), conn)

    async def get(self, job_id: int, *, conn: AsyncConn | None = None) -> JobDetail | None:
        """Return everything about a job, living or finished; None if there is none, or no longer.

        With `conn` also of a job that this transaction has made.
        """
        number = self._settings.number(job_id)
        if number is None:
            return None
        for _ in range(ATTEMPTS_TO_FIND):
            if rows := await self._rows(self._settings.text("job_show"), (number,), conn):
                return detail_of(rows[0])
        return None

    async def why(self, job_id: int, *, conn: AsyncConn | None = None) -> str | None:
        """Say in one sentence what a job waits for, or what became of it; None if there is none, or no longer."""
        number = self._settings.number(job_id)
        if number is None:
            return None
        for _ in range(ATTEMPTS_TO_FIND):
            if rows := await self._rows(self._settings.text("job_why"), (number, BEFORE, ADMITTED), conn):
                return why_of(rows[0])
        return None

    async def aclose(self) -> None:
        """Close the connections of this event loop.

        That is no end: to enqueue with it afterwards opens new ones, and `aclose` is to be called again.
        """
        here = self._sessions.pop(in_loop.home(), None)
        if here is not None:
            await here.aclose()

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close as `aclose` does."""
        await self.aclose()

    def _here(self) -> AsyncSessions:
        home = in_loop.home()
        here = self._sessions.get(home)
        if here is None:
            in_loop.forget_ended(self._sessions)
            # setdefault is atomic: of two threads that come first, one has made sessions that nobody uses; they opened nothing.
            here = self._sessions.setdefault(home, AsyncSessions(self._settings))
        return here

    def _ends(self) -> AsyncEnds:
        return self._here().ends

    async def _rows(self, text: str, parameters: tuple[object, ...], conn: AsyncConn | None) -> Rows:
        if conn is not None:
            with self._settings.remedy:
                return await drivers_async.run(conn, text, parameters)
        async with self._here().connection() as connection:
            return await drivers_async.run(connection, text, parameters)

    async def _asked(self, asking: Asking[T], conn: AsyncConn | None, *, whole: bool = False) -> T:
        return await self._here().answered(asking, conn, whole=whole)

    async def _ask(self, name: str, parameters: tuple[object, ...]) -> Rows:
        return await self._rows(self._settings.text(name), parameters, None)

    async def _ask_hinting(self, name: str, parameters: tuple[object, ...]) -> Rows:
        return await self._hinting(self._settings.text(name), parameters, None)

    async def _hinting(self, text: str, values: tuple[object, ...], conn: AsyncConn | None) -> Rows:
        """Run a statement that notifies."""
        here, channel = self._here(), self._settings.channel
        if conn is not None:
            return await here.sending(conn, lambda hint: drivers_async.run(conn, text, (*values, channel if hint else None)))
        async with here.connection() as own:
            return await here.sending(own, lambda hint: drivers_async.run(own, text, (*values, channel if hint else None)))

    async def _change(self, name: str, job_id: int, conn: AsyncConn | None) -> str:
        outcome = "missing"
        number = self._settings.number(job_id)
        if number is None:
            return outcome
        text = self._settings.text_for_one(name)
        for _ in range(ATTEMPTS_TO_FIND):
            [(_id, _was, outcome, *holder)] = await self._hinting(text, (number,), conn)
            if outcome == "held":
                raise DuplicateJob(int(holder[0]), None)
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
    ) -> copies.Copy:
        settings = self._settings
        if delay is not None:
            [(due,)] = await drivers_async.run(conn, settings.text("copy_at"), (delay,))
            at = copies.time_of(due)
        rows = copies.Copy(items, kind, options, at, settings.max_bytes, settings.hooks)
        await drivers_async.copy(conn, settings.schema, rows.columns, rows.blocks())
        for lines in rows.lines():
            await drivers_async.run(conn, settings.text("gate_came"), lines)
        return rows
