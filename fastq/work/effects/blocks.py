# Made by tools/twins.py from work/effects/blocks_async.py: change that file, then run `make twins`.
"""Have a job end in a transaction of the user's, in its thread: `with job.transaction() as conn:`.

Runs in the thread that executes the job. A block and its end belong to the attempt, which alone writes them. A block begins a
transaction, on a connection of the user's or on one of our own. At its end it writes the end of the job there, by the claim, and
commits; or the record of a step, which is the end of that. Where the connection has a transaction open already the block is a
savepoint in it, and the caller commits.

A COMMIT that got no answer is asked about, on another connection: the server knows each transaction by its number. The session
that may still be in it is ended first, so the answer is final. Only where no answer comes is the end left open (`Pending`).

Invariant: nothing of the block is committed without the end of the job, and that only while its row carries our claim.

It deliberately sets nothing on the user's connection: no timeout, no isolation level.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fastq.adapters import drivers
from fastq.adapters.libraries import known
from fastq.adapters.library import Library
from fastq.backoff import Backoff, spread
from fastq.errors import FastqError
from fastq.events import emit
from fastq.postgres import hints
from fastq.postgres.db import first_line
from fastq.postgres.pool import in_threads, pool
from fastq.postgres.pool.pool import MAX_SIZE, Failed
from fastq.postgres.sqlstate import number_to_come
from fastq.work.effects.ending import AUTOCOMMIT, has_committed

if TYPE_CHECKING:
    from fastq.enqueue.settings import Settings
    from fastq.work.effects.ending import BlockEnd
    from fastq.work.effects.transaction import JobTransaction

QUESTIONS = 2
"""Connections of the pool that blocks leave to the questions after lost answers: one is asked at a time, mostly."""

LOOK = 1.0
"""Seconds of one wait for a connection: a thread that waits hears of its job's timeout in between. A guess."""

ASKED = 30.0
"""Seconds for which the outcome of a transaction is asked for: a restart of the server takes about a second, a failover some. A
guess; after it the row decides."""

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 1.0
"""Seconds between two questions. Guesses: a session that was ended is gone within milliseconds."""

END_WAIT = 1000
"""Milliseconds to wait for the end of a session in one question. A guess; the next question waits again."""


class Blocks:
    """The blocks of one process, and the connections of their own.

    A worker process has one of these for its threads and one for its event loop (transaction.py), made by its main thread.
    Whoever runs a block may add to `_pools` in one step; there is an entry for each home of connections: the process, or an
    event loop.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pools: dict[in_threads.Home, tuple[pool.Pool, in_threads.Semaphore]] = {}
        self._no_hints_until = 0.0  # monotonic; written and read by any thread with a block: the last one wins

    @contextmanager
    def block(self, of: JobTransaction, end: BlockEnd) -> Iterator[Any]:
        """Run the user's statements and the end of the job in one transaction."""
        try:
            with self._lent(of.conn) as conn:
                library = known(conn, Library)
                if library.begun(conn):
                    end.join()
                with library.transaction(conn):
                    yield conn
                    self._write(end, conn, of.outcome)
        except BaseException as error:
            if not end.number or end.joined:
                raise
            if hints.refused(error):
                self._no_hints_until = time.monotonic() + hints.REST
            if not self._has_committed(end, error) or not isinstance(error, Exception):
                raise
        else:
            if end.number and not end.joined:
                end.committed()

    def _write(self, end: BlockEnd, conn: Any, outcome: object) -> None:
        """Write the end of the job, if it is still ours to end."""
        end.decide(outcome)
        if not end.job.batch.claim:  # a job that a test has made by hand: it has no row
            return
        hinted = not self._settings.config.poll_only and time.monotonic() >= self._no_hints_until
        statement = end.statement(self._settings.schema, self._settings.channel if hinted else None)
        with self._settings.remedy:
            [(number, begun)] = drivers.run(conn, self._settings.text("transaction_id"), ())
            if not begun:
                raise FastqError(f"{end.what}: {AUTOCOMMIT}")
            [answer] = drivers.run(conn, *statement)
        end.written(number, answer)

    def _has_committed(self, end: BlockEnd, error: BaseException) -> bool:
        """Find out whether the transaction has committed after all; note it, and return it. False if nobody can say."""
        committed = self._ask(end)
        emit(
            "transaction.asked",
            level=logging.WARNING,
            id=end.job.id,
            kind=end.job.kind,
            committed=committed,
            error=first_line(error),
        )
        if committed:
            end.committed()
        elif committed is not None:
            end.rolled_back()
        return bool(committed)

    def _ask(self, end: BlockEnd) -> bool | None:
        """Ask about the outcome of the transaction until there is an answer; None if there is none in time."""
        name, values = end.question(END_WAIT)
        text = self._settings.text(name)
        by, pauses, before = time.monotonic() + ASKED, Backoff(FIRST_PAUSE, LONGEST_PAUSE), None
        while True:
            try:
                with self._here()[0].connection() as own:
                    [(status, ours)] = pool.run(own, text, values)
            except Failed as error:
                if number_to_come(error):
                    return False  # the database is an older one, by a failover or a restore
            else:
                committed = has_committed(status, before, ours=ours)
                if committed is not None:
                    return committed
                before = status
            if time.monotonic() > by:
                return None
            in_threads.sleep(spread(pauses.next()))

    @contextmanager
    def _lent(self, conn: Any) -> Iterator[Any]:
        """Give the user's connection, or lend one of our own."""
        if conn is not None:
            yield conn
            return
        pool, free = self._here()
        while not free.acquire(timeout=LOOK):
            pass
        try:
            with pool.connection() as own:
                yield own
        finally:
            free.release()

    def _here(self) -> tuple[pool.Pool, in_threads.Semaphore]:
        """Return the connections of this process."""
        home = in_threads.home()
        found = self._pools.get(home)
        if found is None:
            settings = self._settings
            in_threads.forget_ended(self._pools)
            made = pool.Pool(settings.url, prepare=settings.prepare, seconds=settings.seconds)
            found = self._pools.setdefault(home, (made, in_threads.Semaphore(MAX_SIZE - QUESTIONS)))
        return found
