"""Run our statements on a connection of somebody else's, within the transaction that is open there: in a test that rolls it back.

Used in the thread of a test that works jobs which it has not committed (fastq/testing/): a `Joined` belongs to that thread, which
alone runs its statements and writes `_own`. The connection is psycopg's, sync or
async, or lies below one of SQLAlchemy's or Django's. For as long as we use it, it has a second object of psycopg's around it:
so libraries that have adapted their own to other types change nothing of our rows, and an async one answers to blocking calls.

Invariants:
- No transaction is begun or ended that the caller would not have begun: each of our statements is a savepoint in the one that is
  open, and one that fails leaves that usable. A connection in autocommit without a transaction stays so.
- No setting of ours stays behind in the caller's transaction.

It deliberately pins and prepares nothing: the session is the caller's, so statements are sent in their qualified text.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import pq
from psycopg.rows import tuple_row

from fastq.errors import OptionError
from fastq.postgres import moments
from fastq.postgres.db import ENCODING, Connection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SAVEPOINT = "fastq_statement"
WITHIN = {
    "begin": "savepoint fastq_chore",
    "commit": "release savepoint fastq_chore",
    "rollback": "rollback to savepoint fastq_chore",
}
"""Statements that stand for a transaction of a chore's own, by the first word of those that begin and end one."""

CLAIM_SETTINGS = ("fastq_claim.bytes", "fastq_claim.left", "lock_timeout")
"""Settings of the transaction that a claim makes, or counts in: one claim is to be a transaction of its own."""


class Joined(Connection):
    """A session that belongs to a caller; its transaction goes on when we have left."""

    _own = False  # whether the transaction that is open is a chore's, on a connection in autocommit

    def execute(self, text: str, *params: object) -> list[tuple[Any, ...]]:
        """Run a text in a savepoint, or what stands for a transaction of our own."""
        word = text.partition(";")[0].strip().lower()
        if word in WITHIN:
            self._begin()
            if self._own or self.raw.info.transaction_status is pq.TransactionStatus.IDLE:
                self._own = word == "begin"
                return super().execute(word)
            return super().execute(WITHIN[word])
        with self._savepoint():
            return super().execute(text, *params)

    def run_within(self, seconds: float, name: str, *params: object) -> list[tuple[Any, ...]]:
        """Run a statement; nobody cuts a caller's connection."""
        del seconds
        return self.run(name, *params)

    def run_blobs(self, name: str, params: Sequence[bytes | None]) -> tuple[int, list[bytes | None]]:
        """Run a statement with binary values in a savepoint."""
        claims = "claim" in name
        with self._savepoint():
            before = super().execute(f"select {_settings('current_setting', ', true')}")[0] if claims else ()
            answer = super().run_blobs(name, params)
            if claims:
                super().execute(f"select {_settings('set_config', ', ${}, true')}", *(value or "" for value in before))
            return answer

    def close(self) -> None:
        """Leave the session as it is: the caller closes it."""

    def _begin(self) -> None:
        """Have the driver begin the transaction that it would begin with the caller's next statement."""
        if not self.raw.autocommit and self.raw.info.transaction_status is pq.TransactionStatus.IDLE:
            super().execute("select 1")

    @contextmanager
    def _savepoint(self) -> Iterator[None]:
        self._begin()
        if self.raw.info.transaction_status is pq.TransactionStatus.IDLE:
            yield
            return
        super().execute(f"savepoint {SAVEPOINT}")
        try:
            yield
        except psycopg.Error:
            if self.usable:
                super().execute(f"rollback to savepoint {SAVEPOINT}")
            raise
        super().execute(f"release savepoint {SAVEPOINT}")


@contextmanager
def joined(raw: Any, schema: str, timeout: float) -> Iterator[Joined]:
    """Give a session on a psycopg connection that somebody else has opened, for a while in which its owner does not use it."""
    if not isinstance(raw, psycopg.Connection | psycopg.AsyncConnection):
        cls = type(raw)
        raise OptionError(
            "conn: expected a connection of psycopg 3, or of SQLAlchemy or Django above it: jobs are worked by its blocking "
            f"calls; got a {cls.__module__}.{cls.__qualname__}"
        )
    status = raw.info.transaction_status
    if status is pq.TransactionStatus.INERROR:
        raise OptionError("conn: expected a transaction that can go on, got one in which a statement has failed: roll it back")
    if (encoding := raw.info.parameter_status("client_encoding") or ENCODING) != ENCODING:
        raise OptionError(f"conn: expected a client_encoding of {ENCODING}, got {encoding}")
    notice, notify = raw.pgconn.notice_handler, raw.pgconn.notify_handler
    twin: psycopg.Connection[tuple[Any, ...]] = psycopg.Connection(raw.pgconn, row_factory=tuple_row)
    twin.prepare_threshold = None  # the names of prepared statements are those of the session, and the owner counts them
    moments.read_all(twin)
    if raw.autocommit and status is pq.TransactionStatus.IDLE:
        twin.autocommit = True
    try:
        yield Joined(twin, schema, prepare=False, timeout=timeout, owned=False)
    finally:
        raw.pgconn.notice_handler, raw.pgconn.notify_handler = notice, notify
        del twin.pgconn  # or the twin would warn, when it is collected, that nobody has closed it


def _settings(function: str, more: str) -> str:
    """Write the call of a function for each setting that a claim makes; `more` are its further arguments."""
    calls = [f"pg_catalog.{function}('{name}'{more.format(place)})" for place, name in enumerate(CLAIM_SETTINGS, 1)]
    return ", ".join(calls)
