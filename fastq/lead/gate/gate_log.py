"""Read the log of the gates: each event once, also those that are committed late, and without a walk over those read long ago.

Used by the gatekeeper's chore, which has one `Log` for each term, in its track's thread in the supervisor that leads; the log
alone writes how far it has come. Events are deleted as they are read. While an old snapshot lives, deleted ones stay in the
index, so a read begins behind the highest id that was read before. A transaction may commit an event with a lower id later, as
one does that enqueues and then takes its time. So the log is read again from `low` now and then, in proportion to how long that
takes: no event can come with an id up to `low`, since each transaction that may have taken one had ended before the log was read
last from the `low` of then. Whether it has is seen in the server's locks, as for the cursor of claims (docs/adr/0008).

Invariant: an event is given out once, by the statement that deletes it; where its answer is lost, the chore begins anew from the
tables. It deliberately does not know what the events mean.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from fastq.lead.term.chore import Site

BATCH = 5_000
"""Events of one read: as many as a claim has jobs."""

AGAIN = 0.05
"""Seconds between two reads from `low` at least: so long a limited job waits for a transaction that committed late. A guess."""

REST = 3.0
"""Times the length of such a read that no other follows it: at most a quarter of the thread's time, as for chores/promote.py."""

ASK = 1.0
"""Seconds between two looks whether `low` may move: a look at the server's locks takes a fraction of a millisecond."""

Event = tuple[str, str, int, int | None, int | None, float | None]
"""Queue, gates, jobs, priority, job; and of an event about rates, for how many seconds nothing may start."""

_lines = msgspec.json.Decoder(list[tuple[str, str, int]]).decode
_events = msgspec.json.Decoder(list[Event]).decode
_debts = msgspec.json.Decoder(list[tuple[str, str, float]]).decode


class Begun(NamedTuple):
    """The memory of a new term, as the tables have it."""

    admitted: list[tuple[str, str, int]]  # how many jobs are admitted in each line: queue, gates, jobs
    spent: list[Event]  # events that are in no row yet: of rates
    unstarted: list[tuple[str, str, int]]  # admitted jobs at rates that no process has claimed: queue, gates, job
    debts: list[tuple[str, str, float]]  # of rates: gate, key, for how many seconds nothing may start


class Log:
    """The log, as one term reads it."""

    def __init__(self) -> None:
        self.front = 0  # the highest id that was read
        self.whole = False  # whether the last read was from `low`, and found all
        self._low = 0
        self._ended = 0  # no transaction is left that may have ids up to here: the next whole read finds the last of them
        self._mark = 0  # the front of a moment ago
        self._writers: set[str] | None = None  # those that may have ids up to the mark; None: to be asked for
        self._again_at = 0.0  # monotonic
        self._ask_at = 0.0  # monotonic

    def begin(self, site: Site) -> Begun:
        """End all events; return what counts without them."""
        site_gone, front, counted, spent, unstarted, debts = site.write("gate_begin")
        site.changed += int(site_gone)
        self.front = max(self.front, int(front))
        return Begun(_lines(counted or "[]"), _events(spent or "[]"), _lines(unstarted or "[]"), _debts(debts or "[]"))

    def read(self, site: Site) -> tuple[list[Event], bool]:
        """Read some events; tell whether there may be more of them now."""
        now = time.monotonic()
        again = now >= self._again_at
        if again:
            self._ask(site, now)
        count, highest, found, _ = site.write("gate_read", self._low if again else self.front, BATCH)
        self.front = max(self.front, int(highest))
        self.whole = again and count < BATCH
        if self.whole:
            self._low = self._ended
            took = time.monotonic() - now
            self._again_at = now + took + max(AGAIN, REST * took)
        return (_events(found) if found else []), count == BATCH

    def soon(self) -> None:
        """Have the next read begin at `low`."""
        self._again_at = 0.0

    def due(self) -> float:
        """Return the seconds until the log is to be read from `low` again: never, if the last read was such a one.

        Whoever commits after it sends a hint. One that came since may have been for a late event, which no other read finds.
        """
        return math.inf if self.whole else max(0.0, self._again_at - time.monotonic())

    def _ask(self, site: Site, now: float) -> None:
        """Ask whether a transaction is left of those that wrote when the mark was set.

        This comes before a read from `low`: an event that is committed between the two is found, and would be lost the other way.
        """
        if now < self._ask_at or self.front == self._low:
            return
        self._ask_at = now + ASK
        writers: set[Any] = set(site.connection.run_one("gate_writers")[0])
        if self._writers is not None:
            self._writers &= writers
            if self._writers:
                return
            self._ended = self._mark
        self._mark, self._writers = self.front, writers
