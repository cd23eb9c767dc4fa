"""One queue as its worker process sees it: the lanes, and the inlet through which jobs come to them.

The main thread of a worker process makes the feeds, before any other thread starts; from then on the producer's thread uses them
and alone writes the counts. The main thread uses `drain`, `lanes` and `concurrency`, too. How many jobs wait and run is read off
the inlet, so executors do nothing for it. It deliberately talks to no database and wakes nobody but executors.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fastq.work.shared.lane import Dispatcher

if TYPE_CHECKING:
    from fastq.jobs.job import Job
    from fastq.work.shared.lane import Lane


class Feed:
    """The lanes of one queue."""

    def __init__(self, number: int, name: str, lanes: list[Lane]) -> None:
        self.number = number
        self.name = name
        self.lanes = lanes  # one per mode
        self.concurrency = lanes[0].concurrency
        self.dispatcher = Dispatcher(self.concurrency, lanes) if len(lanes) > 1 else None
        self.inlet = self.dispatcher or lanes[0]  # where jobs go in, wait and are counted
        self.claimed = 0  # jobs so far; written by the producer's thread alone, here and in demand.py, like the next two
        self.handed = 0  # jobs that were handed out last, 0 once they are known to have run out
        self.handed_at = time.monotonic()

    def hunger(self) -> None:
        """Have us called when nothing waits any more."""
        self.inlet.hungry = True

    def put(self, jobs: list[Job[Any]], low: int) -> None:
        """Hand jobs out, if there are any: to the dispatcher before several lanes, or to the only lane."""
        if jobs:
            self.handed, self.handed_at = len(jobs), time.monotonic()
            self.inlet.put(jobs, low)

    def by_lane(self, jobs: list[Job[Any]]) -> list[tuple[Lane, list[Job[Any]]]]:
        """Say which jobs are for which lane, by the modes of their workers; lanes without any are left out."""
        shares = [(lane, [job for job in jobs if job.batch.worker.mode == lane.mode]) for lane in self.lanes]
        return [(lane, share) for lane, share in shares if share]

    def drain(self) -> list[Job[Any]]:
        """Take out all jobs that have not started."""
        waiting = self.dispatcher.drain() if self.dispatcher else []  # first: from there they enter the lanes
        entered = [job for lane in self.lanes for job in lane.drain()]
        if self.dispatcher:
            self.dispatcher.vacate(len(entered))
        return waiting + entered
