"""Subscriptions: remove those of programs that are gone, and the events that nobody will read.

A chore of the schema's leader, run in its track's thread of the supervisor that leads. It is woken by the hint '@events', which a
program sends that begins to hear events, goes on, or ends; while subscriptions are left it comes again by itself. A process
takes its own old sheets away while it writes others (work/forwarder.py), so this is for those of processes that are gone, and
for the last ones of each subscription.

Invariant: no event goes that a program may still read. The chore deliberately ends no subscription: they end at their time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastq.lead.term.chore import Site

ENDED = 60.0
"""Seconds that the row of a subscription stays after its end: for people who look into the table."""

READ = 60.0
"""Seconds after which no program reads a sheet: processes remove theirs after 15."""

SHEETS = 100
"""Sheets that one statement deletes: 13 MB at most. A guess."""

AGAIN = 20.0
"""Seconds until the next look while there are subscriptions, or where no hint can come."""

IDLE = 3_600.0
"""Seconds until the next look where there are none, if no hint comes before."""

NAP = 0.005
"""Seconds between batches, for the others; a guess."""


class Subscriptions:
    """The chore. It keeps nothing."""

    name = "subscriptions"

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Remove one batch."""
        gone, swept, left = site.write("subscription_prune", ENDED, READ, SHEETS)
        site.changed += gone + swept
        if swept == SHEETS:
            return NAP
        return AGAIN if left or swept or site.config.poll_only else IDLE

    def end(self, site: Site, reason: str) -> None:
        """Leave the rest to the next leader."""
