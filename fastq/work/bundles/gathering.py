"""The inbox in which jobs gather for bundles: by kind, and by the value that a bundle has in common.

Shared by the thread that puts jobs in (the producer's), the threads that execute bundles, and the main thread, which takes out
jobs that have not started and marks those that were cancelled: each call takes the lock. It has the methods of a deque that
others use of an inbox: `extend`, `copy`, a length.

A group is ready when it has as many jobs as its worker takes, or when its first job has waited for as long as the worker says.
Among several the oldest is taken first, by the time at which its first job came, so that a group that never fills is not passed
by for ever by groups that fill at once. Where the inbox has all the jobs that it will get before some end (`most`), the oldest
group is ready: nothing more can come to it.

A job that a process has died with is ready alone, at once: with others it would take them along each time, and nobody would
know which of them it was.

Invariant: each job stands on the board (board/cells.py) from when it comes until it has ended. The inbox deliberately starts
nothing, wakes nobody and has no thread.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from fastq.args.keyed import key_of
from fastq.args.meta import CRASHED
from fastq.work.bundles.bundle import Bundle
from fastq.work.shared.lane import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastq.board.cells import Cells
    from fastq.jobs.job import Job
    from fastq.jobs.worker import Worker


class Group:
    """Jobs that will be one bundle."""

    __slots__ = ("cells", "jobs", "since", "worker")

    def __init__(self, worker: Worker[Any], since: float, jobs: list[Job[Any]], cells: list[int]) -> None:
        self.worker = worker
        self.since = since  # monotonic time at which the first one came
        self.jobs = jobs
        self.cells = cells

    @property
    def due(self) -> float:
        """Give the monotonic time at which it waits no longer."""
        return self.since + self.worker.within


class Gathering:
    """The inbox of one lane."""

    def __init__(self, cells: Cells, most: int) -> None:
        self.lock = threading.RLock()
        self._cells = cells
        self._most = most
        self._count = 0  # jobs; written under the lock, like all that follows
        self._low: int | None = None  # how few jobs are left when the producer is to be called
        self._open: dict[str, dict[object, Group]] = {}  # by kind and key; in the order in which their first jobs came
        self._full: deque[Group] = deque()  # the same

    def __len__(self) -> int:
        """Count the jobs."""
        return self._count

    def extend(self, items: Iterable[Any]) -> None:
        """Take jobs, and the mark that says where they run low."""
        jobs: list[Job[Any]] = []
        low = None
        for item in items:
            if isinstance(item, Mark):
                low = len(jobs)
            else:
                jobs.append(item)
        cells = self._cells.hold([job.id for job in jobs])
        with self.lock:
            now, start = time.monotonic(), 0
            while start < len(jobs):
                batch, end = jobs[start].batch, start + 1
                while end < len(jobs) and jobs[end].batch is batch:
                    end += 1
                self._add_all(jobs[start:end], cells[start:end], now)
                start = end
            self._count += len(jobs)
            if low is not None:
                self._low = len(jobs) - low

    def _add_all(self, jobs: list[Job[Any]], cells: list[int], now: float) -> None:
        """Take jobs of one batch of a claim."""
        batch: Any = jobs[0].batch
        worker = batch.worker
        groups = self._open.setdefault(worker.kind.name, {})  # jobs of its former names come together with the others
        if worker.same is None and not batch.beside:
            self._add(groups, None, worker, jobs, cells, now)
            return
        for job, cell in zip(jobs, cells, strict=True):
            if batch.beside and CRASHED.name in batch.meta(job.row):
                self._full.append(Group(worker, now, [job], [cell]))
            else:
                self._add(groups, None if worker.same is None else _key(job, worker), worker, [job], [cell], now)

    def _add(
        self,
        groups: dict[object, Group],
        key: object,
        worker: Worker[Any],
        jobs: list[Job[Any]],
        cells: list[int],
        now: float,
    ) -> None:
        """Take jobs with one key."""
        at = 0
        while at < len(jobs):
            group = groups.get(key) or groups.setdefault(key, Group(worker, now, [], []))
            end = at + worker.up_to - len(group.jobs)
            group.jobs += jobs[at:end]
            group.cells += cells[at:end]
            if len(group.jobs) == worker.up_to:
                del groups[key]
                self._full.append(group)
            at = end

    def take(self, now: float) -> Bundle | None:
        """Take the jobs of a group that is ready; None if none is."""
        with self.lock:
            group = self._next(now)
            if group is None:
                return None
            self._remove(group)
            self._count -= len(group.jobs)
            return Bundle(group.worker, group.jobs, group.cells)

    def runs_low(self) -> bool:
        """Tell, once, that as few jobs are left as the mark has said."""
        with self.lock:
            if self._low is None or self._count > self._low:
                return False
            self._low = None
            return True

    def due(self) -> float | None:
        """Return the monotonic time at which a group is ready, None if there is no job."""
        with self.lock:
            if self._full or (self._count and self._count >= self._most):
                return 0.0
            return min((group.due for group in self._oldest()), default=None)

    def _next(self, now: float) -> Group | None:
        waited = [group for group in self._oldest() if group.due <= now or self._count >= self._most]
        if self._full:
            waited.append(self._full[0])
        return min(waited, key=lambda group: group.since, default=None)

    def _oldest(self) -> list[Group]:
        """Return the oldest open group of each kind."""
        return [next(iter(groups.values())) for groups in self._open.values() if groups]

    def _remove(self, group: Group) -> None:
        if self._full and self._full[0] is group:
            self._full.popleft()
            return
        groups = self._open[group.worker.kind.name]
        key = next(key for key, known in groups.items() if known is group)  # the first one
        del groups[key]

    def copy(self) -> list[Job[Any]]:
        """Return the jobs."""
        with self.lock:
            return [job for group in self._groups() for job in group.jobs]

    def clear(self) -> list[Job[Any]]:
        """Take all jobs out; they do not start."""
        with self.lock:
            groups = self._groups()
            self._open.clear()
            self._full.clear()
            self._count, self._low = 0, None
            for group in groups:
                self._cells.end(group.cells, [job.id for job in group.jobs])
            return [job for group in groups for job in group.jobs]

    def cancel(self, ids: set[int]) -> None:
        """Mark the jobs that somebody has cancelled: they do not start with their bundle."""
        with self.lock:
            for group in self._groups():
                for job in group.jobs:
                    job.cancelled = job.cancelled or job.id in ids

    def _groups(self) -> list[Group]:
        return [*self._full, *(group for groups in self._open.values() for group in groups.values())]


def _key(job: Job[Any], worker: Worker[Any]) -> object:
    """Return the value that a bundle has in common; where the job has no such value, one that no other job has."""
    try:
        return bytes(key_of(worker.same, job.args, job.batch.kind))
    except Exception:  # noqa: BLE001 - a property of the user's may raise anything, and its worker meets that again
        return job.id
