"""Write rows in batches, sized by the time that the database takes, and find the row that spoils a batch.

Used by the chores that write many rows, in the thread of their track, in the supervisor that leads; a `Batch` or a `ChoreSize`
belongs to one of them. They read the rows to change, and change them by fenced statements that look again at each row, so that a
batch may be tried twice, in parts, or not at all.

- A batch that takes too long (statement_timeout, lock_timeout) is halved, down to one row; after GROW_AFTER that went well it
  is doubled again. A single row that takes too long twice is set aside.
- A batch that is refused because of a row (a user's trigger raises, a value does not fit) is cut into halves until the row
  is found; the others are written. The row is set aside with an event, and tried again after ASIDE.
- If many single rows fail in a row, the cause is probably not the rows. The rest of that piece of the batch is tried again while
  any row of the batch passes, and set aside as a whole when none does.
- No more than MAX_ASIDE rows are set aside. Rows beyond that are left as they are and come again with the caller's next look.

It deliberately does not hide errors that no row causes: a lost connection, a missing table, a full disk end the run.
"""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, Any

from fastq.events import emit
from fastq.postgres import db, sqlstate
from fastq.size import Aside, Size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Rows = Sequence[tuple[Any, ...]]
    Put = Callable[[Rows], None]

GROW_AFTER = 3
"""Batches that must go well before they grow: two in a row may be luck; a guess."""

ASIDE = 60.0
"""Seconds until a row that was set aside is tried again: somebody may have repaired it by then. A guess at a person's pace."""

MAX_BAD = 10
"""Single rows of a group that fail one after the other, with none between that passes, before the rest of its rows in that
piece is given up; and the events about single rows that one batch causes at most."""

PIECES = 8
"""Pieces of a refused batch, each with its own count of bad rows, so that a crowd of them does not hide good rows elsewhere. With
MAX_BAD it bounds the cost of a batch that is refused whole, of however many groups: 250 statements, 0.25 s (measured)."""

MAX_ASIDE = 20_000
"""Rows set aside at most; each look carries their ids, and takes some 40 ms then (measured)."""

SLOW_TRIES = 2
"""Times that a single row may take too long before it is set aside."""


class ChoreSize(Size):
    """The size of a chore's batches, with an event for each change."""

    def __init__(self, chore: str, largest: int, smallest: int = 1) -> None:
        super().__init__(largest, smallest, successes=GROW_AFTER)
        self._chore = chore

    def too_slow(self, tried: int, error: BaseException) -> None:
        """Shrink, because so many took too long."""
        self.shrink(tried)
        emit("chore.batch_shrunk", level=logging.WARNING, chore=self._chore, size=self.now, error=db.first_line(error))

    def succeeded(self, tried: int) -> bool:
        """Grow if it is time to; tell whether the size is whole again by this."""
        if whole := super().succeeded(tried):
            emit("chore.batch_recovered", chore=self._chore, size=self.now)
        return whole


class Batch:
    """Rows to write, each a tuple that begins with its id."""

    def __init__(self, chore: str, largest: int, group: Callable[[tuple[Any, ...]], str] = lambda _: "") -> None:
        self.size = ChoreSize(chore, largest)
        self._chore = chore
        self._group = group  # rows of one group are suspected together, those of others are not
        self._aside: Aside[int] = Aside(MAX_ASIDE)  # ids of rows
        self._bad = 0  # single rows of one group that failed since one passed
        self._crowd = ""  # that group
        self._slow = 0  # times that a single row took too long, in a row
        self._refused = 0  # single rows of the present batch that failed
        self._passed = False  # whether anything of the present batch did, or may yet
        self._full_told = -ASIDE  # monotonic time of the last event about rows for which there was no room

    def aside(self) -> list[int]:
        """Return the ids that are set aside now."""
        return self._aside.keys()

    @property
    def crowded(self) -> bool:
        """Tell whether no more rows can be set aside for the time being."""
        return len(self.aside()) >= MAX_ASIDE

    def write(self, rows: Rows, put: Put) -> Rows:
        """Write a batch of the rows; return those that are left."""
        batch, rest = rows[: self.size.now], rows[self.size.now :]
        self._refused = 0
        try:
            put(batch)
        except db.Error as error:
            if sqlstate.too_slow(error):
                return self._too_slow(batch, rows, error)
            if not sqlstate.row_refused(error):
                raise
            return [*self._search(batch, put, error), *rest]
        self._slow = 0
        self.size.succeeded(len(batch))
        return rest

    def _too_slow(self, batch: Rows, rows: Rows, error: db.Error) -> Rows:
        if len(batch) > 1:
            self.size.too_slow(len(batch), error)
            return rows
        self._slow += 1
        if self._slow < SLOW_TRIES:
            return rows
        self._slow = 0
        self._set_aside(batch, error)
        return rows[1:]

    def _search(self, batch: Rows, put: Put, error: db.Error) -> Rows:
        """Find the rows that the batch was refused for, and write the others; return the rows that are worth another try."""
        self._passed = False
        turn = random.randrange(len(batch))  # noqa: S311 - next time others come first in their piece
        order = {group: random.random() for group in sorted({self._group(row) for row in batch})}  # noqa: S311 - so do other groups
        rows = sorted([*batch[turn:], *batch[:turn]], key=lambda row: order[self._group(row)])
        size = -(-len(batch) // PIECES)
        left: list[tuple[Any, ...]] = []
        for begin in range(0, len(rows), size):
            self._bad = 0
            left += self._part(rows[begin : begin + size], put)
        if self._passed:
            return left
        if left:
            self._set_aside(left, error)
        return []

    def _part(self, part: Rows, put: Put) -> Rows:
        """Write it, in halves if it is refused; return the rows that were given up."""
        try:
            put(part)
        except db.Error as error:
            if sqlstate.too_slow(error):
                self.size.too_slow(len(part), error)
                self._passed = True  # another try, a smaller one, is worth it
                return part
            if not sqlstate.row_refused(error):
                raise
            if len(part) == 1:
                group = self._group(part[0])
                self._bad = self._bad + 1 if group == self._crowd else 1
                self._crowd = group
                self._refused += 1
                self._set_aside(part, error)
                return []
            enough = self._refused >= MAX_BAD * PIECES
            if (enough or self._bad >= MAX_BAD) and self._group(part[0]) == self._crowd:
                others = [row for row in part if self._group(row) != self._crowd]  # they come behind it
                return [*part[: len(part) - len(others)], *(self._part(others, put) if others else [])]
            if enough:
                return part
            middle = len(part) // 2
            return [*self._part(part[:middle], put), *self._part(part[middle:], put)]
        self._bad, self._passed = 0, True
        return []

    def _set_aside(self, batch: Rows, error: db.Error) -> None:
        if self._aside.put([row[0] for row in batch], ASIDE) < len(batch):
            now = time.monotonic()
            if now < self._full_told + ASIDE:
                return  # they come again with each look
            self._full_told = now
        if len(batch) > 1:
            emit("chore.rows_skipped", level=logging.ERROR, chore=self._chore, rows=len(batch), error=db.first_line(error))
        elif self._refused <= MAX_BAD:
            emit("chore.row_skipped", level=logging.WARNING, chore=self._chore, id=batch[0][0], error=db.first_line(error))
