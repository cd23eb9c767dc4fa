"""The types of `conn`: connections and sessions of the caller's, described by the members that drivers.py uses.

Imported for types alone, never at run time, so no process runs it and nothing is kept. Of the libraries psycopg is named, which
fastq needs anyway; the others by protocols, so that a program without them checks as well, in strict mode too. At run time
drivers.py finds out which library it is.

A protocol has a member more than is used if its asynchronous twin would fit it otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import psycopg


class SqlalchemyConnection(Protocol):
    """SQLAlchemy's Connection."""

    def exec_driver_sql(self, *given: Any, **named: Any) -> Any:
        """Run a statement in the driver's notation."""

    def detach(self) -> None:
        """Part from the pool; AsyncConnection cannot."""


class SqlalchemySession(Protocol):
    """SQLAlchemy's Session and scoped_session."""

    def connection(self, *given: Any, **named: Any) -> Any:
        """Give the connection of its transaction."""

    def query(self, *given: Any, **named: Any) -> Any:
        """Begin a query; AsyncSession has no such thing."""


class DjangoConnection(Protocol):
    """Django's database wrapper, where its types are known (django-stubs)."""

    vendor: str

    def ensure_connection(self) -> None:
        """Connect."""


class DjangoProxy(Protocol):
    """`django.db.connection` as Django's own source has it: everything comes by `__getattr__`."""

    def __getattr__(self, item: str, /) -> Any:
        """Give any attribute of the wrapper."""

    def __delattr__(self, name: str, /) -> Any:
        """Take it away."""

    def __contains__(self, key: Any, /) -> bool:
        """Ask the wrapper."""
        ...


class SqlalchemyAsync(Protocol):
    """SQLAlchemy's AsyncConnection, AsyncSession and async_scoped_session."""

    def stream(self, *given: Any, **named: Any) -> Any:
        """Read rows as they come; their synchronous twins have no such thing."""


class AsyncpgLent(Protocol):
    """A connection lent by asyncpg's pool, as its own source has it: everything comes by `__getattr__`."""

    _con: Any
    _holder: Any

    def __getattr__(self, attr: str, /) -> Any:
        """Give any attribute of the connection."""


class AsyncpgConnection(Protocol):
    """asyncpg's Connection."""

    def fetch(self, *given: Any, **named: Any) -> Any:
        """Run a statement."""

    def copy_to_table(self, *given: Any, **named: Any) -> Any:
        """COPY rows."""


Conn: TypeAlias = "psycopg.Connection[Any] | SqlalchemyConnection | SqlalchemySession | DjangoConnection | DjangoProxy"
"""The connections that `Client` takes."""

AsyncConn: TypeAlias = "psycopg.AsyncConnection[Any] | SqlalchemyAsync | AsyncpgConnection | AsyncpgLent"
"""The connections that `AsyncClient` takes."""
