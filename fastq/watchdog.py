"""See to it that no job outlasts its timeout and no statement its deadline. Ticked by the main thread of a worker process.

A tick looks at each executor's current job. The first tick that sees a job notes the time, so a timeout is late by one tick at
most and no executor ever reads a clock. Then, in this order:

    timeout           `job.cancelled = True`, and JobTimeout is thrown into the thread (or the task is cancelled): it lands at
                      the next bytecode of Python code, or when the C call that the thread is in returns.
    + grace           the thread is given up: the job's failure is told in its name, whatever it still does is dropped,
                      and the process is to be recycled, since Python cannot end a thread.
    + grace + 2 s     nobody ticked any more (a C call holds the interpreter lock): the supervisor reads the time
                      from the desk and kills the process.

The same throw serves a cancellation (somebody cancelled the job, or the process will not wait any longer).
"""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Any

from fastq import outcome
from fastq.events import emit
from fastq.executor import STOPPING, Executor
from fastq.job import Job, JobCancelled, JobTimeout

if TYPE_CHECKING:
    from fastq.db import Connection
    from fastq.lane import Outbox
    from fastq.loop import Loop, LoopSlot

BEYOND_GRACE = 2.0
"""Seconds after the grace until the supervisor kills: some ticks, so that a process that can help itself does."""

_throw_into = ctypes.pythonapi.PyThreadState_SetAsyncExc
_throw_into.argtypes = (ctypes.c_ulong, ctypes.py_object)


class Watchdog:
    """Look after the executors and connections of one process."""

    def __init__(self, executors: list[Executor], loop: Loop | None, outbox: Outbox, grace: float) -> None:
        self.given_up = 0  # threads that are stuck: the process is to be recycled
        self._slots: list[Executor | LoopSlot] = [*executors, *(loop.slots if loop else ())]
        self._loop = loop
        self._outbox = outbox
        self._grace = grace
        self._seen: list[tuple[Job[Any] | None, float, bool]] = [(None, 0.0, False)] * len(self._slots)

    def tick(self, connections: list[Connection]) -> float | None:
        """Act on what is overdue; return the monotonic time by which the next tick must have come, None if it does not matter."""
        now = time.monotonic()
        for connection in connections:
            deadline = connection.deadline
            if deadline is not None and now > deadline:
                emit("connection.cut", after=connection.timeout)
                connection.cut()
        latest: float | None = None
        for place, slot in enumerate(self._slots):
            job = slot.current
            if job is None:
                continue
            seen, since, told = self._seen[place]
            if seen is not job:
                self._seen[place] = (job, now, False)
                since, told = now, False
            timeout = job.batch.worker.timeout
            if timeout is None and not told:
                continue
            limit = since + (timeout or 0.0)
            if now >= limit and not told:
                self.throw(slot, job, JobTimeout, f"took longer than {timeout:g} s")
                self._seen[place] = (job, now - (timeout or 0.0), True)
            elif told and now >= limit + self._grace and not slot.abandoned:
                self._give_up(slot, job, timeout)
            if not slot.abandoned:
                end = limit + self._grace + BEYOND_GRACE
                latest = end if latest is None else min(latest, end)
        return latest

    def executing(self) -> int:
        """Count the jobs that are executing now and not given up."""
        return sum(slot.current is not None and not slot.abandoned for slot in self._slots)

    def cancel(self, ids: set[int]) -> None:
        """Tell these jobs, if they execute here, that they were cancelled."""
        for slot in self._slots:
            job = slot.current
            if job is not None and job.id in ids and not job.cancelled:
                self.throw(slot, job, JobCancelled, "cancelled")

    def cancel_all(self) -> None:
        """Tell every executing job that the process will not wait for it any longer."""
        for slot in self._slots:
            job = slot.current
            if job is not None and not slot.abandoned:
                job.cancelled = STOPPING
                self.throw(slot, job, JobCancelled, "the process stops")

    def held(self) -> list[Job[Any]]:
        """Return the jobs that are still executing and have not been given up."""
        found = ((slot.current, slot.abandoned) for slot in self._slots)
        return [job for job, abandoned in found if job is not None and not abandoned]

    def throw(self, slot: Executor | LoopSlot, job: Job[Any], reason: type[BaseException], message: str) -> None:
        """Set off an exception in the user's code, if it still executes that job."""
        job.cancelled = job.cancelled or True
        if not isinstance(slot, Executor):
            if self._loop is not None:
                self._loop.throw(slot, job, reason, message)
            return
        if slot.aimed is not None:
            return  # one is on its way
        slot.aimed = job
        if slot.current is job:  # else it has ended meanwhile and may wait for this to be withdrawn
            thread = slot.thread.ident
            if thread is not None:
                _throw_into(ctypes.c_ulong(thread), type(reason.__name__, (reason,), {"__init__": _saying(message)}))
            slot.thrown = True
        else:
            slot.aimed = None

    def _give_up(self, slot: Executor | LoopSlot, job: Job[Any], timeout: float | None) -> None:
        slot.abandoned = True
        if slot.current is not job:  # it ended at this very moment, and its executor, if it saw this, waits for our decision
            slot.abandoned = False
            return
        emit("job.given_up", id=job.id, kind=job.kind, attempt=job.attempt, timeout=timeout, grace=self._grace)
        twin = Job(job.id, job.attempt, job.args, job.row, job.batch)
        twin.outcome = outcome.failed(
            twin, f"JobTimeout: took longer than {timeout or 0:g} s and did not end within {self._grace:g} s of being told to"
        )
        slot.given_up = True
        self.given_up += 1
        self._outbox.append(twin)
        self._outbox.wake()


def _saying(message: str) -> Any:
    """Give the exception class its message: a thrown class is called without arguments."""

    def init(self: BaseException, *_: object) -> None:
        BaseException.__init__(self, message)
        self.args = (message,)

    return init
