"""Run the jobs of `async def work` on one event loop per worker process, in a thread of its own.

A lane per queue, as for threads, and as many slots as its concurrency. A slot is a coroutine that works jobs one after the
other until the inbox is empty and then ends: a task per run of jobs, not per job. Whoever puts jobs in starts the slots
that are free, from inside the loop.

No job sees a context variable of another. A slot's task begins with an empty context; a job that leaves something in it
is the last one of its task, and a new task goes on.

A timeout or a cancellation is a `task.cancel()`, set off by the watchdog through the loop: it lands at the job's next
await. A coroutine that never awaits holds up every other on the loop; YIELD_EVERY keeps ours from being that one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from contextlib import suppress
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from fastq.events import emit
from fastq.jobs.job import JobTimeout
from fastq.jobs.outcome import told
from fastq.work.execute.executor import settle
from fastq.work.shared import forks
from fastq.work.shared.lane import REFILL, STOP

if TYPE_CHECKING:
    from fastq.jobs.job import Job
    from fastq.work.shared.lane import Lane, Outbox

YIELD_EVERY = 64
"""Jobs that a slot works before it lets others run: a guess, not measured."""


class LoopSlot:
    """One place on the loop. The watchdog sees it as it sees an executor."""

    def __init__(self, lane: Lane, slot: int) -> None:
        self.lane = lane
        self.slot = slot
        self.current: Job[Any] | None = None  # written by the loop, read by the watchdog
        self.settling: Job[Any] | None = None  # the same, while code of the user's tells what its `work` came to
        self.aimed: Job[Any] | None = None  # written by the loop: the job that was told to end
        self.reason: type[BaseException] = JobTimeout
        self.abandoned = False  # written by the watchdog: it is about to give the job up ...
        self.given_up = False  # ... and has told of it in our place
        self.leaving = False  # written by the watchdog: the process stops and does not wait for the job
        self.task: asyncio.Task[None] | None = None


class Loop:
    """The event loop's thread and the slots of all queues."""

    def __init__(self, lanes: list[Lane], outbox: Outbox) -> None:
        self.slots = [LoopSlot(lane, slot) for lane in lanes for slot in range(lane.concurrency)]
        self.answered = True  # written by the watchdog's thread when it asks, and by the loop when it comes to that
        self.given_up = False  # written by the watchdog: it did not answer in time
        self._outbox = outbox
        self._loop = asyncio.new_event_loop()
        self._free = {id(lane): [slot for slot in self.slots if slot.lane is lane] for lane in lanes}
        self.thread = threading.Thread(target=self._run_loop, name="fastq loop", daemon=True)

    def _run_loop(self) -> None:
        """Run the loop as long as the process lives: neither what a task of a job's own raises nor a `stop()` ends the others."""
        os.register_at_fork(after_in_child=self._loop.stop)  # its tasks are our jobs, which run here
        while True:
            try:
                self._loop.run_forever()
                reason = "a job stopped it"
            except (SystemExit, KeyboardInterrupt) as error:  # asyncio lets these two out; whoever awaits the task gets it, too
                reason = told(error)
            if forks.forked:
                forks.leave(RuntimeError("a process that a job forked awaits something, but the event loop is its parent's"))
            emit("loop.resumed", level=logging.WARNING, reason=reason)

    def start_slots(self, lane: Lane) -> None:
        """Start slots for what is in the lane's inbox; called from the producer's thread."""
        self._loop.call_soon_threadsafe(self._start_slots, lane)

    def _start_slots(self, lane: Lane) -> None:
        free = self._free[id(lane)]
        for _ in range(min(len(free), len(lane.inbox))):
            slot = free.pop()
            slot.task = self._loop.create_task(self._run(slot), context=Context())

    async def _run(self, slot: LoopSlot) -> None:
        """Work jobs while there are any, and leave the slot free, whatever a job has done to this task."""
        lane = slot.lane
        try:
            await self._work(slot)
        finally:
            self._free[id(lane)].append(slot)
            if lane.inbox:  # a job has left something in our context, or cancelled us behind its own end
                self._start_slots(lane)
            elif lane.hungry:
                lane.hungry = False
                lane.call_producer()

    async def _work(self, slot: LoopSlot) -> None:
        lane, words, put = slot.lane, slot.lane.board.slots, self._outbox.append
        worked = 0
        job: Any = None
        while lane.inbox:
            try:
                job = lane.inbox.popleft()
            except IndexError:  # the last one was handed back just now
                return
            if job is REFILL:
                lane.call_producer()
                continue
            if job is STOP:
                continue
            lane.board.limit(slot.slot, job.batch.worker.timeout)
            words[slot.slot] = job.id
            slot.current = job
            value, error = await self._attempt(slot, job)
            if forks.forked:
                forks.leave(error)
            slot.current = None
            if error is not None or value is not None:
                slot.settling = job
                job.outcome = settle(job, value, error, leaving=slot.leaving)
                slot.settling = None
            value = error = None
            while slot.abandoned and not slot.given_up:  # as long as one call of the watchdog takes
                with suppress(asyncio.CancelledError):  # the job's own, behind its end
                    await asyncio.sleep(0)  # the watchdog looks again whether the job has ended
            if not slot.abandoned:
                words[slot.slot] = 0
                put(job)
                if self._outbox.asleep:
                    self._outbox.wake()
            slot.abandoned = slot.given_up = False
            if lane.room is not None:
                lane.room.leave(lane)
            # What the job has left to this task ends with it. 50 ns: a context is but a reference; a task for each would cost µs.
            if copy_context() or (slot.task is not None and slot.task.cancelling()):
                return
            worked += 1
            if worked % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        lane.board.rested[slot.slot] = getattr(job, "id", 0)  # a mark has none

    async def _attempt(self, slot: LoopSlot, job: Job[Any]) -> tuple[object, BaseException | None]:
        """Await the user's coroutine; a cancellation of ours becomes the reason it was made for."""
        try:
            return await job.batch.work(job), None
        except asyncio.CancelledError as error:
            if slot.aimed is not job:
                return None, error  # the user's own code cancelled itself: a failed attempt
            return None, slot.reason(str(error) or "told to end")
        except BaseException as error:  # noqa: BLE001 - nothing that a job raises may end the loop
            return None, error
        finally:
            if slot.aimed is job:
                slot.aimed = None
                task = asyncio.current_task()
                if task is not None:
                    task.uncancel()

    def throw(self, slot: LoopSlot, job: Job[Any], reason: type[BaseException], message: str) -> None:
        """Cancel the slot's task if it still works that job; called from the watchdog's thread."""
        self._loop.call_soon_threadsafe(self._throw, slot, job, reason, message)

    def _throw(self, slot: LoopSlot, job: Job[Any], reason: type[BaseException], message: str) -> None:
        if slot.current is job and slot.task is not None and slot.aimed is None:
            slot.aimed, slot.reason = job, reason
            slot.task.cancel(message)

    def ask(self) -> None:
        """Have `answered` become true when the loop comes to it; called from the watchdog's thread."""
        self.answered = False
        self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self.answered = True

    def working(self) -> bool:
        """Tell whether a slot may still put something into the outbox."""
        return not self.given_up and any(
            slot.task is not None and not slot.task.done() and not slot.abandoned for slot in self.slots
        )
