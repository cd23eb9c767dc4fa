"""A declaration of one database library: how a connection of it is recognised, and how it carries a statement.

Made once for each library and client, by the modules of this room; read by drivers.py, drivers_async.py and the blocks of
`job.transaction()` (work/effects/), in the callers' threads and event loops; never changed. The functions are pure, and called
in those threads by the other modules.

Invariant: a class is recognised by its name and by the package that it comes from, or one of its bases, so that none of these
libraries is imported here.

It deliberately names libraries in the text of its errors alone; libraries.py has the list.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

from fastq.errors import OptionError
from fastq.postgres.db import ENCODING

Parameters: TypeAlias = tuple[object, ...]
Rows: TypeAlias = Sequence[Sequence[Any]]


class Target(NamedTuple):
    """The table and the columns of a COPY; the names are the configuration's, which has checked them, and our own."""

    schema: str
    columns: list[str]

    @property
    def statement(self) -> bytes:
        """Return the COPY.

        It tells the rows' encoding: the drivers pass the bytes on as they are, and the connection's may be another.
        """
        return f"copy \"{self.schema}\".job ({', '.join(self.columns)}) from stdin (encoding '{ENCODING}')".encode()


@dataclass(frozen=True, kw_only=True)
class Recognised:
    """The signs of a connection."""

    package: str
    """The package of these classes."""
    classes: frozenset[str]
    """The names of connections, and of the sessions that have one."""

    def has(self, cls: type) -> bool:
        """Tell whether a class is one of these; its bases are not asked."""
        return cls.__qualname__ in self.classes and cls.__module__.partition(".")[0] == self.package


@dataclass(frozen=True, kw_only=True)
class Library(Recognised):
    """A library for `Client`."""

    client: ClassVar = "Client"
    expected: ClassVar = "a psycopg, SQLAlchemy or Django connection, or a SQLAlchemy session"
    expected_by_copy: ClassVar = "a psycopg 3 connection, which COPY needs,"

    run: Callable[[Any, str, Parameters], Rows]
    """Run a statement, which has its parameters as $1, in the transaction of a connection."""
    begun: Callable[[Any], bool]
    """Tell whether a transaction is open on a connection."""
    transaction: Callable[[Any], AbstractContextManager[object]]
    """Return what begins a transaction and ends it; where one is open, what does so with a savepoint in it."""
    driver: Callable[[Any], Any] | None = None
    """Return the driver's connection below one of the library's; None where the library is a driver."""
    begin: Callable[[Any], object] | None = None
    """Begin the library's own transaction before a COPY, of which the driver alone knows; None where that needs nothing."""
    encoding: Callable[[Any], str] | None = None
    """Name the encoding of a driver's connection as Postgres does."""
    copy: Callable[[Any, Target, Iterator[bytes]], None] | None = None
    """COPY rows on a driver's connection; None where the driver cannot."""


@dataclass(frozen=True, kw_only=True)
class AsyncLibrary(Recognised):
    """A library for `AsyncClient`; its functions do as those of `Library`."""

    client: ClassVar = "AsyncClient"
    expected: ClassVar = "a psycopg AsyncConnection, an asyncpg connection, or an AsyncConnection or AsyncSession of SQLAlchemy"
    expected_by_copy: ClassVar = expected

    run: Callable[[Any, str, Parameters], Awaitable[Rows]]
    begun: Callable[[Any], bool]
    transaction: Callable[[Any], AbstractAsyncContextManager[object]]
    driver: Callable[[Any], Awaitable[Any]] | None = None
    begin: Callable[[Any], Awaitable[object]] | None = None
    encoding: Callable[[Any], str] | None = None
    copy: Callable[[Any, Target, Iterator[bytes]], Awaitable[None]] | None = None


def unknown(conn: object, expected: str, other: str = "") -> OptionError:
    """Return the error for a connection that cannot be used; `other` names the client that takes it."""
    cls = type(conn)
    hint = f"; that one is for {other}" if other else ""
    return OptionError(f"conn: expected {expected} of Postgres; got a {cls.__module__}.{cls.__qualname__}{hint}")


def named(text: str, parameters: Parameters) -> tuple[str, dict[str, object]]:
    """Write $1 as %(p1)s, for a driver with named parameters; a statement has no '%' of its own."""
    return _pyformat(text), {f"p{number}": value for number, value in enumerate(parameters, 1)}


@functools.lru_cache(maxsize=64)  # a handful of statements, in as many schemas as a program has clients
def _pyformat(text: str) -> str:
    return re.sub(r"\$(\d+)", r"%(p\1)s", text)
