"""Queues: forget queues that nobody uses any more, and items of the guard of side effects that are old enough.

A chore of the schema's leader. A queue's row says whether it is paused; a row that says nothing goes after a day, if there is
no job in the queue and no living process works it. A paused queue stays paused for ever: only people resume it.

Items that singletons and others noted as done (fastq.once) are kept for FASTQ_ONCE_DAYS. There is no index by their age,
which would cost each note; a walk through the table, a window at a time, finds the old ones.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastq.chores.chore import Site

UNUSED = 86_400.0
"""Seconds that a queue's row stays after it was made: a guess; it costs nothing."""

BATCH = 100
"""Queues forgotten by one statement; for each it asks whether there are jobs."""

WINDOW = 5_000
"""Rows of the guard that one statement looks at: some 10 ms."""

INTERVAL = 3_600.0
"""Seconds between looks and walks: both are for what matters after days."""

NAP = 0.005
"""Seconds between batches, for the others; a guess."""


class Queues:
    """The chore."""

    name = "queues"

    def __init__(self) -> None:
        self._after: tuple[str, str] | None = None  # the last item looked at; None: no walk is under way
        self._again = 0.0  # monotonic time of the next look

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Forget a batch of queues, then look at a window of items."""
        if self._after is None:
            (gone,) = site.write("queue_forget", UNUSED, BATCH)
            site.changed += gone
            if gone == BATCH:
                return NAP
            self._after = ("", "")
            self._again = time.monotonic() + INTERVAL
        name, item, looked, gone = site.write("once_forget", *self._after, WINDOW, site.config.once_days)
        site.changed += gone
        if looked == WINDOW:
            self._after = (name, item)
            return NAP
        self._after = None
        return max(self._again - time.monotonic(), NAP)

    def end(self, site: Site, reason: str) -> None:
        """Leave the rest to the next leader."""
