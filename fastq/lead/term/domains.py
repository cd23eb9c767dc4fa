"""Know which queues a domain maintains, and find queues that two domains maintain.

`DomainQueues` runs in each track of a named domain's leader, before the other chores of the track. It alone writes the list
`site.queues`, which these read, and when the list has changed they run at once. A domain maintains the queues that any living
process of it works, not only those of its leader. So in a rolling deploy a queue that only the new programs know has its due jobs
promoted though an old one leads. `Domains` runs under the schema's lease and reports a queue that two domains maintain. `fastq
run` refuses that at its start, and neighbours.py ends it soon after, but it may come about later, by rows that somebody changed.
It says nothing of two domains if one takes over from the other.

The default domain maintains every queue; its leader needs to know none by name. Both chores run in tracks of a term, and each
alone writes its attributes. The functions keep nothing; they run in the main threads of `fastq run` and `fastq leader`, and in
the track of `Domains`. The registrar's thread makes a `Conflict` of its own answer (host/neighbours.py).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from fastq.errors import LeaseError
from fastq.events import emit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.lead.term.chore import Site
    from fastq.postgres.db import Connection

DEFAULT = "default"
"""The domain of those that named none; it maintains every queue."""

INTERVAL = 5.0
"""Seconds between looks at the processes of the domain: as often as they give a sign of life."""

REPORT_INTERVAL = 30.0
"""Seconds between looks for queues of two domains: a guess at how soon somebody wants to know."""


class Conflict(NamedTuple):
    """A queue that two domains maintain."""

    queue: str
    domain: str
    other: str

    def __str__(self) -> str:
        """Say it, with both names."""
        if DEFAULT in (self.domain, self.other):
            named = self.other if self.domain == DEFAULT else self.domain
            return (
                f"queue '{self.queue}' is maintained by domain '{named}', and by domain '{DEFAULT}', which maintains every "
                "queue; give every fastq run of this schema a --leader-domain, or none; --leader-domain-from while you do"
            )
        return (
            f"queue '{self.queue}' is maintained by domain '{self.domain}' and by domain '{self.other}'; "
            "a queue belongs to one domain: take it off one of them"
        )


def conflicts(connection: Connection, domain: str | None = None, queues: Sequence[str] = ()) -> list[Conflict]:
    """Find the queues that two domains maintain, among the living and a domain that is about to join them."""
    return [Conflict(*row) for row in connection.run("domain_conflicts", domain, list(queues))]


def check(connection: Connection, domain: str, queues: Sequence[str], process_ttl: float, successor_of: str = "") -> None:
    """Refuse to join as a domain if another one maintains its queues, unless this one takes over from that one."""
    for conflict in conflicts(connection, domain, queues):
        if domain in conflict[1:] and successor_of not in conflict[1:]:
            raise LeaseError(f"{conflict}; its processes count until {process_ttl:g} s after their last sign of life")


class DomainQueues:
    """Keep the list of queues that the other chores of this track are about."""

    name = "domain_queues"

    def start(self, site: Site) -> None:
        """Know them before anything is done."""
        self.run(site)

    def run(self, site: Site) -> float:
        """Ask the living processes."""
        queues, noted = site.write("domain_queues", site.config.leader_domain, sorted(site.config.concurrency))
        site.queues = queues
        site.changed += noted
        return INTERVAL

    def end(self, site: Site, reason: str) -> None:
        """Leave the row to the next leader."""


class Domains:
    """Report queues that two domains maintain: once when it is seen, and again when it has changed."""

    name = "domains"

    def __init__(self) -> None:
        self._reported: list[Conflict] = []

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Look."""
        moving = {site.config.leader_domain, site.config.leader_domain_from}
        found = [conflict for conflict in conflicts(site.connection) if {*conflict[1:]} != moving]
        for conflict in found:
            if conflict not in self._reported:
                emit("domains.overlap", level=logging.ERROR, queue=conflict.queue, domain=conflict.domain, other=conflict.other)
        self._reported = found
        return REPORT_INTERVAL

    def end(self, site: Site, reason: str) -> None:
        """Keep nothing."""
