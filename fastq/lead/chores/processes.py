"""Processes: delete the rows of processes that expired a while ago.

A chore of the schema's leader, run in its track's thread of the supervisor that leads. The leaders of the domains have seen
them by then and given their jobs back (rescue.py); a job that was overlooked counts as one of a process that nobody knows, and
is rescued as such. It deliberately deletes none early: one that was suspended and beats again gets its row back by its beat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastq.lead.term.chore import Site

EXPIRED = 600.0
"""Seconds after its end until a process's row goes: long enough for a domain that nobody leads just now to find a leader."""

INTERVAL = 60.0
"""Seconds between looks; the rows disturb nobody."""


class Processes:
    """The chore. It keeps nothing: the rows are written by the beats of the supervisors."""

    name = "processes"

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Delete them."""
        (gone,) = site.write("process_forget", EXPIRED)
        site.changed += gone
        return INTERVAL

    def end(self, site: Site, reason: str) -> None:
        """Leave nothing behind."""
