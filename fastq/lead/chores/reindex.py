"""Reindex: build the indexes of the living jobs anew when they have become much larger than their entries.

A chore of the schema's leader, run in its track's thread of the supervisor that leads, where no other chore runs; a long
statement runs in a further thread, for which the chore waits. Entries come and go by the million; pages that autovacuum cannot
give back, above all while an old snapshot pins them, stay as empty pages that every claim may have to walk over. An index is
worth building anew when it is larger than WORTHWHILE and than BLOATED times its entries, so one that was just built is not; and
at most once in FASTQ_REINDEX_INTERVAL (0: never), which is noted in fastq.chore and shown by `fastq leader`.

REINDEX CONCURRENTLY runs outside of a transaction and cannot carry the fence. The term is looked at just before; two
that run at once are kept apart by the lock that it takes on the table, for which the later one waits LOCK_TIMEOUT. It waits
for transactions as old as itself, and gives up after the same time: nothing waits behind it meanwhile but vacuum.

Invariants:
- It has a connection of its own, opened when there is something to do, with limits that the server keeps:
  FASTQ_REINDEX_TIMEOUT, and an end within seconds when this process is gone.
- When the term ends the build is cancelled. The invalid index that it leaves is dropped at once if we still lead, else by the
  next leader.

If FASTQ_REINDEX_INTERVAL is 0 it builds nothing, and still drops an index that another leader has left. With FASTQ_POLL_ONLY it
changes nothing, since limits of a session cannot be set if sessions are shared: it reports an index that is left for longer than
a build takes.
"""

from __future__ import annotations

import logging
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from fastq.errors import DatabaseUnavailable, LeaseLost
from fastq.events import emit
from fastq.postgres import db
from fastq.sql.statements import in_schema

if TYPE_CHECKING:
    from concurrent.futures import Future

    from fastq.lead.term.chore import Site
    from fastq.postgres.db import Connection

ENTRY = {"job_ready": 48, "job_due": 40, "job_pkey": 24, "job_cancel_requested": 24}
"""The indexes, and bytes of an entry: measured, rounded up, with the usual fill of 90 %."""

WORTHWHILE = 8 * 2**20
"""Bytes below which an index is left alone: walked through in a millisecond."""

BLOATED = 3.0
"""Times the size of its entries from which an index counts as bloated: between one and two is usual for a B-tree, two after half
of the rows were deleted."""

LOCK_TIMEOUT = "3s"
"""How long it waits for a lock, and for one old transaction: longer than statements of ours take, shorter than people notice."""

END_TIMEOUT = "100ms"
"""The same for cleaning up at the end of a term: a leader that stops hands over within 250 ms."""

GONE = "1s"
"""How often the server looks whether the client is still there."""

LOOK = 3_600.0
"""Seconds between looks at most."""

NAP = 0.1
"""Seconds between two indexes."""

WATCH = 0.05
"""Seconds between looks whether the term has ended, while a statement runs."""

LEFTOVER = re.compile(r".*_cc(new|old)\d*")
"""Names of the indexes of a REINDEX CONCURRENTLY that has not finished, numbered when there is one already."""


class Index(NamedTuple):
    """An index of the table of living jobs."""

    name: str
    bytes: int
    entries: float
    valid: bool
    built_ago: float | None

    @property
    def bloated(self) -> bool:
        """Tell whether building it anew is worth it."""
        return self.name in ENTRY and self.bytes > WORTHWHILE and self.bytes > BLOATED * ENTRY[self.name] * max(self.entries, 0.0)


class TermOver(Exception):
    """The term ended while a statement ran."""


class Reindex:
    """The chore. Its attributes are its own, in its track's thread; a new term makes a new one."""

    name = "reindex"

    def __init__(self) -> None:
        self._tried: dict[str, float] = {}  # name -> monotonic time of the last try of this term
        self._cut_off = False  # the end of the term has ended a build
        self._left: set[str] = set()  # leftovers that were there at the last look, if they are only reported
        self._told: set[str] = set()  # those of them that have been reported

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Drop one leftover, or build one index anew."""
        interval = site.config.reindex_interval
        if site.config.poll_only:
            return self._tell_of_leftovers(site)
        pause = min(interval or LOOK, LOOK)
        now = time.monotonic()
        found = [index for index in indexes(site) if now - self._tried.get(index.name, -LOOK) >= pause]
        leftovers = [index for index in found if is_leftover(index)]
        # Below 0: the server's clock was set back since.
        bloated = [index for index in found if index.bloated] if interval else []
        due = [index for index in bloated if index.built_ago is None or not 0 <= index.built_ago < interval]
        for index in (leftovers or due)[:1]:
            self._tried[index.name] = now
            with suppress(TermOver):
                self._attend(site, index)
            return NAP
        return pause

    def _tell_of_leftovers(self, site: Site) -> float:
        """Report each once that was there at the last look too."""
        left = {index.name for index in indexes(site) if is_leftover(index)}
        for name in sorted(left & self._left - self._told):
            emit("index.leftover", level=logging.WARNING, index=name, remedy=_drop(site, name))
            self._told.add(name)
        self._left = left
        return min(LOOK, site.config.reindex_timeout) if left - self._told else LOOK

    def end(self, site: Site, reason: str) -> None:
        """Drop the index that a build has left when it was cut off, unless another supervisor may lead already."""
        if not self._cut_off or reason == "lost":
            return
        with suppress(LeaseLost, db.Error):  # the next leader will
            site.connection.execute(f"set lock_timeout = '{END_TIMEOUT}'")
            for index in filter(is_leftover, indexes(site)):
                site.write("lease_hold")
                site.connection.execute(_drop(site, index.name))

    def _attend(self, site: Site, index: Index) -> None:
        """Build or drop the index, on a connection of its own."""
        connection = connect(site)
        began = time.monotonic()
        try:
            site.write("lease_hold")
            self._run(site, connection, _drop(site, index.name) if is_leftover(index) else _rebuild(site, index.name))
        except db.Error as error:
            emit("index.not_rebuilt", level=logging.WARNING, index=index.name, error=db.first_line(error))
            if not is_leftover(index):
                site.write("index_note", index.name, time.monotonic() - began, db.first_line(error))
        else:
            site.changed += 1
            if is_leftover(index):
                emit("index.leftover_dropped", index=index.name)
            else:
                emit("index.rebuilt", index=index.name, bytes=index.bytes, seconds=time.monotonic() - began)
                site.write("index_note", index.name, time.monotonic() - began, None)
        finally:
            connection.close()

    def _run(self, site: Site, connection: Connection, text: str) -> None:
        """Run a long statement, unless the term ends meanwhile."""
        with ThreadPoolExecutor(1, "fastq reindex") as pool:
            statement = pool.submit(connection.execute, text)
            while not _done(statement):
                if site.nap(0.0):
                    self._cut_off = True
                    _cancel(site, connection)
                    if not _done(statement):
                        connection.cut()
                    raise TermOver
            statement.result()


def indexes(site: Site) -> list[Index]:
    """Read the indexes of the living jobs."""
    rows = site.connection.run("index_list", site.connection.schema, site.fence.name)
    return [Index(*row) for row in rows]


def is_leftover(index: Index) -> bool:
    """Tell whether a build that did not finish has left it behind."""
    return not index.valid and LEFTOVER.fullmatch(index.name) is not None


def connect(site: Site) -> Connection:
    """Open a session for statements that take long."""
    seconds = site.config.reindex_timeout
    limits = {"statement_timeout": str(int(seconds * 1000)), "lock_timeout": LOCK_TIMEOUT}
    connection = db.connect(
        site.url, role="reindex", schema=site.config.schema, prepare=False, timeout=seconds * 1.5, settings=limits
    )
    with suppress(db.Error):  # some platforms cannot; there the statement's time limit ends it
        connection.execute(f"set client_connection_check_interval = '{GONE}'")
    with suppress(db.Error):  # a limit meant for people; Postgres has it since 17
        connection.execute("set transaction_timeout = 0")
    return connection


def _rebuild(site: Site, name: str) -> str:
    return in_schema(f"reindex index concurrently fastq.{name}", site.connection.schema)


def _drop(site: Site, name: str) -> str:
    return in_schema(f'drop index concurrently if exists fastq."{name}"', site.connection.schema)


def _done(statement: Future[list[tuple[object, ...]]]) -> bool:
    """Wait a moment for it."""
    with suppress(TimeoutError, db.Error):
        statement.result(WATCH)
    return statement.done()


def _cancel(site: Site, connection: Connection) -> None:
    """Ask the server to end a session's statement; if it cannot be asked, cut the session's connection."""
    try:
        site.connection.ask("select pg_cancel_backend($1::int)", connection.backend_pid)
    except (db.Error, DatabaseUnavailable):
        connection.cut()
