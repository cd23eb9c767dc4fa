"""Lead where this supervisor is elected: which leases it stands for, and which chores belong to each.

The supervisor's main thread makes a `Maintainer`, starts and stops it, and asks it for `ended` and `watched`. The elector's
thread calls when a term begins or ends; the work is done by the terms' own threads (term.py): the thread that starts a term makes
its chores here, for that start alone. Worker processes never lead.

    leader:DOMAIN   one leader per domain: promote, periodic, admit | rescue | prune: for the domain's queues (the default: all)
    schema          one in the whole schema, for all domains: partitions, processes, forget, domains, unled, unworked, unique,
                    subscriptions, stacks, statistics, bulk, census (with FASTQ_HEALTH) | gate, pauses, workflow | reindex

The bar separates tracks, each a thread and a connection, so that a long chore keeps neither due jobs nor a lost host waiting.

Invariant: a term that has ended may still be finishing a statement while the next one works; they share nothing (`_terms` only
keeps them in sight until their threads have ended). It deliberately does nothing by itself.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from fastq.lead.bulk.chunks import Bulk
from fastq.lead.census import Census, Counts
from fastq.lead.chores.admit import Admit
from fastq.lead.chores.forget import Forget
from fastq.lead.chores.partitions import Partitions
from fastq.lead.chores.pauses import Pauses
from fastq.lead.chores.periodic import Periodic
from fastq.lead.chores.processes import Processes
from fastq.lead.chores.promote import Promote
from fastq.lead.chores.prune import Prune
from fastq.lead.chores.reindex import Reindex
from fastq.lead.chores.unled import Unled
from fastq.lead.chores.unworked import Unworked
from fastq.lead.gate.gatekeeper import Gatekeeper
from fastq.lead.observed.stacks import Stacks
from fastq.lead.observed.statistics import Statistics
from fastq.lead.observed.subscriptions import Subscriptions
from fastq.lead.rescue.rescue import Rescue
from fastq.lead.term.domains import DEFAULT, DomainQueues, Domains
from fastq.lead.term.term import Term
from fastq.lead.unique.sweep import Sweep
from fastq.lead.workflow.steward import Steward
from fastq.leases.elector import Candidacy, Elector
from fastq.postgres import hints
from fastq.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from fastq.config import Config
    from fastq.lead.term.chore import Chore
    from fastq.leases.elector import Trust
    from fastq.leases.lease import Fence
    from fastq.postgres.db import Connection
    from fastq.postgres.hints import Hint

SCHEMA = "schema"
"""The lease of the chores that concern all domains."""

WOKEN = {
    hints.DUE: "promote",
    hints.PERIODIC: "periodic",
    hints.GATE: "gate",
    hints.PAUSE: "pauses",
    hints.WORKFLOW: "workflow",
    hints.EVENTS: "subscriptions",
    hints.STACK: "stacks",
    hints.OPERATION: "bulk",
}
"""The chore that a leader does at once upon a hint."""


def leader_of(domain: str) -> str:
    """Return the name of a domain's lease."""
    return f"leader:{domain}"


class Maintainer(Service):
    """Owns the elector of this supervisor and its terms. The listener's thread calls the functions that `hears` returns."""

    def __init__(self, config: Config, url: str) -> None:
        self._config = config
        self._url = url
        self.counts = Counts()  # of the queues, while this supervisor leads the schema and is to tell of them
        self._terms: tuple[Term, ...] = ()  # replaced as a whole by the elector's thread
        queues = None if config.leader_domain == DEFAULT else sorted(config.concurrency)
        self._elector = Elector(
            config,
            url,
            [
                Candidacy(leader_of(config.leader_domain), self._leads(domain_chores), self._end, queues),
                Candidacy(SCHEMA, self._leads(functools.partial(schema_chores, counts=self.counts)), self._end),
            ],
        )

    def start(self) -> None:
        """Stand for the leases, unless this supervisor is to leave that to others."""
        if self._config.lead:
            self._elector.start()

    def hears(self) -> Mapping[Hint, Callable[[str], None]]:
        """Name the hints that concern leaders."""
        return {
            hints.LEASE: self._elector.hint,
            hints.MISSED: lambda _: self._wake(WOKEN.values()),
            **{hint: functools.partial(self._wake, [chore]) for hint, chore in WOKEN.items()},
        }

    def _wake(self, chores: Iterable[str], _: str = "") -> None:
        for chore in chores:
            for term in self._terms:
                term.wake(chore)

    def stop(self) -> float:
        """End the terms and release the leases; nothing waits for that before the children have ended."""
        self._elector.stop()
        return 0.0

    def finish(self, by: float) -> float:
        """End the same way, if that has not been begun."""
        return self._elector.finish(by)

    @property
    def ended(self) -> bool:
        """Tell whether everything has ended."""
        return self._elector.ended and all(term.ended for term in self._terms)

    def leads(self) -> list[str]:
        """Return the leases that this supervisor holds now."""
        return [term.fence.name for term in self._terms if not term.ended]

    def watched(self) -> Iterable[Connection]:
        """Give the connections, for the watchdog; the elector's statements have deadlines of their own."""
        return [connection for term in self._terms for connection in term.watched()]

    def _leads(self, make_chores: Callable[[Config], Sequence[Sequence[Chore]]]) -> Callable[[Fence, Trust], None]:
        def begin(fence: Fence, trust: Trust) -> None:
            term = Term(self._config, self._url, fence, trust, lambda: make_chores(self._config), self._elector.resign)
            self._terms = (*(old for old in self._terms if not old.ended), term)
            term.start()

        return begin

    def _end(self, fence: Fence, reason: str) -> None:
        for term in self._terms:
            if term.fence == fence:
                term.end(reason)


def domain_chores(config: Config) -> Sequence[Sequence[Chore]]:
    """Make the chores of a domain's leader."""
    named: list[Chore] = [] if config.leader_domain == DEFAULT else [DomainQueues()]
    return [[*named, Promote(), Periodic(), Admit()], [*named, Rescue()], [*named, Prune()]]


def schema_chores(config: Config, counts: Counts | None = None) -> Sequence[Sequence[Chore]]:
    """Make the chores that one supervisor of the whole schema does."""
    counting: list[Chore] = [Census(counts)] if counts is not None and config.health else []
    return [
        [
            Partitions(),
            Processes(),
            Forget(),
            Domains(),
            Unled(),
            Unworked(),
            Sweep(),
            Subscriptions(),
            Stacks(),
            Statistics(),
            Bulk(),
            *counting,
        ],
        [Gatekeeper(), Pauses(), Steward()],
        [Reindex()],
    ]
