"""The one door to Postgres: connections, and the statements of fastq/sql by name.

Runs in every process and thread that talks to the database; a `Connection` belongs to one thread at a time and never
crosses a fork. Autocommit: a statement is a transaction (but for migrations and the archive's partitions, which begin and end
their own), and nothing of ours stays open while user code runs.

Two ways to run a statement:
- `run(name, *params)`: through psycopg's cursor, Python values in, rows of Python values out. For everything that is not hot.
  Nothing is prepared: a prepared statement fails for good once a migration has changed the type of a column in its answer.
- `run_blobs(name, params)`: prepared once, binary values in and out as bytes, one blocking libpq call. For claim and complete:
  libpq's asynchronous route gives the interpreter lock back several times a statement, and behind a busy executor each of those
  costs up to a switch interval (5 ms); the blocking call does it once.

A blocking call has no deadline of its own. `deadline` is published before each statement and cleared after it; a watchdog
(the main thread of a process or of the supervisor) calls `cut()` on a connection that has passed it, which shuts the socket
down and makes the call return with an error. TCP keepalives would not do: they do not see a frozen peer. The cut is for a server
that does not answer; one that does ends the statement itself before (SERVER_FIRST).

We send UTF-8, so every session says so itself, against other settings of the URL, the environment or the role. A database that
could not hold every character is refused.

A pinned session has a search path of ours, and is sent the files' own text; any other is sent the qualified text.
"""

from __future__ import annotations

import functools
import math
import select
import socket
import threading
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors as pg_errors
from psycopg import pq
from psycopg.rows import tuple_row

from fastq.errors import DatabaseUnavailable, LeaseError
from fastq.postgres import moments
from fastq.postgres.urls import check_url, options_of
from fastq.sql.pins import OPERATORS_SETTINGS, PINNED_SETTINGS
from fastq.sql.qualified import qualified as qualified_text
from fastq.sql.statements import qualified, statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastq.config import Config

Error = psycopg.Error
Lost = (psycopg.OperationalError, psycopg.InterfaceError)
"""The connection is gone or unusable: its owner opens a new one. Whether the statement took effect is unknown."""

CONNECT_TIMEOUT = 10
"""Seconds to wait for a connection. libpq counts whole seconds and by default has no end; River's figure."""

ENCODING = "UTF8"
"""The encoding of each session and of the database. The bytes of claims, completions and COPY are written and read as UTF-8; for
the others the driver goes by the session. Not among the pinned settings: libpq has a parameter for it, which poolers let pass."""

SERVER_FIRST = 0.9
"""Share of a session's deadline that is the server's statement_timeout: the server ends a slow statement first, and the session
stays usable. If we cut the socket instead, the statement would go on in the server, and each next try would add another."""

REFUSED_OPTIONS = "unsupported startup parameter"
"""The beginning of PgBouncer's error if it knows no `options`, or not the settings in them."""


class Connection:
    """One database session. Its owner's thread runs statements; a watchdog's thread may only read `deadline` and `cut()`."""

    def __init__(
        self,
        raw: psycopg.Connection[tuple[Any, ...]],
        schema: str,
        *,
        prepare: bool,
        timeout: float,
        qualify: bool = True,
        owned: bool = True,
    ) -> None:
        self.raw = raw
        self._qualify = qualify
        self._statement = qualified if qualify else statement
        self._owned = owned  # False: the caller alone may end it
        self.schema = schema
        self.timeout = timeout
        self.deadline: float | None = None  # written by the owner, read by the watchdog
        self.prepares = prepare  # not where sessions are shared with others
        self._prepared: set[str] = set()
        self._notified: list[psycopg.Notify] = []  # what has come while a statement ran
        self.no_hints_until = 0.0  # monotonic; the owner's: hints.py
        self.backend_pid = raw.info.backend_pid

    def run(self, name: str, *params: object) -> list[tuple[Any, ...]]:
        """Run sql/NAME.sql and return its rows; a statement without rows returns an empty list."""
        return self.execute(self._statement(name, self.schema), *params)

    def run_one(self, name: str, *params: object) -> tuple[Any, ...]:
        """Run a statement that always answers with one row."""
        return self.run(name, *params)[0]

    def run_within(self, seconds: float, name: str, *params: object) -> list[tuple[Any, ...]]:
        """Run a statement that is of no use after so many seconds: the connection is cut then, unless the caller handed it in."""
        if not self._owned:
            if self.raw.info.transaction_status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR):
                raise LeaseError("conn: expected no transaction in progress: the lease would be ours only when it commits")
            return self.run(name, *params)
        timer = threading.Timer(seconds, self.cut)
        timer.daemon = True
        timer.start()
        try:
            return self.run(name, *params)
        finally:
            timer.cancel()

    def ask(self, text: str, *params: object) -> list[tuple[Any, ...]]:
        """Run the text of a statement that has no file and asks or changes rows; qualified as those with one are."""
        return self.execute(qualified_text(text) if self._qualify else text, *params)

    def execute(self, text: str, *params: object) -> list[tuple[Any, ...]]:
        """Run a text as it is; for statements without a file: DDL, settings, transactions of chores that change tables."""
        self.deadline = time.monotonic() + self.timeout
        try:
            cursor = psycopg.RawCursor(self.raw, row_factory=tuple_row)  # not that of a connection that was handed in
            cursor.execute(text, params or None)  # pyright: ignore[reportArgumentType] - no literal, but ours: sql/, or built for DDL
            return cursor.fetchall() if cursor.description else []
        except OSError as error:
            raise self._failed(error) from error
        finally:
            self.deadline = None

    def _failed(self, error: OSError) -> psycopg.OperationalError:
        """Take an error of the driver's own wait (no more descriptors) for a lost connection: an answer may still come."""
        if self._owned:
            self.raw.close()
        return psycopg.OperationalError(f"the connection is of no use any more: {error}")

    def run_blobs(self, name: str, params: Sequence[bytes | None]) -> tuple[int, list[bytes | None]]:
        """Run sql/NAME.sql with binary values; return the count of affected rows and the first row as it came."""
        pgconn = self.raw.pgconn
        formats = [pq.Format.BINARY] * len(params)
        self.deadline = time.monotonic() + self.timeout
        try:
            if self.prepares:
                if name not in self._prepared:
                    self._check(pgconn.prepare(name.encode(), self._statement(name, self.schema).encode()))
                    self._prepared.add(name)
                values: Any = params  # typed as if none could be null, which it takes
                result = pgconn.exec_prepared(name.encode(), values, formats, pq.Format.BINARY)
            else:
                text = self._statement(name, self.schema).encode()
                result = pgconn.exec_params(text, params, None, formats, pq.Format.BINARY)
        finally:
            self.deadline = None
        self._check(result)
        row = [result.get_value(0, column) for column in range(result.nfields)] if result.ntuples else []
        return result.command_tuples or 0, row

    def _check(self, result: pq.abc.PGresult) -> None:
        if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            return
        raise pg_errors.error_from_result(result, encoding="utf-8")

    def listen(self, channel: str) -> None:
        """Begin to receive the notifications of a channel; the name has been checked by `Config`."""
        self.raw.add_notify_handler(self._notified.append)
        self.execute(f'listen "{channel}"')

    def notifications(self, timeout: float | None) -> list[str]:
        """Return the payloads that arrive within `timeout` seconds, all that came with the first at once.

        The driver's own wait ends up to a millisecond early, again and again (docs/adr/0045).
        """
        poller, pgconn = select.poll(), self.raw.pgconn
        poller.register(self.raw.fileno(), select.POLLIN)
        if not self._notified and poller.poll(timeout and math.ceil(timeout * 1e3)):
            pgconn.consume_input()
        found = [one.payload for one in self._notified]
        self._notified.clear()
        while (one := pgconn.notifies()) is not None:
            found.append(one.extra.decode())
        return found

    @property
    def usable(self) -> bool:
        """Tell whether another statement can be tried on this session."""
        return not self.raw.closed and not self.raw.broken

    def cut(self) -> None:
        """Shut the socket down from another thread: the statement under way returns at once with an error."""
        try:
            with socket.socket(fileno=socket.dup(self.raw.fileno())) as twin:
                twin.shutdown(socket.SHUT_RDWR)
        except (OSError, psycopg.Error):
            return  # closed already

    def close(self) -> None:
        """End the session."""
        self.raw.close()


def connect(
    url: str,
    *,
    role: str,
    schema: str = "fastq",
    pinned: bool = True,
    pins: Mapping[str, str] = MappingProxyType(PINNED_SETTINGS),
    qualify: bool = False,
    prepare: bool = True,
    timeout: float = 10.0,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Connection:
    """Open a session named `fastq ROLE`. `pinned` and `prepare` go off for a pooler that shares sessions between clients.

    Statements are qualified if nothing is pinned, or if `qualify` says that a pooler may drop the pins.
    `settings` are those of ROLE, over the pinned ones, and like these left out for shared sessions. Ours come after the options
    of the URL: Postgres takes the last of several.
    """
    check_url(url)
    options = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in {**pins, **settings}.items())
    extra: dict[str, Any] = {"options": f"{options_of(url)} {options}".strip()} if pinned else {}
    try:
        raw = psycopg.connect(
            url,
            autocommit=True,
            client_encoding=ENCODING,
            application_name=f"fastq {role}",
            connect_timeout=CONNECT_TIMEOUT,
            prepare_threshold=None,  # never: see the module's text
            cursor_factory=psycopg.RawCursor,
            **extra,
        )
    except (psycopg.Error, OSError) as error:
        raise DatabaseUnavailable(first_line(error)) from error
    if refusal := refused_encoding(raw.info):
        raw.close()
        raise refusal
    moments.read_all(raw)
    if writes_odd_dates(raw.info):
        raw.execute(ISO_DATES)
    made = Connection(raw, schema, prepare=prepare, timeout=timeout, qualify=qualify or not pinned)
    if pinned:
        _make_durable(made)
    return made


def _make_durable(made: Connection) -> None:
    try:
        made.run_within(CONNECT_TIMEOUT, "session_durable")  # nobody else knows the connection yet, and could cut it
    except psycopg.Error as error:
        made.close()
        raise DatabaseUnavailable(first_line(error)) from error


def refused_encoding(info: psycopg.ConnectionInfo) -> DatabaseUnavailable | None:
    """Say why a database is of no use that cannot hold every character; the server told its encoding when the session began."""
    encoding = info.parameter_status("server_encoding") or ENCODING  # a pooler may keep it to itself
    if encoding == ENCODING:
        return None
    return DatabaseUnavailable(
        f"the database '{info.dbname}' is encoded in {encoding}, which cannot hold every character of args and errors; expected "
        f"{ENCODING}: make another, `create database NAME encoding '{ENCODING}' template template0`, and use that"
    )


ISO_DATES = "set datestyle to 'ISO'"
"""For sessions that are not pinned: the driver reads no other timestamps. Poolers keep track of it, so it holds there too."""


def writes_odd_dates(info: psycopg.ConnectionInfo) -> bool:
    """Tell whether a role's or a database's DateStyle is not ours; the server told when the session began."""
    return not (info.parameter_status("DateStyle") or "ISO").startswith("ISO")


def session(
    config: Config, url: str, role: str, *, timeout: float | None = None, settings: Mapping[str, str] = MappingProxyType({})
) -> Connection:
    """Open a session of the runtime, as the configuration wants it; through a pooler nothing is pinned and nothing prepared."""
    deadline = config.statement_timeout if timeout is None else timeout
    connection = connect(
        url,
        role=role,
        schema=config.schema,
        pinned=not config.poll_only,
        prepare=not config.poll_only,
        timeout=deadline,
        settings={"statement_timeout": str(int(deadline * SERVER_FIRST * 1000)), **settings},
    )
    return _without_hints(connection) if config.poll_only else connection


def _without_hints(connection: Connection) -> Connection:
    connection.no_hints_until = math.inf
    return connection


def operators_session(config: Config, url: str, role: str) -> Connection:
    """Open a session for a person's command: with a search path and a time limit of ours, and plans of the server's own choice.

    A pooler refuses or drops these settings, so statements are qualified; behind a pooler the role's own time limit holds.
    """
    limit = {"statement_timeout": str(int(config.statement_timeout * SERVER_FIRST * 1000))}
    open_one = functools.partial(connect, url, role=role, schema=config.schema, prepare=False, timeout=config.statement_timeout)
    if not config.poll_only:
        try:
            return open_one(pins=OPERATORS_SETTINGS, settings=limit, qualify=True)
        except DatabaseUnavailable as error:
            if REFUSED_OPTIONS not in str(error):
                raise
    return _without_hints(open_one(pinned=False))


def adopt(raw: Any, config: Config) -> Connection:
    """Use a psycopg connection that somebody else made; it must be in autocommit, and stays his to close."""
    if not isinstance(raw, psycopg.Connection):
        raise LeaseError(f"conn: expected a psycopg.Connection, got {type(raw).__qualname__}")
    if not raw.autocommit:
        raise LeaseError("conn: expected a connection in autocommit, or the lease would change with your transaction only")
    connection = Connection(raw, config.schema, prepare=False, timeout=CONNECT_TIMEOUT, owned=False)
    return _without_hints(connection) if config.poll_only else connection


def driver() -> dict[str, str]:
    """Name the driver and the client library, for `fastq version`."""
    number = pq.version()
    return {"psycopg": f"{psycopg.__version__} ({pq.__impl__})", "libpq": f"{number // 10_000}.{number % 10_000}"}


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, for logs and one-line messages."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
