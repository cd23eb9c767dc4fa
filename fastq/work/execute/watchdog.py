"""See to it that no job outlasts its timeout and no statement its deadline. Ticked by the main thread of a worker process.

A tick looks at each executor's current job. The first tick that sees a job notes the time, so a timeout is late by one tick at
most and no executor ever reads a clock. Then, in this order:

    timeout           `job.cancelled = True`: a job that looks at it ends in its own way. A task is cancelled at once, which is
                      polite enough: it lands at an await.
    + grace / 5       JobTimeout is thrown into the thread: it lands at the next bytecode of Python code, wherever that is, or
                      when the C call that the thread is in returns.
    + grace           the thread is given up: the job's failure is told in its name, whatever it still does is dropped,
                      and the process is to be recycled, since Python cannot end a thread.
    + grace + 2 s     nobody ticked any more (a C call holds the interpreter lock): the supervisor reads the time
                      from the desk and kills the process.

What runs after `work` to tell what it came to (`retry_delay`) has the same time once more, and is given up uninterrupted.
A job that somebody has cancelled, or that the process will not wait for any longer, is told and interrupted at once.
"""

from __future__ import annotations

import ctypes
import logging
import time
from typing import TYPE_CHECKING, Any

from fastq.events import emit
from fastq.jobs import outcome
from fastq.jobs.job import Job, JobCancelled, JobTimeout
from fastq.postgres.kept import cut_overdue
from fastq.work.execute.executor import Executor

if TYPE_CHECKING:
    from fastq.postgres.db import Connection
    from fastq.work.execute.loop import Loop, LoopSlot
    from fastq.work.shared.lane import Outbox

BEYOND_GRACE = 2.0
"""Seconds after the grace until the supervisor kills: some ticks, so that a process that can help itself does."""

POLITE_SHARE = 0.2
"""The part of the grace that a thread gets to see `job.cancelled` by itself: 1 s of 5, so that a loop which looks at it between
two requests is in time, most of the grace is left for what must be interrupted, and whoever wants longer makes both longer."""

_throw_into = ctypes.pythonapi.PyThreadState_SetAsyncExc
_throw_into.argtypes = (ctypes.c_ulong, ctypes.py_object)


class Watched:
    """What is known of one slot and the job in it."""

    def __init__(self, slot: Executor | LoopSlot) -> None:
        self.slot = slot
        self.job: Job[Any] | None = None
        self.settling = False  # its `work` has ended, and code of the user's tells what it came to
        self.since = 0.0  # monotonic time at which the job was first seen so
        self.overdue = False  # its timeout has come, and it was told
        self.throw_at: float | None = None  # monotonic time at which it is interrupted

    def see(self, now: float) -> Job[Any] | None:
        """Look at the slot; begin anew unless its job is the one that we know, as we know it. Return the job."""
        job, settling = _occupant(self.slot)
        if self.job is not job or self.settling is not settling:
            self.job, self.settling, self.since, self.overdue, self.throw_at = job, settling, now, False, None
        return job


class Watchdog:
    """Look after the executors and connections of one process."""

    def __init__(self, executors: list[Executor], loop: Loop | None, outbox: Outbox, grace: float) -> None:
        self.given_up = 0  # threads that are stuck: the process is to be recycled
        self._watched = [Watched(slot) for slot in (*executors, *(loop.slots if loop else ()))]
        self._loop = loop
        self._outbox = outbox
        self._grace = grace
        self._asked_at: float | None = None  # monotonic time at which the loop was asked whether it still runs

    def tick(self, connections: list[Connection]) -> float | None:
        """Act on what is overdue; return the monotonic time by which the next tick must have come, None if it does not matter."""
        now = time.monotonic()
        cut_overdue(connections, now)
        ends = []
        for watched in self._watched:
            job = watched.see(now)
            if job is not None:
                ends.append(self._look(watched, job, now))
        self._look_at_loop(now)
        return min((end for end in ends if end is not None), default=None)

    def _look(self, watched: Watched, job: Job[Any], now: float) -> float | None:
        """Act on a slot's job if it is time; return the time by which we must have looked again, None if it does not matter."""
        slot, timeout = watched.slot, job.batch.worker.timeout
        if timeout is not None and now >= watched.since + timeout and not watched.overdue:
            job.cancelled = True
            watched.since, watched.overdue = now - timeout, True  # the grace begins when it was told
            watched.throw_at = now + (POLITE_SHARE * self._grace if isinstance(slot, Executor) else 0.0)
        if watched.throw_at is not None and now >= watched.throw_at and not watched.settling:
            watched.throw_at = None
            self.throw(slot, job, JobTimeout, f"took longer than {timeout:g} s")
        if timeout is None:
            return None
        limit = watched.since + timeout + self._grace
        if watched.overdue and now >= limit and not slot.abandoned:
            self._give_up(watched, job, timeout)
        return None if slot.abandoned else limit + BEYOND_GRACE

    def _look_at_loop(self, now: float) -> None:
        """Give the loop up if it does not answer: a coroutine that was given up may hold up others, whose timeouts are far."""
        loop = self._loop
        if loop is None or self._asked_at is None:
            return
        if loop.answered:
            self._asked_at = None
        elif now >= self._asked_at + self._grace:
            self._asked_at = None
            self._hand_back_all(loop)

    def _hand_back_all(self, loop: Loop) -> None:
        """Hand back what executes on the loop, uncharged: it may never go on, and by a successor it is done."""
        loop.given_up = True
        count = 0
        for slot in loop.slots:
            job, settling = _occupant(slot)
            if job is not None and not slot.abandoned and _abandon(slot, job, settling=settling):
                self._tell_for(slot, job, outcome.Release())
                self.throw(slot, job, JobCancelled, "another job blocked the event loop")  # should the loop run on after all
                count += 1
        emit("loop.given_up", level=logging.WARNING, handed_back=count, grace=self._grace)

    def executing(self) -> int:
        """Count the jobs that are executing now and not given up."""
        return len(self.held())

    def cancel(self, ids: set[int]) -> None:
        """Tell these jobs, if they execute here, that they were cancelled."""
        for watched in self._watched:
            job = watched.slot.current
            if job is not None and job.id in ids and not job.cancelled:
                job.cancelled = True
                self.throw(watched.slot, job, JobCancelled, "cancelled")

    def cancel_all(self) -> None:
        """Tell every executing job that the process will not wait for it any longer."""
        for watched in self._watched:
            slot, job = watched.slot, watched.slot.current
            if job is not None and not slot.abandoned:
                watched.throw_at = None
                slot.leaving = True  # first: what the job does about it is taken so
                job.cancelled = True
                self.throw(slot, job, JobCancelled, "the process stops")

    def held(self) -> list[Job[Any]]:
        """Return the jobs that are still executing and have not been given up."""
        found = ((_occupant(watched.slot)[0], watched.slot.abandoned) for watched in self._watched)
        return [job for job, abandoned in found if job is not None and not abandoned]

    def throw(self, slot: Executor | LoopSlot, job: Job[Any], reason: type[BaseException], message: str) -> None:
        """Set off an exception in the user's code, if it still executes that job."""
        if not isinstance(slot, Executor):
            if self._loop is not None:
                self._loop.throw(slot, job, reason, message)
            return
        if slot.aimed is not None:
            return  # one is on its way
        slot.thrown = False  # it may be left from the last one, which landed before we had said so
        slot.aimed = job
        if slot.current is job:  # else it has ended meanwhile and may wait for this to be withdrawn
            thread = slot.thread.ident
            if thread is not None:
                _throw_into(ctypes.c_ulong(thread), type(reason.__name__, (reason,), {"__init__": _saying(message)}))
            slot.thrown = True
        else:
            slot.aimed = None

    def _give_up(self, watched: Watched, job: Job[Any], timeout: float) -> None:
        slot = watched.slot
        if not _abandon(slot, job, settling=watched.settling):
            return
        told = f"and did not end within {self._grace:g} s of being told to"
        if watched.settling:
            told = "to tell what it came to (retry_delay, an error's text, a subscriber), and is not interrupted there"
        failed = outcome.failed(job, f"JobTimeout: took longer than {timeout:g} s {told}")
        fields = {"id": job.id, "kind": job.kind, **outcome.attempt_of(job, failed), "timeout": timeout, "grace": self._grace}
        emit("job.given_up", level=logging.WARNING, **fields)
        self._tell_for(slot, job, failed)
        self.given_up += 1
        if not isinstance(slot, Executor) and self._loop is not None and self._asked_at is None:
            self._asked_at = time.monotonic()
            self._loop.ask()

    def _tell_for(self, slot: Executor | LoopSlot, job: Job[Any], result: object) -> None:
        """Tell the completer what became of a job whose slot was abandoned: by a twin, as its own may still be written to."""
        twin = Job(job.id, job.attempt, job.args, job.row, job.batch)
        twin.outcome = result
        slot.given_up = True
        self._outbox.append(twin)
        self._outbox.wake()


def _abandon(slot: Executor | LoopSlot, job: Job[Any], *, settling: bool) -> bool:
    """Take the telling of a job's end from its slot; False if it has ended just now: the slot, if it saw this, waits for us."""
    slot.abandoned = True
    if _occupant(slot) == (job, settling):
        return True
    slot.abandoned = False
    return False


def _occupant(slot: Executor | LoopSlot) -> tuple[Job[Any] | None, bool]:
    """Return the job that a slot executes or settles, and whether it is the latter."""
    job = slot.current
    return (job, False) if job is not None else ((settling := slot.settling), settling is not None)


def _saying(message: str) -> Any:
    """Give the exception class its message: a thrown class is called without arguments."""

    def init(self: BaseException, *_: object) -> None:
        BaseException.__init__(self, message)
        self.args = (message,)

    return init
