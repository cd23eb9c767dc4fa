"""Admit: make jobs available that wait for a worker of their kind, if no process would put them back to waiting.

A chore of a domain's leader, run in its track's thread of the supervisor that leads. Processes that have a worker for a kind
claim its jobs from `waiting` themselves (waiting.py), and look for them now and then. This chore is the sweep behind them: if
each living process of a queue has a worker for the kind, its jobs need not wait, even if those processes have missed them. And
a program that is older than the state `waiting` claims available jobs alone: if one works the queue, all waiting jobs are
offered to it at each look, as it may know any kind.

If some processes of the queue know the kind and others do not, this leaves the jobs alone: once available, they would be claimed
about as often as not by a process that does not know them, and put back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastq.lead.term.batch import Batch
from fastq.postgres import hints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.lead.term.chore import Site

BATCH = 2_000
"""Jobs made available by one statement: the figure of promote, for the same reason."""

LOOK = 20_000
"""Ids that one look reads; the same."""

INTERVAL = 10.0
"""Seconds between looks: as long as programs before this one put such a job off, for those of them that still run."""

NAP = 0.005
"""Seconds between batches, for the others; a guess."""


class Admit:
    """The chore. Its attributes are its own, in its track's thread; a new term makes a new one."""

    name = "admit"

    def __init__(self) -> None:
        self._batch = Batch(self.name, BATCH, group=lambda row: row[1])
        self._known: Sequence[tuple[Any, ...]] = ()  # read and not written yet
        self._full = self._more = False  # the last look found all that it was to read; and some of it was written

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Look for jobs, or write a batch of those that were found."""
        if not self._known:
            self._more = False
            ids, queues = site.connection.run_one("waiting_known", site.queues, LOOK, self._batch.aside())
            self._known, self._full = list(zip(ids, queues, strict=True)), len(ids) == LOOK

        def put(rows: Sequence[tuple[Any, ...]]) -> None:
            ids = [job_id for job_id, _ in rows]
            admitted, _ = hints.sending(site.connection, lambda channel: site.write("job_admit", site.queues, ids, channel))
            site.changed += admitted
            self._more |= self._full and admitted > 0

        if self._known:
            self._known = self._batch.write(self._known, put)
        return NAP if self._known or self._more else INTERVAL

    def end(self, site: Site, reason: str) -> None:
        """Leave the rest to the next leader."""
