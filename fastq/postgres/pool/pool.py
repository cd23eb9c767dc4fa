# Made by tools/twins.py from postgres/pool/pool_async.py: change that file, then run `make twins`.
"""Lend connections of a client's own, or of a worker process's jobs, to threads of one process, and run statements on them.

Runs in the threads that call a client, and in those of a worker process, for `job.transaction()`.
All else in fastq's own processes uses db.py. A pool differs in three things: it has several connections; these keep the role's
own settings but for DateStyle and statement_timeout; and no watchdog looks after them, so the caller that waits for an answer
looks at the time itself.

A connection is opened by the caller that needs it, if none rests; no thread of ours waits in the background. So the caller gets
the server's own error, and after a restart of Postgres the first enqueue goes through as soon as the server takes connections. A
lost connection is replaced, and the resting ones are closed with it, since mostly they are lost too. A client's sessions own
their pool (enqueue/sessions.py), and the blocks of a worker process theirs (work/effects/); a connection belongs to the
call that it is lent to, and to the pool while it rests.

Invariant: a connection is lent in autocommit mode and idle, so nothing of ours is open between two calls; a connection on which
anything has failed is closed. No call waits for ever: not for a free connection (WAIT), not for a new one, not for an answer
(`seconds`).
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import generators
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.rows import TupleRow, tuple_row

from fastq.errors import DatabaseUnavailable
from fastq.postgres import moments
from fastq.postgres.db import (
    CONNECT_TIMEOUT,
    ENCODING,
    ISO_DATES,
    SERVER_FIRST,
    first_line,
    refused_encoding,
    writes_odd_dates,
)
from fastq.postgres.pool import in_threads
from fastq.postgres.urls import check_url

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

Failed = (psycopg.Error, DatabaseUnavailable)

MAX_SIZE = 8
"""Connections per process: an enqueue takes about a millisecond, so these carry some thousands a second."""

WAIT = 10.0
"""Seconds to wait for one of them, or for the server to take a new one again; as long as for a connection elsewhere."""

RETRY = 0.1
"""Seconds between two attempts to connect while the server is away: a restart takes about a second. A guess; not measured."""

RESTED = 30.0
"""Seconds of rest after which a connection is asked whether it still is one: firewalls forget those that say nothing, the
strictest after some minutes, and tell neither side. A question costs one round trip."""

CHECK = 2.0
"""Seconds that it has to answer: far more than a round trip, and short enough for the caller, which waits meanwhile."""


class Unanswered(psycopg.OperationalError):
    """The server has not answered in time."""


class TimedConnection(psycopg.Connection[TupleRow]):
    """A connection that waits for no answer longer than `seconds`."""

    seconds = math.inf
    since = 0.0  # the monotonic time at which it was given back
    prepared: frozenset[str] | None = frozenset()  # names of statements; None: others share the session. Of whoever has it

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        """Wait for an answer."""
        return super().wait(_within(self.seconds, gen), *args, **kwargs)


def _within(seconds: float, waiting: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Go through the driver's steps of one wait; it comes back without anything ready some times a second, to look around."""
    end = time.monotonic() + seconds
    try:
        wanted = next(waiting)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > end:
                raise Unanswered(
                    f"the database has not answered for {seconds:g} s (FASTQ_STATEMENT_TIMEOUT), so the connection was closed; "
                    "whether it did what it was asked is not known"
                )
            wanted = waiting.send(ready)
    except StopIteration as done:
        return done.value


class Pool:
    """The connections of one process, which all its threads share."""

    def __init__(
        self, url: str, *, prepare: bool, seconds: float, explained: Callable[[Exception], Exception] = lambda error: error
    ) -> None:
        self.url = url
        self.prepare = prepare
        self.seconds = seconds
        self.closed = False
        self.reached = False  # there was a connection once, so the settings are right: a failure now may pass
        self.failure: psycopg.Error | None = (
            None  # why there is no connection now; like `reached` written by each attempt, the last one wins
        )
        self._resting: list[TimedConnection] = []  # the last one has rested least, and is lent first; each change is one step
        self._free = in_threads.Semaphore(MAX_SIZE)
        self._explained = explained  # turns an error of a connection into the one that the borrower is to see

    @contextmanager
    def connection(self, *, patient: bool = True) -> Iterator[TimedConnection]:
        """Lend a connection; if not `patient`, only one that can be had now, for a statement that is not worth the wait."""
        end = time.monotonic() + WAIT if patient else 0.0
        if not self._free.acquire(timeout=WAIT):
            raise self._exhausted()
        try:
            connection = self._rested() or self._made(end)
            try:
                yield connection
            except BaseException as error:
                self._close(connection, *self._others_of(connection, error))
                raise
            if not self._keep(connection):
                connection.close()
        except Failed as error:
            explained = self._explained(error)
            if explained is error:
                raise
            raise explained from error
        finally:
            self._free.release()

    def close(self) -> None:
        """Close the resting connections; those in use are closed when they are given back."""
        self.closed = True
        self._close(*self._all_resting())

    def _rested(self) -> TimedConnection | None:
        connection = self._one_resting()
        if connection is None or not self._doubtful(connection):
            return connection
        try:
            connection.seconds = min(CHECK, self.seconds)
            connection.execute("", prepare=False)
        except BaseException as error:
            self._close(connection, *self._others_of(connection))
            if isinstance(error, psycopg.Error):
                return None
            raise
        connection.seconds = self.seconds
        return connection

    def _made(self, end: float) -> TimedConnection:
        while True:
            try:
                connection = TimedConnection.connect(self.url, **self._settings(end))
            except psycopg.OperationalError as error:
                pause = self._failed(error, end)
                if pause is None:
                    raise
                in_threads.sleep(pause)
                continue
            try:
                if words := self._first_words(connection):
                    connection.execute(words.encode(), prepare=False)
            except BaseException:
                connection.close()
                raise
            return self._ready(connection)

    def _close(self, *connections: TimedConnection) -> None:
        for connection in connections:
            connection.close()

    def _settings(self, end: float) -> dict[str, Any]:
        """Return the settings for a connection that is of use until `end`; raise ConfigError if the URL cannot be read."""
        check_url(self.url)
        left = math.ceil(end - time.monotonic())
        return {
            "autocommit": True,
            "client_encoding": ENCODING,
            "application_name": "fastq client",
            "connect_timeout": min(CONNECT_TIMEOUT, max(2, left)),  # libpq takes 2 for less
            "prepare_threshold": 0 if self.prepare else None,
        }

    def _first_words(self, connection: TimedConnection) -> str:
        """Return the first statements of a new connection, or raise an error if the database cannot be used."""
        if refusal := refused_encoding(connection.info):
            raise refusal
        words = [ISO_DATES] if writes_odd_dates(connection.info) else []
        if self.prepare:  # else others share the session; there the caller alone looks at the time
            words.append(f"set statement_timeout to {_milliseconds(self.seconds)}")
        return "; ".join(words)

    def _ready(self, connection: TimedConnection) -> TimedConnection:
        """Take a new connection into use."""
        moments.read_all(connection)
        connection.seconds = self.seconds
        connection.prepared = frozenset() if self.prepare else None
        self.reached, self.failure = True, None
        return connection

    def _failed(self, error: psycopg.Error, end: float) -> float | None:
        """Note that no connection could be made; return how long to wait for another attempt, None if there is to be none."""
        self.failure = error
        return RETRY if self.reached and time.monotonic() + RETRY < end else None

    def _one_resting(self) -> TimedConnection | None:
        """Take a connection that rests."""
        try:
            return self._resting.pop()
        except IndexError:
            return None

    def _doubtful(self, connection: TimedConnection) -> bool:
        """Tell whether a connection is to be asked before it is used: it rested for long, or the server has said something."""
        return time.monotonic() - connection.since > RESTED or _has_something_to_read(connection.fileno())

    def _keep(self, connection: TimedConnection) -> bool:
        """Let a connection rest; False if it is to be closed."""
        if self.closed or connection.info.transaction_status != TransactionStatus.IDLE:
            return False
        connection.since = time.monotonic()
        self._resting.append(connection)
        return True

    def _others_of(self, connection: TimedConnection, error: BaseException | None = None) -> list[TimedConnection]:
        """Return the connections to close with one on which something has failed: all that rest, if it was lost."""
        if error is None or connection.broken or isinstance(error, Unanswered):
            return self._all_resting()
        return []

    def _all_resting(self) -> list[TimedConnection]:
        """Take all connections that rest."""
        taken: list[TimedConnection] = []
        while (connection := self._one_resting()) is not None:
            taken.append(connection)
        return taken

    def _exhausted(self) -> DatabaseUnavailable:
        """Say why there was no connection to be had."""
        if self.failure is not None:
            return DatabaseUnavailable(f"no connection within {WAIT:g} s: {first_line(self.failure)}")
        return DatabaseUnavailable(f"no connection within {WAIT:g} s: all {MAX_SIZE} of this client are in use")


def cursor(connection: psycopg.Connection[Any]) -> psycopg.Cursor[TupleRow]:
    """Make a cursor that takes $1 and answers with tuples, even if its connection makes others by default."""
    return psycopg.RawCursor(connection, row_factory=tuple_row)


def run(connection: psycopg.Connection[Any], text: str, parameters: tuple[object, ...]) -> list[TupleRow]:
    """Run a statement and return its rows."""
    with cursor(connection) as opened:
        opened.execute(text.encode(), parameters or None)  # bytes, for the driver's types want a text to be a literal
        return opened.fetchall()


def run_plain(connection: TimedConnection, name: str, text: str, values: Sequence[Any]) -> list[list[bytes | None]]:
    """Run a statement on a connection of ours with texts, numbers and times, or None, for values; return its rows as texts.

    It leaves out the driver's cursor, which takes 0.05 ms of the 0.12 that an enqueue takes a client (docs/adr/0045).
    """
    given = [_plain(value) for value in values]
    formats = [
        Format.BINARY if isinstance(value, str) else Format.TEXT for value in values
    ]  # a NUL in a text is refused, not its end
    pgconn, known = connection.pgconn, connection.prepared
    if known is None:
        pgconn.send_query_params(text.encode(), given, param_formats=formats)
    else:
        if name not in known:
            pgconn.send_prepare(name.encode(), text.encode())
            _checked(connection.wait(generators.execute(pgconn)), ExecStatus.COMMAND_OK)
            connection.prepared = known | {name}
        pgconn.send_query_prepared(name.encode(), given, formats)
    result = _checked(connection.wait(generators.execute(pgconn)), ExecStatus.TUPLES_OK)
    columns = range(result.nfields)
    return [[result.get_value(row, column) for column in columns] for row in range(result.ntuples)]


def _plain(value: Any) -> bytes | None:
    """Write a value as the server reads it, whatever its class, such as an IntEnum, writes of itself."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, int):
        return b"%d" % value
    return (value.isoformat() if isinstance(value, datetime) else float.__repr__(value)).encode()


def _checked(results: list[PGresult], expected: ExecStatus) -> PGresult:
    """Return the answer to a statement, or raise its error."""
    answer = results[-1]
    if answer.status != expected:
        raise error_from_result(answer, encoding="utf-8")
    return answer


def copy(connection: psycopg.Connection[Any], statement: bytes, blocks: Iterable[bytes]) -> None:
    """COPY blocks of rows."""
    with cursor(connection) as opened, opened.copy(statement) as sink:
        for block in blocks:
            sink.write(block)


def copy_limits(seconds: float) -> bytes:
    """Return the first statements of a transaction with a COPY: it may last as long as jobs come, as each step is timed here."""
    return f"set local statement_timeout to 0; set local lock_timeout to {_milliseconds(seconds)}".encode()


def _milliseconds(seconds: float) -> int:
    """Return how long the server may take, so that it ends a statement before the caller gives the connection up."""
    return max(1, int(seconds * SERVER_FIRST * 1000))


def _has_something_to_read(descriptor: int) -> bool:
    """Tell whether the server has closed an idle connection, or sent something: a microsecond instead of a round trip."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
