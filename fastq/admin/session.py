"""Open the connection that an operator's functions work on, and run statements there that follow one another.

Runs in the caller's thread; the caller owns the connection, and closes it. A question or a change of several statements is an
`Asking`: it yields one statement after the other and is sent the rows of each; it may come to its result without any. So the
commands run it here, and the clients (enqueue/operate/) run the same on any connection.

It expects the schema that this program knows, and says so if there is another. It deliberately makes no transaction.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from fastq.postgres import db, hints, sqlstate
from fastq.schema.migrate import check

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.postgres.db import Connection

T = TypeVar("T")


class Ask(NamedTuple):
    """A statement of fastq/sql with its parameters."""

    statement: str
    parameters: tuple[object, ...] = ()
    hints: bool = False  # one more parameter comes behind these: the channel of the hints, null for none
    bounded: bool = False  # where it runs into a time limit there are no rows, and no error


Asking: TypeAlias = Generator[Ask, Sequence[Sequence[Any]], T]
"""Statements that follow one another, and a result. Parameters are checked before the first of them."""


def answered(connection: Connection, asking: Asking[T], *, whole: bool = False) -> T:
    """Run the statements, each as a transaction of its own, or all as one; return the result."""
    with connection.raw.transaction() if whole else nullcontext():
        return _answered(connection, asking)


def _answered(connection: Connection, asking: Asking[T]) -> T:
    try:
        ask = next(asking)
        while True:
            ask = asking.send(_run(connection, ask))
    except StopIteration as end:
        result: T = end.value
        return result


def _run(connection: Connection, ask: Ask) -> Sequence[Sequence[Any]]:
    if ask.hints:
        return hints.sending(connection, lambda channel: connection.run(ask.statement, *ask.parameters, channel))
    try:
        return connection.run(ask.statement, *ask.parameters)
    except db.Error as error:
        if not (ask.bounded and sqlstate.too_slow(error)):
            raise
        return ()


def connect(config: Config, url: str) -> Connection:
    """Open a connection for these functions, and make sure that the schema has the version that they expect.

    Its plans are not pinned: the archive is read by block-range indexes, with plans that the hot statements must not take.
    """
    connection = db.operators_session(config, url, "admin")
    try:
        check(connection)
    except BaseException:
        connection.close()
        raise
    return connection
