"""Write rows in batches whose size follows what the database bears, and find the row that spoils a batch.

Used by the chores that write many rows, in their thread; belongs to one of them. They read what is to be done, and write
it by fenced statements that look again at each row, so that a batch may be tried twice, in parts, or not at all.

- A batch that takes too long (statement_timeout, lock_timeout) is halved, down to one row; after GROW_AFTER that went well it
  is doubled again. A single row that takes too long twice is set aside.
- A batch that is refused because of a row (a user's trigger raises, a value does not fit) is cut into halves until the row
  is found; the others are written. The row is set aside with an event, and tried again after ASIDE.
- When single rows fail one after the other, it is not they; what is left of the batch is set aside as a whole.

It deliberately does not hide errors that are no row's: a lost connection, a missing table, a full disk end the run.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from fastq import db
from fastq.events import emit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Rows = Sequence[tuple[Any, ...]]
    Put = Callable[[Rows], None]

GROW_AFTER = 3
"""Batches that must go well before they grow: two in a row may be luck; a guess."""

ASIDE = 60.0
"""Seconds until a row that was set aside is tried again: what spoiled it may have been repaired. A guess at a person's pace."""

MAX_BAD = 10
"""Single rows that fail one after the other, with none between that passes, before the whole rest of the batch is set aside."""

MAX_ASIDE = 20_000
"""Rows set aside at most; each look carries their ids. Beyond it the chore fails loudly."""

SLOW_TRIES = 2
"""Times that a single row may take too long before it is set aside."""

TOO_SLOW = {"57014", "55P03"}
"""query_canceled (statement_timeout) and lock_not_available."""

NO_ROWS_FAULT = {"08", "0A", "25", "26", "28", "3D", "3F", "40", "53", "57", "58", "F0", "XX"}
"""Classes of errors that say nothing about a row: connection, transaction, privileges of the session, resources, the server."""


def too_slow(error: BaseException) -> bool:
    """Tell whether a statement ran into a time limit."""
    return getattr(error, "sqlstate", None) in TOO_SLOW


def row_refused(error: BaseException) -> bool:
    """Tell whether the same statement may pass without one of its rows."""
    state = getattr(error, "sqlstate", None)
    return state is not None and state[:2] not in NO_ROWS_FAULT and state != "42501" and not db.undefined_schema(error)


class Size:
    """A size that is halved when something took too long and doubled when it went well again."""

    def __init__(self, chore: str, largest: int, smallest: int = 1) -> None:
        self.now = largest
        self._chore = chore
        self._largest = largest
        self._smallest = smallest
        self._good = 0

    def shrink(self, tried: int, error: BaseException) -> None:
        """Take half of what was tried."""
        self._good = 0
        self.now = max(self._smallest, min(tried, self.now) // 2)
        emit("chore.batch_shrunk", level=logging.WARNING, chore=self._chore, size=self.now, error=db.first_line(error))

    def succeeded(self, tried: int) -> None:
        """Grow again after some that went well; small ones show nothing."""
        if self.now == self._largest or tried * 2 < self.now:
            return
        self._good += 1
        if self._good >= GROW_AFTER:
            self._good = 0
            self.now = min(self._largest, self.now * 2)
            if self.now == self._largest:
                emit("chore.batch_recovered", chore=self._chore, size=self.now)


class Batch:
    """Rows to write, each a tuple that begins with its id."""

    def __init__(self, chore: str, largest: int) -> None:
        self.size = Size(chore, largest)
        self._chore = chore
        self._aside: dict[int, float] = {}  # id -> monotonic time of the next try
        self._bad = 0  # single rows that failed since one passed
        self._slow = 0  # times that a single row took too long, in a row

    def aside(self) -> list[int]:
        """Return the ids that are set aside now."""
        now = time.monotonic()
        self._aside = {row: until for row, until in self._aside.items() if until > now}
        return list(self._aside)

    def write(self, rows: Rows, put: Put) -> Rows:
        """Write a batch of the rows; return those that are left."""
        batch, rest = rows[: self.size.now], rows[self.size.now :]
        self._bad = 0
        try:
            put(batch)
        except db.Error as error:
            if too_slow(error):
                return self._too_slow(batch, rows, error)
            if not row_refused(error):
                raise
            self._halve(batch, put, error)
            return rest
        self._slow = 0
        self.size.succeeded(len(batch))
        return rest

    def _too_slow(self, batch: Rows, rows: Rows, error: db.Error) -> Rows:
        if len(batch) > 1:
            self.size.shrink(len(batch), error)
            return rows
        self._slow += 1
        if self._slow < SLOW_TRIES:
            return rows
        self._slow = 0
        self._set_aside(batch, error)
        return rows[1:]

    def _halve(self, batch: Rows, put: Put, error: db.Error) -> None:
        """Find the row that the batch was refused for, and write the others."""
        if len(batch) == 1 or self._bad >= MAX_BAD:
            self._bad += 1
            self._set_aside(batch, error)
            return
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            try:
                put(half)
                self._bad = 0
            except db.Error as failure:
                if too_slow(failure):
                    self.size.shrink(len(half), failure)  # its rows come again with the next look
                elif row_refused(failure):
                    self._halve(half, put, failure)
                else:
                    raise

    def _set_aside(self, batch: Rows, error: db.Error) -> None:
        if len(self._aside) + len(batch) > MAX_ASIDE:
            raise error
        until = time.monotonic() + ASIDE
        self._aside.update((row[0], until) for row in batch)
        if len(batch) == 1:
            emit("chore.row_skipped", level=logging.WARNING, chore=self._chore, id=batch[0][0], error=db.first_line(error))
        else:
            emit("chore.rows_skipped", level=logging.ERROR, chore=self._chore, rows=len(batch), error=db.first_line(error))
