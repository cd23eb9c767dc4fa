"""Checks, their findings, and the database that they ask: the words that all modules of the doctor share.

A check is a row of a table, which examine.py has: a name, the question that it answers, and a function that yields findings.
The modules beside this one each have the checks of one subject. The values never change. A `Patient` belongs to the thread that
calls `examine`; examine.py alone writes its `connection` and `gone`. `cut_off` has a timer's thread, which only cuts the
session.

It deliberately knows no check, and judges nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastq.config import Config
    from fastq.errors import DatabaseUnavailable
    from fastq.postgres.db import Connection

OK, NOTE, WARN, BAD = LEVELS = ("ok", "note", "warn", "bad")
"""The levels of findings: all is well; worth knowing; will hurt one day; hurts now, or loses jobs."""

STATEMENT_LIMIT = 3.0
"""Seconds that a question may take in the server: longer than any takes where all is well, shorter than a person waits."""

LOCK_LIMIT = 0.2
"""Seconds that a question waits for a lock: nothing that asks may stand in a queue behind a change of a table for long."""

CUT = 10.0
"""Seconds after which a session is cut on which a check has not ended: the server, or a pooler, did not keep the limits above."""

COUNT = 1_000
"""Where counting stops: a count that has reached it means 'or more'. Some milliseconds of reading an index."""

LISTED = 5
"""Things of one sort that are told one by one: as many as a person looks after at once. A further line counts the others."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check has found: a sentence, its meaning, and the line to type, which is SQL or a command."""

    check: str
    level: str  # one of LEVELS
    found: str
    means: str = ""
    remedy: str = ""
    subject: str = ""  # the table, queue, kind, session ... that it is about
    asked: bool = True  # False: the check could not be asked, and `found` says why


class Patient:
    """The database that is examined, as a check sees it."""

    def __init__(self, config: Config, url: str, connection: Connection, version: int | None) -> None:
        self.config = config
        self.url = url
        self.connection = connection
        self.version = version  # of the schema; 0: it has no tables; None: this role may not know
        self.gone: DatabaseUnavailable | None = None  # the session was lost, and no other came about: nothing more is tried

    @property
    def schema(self) -> str:
        """Return the name of the schema."""
        return self.config.schema

    def ask(self, name: str, *params: object) -> list[tuple[Any, ...]]:
        """Run a statement of fastq/sql."""
        return self.connection.run(name, *params)


@dataclass(frozen=True, slots=True)
class Found:
    """A finding as a check yields it; the examination puts the check's name to it."""

    level: str
    found: str
    means: str = ""
    remedy: str = ""
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A row of the table of checks: a name, the question that it answers, and the function that looks and judges."""

    name: str
    asks: str
    look: Callable[[Patient], Iterator[Found]]
    of_tables: bool = True  # it asks about tables of fastq's, so it is left out where there are none
    alone: bool = False  # it has sessions of its own, and no transaction is begun for it


@contextmanager
def cut_off(connection: Connection) -> Iterator[None]:
    """Cut a session whose block takes longer than CUT: the server, or a pooler before it, does not even end its statements."""
    timer = threading.Timer(CUT, connection.cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def counted(number: int, thing: str, things: str = "") -> str:
    """Write `1 job`, `2 jobs`, and `1,000 or more jobs` of a count that stopped there."""
    more = " or more" if number >= COUNT else ""
    return f"{number:,}{more} {thing if number == 1 else things or thing + 's'}"


def lasted(seconds: float) -> str:
    """Write a time in one unit: `43 s`, `12 min`, `5 h`, `3 days`."""
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0.0):.0f} s"


def sized(number: float) -> str:
    """Write bytes in one unit: `12 kB`, `8 MB`, `3 GB`."""
    for unit in ("B", "kB", "MB"):
        if number < 10 * 1024:  # two digits at least, from there on in the next unit
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.0f} GB"


def first_of(found: list[Found], thing: str) -> Iterator[Found]:
    """Give the first findings of one sort, and one that counts the others."""
    yield from found[:LISTED]
    if others := found[LISTED:]:
        worst = max((other.level for other in others), key=LEVELS.index)
        yield Found(worst, f"{len(others):,} more {thing}{'' if len(others) == 1 else 's'} like these")
