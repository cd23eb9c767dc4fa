"""The way forward inside a process: an inbox of jobs for the executors of one queue, an outbox of completions for the completer.

Shared by the producer's thread (puts jobs in), the executors' threads (take them out, put them into the outbox) and the
completer's thread (takes completions out). `deque.append`, `popleft`, `pop` and `extend` are atomic in CPython, so
there is no lock per job; threads that have nothing to do sleep on a lock of their own, which somebody releases.

Waking is a chain: who puts jobs in wakes one executor, and each that wakes up wakes the next while there are jobs left. So
sixteen idle threads do not all fall upon one job, and a thousand jobs still find all sixteen.

A mark in the line (REFILL) says "here the inbox runs low": the executor that takes it tells the producer. STOP ends the
executor that takes it. Jobs are handed out one by one: in bundles, a slow one would hold up the rest of its bundle.

Where the workers are of both modes, a queue has two lanes that share its concurrency: the jobs wait in a `Room` before them,
in their order, and enter a lane when a place is free. Where they are of one mode there is no room, and nothing is paid for it.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fastq.board import LaneBoard
    from fastq.jobs.job import Job

REFILL = object()
STOP = object()


class Lane:
    """The inbox of one queue for one mode (executor threads, or the event loop)."""

    def __init__(self, board: LaneBoard, concurrency: int, call_producer: Callable[[], None]) -> None:
        self.board = board
        self.concurrency = concurrency
        self.inbox: deque[Any] = deque()
        self.hungry = False  # written by the producer: there is more to claim; read and cleared by executors that find nothing
        self.call_producer = call_producer
        self.room: Room | None = None  # set once, before any thread starts
        self._resting: deque[threading.Lock] = deque()

    def put(self, jobs: list[Job[Any]], low: int) -> None:
        """Add jobs in their order and wake an executor; a mark goes in where `low` jobs are left."""
        self.inbox.extend(_marked(jobs, low))
        self.wake()

    def stop(self, count: int) -> None:
        """Let `count` executors end when they have taken what is before this in the line."""
        for _ in range(count):
            self.inbox.append(STOP)
            self.wake()

    def rest(self, gate: threading.Lock) -> None:
        """Sleep until somebody wakes this executor; on waking, wake the next while there are jobs."""
        self._resting.append(gate)
        if self.inbox:  # came in between: whoever put it there may have looked before we lay down
            try:
                self._resting.remove(gate)
            except ValueError:
                gate.acquire()  # woken already: take it, or the next rest would end at once
                if self.inbox:
                    self.wake()  # the chain goes on through us, as it does below
            return
        if self.hungry:
            self.hungry = False
            self.call_producer()
        gate.acquire()
        if self.inbox:
            self.wake()

    def wake(self) -> None:
        """Wake the executor that lay down last, if any: its stack is still warm."""
        try:
            self._resting.pop().release()
        except IndexError:
            return

    @property
    def resting(self) -> int:
        """Count the executors that have nothing to do."""
        return len(self._resting)

    def drain(self) -> list[Job[Any]]:
        """Take out all jobs that have not started; marks are dropped."""
        jobs = []
        while self.inbox:
            try:
                item = self.inbox.popleft()
            except IndexError:
                break
            if item is not REFILL and item is not STOP:
                jobs.append(item)
        return jobs


class Room:
    """Where the jobs of a queue with two lanes wait for one of its places; each that enters a lane takes one until it has ended.

    Put in by the producer, let in by whoever ends a job. Entering takes a lock: two lanes and a count change together, and
    nothing may enter behind a `drain`.
    """

    def __init__(self, places: int, threads: Lane, loop: Lane, start_slots: Callable[[Lane], None]) -> None:
        self.free = places  # changed under the lock, read by the producer
        self.waiting: deque[Any] = deque()  # the same
        self.hungry = False  # written by the producer: there is more to claim; read and cleared by who finds nothing waiting
        self._threads, self._loop = threads, loop
        self._start_slots = start_slots
        self._lock = threading.Lock()
        threads.room = loop.room = self

    def put(self, jobs: list[Job[Any]], low: int) -> None:
        """Add jobs in their order and let in as many as there are places; a mark goes in where `low` jobs are left."""
        with self._lock:
            self.waiting.extend(_marked(jobs, low))
            while self.free and (lane := self._let_in()):
                self._call(lane)

    def leave(self, lane: Lane) -> None:
        """Give up the place of a job that has ended in a lane; whoever calls this looks into that lane's inbox next."""
        with self._lock:
            self.free += 1
            entered = self._let_in()
            if entered is not None and entered is not lane:
                self._call(entered)
        if entered is None and self.hungry:
            self.hungry = False
            self._threads.call_producer()

    def vacate(self, places: int) -> None:
        """Give up the places of jobs that were taken out of the lanes before they had started."""
        with self._lock:
            self.free += places
            while self.free and (lane := self._let_in()):
                self._call(lane)

    def drain(self) -> list[Job[Any]]:
        """Take out all jobs that have not entered."""
        with self._lock:
            jobs = [item for item in self.waiting if item is not REFILL]
            self.waiting.clear()
        return jobs

    def _let_in(self) -> Lane | None:
        """Let the next job in and return its lane; None if nobody waits."""
        while self.waiting:
            job = self.waiting.popleft()
            if job is REFILL:
                self._threads.call_producer()
                continue
            self.free -= 1
            lane = self._loop if job.batch.worker.is_async else self._threads
            lane.inbox.append(job)
            return lane
        return None

    def _call(self, lane: Lane) -> None:
        if lane is self._loop:
            self._start_slots(lane)
        else:
            lane.wake()


class Outbox:
    """Completions on their way to the completer, which sleeps when there are none."""

    def __init__(self) -> None:
        self.jobs: deque[Job[Any]] = deque()
        self.append = self.jobs.append
        self.asleep = False  # set by the completer; executors look after they have put something in, and the first clears it
        self._gate = threading.Lock()
        self._gate.acquire()

    def wake(self) -> None:
        """Wake the completer; more often than needed does no harm."""
        self.asleep = False  # until it gets the interpreter, hundreds may end: only the first of them shall call
        try:
            self._gate.release()
        except RuntimeError:
            return  # released already, and not yet noticed

    def wait(self, timeout: float) -> None:
        """Sleep until there is something, or until `timeout`; only the completer calls this."""
        self.asleep = True
        if not self.jobs:  # an executor either sees `asleep` or we see its job
            self._gate.acquire(timeout=timeout)
        self.asleep = False

    def take(self, limit: int) -> list[Job[Any]]:
        """Take what is there, up to `limit`."""
        jobs, popleft = self.jobs, self.jobs.popleft
        return [popleft() for _ in range(min(limit, len(jobs)))]


def _marked(jobs: list[Job[Any]], low: int) -> Iterable[Any]:
    """Return the jobs with a mark before the last `low` of them; where those are all of them, behind the first."""
    mark = max(1, len(jobs) - low)
    return [*jobs[:mark], REFILL, *jobs[mark:]] if 0 < low <= len(jobs) and mark < len(jobs) else jobs
