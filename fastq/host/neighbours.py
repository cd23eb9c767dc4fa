"""Look at the other supervisors for this one: another domain may have been earlier on our queues, or nobody may lead.

Run by the registrar's thread, on its connection, after a beat: so it is done under any leader, and without one. The supervisor's
main thread makes a `Neighbours` before that thread starts, and later reads its `rival`; the registrar's thread alone writes.
`fastq run` refuses to start if another domain maintains one of its queues, but two that start in the same moment do not see each
other then. After their first beats they do; the one with the later domain stops.

It deliberately changes nothing in the database, and asks little: about domains for one time to live after the first beat, about
leaders only where this supervisor itself leaves that to others.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from fastq.events import emit
from fastq.lead.term.domains import DEFAULT, Conflict

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.config import Config

LEASES = 3
"""Times to live of a lease between two looks for a leader: if there is none at both, it is no takeover."""


class Neighbours:
    """The looks of one supervisor."""

    def __init__(self, config: Config) -> None:
        self.rival: Conflict | None = None  # a domain that was there before ours; written here, read by the main thread
        self._config = config
        self._until: float | None = None  # monotonic time until which a domain may appear that did not see us; None: no beat yet
        self._look_at = 0.0  # monotonic time of the next look for a leader
        self._missed = 0  # looks in a row at which nobody led

    def look(self, ask: Callable[..., list[tuple[Any, ...]]]) -> None:
        """Take the looks that are due; `ask` runs a statement by its name."""
        now = time.monotonic()
        if self._until is None:
            self._until = now + self._config.process_ttl
        if now < self._until:
            self._look_for_rivals(ask)
        if not self._config.lead and now >= self._look_at:
            self._look_at = now + LEASES * self._config.lease_ttl
            self._look_for_leader(ask)

    def _look_for_rivals(self, ask: Callable[..., list[tuple[Any, ...]]]) -> None:
        config = self._config
        for queue, other in ask("domain_earlier", config.leader_domain, list(config.concurrency), config.leader_domain_from):
            self.rival = Conflict(queue, config.leader_domain, other)

    def _look_for_leader(self, ask: Callable[..., list[tuple[Any, ...]]]) -> None:
        domain = self._config.leader_domain
        ((led,),) = ask("leader_exists", [f"leader:{domain}", f"leader:{DEFAULT}"])
        self._missed = 0 if led else self._missed + 1
        if self._missed == 2:  # noqa: PLR2004 - the second look
            emit("leader.missing", level=logging.WARNING, domain=domain)
