"""Promote: make scheduled and retryable jobs available when they are due.

A chore of a domain's leader, run in its track's thread of the supervisor that leads. It sleeps until the next job of its queues
is due, IDLE seconds at most, and is woken by the hint '@due'. A look reads the ids of many due jobs, each queue its share; they
are written a batch at a time, and each statement re-checks the rows that it changes. Reading many at once is for the worst of
times: while an old snapshot keeps dead index entries alive, every look walks over all jobs that were promoted before it. And
each look asks every queue. With thousands of queues it is slow, so a rest in proportion to it follows, even against hints,
unless the look found a whole batch.

Invariant: a batch is bounded however many are due at once. Jobs that somebody has locked are skipped and come with a later look;
so are those that cannot be changed (batch.py), and they hold up no other queue, however many they are.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fastq.lead.term.batch import Batch
from fastq.postgres import hints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.lead.term.chore import Site

BATCH = 2_000
"""Jobs promoted by one statement: some 30 ms, so that claims beside it do not wait long for the disk or for its locks."""

LOOK = 20_000
"""Ids that one look reads: 10 batches, 0.3 s, for so long another queue's newly due job waits when all are behind."""

IDLE = 10.0
"""Seconds between looks for due jobs when none is known: with a lost hint a scheduled job is late by so much."""

IDLE_POLLING = 1.0
"""The same without LISTEN."""

NAP = 0.005
"""Seconds between batches, for the others: a sixth of a batch; a guess."""

REST = 3.0
"""Times the length of a look that no other follows it: at most a quarter of a core goes into looks. At 10,000 queues a look takes
0.05 to 0.3 s, so a job is late by up to a second; where there are few queues it is milliseconds, which the writing takes too."""

LOCKED = 0.5
"""Seconds until the next look when due jobs were all locked by others, mostly transactions that cancel them."""


class Promote:
    """The chore. Its attributes are its own, in its track's thread; a new term makes a new one."""

    name = "promote"

    def __init__(self) -> None:
        self._batch = Batch(self.name, BATCH, group=lambda row: row[1])
        self._due: Sequence[tuple[Any, ...]] = ()  # read and not written yet
        self._promoted = 0  # of the present look
        self._rests_until = 0.0  # monotonic

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Promote one batch."""
        if not self._due:
            left = self._rests_until - time.monotonic()
            if left > 0:
                return left
            next_due = self._look(site)
            if not self._due:
                idle = IDLE_POLLING if site.config.poll_only else IDLE
                return idle if next_due is None else min(max(next_due, 0.001), idle)

        def put(rows: Sequence[tuple[Any, ...]]) -> None:
            ids = [job_id for job_id, _ in rows]
            promoted, _ = hints.sending(site.connection, lambda channel: site.write("job_promote", site.queues, ids, channel))
            self._promoted += promoted
            site.changed += promoted

        self._due = self._batch.write(self._due, put)
        return NAP if self._due or self._promoted else LOCKED

    def _look(self, site: Site) -> float | None:
        """Read the due jobs; return in how many seconds the next job will be due (None: there is none)."""
        began = time.monotonic()
        ids, queues, next_due = site.connection.run_one("job_due", site.queues, LOOK, self._batch.aside())
        ended = time.monotonic()
        self._rests_until = ended + REST * (ended - began) if len(ids) < BATCH else 0.0  # else it was worth it
        self._due, self._promoted = list(zip(ids, queues, strict=True)), 0
        return None if next_due is None else float(next_due)

    def end(self, site: Site, reason: str) -> None:
        """Leave the rest to the next leader."""
