"""One queue as its worker process sees it: the lanes, and the inlets through which jobs come to them.

The main thread of a worker process makes the feeds, before any other thread starts; from then on the producer's thread uses them
and alone writes the counts. The main thread uses `drain`, `lanes` and `concurrency`, too. How many jobs wait and run is read off
the inlets, so executors do nothing for it. It deliberately talks to no database and wakes nobody but executors.

A queue has one inlet: its only lane, or the dispatcher before the lanes that share its concurrency. Each lane that gathers jobs
into bundles is an inlet beside that one.
"""

from __future__ import annotations

import time
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from fastq.work.shared.lane import Dispatcher

if TYPE_CHECKING:
    from fastq.jobs.job import Job
    from fastq.work.shared.lane import Lane


_batch_of = attrgetter("batch")


class Feed:
    """The lanes of one queue."""

    def __init__(self, number: int, name: str, lanes: list[Lane]) -> None:
        self.number = number
        self.name = name
        self.lanes = lanes  # one per mode
        self.concurrency = lanes[0].concurrency
        shared = [lane for lane in lanes if not lane.gathers]
        self._gathering = [lane for lane in lanes if lane.gathers]
        self._gathers = {lane.mode: lane.gathers for lane in lanes}
        self.dispatcher = Dispatcher(self.concurrency, shared) if len(shared) > 1 else None
        self._first = self.dispatcher or (shared[0] if shared else None)
        self._inlets = [*([self._first] if self._first else []), *self._gathering]  # where jobs go in, wait and are counted
        self.claimed = 0  # jobs so far; written by the producer's thread alone, here and in demand.py, like the next two
        self.handed = 0  # jobs that were handed out last, 0 once they are known to have run out
        self.handed_at = time.monotonic()

    def waiting(self) -> int:
        """Count the jobs that have not started."""
        return sum([len(inlet.inbox) for inlet in self._inlets])

    def busy(self) -> int:
        """Count the jobs that have started and not ended."""
        return sum([inlet.busy() for inlet in self._inlets])

    def room(self) -> int:
        """Count the jobs that could start at once."""
        return sum([inlet.room() for inlet in self._inlets])

    def hunger(self) -> None:
        """Have us called when nothing waits any more."""
        for inlet in self._inlets:
            inlet.hungry = True

    def put(self, jobs: list[Job[Any]], low: int) -> None:
        """Hand jobs out, if there are any: to the dispatcher before several lanes, or to the only lane."""
        if not jobs:
            return
        self.handed, self.handed_at = len(jobs), time.monotonic()
        if self._gathering:
            jobs = self._gather(jobs, low)
        if jobs and self._first is not None:
            self._first.put(jobs, low)

    def _gather(self, jobs: list[Job[Any]], low: int) -> list[Job[Any]]:
        """Hand out the jobs of lanes that gather, and return the others."""
        shares = dict(self.by_lane(jobs))
        for lane in self._gathering:
            mine = shares.get(lane, [])
            lane.brought(len(mine), len(jobs))
            if mine:
                lane.put(mine, low)
        if shares.keys().isdisjoint(self._gathering):
            return jobs
        return [job for job in jobs if not self._gathers[job.batch.worker.mode]]

    def by_lane(self, jobs: list[Job[Any]]) -> list[tuple[Lane, list[Job[Any]]]]:
        """Say which jobs are for which lane, by the modes of their workers; lanes without any are left out."""
        modes = {batch.worker.mode for batch in set(map(_batch_of, jobs))}
        lanes = [lane for lane in self.lanes if lane.mode in modes]
        if len(lanes) == 1:  # mostly: the jobs of a queue are of one kind
            return [(lanes[0], jobs)]
        return [(lane, [job for job in jobs if job.batch.worker.mode == lane.mode]) for lane in lanes]

    def drain(self) -> list[Job[Any]]:
        """Take out all jobs that have not started."""
        gathered = [job for lane in self._gathering for job in lane.drain()]
        waiting = self.dispatcher.drain() if self.dispatcher else []  # first: from there they enter the lanes
        entered = [job for lane in self.lanes if not lane.gathers for job in lane.drain()]
        if self.dispatcher:
            self.dispatcher.vacate(len(entered))
        return waiting + entered + gathered
