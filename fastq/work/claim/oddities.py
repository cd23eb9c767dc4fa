"""Tell of jobs that came otherwise than their worker expects, seldom enough to be read.

Made with the receiver by the main thread of a worker process; from then on the producer's thread alone calls it, for each claim,
and owns its memory of reports. An unknown kind: no worker here knows it, and its jobs are waiting. Attempts that differ: a worker
states `max_attempts`, and yet its jobs come with the default, because the program that enqueued them imports their args alone;
one that must not run twice would run 25 times. Only the first job of a claim is looked at: such an app does it always.

It changes nothing about the jobs, and talks to no database.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from fastq.args.meta import ATTEMPTS
from fastq.args.options import DEFAULT_MAX_ATTEMPTS
from fastq.events import emit

if TYPE_CHECKING:
    from fastq.jobs.job import Job

TOLD_EVERY = 60.0
"""Seconds between two reports of the same: a guess at how often a person wants to read that it goes on."""

UNHEARD = "the program that enqueues it does not import its worker: write max_attempts where its args are declared"
"""The remedy for a job that has the default of attempts though its worker states another number."""


UNGATED = "it was enqueued before its kind had gates, or by a program without them: write them where its args are declared"
"""The remedy for a job that came past the gates of its kind; until then each costs two updates more."""


class Oddities:
    """The oddities that have been reported, and when."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], float] = {}  # monotonic time by event and kind

    def unknown(self, kind: str, queue: str, job: int) -> None:
        """Report a job of a kind without a worker here: it is waiting from now on."""
        if self._due("kind.unknown", kind):
            emit("kind.unknown", level=logging.WARNING, kind=kind, queue=queue, id=job)

    def ungated(self, job: Job[Any]) -> None:
        """Report a job that came past the gates of its kind: it waits at them from now on."""
        if self._due("job.ungated", job.kind):
            emit("job.ungated", level=logging.WARNING, kind=job.kind, queue=job.queue, id=job.id, hint=UNGATED)

    def look_at(self, job: Job[Any]) -> None:
        """Tell if a job has the default of attempts where its worker states another number."""
        stated, has = job.batch.worker.max_attempts, job.max_attempts
        differs = has == DEFAULT_MAX_ATTEMPTS and stated not in (None, has) and ATTEMPTS.name not in job.meta
        if differs and self._due("max_attempts.differs", job.kind):
            fields = {"kind": job.kind, "id": job.id, "worker": stated, "job": has, "hint": UNHEARD}
            emit("max_attempts.differs", level=logging.WARNING, **fields)

    def _due(self, name: str, kind: str) -> bool:
        now = time.monotonic()
        if now - self._told.get((name, kind), -TOLD_EVERY) < TOLD_EVERY:
            return False
        self._told[name, kind] = now
        return True
