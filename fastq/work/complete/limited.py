"""Tell of jobs that found a rate exceeded (a 429), seldom enough to be read: an API that refuses one call refuses many.

One for each worker process (`LIMITS` in writes.py), read and written by the completer's thread alone, when such outcomes are
written, and for no others. Of each kind it tells at most once in a while, with
the number of jobs since it told the last time.

It changes nothing about the jobs, and talks to no database.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from fastq.events import SAID_AGAIN, emit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastq.jobs.job import Job
    from fastq.jobs.outcome import Fate


class Limited:
    """The kinds of such jobs: when each was told of, and how many have come since."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}  # monotonic, by kind
        self._jobs: Counter[str] = Counter()

    def tell(self, jobs: Iterable[Job[Any]], fates: Iterable[Fate]) -> None:
        """Count these jobs, and tell of the kinds of which it is time to."""
        now, latest = time.monotonic(), {}
        for job, fate in zip(jobs, fates, strict=True):
            self._jobs[job.kind] += 1
            latest[job.kind] = job, fate
        for kind, (job, fate) in latest.items():
            if now - self._told.get(kind, -SAID_AGAIN) >= SAID_AGAIN:
                emit("job.rate_limited", kind=kind, queue=job.queue, id=job.id, after=fate.limited, jobs=self._jobs.pop(kind))
                self._told[kind] = now
