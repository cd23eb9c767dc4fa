"""The lane of a queue whose jobs are executed in bundles: the inbox in which they gather, and the threads that rest.

Shared by the producer's thread, which puts jobs in, the threads that execute, and the main thread; one lock, the inbox's, guards
what they share. A thread that finds nothing ready sleeps. One of those that sleep wakes by the clock, when the next group has
waited for long enough; the others are woken: by the thread that puts jobs in, or by a thread that has taken a bundle and leaves
another one that is ready.

Invariant: while a job waits, a thread sleeps until it is due at the latest, or all threads execute. The lane deliberately does
not know how a bundle is executed.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from fastq.jobs.worker import BUNDLES
from fastq.work.bundles.gathering import Gathering
from fastq.work.shared.lane import Lane

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.board.board import LaneBoard
    from fastq.board.cells import Cells
    from fastq.jobs.job import Job
    from fastq.work.bundles.bundle import Bundle

NEVER = float("inf")


class BundleLane(Lane):
    """The inbox of one queue, the threads that rest, and those that have not started."""

    gathers = True

    def __init__(self, board: LaneBoard, concurrency: int, call_producer: Callable[[], None], takes: int) -> None:
        super().__init__(BUNDLES, board, concurrency, call_producer)
        self.cells: Cells = board.cells
        self.inbox = Gathering(board.cells, min(takes * concurrency, board.ring // 2))
        self.unstarted: list[threading.Thread] = []  # filled by the main thread; under the lock, as all that follows
        self._changed = threading.Condition(self.inbox.lock)
        self._takes = takes  # jobs of a bundle at most
        self._resting = 0
        self._wakes_at = NEVER  # monotonic time at which one of those that rest wakes by the clock
        self._stopped = False
        self._working = 0  # slots that have a bundle
        self._executing = 0  # jobs of these
        self._ahead = 0  # jobs that are worth to be claimed ahead for idle slots; the producer's alone

    def wake(self) -> None:
        """Wake a thread if there is something to do that no thread will wake for; any thread may call this."""
        with self._changed:
            due = self.inbox.due()
            if due is None or (due >= self._wakes_at and due > time.monotonic()):
                return
            if self._resting:
                self._changed.notify()
            elif self.unstarted and not self._stopped:
                self.unstarted.pop().start()

    def take(self) -> Bundle | None:
        """Wait for a bundle that is ready and take it; None when there will be none."""
        with self._changed:
            while not self._stopped:
                bundle: Bundle | None = self.inbox.take(time.monotonic())
                if bundle is not None:
                    self._working += 1
                    self._executing += len(bundle.jobs)
                    if self.inbox.runs_low():
                        self.call_producer()
                    self.wake()
                    return bundle
                self._rest()
            return None

    def _rest(self) -> None:
        """Sleep until a thread wakes us, or until the next group is ready if nobody else wakes for it."""
        if self.hungry:
            self.hungry = False
            self.call_producer()
        due, seconds = self.inbox.due(), None
        if due is not None and due < self._wakes_at:
            seconds, self._wakes_at = max(0.0, due - time.monotonic()), due
        self._resting += 1
        self._changed.wait(seconds)
        self._resting -= 1
        if seconds is not None and self._wakes_at == due:
            self._wakes_at = NEVER

    def left(self, jobs: int) -> None:
        """Count jobs that are in no slot any more, and their slot as free."""
        with self._changed:
            self._working -= 1
            self._executing -= jobs

    def stop(self) -> None:
        """Have each thread end when its bundle has; the inbox has been drained."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def drain(self) -> list[Job[Any]]:
        """Take out all jobs that have not started."""
        jobs: list[Job[Any]] = self.inbox.clear()
        return jobs

    def busy(self) -> int:
        """Count the jobs that are in slots."""
        return self._executing

    def room(self) -> int:
        """Count the jobs that could start at once: whole bundles, as far as jobs for this lane come at all."""
        return min(self._ahead, (self.concurrency - self._working) * self._takes)

    def brought(self, mine: int, of: int) -> None:
        """See by a claim how many jobs are worth to be claimed for idle slots.

        A claim takes jobs as they stand in the queue. Where others come with ours, one bundle's worth is claimed ahead, so that
        this process does not keep theirs from other processes; where none of ours come, nothing is.
        """
        self._ahead = self.concurrency * self._takes if mine == of else self._takes if mine else 0

    def expect(self) -> None:
        """Claim for whole bundles from the start: all jobs of this process are for lanes like this one."""
        self._ahead = self.concurrency * self._takes
