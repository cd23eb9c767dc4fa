"""The list of the database libraries that a caller's connection may come from, and the search in it.

Read by drivers.py, drivers_async.py and the blocks of `job.transaction()` (work/effects/), in the callers' threads and event
loops; never changed, but for the classes that the search remembers. To add a library, write a module that declares it, name it
in the list, and in the error that says which connections a client takes (library.py).
"""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from fastq.adapters import asyncpg, django, psycopg, sqlalchemy
from fastq.adapters.library import AsyncLibrary, Library, unknown

L = TypeVar("L", Library, AsyncLibrary)

LIBRARIES: tuple[Library | AsyncLibrary, ...] = (
    psycopg.LIBRARY,
    psycopg.ASYNC_LIBRARY,
    sqlalchemy.LIBRARY,
    sqlalchemy.ASYNC_LIBRARY,
    django.LIBRARY,
    asyncpg.ASYNC_LIBRARY,
)


def library_of(conn: Any) -> Library | AsyncLibrary | None:
    """Return the library that a connection comes from, or None."""
    cls: Any = type(conn)  # a type is hashable; its type does not say so
    return _library_of_type(cls)


def known(conn: Any, wanted: type[L], expected: str = "") -> L:
    """Return the library that a connection comes from, for one of the clients; or raise OptionError."""
    library = library_of(conn)
    if isinstance(library, wanted):
        return library
    raise unknown(conn, expected or wanted.expected, library.client if library else "")


@functools.lru_cache(maxsize=128)  # programs have a handful of such types
def _library_of_type(cls: type) -> Library | AsyncLibrary | None:
    return next((library for base in cls.__mro__ for library in LIBRARIES if library.has(base)), None)
