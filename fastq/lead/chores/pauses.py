"""Pauses: resume the queues, kinds, gates and keys that are paused until a time, when it has come.

A chore of the schema's leader, run in its track's thread of the supervisor that leads. It sleeps until the next pause ends, IDLE
seconds at most, and is woken by the hint '@pause' when one is set. So no claim and no enqueue compares a time with the clock.
While nobody leads, all that is paused stays paused: the first run of the next leader ends the pauses that are over.

Invariant: a pause ends once, and the statement that ends it wakes the parts that go on. The chore deliberately sets no pause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastq.admin.pauses import named_so
from fastq.events import emit
from fastq.postgres import hints

if TYPE_CHECKING:
    from fastq.lead.term.chore import Site

IDLE = 10.0
"""Seconds until the next look when no pause ends before: with a lost hint one ends so much later. The figure of promote."""

IDLE_POLLING = 1.0
"""The same without LISTEN."""

LOCKED = 0.5
"""Seconds until the next look when the row of a pause that is over was locked: somebody changes it. The figure of promote."""


class Pauses:
    """The chore. It keeps nothing: the pauses are rows, which people set and this ends."""

    name = "pauses"

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """End the pauses that are over."""
        ended, sorts, names, keys, left, next_end, _ = hints.sending(
            site.connection, lambda channel: site.write("pause_over", channel)
        )
        site.changed += ended
        for sort, name, key in zip(sorts, names, keys, strict=True):
            emit("pause.ended", subject=named_so(sort, name, key))
        idle = IDLE_POLLING if site.config.poll_only else IDLE
        if left:
            return LOCKED
        return idle if next_end is None else min(max(float(next_end), 0.001), idle)

    def end(self, site: Site, reason: str) -> None:
        """Leave the rest to the next leader."""
