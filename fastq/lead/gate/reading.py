"""Read which jobs wait at gates: the lines, page by page, and the windows of some lines; as much at once as takes a moment.

Made with the gatekeeper's chore by the thread that starts a term; used by it after that, in its track's thread in the supervisor
that leads, alone. Both go along the index of waiting jobs, where each job that was let go has left an entry, which stays for as
long as somebody keeps an old snapshot: after some minutes the first job that waits lies behind thousands of them, in each line.
So the time of a statement says how much the next one reads, and one that took too long is tried again with less. Meanwhile the
chore lets jobs go of which it knows.

Invariant: no line and no job is passed over. It deliberately decides nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.lead.gate.keys import START, job_of, place_of, priority_of
from fastq.postgres import db, sqlstate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.lead.gate.keeper import Keeper
    from fastq.lead.gate.keys import Place
    from fastq.lead.term.chore import Site

LINES = 2_000
"""Lines of one page of the list at most: some 10 ms."""

WINDOWS = 100
"""Lines of which the waiting jobs are read by one statement at most: 16 to 512 jobs each, so some milliseconds."""

MOMENT = 0.05
"""Seconds that a statement should take at most: so long the end of a job may wait for the start of the next. A guess."""

SHRINK = 8
"""The part of its size that is left after a statement that was ended by its limit, which is a hundred moments away: two tries."""

_lines = msgspec.json.Decoder(list[tuple[str, str]]).decode


class Pace:
    """How much to read by one statement, which follows the time that such statements take. The reader's own."""

    def __init__(self, most: int) -> None:
        self.now = self._most = most

    def run(self, site: Site, name: str, *params: object, size: int) -> tuple[Any, ...] | None:
        """Read so much; return the row of the answer, or None if it took too long."""
        began = time.monotonic()
        try:
            row: tuple[Any, ...] = site.connection.run_one(name, *params)
        except db.Error as error:
            if size == 1 or not sqlstate.too_slow(error):
                raise
            self.now = max(1, size // SHRINK)
            return None
        took = time.monotonic() - began
        if took > MOMENT:
            self.now = max(1, int(size * MOMENT / took))
        elif took < MOMENT / 2 and size == self.now:
            self.now = min(self._most, 2 * size)
        return row


class Lines:
    """The list of all lines in which jobs wait."""

    def __init__(self) -> None:
        self._pace = Pace(LINES)
        self._behind: tuple[str, str] | None = None  # the line behind which the list goes on; None: it is done

    @property
    def left(self) -> bool:
        """Tell whether there is more of the list to be read."""
        return self._behind is not None

    def begin(self) -> None:
        """Read the list from its beginning."""
        self._behind = ("", "")

    def read(self, site: Site) -> Sequence[tuple[str, str]]:
        """Read the next page: queue and gates of each line."""
        size = self._pace.now
        row = self._pace.run(site, "gate_lines", *(self._behind or ("", "")), size, size=size)
        if row is None:
            return ()
        lines = _lines(row[0]) if row[0] else []
        self._behind = lines[-1] if len(lines) == size else None
        return lines


class Windows:
    """The first waiting jobs of lines."""

    def __init__(self) -> None:
        self._pace = Pace(WINDOWS)

    def read(self, site: Site, keeper: Keeper) -> bool:
        """Fill the windows of some lines, as much of each as the one wants that wants the most; tell whether there were any."""
        size = self._pace.now
        lines = keeper.empty(size)
        if not lines:
            return False
        asked = max(line.window for line in lines)
        ends = [line.after or START for line in lines]
        names = zip(*((line.queue, line.gates) for line in lines), strict=True)
        columns = [*names, map(priority_of, ends), map(job_of, ends)]
        row = self._pace.run(site, "gate_window", *(list(column) for column in columns), asked, size=len(lines))
        if row is None:
            for line in lines:
                keeper.again(line.queue, line.gates)
            return True
        found: list[list[Place]] = [[] for _ in lines]
        for number, priority, job in zip(*((column or ()) for column in row), strict=True):
            found[number - 1].append(place_of(priority, job))
        for line, places in zip(lines, found, strict=True):
            keeper.read(line, places, asked)
        return True
