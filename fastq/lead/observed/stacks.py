"""Stacks: remove the requests for stacks of running jobs that nobody has taken away.

A chore of the schema's leader, run in its track's thread of the supervisor that leads. Whoever asks takes the answer, and the row
with it; a row stays if that program is gone before. The hint upon which a process answers wakes this chore, too: so a schema in
which nobody asks is looked at once in an hour.

Invariant: no answer goes that somebody may still wait for. The chore deliberately asks and answers nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastq.lead.term.chore import Site

OLD = 300.0
"""Seconds after which a request goes: nobody waits for a minute (sql/stack_wanted.sql), and a person may look into the table."""

AGAIN = 60.0
"""Seconds until the next look while there are requests."""

IDLE = 3_600.0
"""Seconds until the next look where there are none."""


class Stacks:
    """The chore. It keeps nothing."""

    name = "stacks"

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Remove the old ones."""
        gone, were = site.write("stack_prune", OLD)
        site.changed += gone
        return AGAIN if were > gone else IDLE

    def end(self, site: Site, reason: str) -> None:
        """Leave the rest to the next leader."""
