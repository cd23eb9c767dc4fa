"""The way forward inside a process: an inbox of jobs for the executors of one queue, an outbox of completions for the completer.

Shared by the producer's thread (puts jobs in), the executors' threads (take them out, put them into the outbox) and the
completer's thread (takes completions out). `deque.append`, `popleft`, `pop` and `extend` are atomic in CPython, so
there is no lock per job; threads that have nothing to do sleep on a lock of their own, which somebody releases.

Waking is a chain: who puts jobs in wakes one executor, and each that wakes up wakes the next while there are jobs left. So
sixteen idle threads do not all fall upon one job, and a thousand jobs still find all sixteen.

A mark in the line (REFILL) says "here the inbox runs low": the executor that takes it tells the producer. STOP ends the
executor that takes it. Jobs are handed out one by one: in bundles, a slow one would hold up the rest of its bundle.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastq.board import LaneBoard
    from fastq.job import Job

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
        self._resting: deque[threading.Lock] = deque()

    def put(self, jobs: list[Job[Any]], low: int) -> None:
        """Add jobs in their order and wake an executor; a mark goes in where `low` jobs are left."""
        mark = len(jobs) - low
        if low and mark > 0:
            self.inbox.extend(jobs[:mark])
            self.inbox.append(REFILL)
            self.inbox.extend(jobs[mark:])
        else:
            self.inbox.extend(jobs)
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


class Outbox:
    """Completions on their way to the completer, which sleeps when there are none."""

    def __init__(self) -> None:
        self.jobs: deque[Job[Any]] = deque()
        self.append = self.jobs.append
        self.asleep = False  # written by the completer; executors read it after they have put something in
        self._gate = threading.Lock()
        self._gate.acquire()

    def wake(self) -> None:
        """Wake the completer; more often than needed does no harm."""
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
