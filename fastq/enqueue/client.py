# Made by tools/twins.py from enqueue/client_async.py: change that file, then run `make twins`.
"""Enqueue jobs from programs with threads, look at them, cancel, retry and pause them; workflows.py adds workflows.

Discarded jobs are in admin/dead/letters.py.

`AsyncClient` (client_async.py) does the same in an event loop.

One client per program, made anywhere, shared by all threads; it connects when it is first used, and a forked child connects for
itself. With `conn` a job is part of the caller's transaction:
there when that commits, gone when it does not. Without, it is a transaction of its own, on one of a few autocommit connections.

A client owns its settings, which never change, and its sessions. All else is values of the method that runs. Args and options are
checked in calls.py and copies.py, which make statements and rows of them; sessions.py sends these, on a connection of ours
or through the adapters for callers' connections, and wakes the workers.

It deliberately starts no thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from fastq.adapters import drivers
from fastq.admin.dead.letters import DeadLetters
from fastq.admin.jobs import ATTEMPTS_TO_FIND, JobDetail, detail_of
from fastq.admin.why import ADMITTED, BEFORE, why_of
from fastq.args.hook import Hook
from fastq.args.kinds import Args, Kind, R
from fastq.args.meta import quoted
from fastq.args.rate import Rate
from fastq.awaiting.ends import Ends
from fastq.awaiting.results import Results
from fastq.config import Config
from fastq.enqueue import calls, copies
from fastq.enqueue.items import Enqueue, Enqueued
from fastq.enqueue.operate.looking import Looking
from fastq.enqueue.operate.many_jobs import ManyJobs
from fastq.enqueue.operate.measuring import Measuring
from fastq.enqueue.operate.operators import Operators
from fastq.enqueue.operate.signalling import Signalling
from fastq.enqueue.sessions import Sessions
from fastq.enqueue.settings import Settings
from fastq.enqueue.uniques import Uniques
from fastq.enqueue.workflows import Workflows
from fastq.errors import DuplicateJob
from fastq.joblogs.reading.job_logs import JobLogs
from fastq.jobs.spec import Options
from fastq.postgres.pool import in_threads
from fastq.postgres.pool.pool import Failed, copy_limits
from fastq.subscribing.event_stream import Hearing

if TYPE_CHECKING:
    from fastq.adapters.conn import Conn
    from fastq.adapters.library import Rows
    from fastq.admin.session import Asking

A = TypeVar("A")
T = TypeVar("T")


class Client(
    Workflows,
    Operators,
    Signalling,
    Measuring,
    Looking,
    Results,
    JobLogs,
    Hearing,
    DeadLetters,
):
    """Enqueue jobs: `Client().enqueue(SortArgs(["whale", "tiger"]))` uses FASTQ_DATABASE_URL."""

    def __init__(
        self, url: str | None = None, *, schema: str | None = None, config: Config | None = None, hooks: Sequence[Hook] = ()
    ) -> None:
        self._settings = Settings(url, schema, config, hooks)
        # By process. A forked child finds nothing of its own here and makes it. It must neither use nor close the
        # sessions that it inherited (closing would end the parent's), and keeping them here also keeps them from being collected.
        self._sessions: dict[in_threads.Home, Sessions] = {}

    @property
    def config(self) -> Config:
        """Return the configuration that this client goes by."""
        return self._settings.config

    @property
    def jobs(self) -> ManyJobs:
        """Give the jobs, to be found by a filter."""
        return ManyJobs(self._asked)

    @overload
    def enqueue(self, args: Args, *, conn: Conn | None = None, wake: bool = True, **options: Unpack[Options]) -> Enqueued: ...
    @overload
    def enqueue(
        self, args: A, *, kind: Kind[A, R], conn: Conn | None = None, wake: bool = True, **options: Unpack[Options]
    ) -> Enqueued[R]: ...
    def enqueue(
        self,
        args: Any,
        *,
        kind: Kind[Any] | None = None,
        conn: Conn | None = None,
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
            told = (here.run_steps(Uniques(call.rows), conn, wake=wake))[0]
        else:
            told = Enqueued((here.run(call, conn, wake=wake))[0][0])
        if call.result is not None:
            told.result = call.result
        if conn is not None:
            told.in_transaction = True
        return told

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

        The options and `wake` are those of `enqueue`, and hold for each job; `Enqueue(args, priority=2)` among the items is a
        job with options of its own. Where one of them is unique, each of the ids says whether that job is `new`, as that of
        `enqueue`.
        """
        call = calls.many(items, kind, options, self._settings.max_bytes, self._settings.hooks)
        here = self._here()
        if call is not None and call.rows:
            told: list[Any] = here.run_steps(Uniques(call.rows), conn, wake=wake)
            return told
        return [int(row[0]) for row in here.run(call, conn, wake=wake)] if call else []

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
        delay, at = copies.copied_at(options)
        here = self._here()
        if conn is not None:
            with self._settings.remedy:
                rows = self._copy(conn, items, kind, options, delay, at)
                here.wake_on(conn, rows.wakes if wake else ())
            return rows.count
        with here.connection() as connection:
            with connection.transaction():
                connection.execute(copy_limits(self._settings.seconds), prepare=False)
                rows = self._copy(connection, items, kind, options, delay, at)
            with suppress(*Failed):  # the jobs are there
                here.wake_on(connection, rows.wakes if wake else ())
        return rows.count

    def cancel(self, job_id: int, *, conn: Conn | None = None) -> bool:
        """End a job that waits, or have its process end it; False if it had finished or does not exist."""
        return self._change("job_cancel", job_id, conn) in ("cancelled", "asked")

    def retry(self, job_id: int, *, conn: Conn | None = None) -> bool:
        """Make a job available now, also one that has finished; False if it runs or does not exist.

        DuplicateJob if it has finished, is unique, and another job holds its key.
        """
        return self._change("job_rerun", job_id, conn) == "available"

    def spend(self, rate: Rate, key: object = None, weight: int = 1, *, conn: Conn | None = None) -> None:
        """Count something that starts outside of jobs at a rate, as so much at this key: the jobs start that much later.

        `key` is a value of the field that the rate's `by` names (a list of values where it names several); without `by` there is
        none. It waits for nothing and refuses nothing.
        """
        self._hinting(self._settings.text("gate_spend"), (quoted(rate.spent(key, weight)),), conn)

    def get(self, job_id: int, *, conn: Conn | None = None) -> JobDetail | None:
        """Return everything about a job, living or finished; None if there is none, or no longer.

        With `conn` also of a job that this transaction has made.
        """
        number = self._settings.number(job_id)
        if number is None:
            return None
        for _ in range(ATTEMPTS_TO_FIND):
            if rows := self._rows(self._settings.text("job_show"), (number,), conn):
                return detail_of(rows[0])
        return None

    def why(self, job_id: int, *, conn: Conn | None = None) -> str | None:
        """Say in one sentence what a job waits for, or what became of it; None if there is none, or no longer."""
        number = self._settings.number(job_id)
        if number is None:
            return None
        for _ in range(ATTEMPTS_TO_FIND):
            if rows := self._rows(self._settings.text("job_why"), (number, BEFORE, ADMITTED), conn):
                return why_of(rows[0])
        return None

    def close(self) -> None:
        """Close the connections.

        That is no end: to enqueue with it afterwards opens new ones, and `close` is to be called again.
        """
        here = self._sessions.pop(in_threads.home(), None)
        if here is not None:
            here.close()

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close as `close` does."""
        self.close()

    def _here(self) -> Sessions:
        home = in_threads.home()
        here = self._sessions.get(home)
        if here is None:
            in_threads.forget_ended(self._sessions)
            # setdefault is atomic: of two threads that come first, one has made sessions that nobody uses; they opened nothing.
            here = self._sessions.setdefault(home, Sessions(self._settings))
        return here

    def _ends(self) -> Ends:
        return self._here().ends

    def _rows(self, text: str, parameters: tuple[object, ...], conn: Conn | None) -> Rows:
        if conn is not None:
            with self._settings.remedy:
                return drivers.run(conn, text, parameters)
        with self._here().connection() as connection:
            return drivers.run(connection, text, parameters)

    def _asked(self, asking: Asking[T], conn: Conn | None, *, whole: bool = False) -> T:
        return self._here().answered(asking, conn, whole=whole)

    def _ask(self, name: str, parameters: tuple[object, ...]) -> Rows:
        return self._rows(self._settings.text(name), parameters, None)

    def _ask_hinting(self, name: str, parameters: tuple[object, ...]) -> Rows:
        return self._hinting(self._settings.text(name), parameters, None)

    def _hinting(self, text: str, values: tuple[object, ...], conn: Conn | None) -> Rows:
        """Run a statement that notifies."""
        here, channel = self._here(), self._settings.channel
        if conn is not None:
            return here.sending(conn, lambda hint: drivers.run(conn, text, (*values, channel if hint else None)))
        with here.connection() as own:
            return here.sending(own, lambda hint: drivers.run(own, text, (*values, channel if hint else None)))

    def _change(self, name: str, job_id: int, conn: Conn | None) -> str:
        outcome = "missing"
        number = self._settings.number(job_id)
        if number is None:
            return outcome
        text = self._settings.text_for_one(name)
        for _ in range(ATTEMPTS_TO_FIND):
            [(_id, _was, outcome, *holder)] = self._hinting(text, (number,), conn)
            if outcome == "held":
                raise DuplicateJob(int(holder[0]), None)
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
    ) -> copies.Copy:
        settings = self._settings
        if delay is not None:
            [(due,)] = drivers.run(conn, settings.text("copy_at"), (delay,))
            at = copies.time_of(due)
        rows = copies.Copy(items, kind, options, at, settings.max_bytes, settings.hooks)
        drivers.copy(conn, settings.schema, rows.columns, rows.blocks())
        for lines in rows.lines():
            drivers.run(conn, settings.text("gate_came"), lines)
        return rows
