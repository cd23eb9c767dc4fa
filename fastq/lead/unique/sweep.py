"""Sweep: delete the rows of unique keys that were given up.

A chore of the schema's leader, run in its track's thread of the supervisor that leads. A key is given up without a statement,
by its job or by time (sql/migrations/0007_unique_keys.sql), and its row is taken over by the next enqueue with that key. This
chore is for keys that nobody enqueues again: a walk through the table, a window at a time, deletes their rows. A second walk is
for the keys that are held until success, since the archive has to be asked for those.

Invariant: a row is deleted only if it is the one that was looked at (its `since`), so a key that was taken over meanwhile
stays. It deliberately repairs nothing: without it keys are held and given up in the same way, and the table grows.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from fastq.lead.term.chore import block_ranges

if TYPE_CHECKING:
    from fastq.lead.term.chore import Site

WINDOW = 5_000
"""Keys that one statement looks at: some 20 ms, as each is looked up in `job`."""

INTERVAL, SHARE = 15.0, 20.0
"""Seconds between two walks at least; and how many times as long as a walk took. So with a million keys that are held, of which
nothing can be deleted, the walks take a twentieth of one connection. Guesses: a row that waits costs its 100 bytes."""

NAP = 0.005
"""Seconds between windows, for the others; a guess."""


class Sweep:
    """The chore. Its attributes are its own, in its track's thread; a new term makes a new one."""

    name = "unique"

    def __init__(self) -> None:
        self._key: str | None = ""  # the last key looked at; None: that walk is done
        self._job = 0  # the last job looked at by the walk through keys until success
        self._began = time.monotonic()  # when the present walks began; while it rests, when the next ones begin

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Look at the next window of a walk."""
        if self._key is not None:
            last, looked, gone = site.write("unique_sweep", self._key, WINDOW)
            self._key = last if looked == WINDOW else None
            site.changed += gone
            return NAP
        with block_ranges(site):
            last, looked, gone = site.write("unique_sweep_success", self._job, WINDOW)
        site.changed += gone
        if looked == WINDOW:
            self._job = last
            return NAP
        rest = max(INTERVAL, SHARE * (time.monotonic() - self._began))
        self._key, self._job, self._began = "", 0, time.monotonic() + rest
        return rest

    def end(self, site: Site, reason: str) -> None:
        """Leave the rest to the next leader."""
