"""Unled: report periodic jobs that do not tick because nobody leads a domain that maintains their queue.

A chore of the schema's leader, run in its track's thread of the supervisor that leads. A schema has that leader with any domains.
With named domains it reports queues that none of them works; otherwise queues with no supervisor that leads: all are gone or have
`FASTQ_LEAD=off`. It keeps the queues that it has seen: its track's thread alone writes its attributes, and a new term makes
a new one. It deliberately changes nothing in the database: people do.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fastq.events import emit

if TYPE_CHECKING:
    from fastq.lead.term.chore import Site

INTERVAL = 30.0
"""Seconds between looks. Three times FASTQ_LEASE_TTL: seen twice it is no takeover."""


class Unled:
    """The chore: tells once when it is seen twice, and again when it has changed. Only it uses `_seen`."""

    name = "unled"

    def __init__(self) -> None:
        self._seen: dict[str, tuple[list[str], int]] = {}  # by queue: the periodic jobs, and at how many looks they were seen

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Look."""
        seen = {}
        for queue, names in site.connection.run("periodic_unled"):
            before, looks = self._seen.get(queue, (names, 0))
            seen[queue] = (names, looks + 1 if before == names else 1)
            if seen[queue][1] == 2:  # noqa: PLR2004 - the second look
                emit("periodic.no_leader", level=logging.WARNING, queue=queue, names=names)
        self._seen = seen
        return INTERVAL

    def end(self, site: Site, reason: str) -> None:
        """Keep nothing."""
