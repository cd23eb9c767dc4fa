# Made by tools/twins.py from enqueue/sessions_async.py: change that file, then run `make twins`.
"""Carry a client's statements to Postgres, and see to it that the workers are woken.

Runs in the enqueuing threads; a client has one for each process, which its threads share.
Without a connection of the caller's, each statement is a transaction of its own, on a connection of the pool's. The client makes
the sessions and closes them; they own their pool and the memory of the wake-ups that were sent.

Invariant: a wake-up is sent with its statement or after it, never before the jobs are there; and no statement is lost by its
wake-up: where the server has no room for notifications, it is run without one.

It deliberately sends no wake-up more often than wake_limiter.py allows; the workers find the jobs a little later then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from fastq.adapters import drivers
from fastq.awaiting.ends import Ends
from fastq.errors import DuplicateJob, FastqError, WorkflowError
from fastq.postgres import hints, refusals, sqlstate
from fastq.postgres.pool import pool
from fastq.postgres.pool.pool import Failed
from fastq.postgres.pool.wake_limiter import WakeLimiter
from fastq.sql.statements import qualified

if TYPE_CHECKING:
    from fastq.adapters.conn import Conn
    from fastq.adapters.library import Rows
    from fastq.admin.session import Ask, Asking
    from fastq.enqueue.calls import Call
    from fastq.enqueue.flows import Stepped
    from fastq.enqueue.settings import Settings
    from fastq.enqueue.uniques import Steps

T = TypeVar("T")


class Sessions:
    """The connections and the wake-ups of one process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._schema = settings.schema
        self._channel = settings.channel
        self._limiter = WakeLimiter()
        if settings.config.poll_only:
            self._limiter.rest(math.inf)  # nobody listens
        self._pool = pool.Pool(
            settings.url,
            prepare=settings.prepare,
            seconds=settings.seconds,
            explained=lambda error: refusals.explained(error, settings.schema),
        )  # opens nothing yet
        self.connection = self._pool.connection  # lends one of our own
        self.ends = Ends(self._read, lambda: self._pool.reached)

    def run(self, call: Call, conn: Conn | None, *, wake: bool) -> Rows:
        """Run a call in a transaction of its own, or in the caller's, and see to it that its queues are woken."""
        if conn is not None:
            return self._run_on(conn, call, wake=wake)
        text = qualified(call.statement, self._schema)
        lead = wake and self._limiter.lead(call.wakes)
        with self.connection() as own:
            try:
                rows: Rows = pool.run_plain(own, call.statement, text, (*call.values, lead, self._channel))
            except Exception as error:  # noqa: BLE001 - raised again unless it is the hint's fault
                rows = self._without_hint(
                    error, own, lambda hint: pool.run_plain(own, call.statement, text, (*call.values, hint, self._channel))
                )
            if wake and not lead:
                self._wake(own, call.wakes)
        return rows

    def run_steps(self, change: Stepped[T], conn: Conn | None, *, wake: bool) -> T:
        """Run a change of several statements in one transaction, and wake the workers and the leader if it asks for that."""
        if conn is not None:
            with self._settings.remedy:
                self._follow(change.steps(), conn)
                self.wake_on(conn, change.wakes if wake else ())
            return change.told()
        with self.connection() as own:
            try:
                with nullcontext() if change.in_one_step else own.transaction():
                    self._follow(change.steps(), own)
            except (DuplicateJob, WorkflowError) as error:  # raised once the connection is given back: nothing has failed on it
                refused: FastqError = error
            else:
                self._wake(own, change.wakes if wake else ())
                return change.told()
        raise refused

    def answered(self, asking: Asking[T], conn: Conn | None, *, whole: bool = False) -> T:
        """Run statements that follow one another: each in a transaction of its own, `whole` in one, or all in the caller's."""
        try:
            ask = next(asking)  # the parameters are checked before this asks for a connection
        except StopIteration as end:
            told: T = end.value
            return told
        if conn is not None:
            with self._settings.remedy:
                return self._go_on(asking, ask, conn)
        with self.connection() as own, own.transaction() if whole else nullcontext():
            return self._go_on(asking, ask, own, own=True)

    def sending(self, conn: Any, run: Callable[[bool], Rows], *, wake: bool = True) -> Rows:
        """Run a statement with its hint, unless the server has no room for hints now.

        In the caller's own transaction nothing is run again: the server refuses at the caller's commit.
        """
        if not wake or self._limiter.resting:
            return run(False)
        try:
            return run(True)
        except Exception as error:  # noqa: BLE001 - raised again unless it is the hint's fault
            return self._without_hint(error, conn, run)

    def wake_on(self, conn: Any, names: Collection[str]) -> None:
        """Wake queues by a statement of its own."""

        def wake(hint: bool) -> Rows:
            return drivers.run(conn, *self._settings.waking(names)) if hint else []

        if names:
            self.sending(conn, wake)

    def close(self) -> None:
        """Close the pool."""
        self._pool.close()

    def _read(self, name: str, parameters: tuple[object, ...]) -> Rows:
        """Run a statement of fastq/sql that reads, for callers that try again by themselves."""
        with self.connection(patient=False) as connection:
            return pool.run(connection, qualified(name, self._schema), parameters)

    def _follow(self, steps: Steps, conn: Any) -> None:
        """Run one statement after the other as they are asked for."""
        rows: Rows | None = None
        with suppress(StopIteration):
            while True:
                call = next(steps) if rows is None else steps.send(rows)
                carried = call if call.is_ascii else call.in_encoding(drivers.encoding(conn))
                rows = drivers.run(conn, self._settings.text_for_one(carried.statement), carried.values)

    def _go_on(self, asking: Asking[T], ask: Ask, conn: Any, *, own: bool = False) -> T:
        """Run the statement that an asking has come to, and those behind it; return its result."""
        try:
            while True:
                ask = asking.send(self._one(ask, conn, bounded=own and ask.bounded))
        except StopIteration as end:
            result: T = end.value
            return result

    def _one(self, ask: Ask, conn: Any, *, bounded: bool) -> Rows:
        text = qualified(ask.statement, self._schema)
        if bounded:
            try:
                return drivers.run(conn, text, ask.parameters)
            except Failed as error:
                if not sqlstate.too_slow(error):
                    raise
                return []
        if not ask.hints:
            return drivers.run(conn, text, ask.parameters)
        given, channel = ask.parameters, self._channel
        return self.sending(conn, lambda hint: drivers.run(conn, text, (*given, channel if hint else None)))

    def _wake(self, conn: Any, names: Collection[str]) -> None:
        """Send the hints that are due for jobs which are stored; without them the next poll finds the jobs."""
        if due := self._limiter.trail(names):
            try:
                self.wake_on(conn, due)
            except Failed:
                self._limiter.forget()

    def _run_on(self, conn: Conn, call: Call, *, wake: bool) -> Rows:
        text = qualified(call.statement, self._schema)
        carried = call if call.is_ascii else call.in_encoding(drivers.encoding(conn))
        with self._settings.remedy:
            return self.sending(conn, lambda hint: drivers.run(conn, text, (*carried.values, hint, self._channel)), wake=wake)

    def _without_hint(self, error: Exception, conn: Any, run: Callable[[bool], Rows]) -> Rows:
        """Run a statement once more without its hint, for which the server had no room; raise the error if it is another one."""
        if not hints.refused(error):
            raise error
        self._limiter.rest(hints.REST)
        rows = run(False)
        with suppress(Exception):  # done for its effect and for the log, by any library
            [queue] = drivers.run(conn, qualified("hint_queue", self._schema), ())
            if hints.tell(error, *queue):
                self._limiter.rest(0.0)
        return rows
