"""Run one job after the other: the user's code meets fastq here, on T threads per queue in each worker process.

In comes a job from the lane's inbox, out goes the same job with its outcome, into the outbox. No database, no lock, no
clock on the way: the slot on the board tells the supervisor what was executing should the process die, `current` tells the
watchdog, and both are single stores.

An exception that the watchdog throws into the thread (a timeout, a cancellation) may only ever land in the user's code. It
aims first (`aimed = job`), looks again whether the job still is current, and only then throws; this side clears `current`
first and looks at `aimed` then. One of the two sees the other, so after a job that was aimed at, the thread waits in
`_absorb` until the exception has arrived or was withdrawn.

Code of the user's runs after `work`, too (`retry_delay`, the text of an exception, a subscriber): nothing is thrown into that,
but `settling` shows it, and it is given up like any other if it does not end.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from fastq.events import emit
from fastq.jobs import outcome
from fastq.jobs.job import Cancel, Job, JobCancelled, JobInterrupt, Snooze
from fastq.work.shared import forks
from fastq.work.shared.lane import REFILL, STOP

if TYPE_CHECKING:
    from fastq.work.shared.lane import Lane, Outbox


class Executor:
    """One executor thread and its slot."""

    def __init__(self, lane: Lane, slot: int, outbox: Outbox) -> None:
        self.lane = lane
        self.slot = slot
        self.current: Job[Any] | None = None  # written by the thread, read by the watchdog
        self.settling: Job[Any] | None = None  # the same, while code of the user's tells what its `work` came to
        self.aimed: Job[Any] | None = None  # written by the watchdog; the job that an exception is on its way for
        self.thrown = False  # written by the watchdog: the exception for `aimed` has been set off
        self.abandoned = False  # written by the watchdog: it is about to give the job up ...
        self.given_up = False  # ... and has told of it in our place: end without a word
        self.leaving = False  # written by the watchdog: the process stops and does not wait for the job
        self._outbox = outbox
        self._gate = threading.Lock()
        self._gate.acquire()
        self.thread = threading.Thread(target=self._run, name=f"fastq executor {slot}", daemon=True)

    def _run(self) -> None:  # noqa: PLR0912 - a call for each part would cost more than the parts
        inbox, slots, slot = self.lane.inbox, self.lane.board.slots, self.slot
        popleft, outbox, put = inbox.popleft, self._outbox, self._outbox.append
        room, rested = self.lane.room, self.lane.board.rested
        job: Any = None
        batch: object = None
        value: object = None  # again after each job
        while True:
            try:
                job = popleft()
            except IndexError:
                rested[slot] = getattr(job, "id", 0)  # a mark has none
                job = batch = None  # they would keep the last job's args and claim for as long as it rests
                self.lane.rest(self._gate)
                continue
            if job is REFILL:
                self.lane.call_producer()
                continue
            if job is STOP:
                return
            if job.batch is not batch:
                batch = job.batch
                self.lane.board.limit(slot, job.batch.worker.timeout)
            slots[slot] = job.id
            self.current = job
            error: BaseException | None = None
            try:
                try:
                    value = job.batch.work(job)
                except BaseException as raised:  # noqa: BLE001 - SystemExit in a job must not end the thread either
                    error = raised
                self.current = None
                if self.aimed is job:
                    self._absorb()
            except JobInterrupt as raised:  # it landed between the two lines above
                self.current = None
                error = raised if error is None else error
                self._absorb()
            if forks.forked:
                forks.leave(error)
            if error is not None or value is not None:
                self.settling = job
                job.outcome = settle(job, None if error is not None else value, error, leaving=self.leaving)
                self.settling = None
                error = value = None  # a traceback keeps the frames of `work` and all they hold alive
            if self.abandoned and self._was_given_up():
                return
            slots[slot] = 0
            put(job)
            if outbox.asleep:
                outbox.wake()
            if room is not None:
                room.leave(self.lane)

    def _absorb(self) -> None:
        """Stay until the exception has landed here, or was withdrawn because the job had ended."""
        try:
            while self.aimed is not None and not self.thrown:
                time.sleep(0.0005)
            for _ in range(1000):  # a thrown exception is raised at one of the next jumps backwards
                pass
        except JobInterrupt:
            pass
        self.aimed, self.thrown = None, False

    def _was_given_up(self) -> bool:
        """Wait until the watchdog has made up its mind: it looks again whether the job has ended, as we do."""
        while self.abandoned and not self.given_up:
            time.sleep(0.0005)
        return self.abandoned


def settle(job: Job[Any], value: object, error: BaseException | None, *, leaving: bool = False) -> object:
    """Return the outcome of an attempt from what `work` returned or raised; it does not raise itself, whatever those are.

    A job that was told to end because its process is `leaving` is handed back; told by anybody else, it is cancelled.
    Who calls this has a job in its hands: a thread that ended here would take its process along, a task its slot.
    """
    try:
        return _settled(job, value, error, leaving)
    except BaseException as another:  # noqa: BLE001 - code of the user's has run: a text, a subscriber
        return outcome.failed(job, f"what the attempt came to could not be told: {outcome.told(another)}")


def _settled(job: Job[Any], value: object, error: BaseException | None, leaving: bool) -> object:
    if isinstance(error, JobCancelled):
        return outcome.Release() if leaving else Cancel(str(error) or "cancelled while running")
    if isinstance(error, Snooze | Cancel):
        value, error = error, None
    if error is None:
        result, problem = outcome.of_value(value)
        if problem:
            error = outcome.unrun(value)
        if error is None:
            if problem:
                emit("output.dropped", level=logging.WARNING, id=job.id, kind=job.kind, reason=problem)
            return result
    told, trace = outcome.told(error), outcome.trace_of(error)
    failed = outcome.failed(job, told, trace=trace, cause=error)
    fields = outcome.attempt_of(job, failed)
    emit("job.failed", level=logging.WARNING, id=job.id, kind=job.kind, **fields, error=told, traceback=trace)
    return failed
