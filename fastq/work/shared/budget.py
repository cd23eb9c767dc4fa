"""How many bytes of args a worker process holds, and how many more it may claim: this bounds the memory, for any jobs.

Half of FASTQ_PREFETCH_BYTES is for jobs of small args. Nobody counts those: as many as the ring of ids has room for, each of
fewer bytes than `counted_from`, come to no more than that half. The other half is for jobs of larger args, which the claim counts
(sql/job_claim.sql) and this adds up, job by job: from the claim until the outcome is written, wherever the job is meanwhile. So a
job of small args costs nothing here, but one comparison a claim and one a batch of completions.

Bytes are those of the JSON text. docs/what-a-worker-holds.md says how much memory they take once decoded.
Each claim may go beyond its bytes by the one job that reaches them; without that, nothing larger would ever be claimed.

The allocator keeps the memory of large args that have ended, in pieces between what lives on: 50 MB of an idle process, in one
run of twenty. So the completer has that memory given back to the system when nothing large is held any more.

The main thread makes the `Budget` of a process, with its producer. Then two threads write it: the producer's adds, the
completer's subtracts; each attribute names the one that writes it. It deliberately knows nothing of queues.
"""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastq.jobs.job import Job
    from fastq.work.codec.claimed import Claimed

CLAIMS = 2
"""Claims that large args fill at least: while the jobs of one are worked the next is on its way. The args of a claim exist three
times over for a moment, as they were received, as bytes, and decoded, so a claim must be a small part of the whole."""


TRIM = 8_388_608
"""Bytes of large args that end before memory is given back: it takes some milliseconds, and saves as much as that many pages."""

SETTLED = 0.1
"""Seconds after the last large outcome until then: a thread lets go of a job a moment after it has told its outcome, and only
free memory can be given back. A guess."""

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc; other allocators give memory back by themselves


def share(limit: int) -> int:
    """Return how many bytes of large args one claim may bring, of a limit to all."""
    return max(1, limit // 2 // CLAIMS)


class Budget:
    """The bytes of one process. `limit` is FASTQ_PREFETCH_BYTES, `ring` how many jobs may be claimed and unwritten."""

    def __init__(self, limit: int, ring: int) -> None:
        self.counted_from = max(1, limit // 2 // ring)  # bytes of a job's args; constant, like the next two
        self._large = limit // 2
        self.share = share(limit)  # that one claim may bring
        self._sizes: dict[tuple[int, int], int] = {}  # by claim and id; the producer puts in, the completer takes out
        self.came = 0  # bytes of large args that were claimed; the producer's
        self.left = 0  # bytes of these whose outcomes are written; the completer's. While the two are equal, none are held
        self.trimmed = 0  # of these, when memory was given back last; the completer's
        self._rests = (0, 0.0)  # `left` when the completer rested first, and when that was (monotonic); the completer's

    def room(self) -> int:
        """Return how many bytes of large args may be claimed, beside those that are held; none or less: nothing may."""
        return self._large - (self.came - self.left)

    def next(self) -> int:
        """Return how many bytes of large args the next claim may bring; one at least, which is a job."""
        return max(1, min(self.room(), self.share))

    def took(self, claimed: Claimed) -> None:
        """Note the large args of a claim, before any of its jobs can end; not called where the claim has counted none."""
        for id_, args in zip(claimed.ids, claimed.split_args(), strict=True):
            size = len(args)
            if size >= self.counted_from:
                self._sizes[claimed.claim, id_] = size
                self.came += size

    def ended(self, jobs: Iterable[Job[Any]], kept: Iterable[Job[Any]]) -> None:
        """Note that the outcomes of these jobs have been written, but of those that are kept."""
        if not self._sizes:
            return
        still = set(map(id, kept))
        for job in jobs:
            if id(job) not in still:
                self.left += self._sizes.pop((job.batch.claim, job.id), 0)

    def rest(self, otherwise: float) -> float:
        """Give memory back to the system, if much was held and has not been for a moment; return how long to rest."""
        if self.left - self.trimmed < TRIM or self.left != self.came or _trim is None:
            return otherwise
        now = time.monotonic()
        left, since = self._rests
        if left != self.left:
            since = now
            self._rests = (self.left, now)
        if now - since < SETTLED:
            return min(otherwise, SETTLED - (now - since))
        self.trimmed = self.left
        _trim(0)
        return otherwise
