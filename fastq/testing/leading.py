"""Do a leader's chores once, in the test's own thread: jobs come due, go through their gates, and workflows are led on.

Made and used in the thread of a test, on the session that the test works jobs on. The leases, the fences and the chores are
those of a supervisor that leads. A chore is made anew each time, as at the beginning of a term, so it reads all that it goes by
from the tables; the gatekeeper alone is kept, for it knows when jobs have started at a rate.

It leads for as long as a call takes. Where somebody else holds the lease, a `fastq run` beside the test, that one leads, and this
does nothing. It deliberately does no upkeep: what is old stays (prune, forget, partitions), and nobody's jobs are rescued.
"""

from __future__ import annotations

import socket
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastq.errors import FastqError
from fastq.lead.chores.pauses import Pauses
from fastq.lead.chores.periodic import Periodic
from fastq.lead.chores.promote import Promote
from fastq.lead.definitions import declared, define
from fastq.lead.gate.gatekeeper import Gatekeeper
from fastq.lead.maintainer import SCHEMA, leader_of
from fastq.lead.term.chore import Site
from fastq.lead.term.domains import DEFAULT
from fastq.lead.workflow.steward import Steward
from fastq.leases import lease
from fastq.leases.lease import Fence, identity
from fastq.sql.statements import in_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastq.config import Config
    from fastq.jobs.registry import Registry
    from fastq.lead.term.chore import Chore
    from fastq.postgres.db import Connection

RUNS = 1_000
"""Runs of one chore in a row at most: each changes up to 2,000 rows, so only a chore that never rests comes that far."""

FILLED = 10 * 365 * 86_400.0
"""Seconds in which any bucket of a rate fills up."""

DUE = """\
select
    exists (select from fastq.job where scheduled_at is not null),
    exists (select from fastq.gate_permit) or exists (select from fastq.gate_event)
        or exists (select from fastq.job where waits_for like '[%'),
    exists (select from fastq.workflow where ended_at is null) or exists (select from fastq.workflow_event),
    exists (select from fastq.pause) or exists (select from fastq.queue where paused_at is not null)"""
"""Whether there is anything to do for promote, gate, workflow and pauses: most tests have none of the three last."""


class HandGatekeeper(Gatekeeper):
    """The gatekeeper of a test: it goes by the database's clock, which the test may move, and finds its rates full at first.

    A new leader takes the buckets of all rates for empty, and lets them fill with time. Here so much time passes at the start.
    """

    def __init__(self) -> None:
        self._at = 0.0  # seconds since 1970, by the database's clock
        super().__init__(lambda: self._at)

    def lead(self, site: Site) -> int:
        """Let jobs go that may by now; return how many rows that has changed."""
        [(now,)] = site.connection.run("clock_after", 0.0)
        changed, at = 0, now.timestamp()
        if self._session is not site.connection or at < self._at:
            self._keeper, self._at = None, at - FILLED
            changed = _run_out(self, site)
        self._at = at
        self._log.soon()
        if self._keeper is not None:
            self._keeper.starts.ask_soon()  # a job that has started and ended by now counts from now on
        return changed + _run_out(self, site)


class Leading:
    """The leader of a test's schema, while it is asked to be."""

    def __init__(self, connection: Connection, config: Config, gatekeeper: HandGatekeeper) -> None:
        self._connection = connection
        self._gatekeeper = gatekeeper
        self._config = replace(config, leader_domain=DEFAULT, lead=True)

    def lead(self, *, promotes: bool) -> int:
        """Do what is to be done now; return how many rows that has changed. Jobs that have come due are promoted if asked for."""
        due, gated, flows, paused = self._connection.ask(in_schema(DUE, self._connection.schema))[0]
        of_domain: list[Chore] = [Promote()] if due and promotes else []
        of_schema: list[Chore] = []
        of_schema += [Pauses()] if paused else []
        of_schema += [Steward()] if flows else []
        changed = self._run(leader_of(DEFAULT), of_domain) + self._run(SCHEMA, of_schema)
        return changed + self._keep_gates() if gated else changed

    def tick(self, registry: Registry, number: int) -> int:
        """Enqueue the ticks of periodic jobs that are due; return how many jobs that has made.

        As at a start of `fastq run` their definitions are written, and a process declares them.
        """
        define(self._connection, registry)
        config = self._config
        queues, kinds = ",".join(config.concurrency), sorted(registry.workers)
        place = (socket.gethostname(), identity(), queues, config.process_ttl, DEFAULT, declared(registry), kinds)
        self._connection.run("process_beat", [number], [0], *place, [None])  # unmeasured
        try:
            return self._run(leader_of(DEFAULT), [Periodic()])
        finally:
            self._connection.run("process_end", [number], identity())

    def _keep_gates(self) -> int:
        with self._held(SCHEMA) as fence:
            return 0 if fence is None else self._gatekeeper.lead(self._site(fence))

    def _site(self, fence: Fence) -> Site:
        return Site(self._connection, fence, self._config, self._config.database_url, lambda _: False)

    def _run(self, name: str, chores: Sequence[Chore]) -> int:
        if not chores:
            return 0
        changed = 0
        with self._held(name) as fence:
            if fence is None:
                return 0
            for chore in chores:
                changed += _run_out(chore, self._site(fence))
        return changed

    @contextmanager
    def _held(self, name: str) -> Iterator[Fence | None]:
        """Hold a lease; None if somebody else has it."""
        ttl = self._config.lease_ttl
        answer = lease.acquire(self._connection, name, identity(), ttl)
        if answer.term is None:
            yield None
            return
        fence = Fence(name, identity(), answer.term)
        try:
            yield fence
        finally:
            if self._connection.usable:
                lease.release(self._connection, fence)


def _run_out(chore: Chore, site: Site) -> int:
    """Run a chore until it would rest; return how many rows it has changed."""
    changed = 0
    chore.start(site)
    for _ in range(RUNS):
        site.changed = 0
        pause = chore.run(site)
        changed += site.changed
        if not site.changed and pause > 0:
            return changed
    raise FastqError(f"the chore '{chore.name}' has found something to do {RUNS} times in a row: expected it to come to an end")


def due_after(connection: Connection) -> Any:
    """Return when the next job comes due that waits for a time; None if none does."""
    text = "select min(scheduled_at) from fastq.job where scheduled_at is not null and scheduled_at < 'infinity'"
    return connection.ask(in_schema(text, connection.schema))[0][0]
