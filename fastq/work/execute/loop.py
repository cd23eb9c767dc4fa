"""Execute the jobs of `async def work`: on one event loop per worker process, in a thread of its own.

A lane per queue, and as many slots as the queue's concurrency. A slot is a coroutine that works jobs one after the other until
the inbox is empty and then ends: a task per run of jobs, not per job. The thread that puts jobs in starts the slots that are
free, from inside the loop.

No job sees a context variable of another. A slot's task begins with an empty context; a job that leaves something in it
is the last one of its task, and a new task goes on.

A timeout or a cancellation is a `task.cancel()`, set off by the watchdog through the loop: it lands at the job's next
await. A coroutine that never awaits holds up every other on the loop; YIELD_EVERY keeps ours from being that one. After the
watchdog has given a job up it asks the loop for an answer (`ask`), and gives the whole loop up if none comes.

Everything here runs in the loop's thread, and is written by it, but for the methods and attributes that say otherwise. The main
thread makes the objects.
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
from fastq.texts import told
from fastq.work.execute.frames import of_task
from fastq.work.execute.mode import Mode, Slot, Teller
from fastq.work.execute.punctual import new_loop
from fastq.work.execute.settle import settle
from fastq.work.shared import forks
from fastq.work.shared.lane import Lane, Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from types import FrameType

    from fastq.board.board import LaneBoard
    from fastq.jobs.job import Job, JobInterrupt
    from fastq.work.shared.lane import Outbox

YIELD_EVERY = 64
"""Jobs that a slot works before it lets others run: a guess, not measured."""


class LoopLane(Lane):
    """The inbox that the slots of one queue share, and those of them that have no task."""

    def __init__(self, loop: Loop, board: LaneBoard, concurrency: int, call_producer: Callable[[], None]) -> None:
        super().__init__(Loop.name, board, concurrency, call_producer)
        self.free: list[LoopSlot] = []  # filled by the main thread before the loop runs
        self._loop = loop

    def wake(self) -> None:
        """Start slots for the jobs in the inbox; any thread may call this."""
        self._loop.call(self._loop.start_slots, self)

    def busy(self) -> int:
        """Count the slots that have a job, by the board: a slot that is free may have been called for one."""
        return sum(word > 0 for word in self.board.slots)

    def room(self) -> int:
        """Count those that have none."""
        return self.concurrency - self.busy()


class LoopSlot(Slot):
    """One place on the loop."""

    lane: LoopLane

    def __init__(self, loop: Loop, lane: LoopLane, number: int) -> None:
        super().__init__(lane, number)
        self.task: asyncio.Task[None] | None = None
        self.aimed: Job[Any] | None = None  # the job that was told to end, and has not ended since
        self.reason: type[JobInterrupt] = JobTimeout  # why it was
        self._loop = loop

    def stack(self, threads: Mapping[int, FrameType]) -> str:
        """Write the stack of the task."""
        return self._loop.stack_of(self.task, threads)

    def interrupt(self, job: Job[Any], reason: type[JobInterrupt], text: str) -> None:
        """Cancel the task if it still works that job. The watchdog's."""
        self._loop.call(self._cancel, job, reason, text)

    def _cancel(self, job: Job[Any], reason: type[JobInterrupt], text: str) -> None:
        if self.current is job and self.task is not None and self.aimed is None:
            self.aimed, self.reason = job, reason
            self.task.cancel(reason(text))  # a hook can tell by it why the job is to end; its text is the same


class Loop(Mode):
    """The event loop's thread and the slots of all queues."""

    name = "loop"
    blocked = "another job blocked the event loop"

    def __init__(self, outbox: Outbox, number: int) -> None:
        super().__init__(outbox, number)
        self.guests: Callable[[], Sequence[Slot]] = tuple  # slots of others whose coroutines run here; the main thread's
        self._slots: list[LoopSlot] = []  # of all lanes; complete before the loop runs
        self._finished = False  # written by the main thread
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._run_loop, name="fastq loop", daemon=True)

    @property
    def slots(self) -> Sequence[LoopSlot]:
        """Return the slots of all lanes."""
        return self._slots

    @property
    def bound(self) -> Sequence[Slot]:
        """Return these, and those of guests: a coroutine that blocks the loop holds all of them up."""
        return [*self._slots, *self.guests()]

    def lane(self, board: LaneBoard, concurrency: int, call_producer: Callable[[], None]) -> LoopLane:
        """Make a lane for a queue, and its slots. The main thread's, as the next four."""
        lane = LoopLane(self, board, concurrency, call_producer)
        lane.free = [LoopSlot(self, lane, number) for number in range(concurrency)]
        self._slots += lane.free
        return lane

    def start(self) -> None:
        """Start the loop."""
        self._thread.start()

    def finish(self, by: float) -> float:
        """End the loop's thread. Slots end by themselves when they have no job; nothing waits for one that does not."""
        self._finished = True
        self.call(self._loop.stop)
        return super().finish(by)

    @property
    def ended(self) -> bool:
        """Tell whether the loop does not run."""
        return not self._thread.is_alive()

    @property
    def working(self) -> bool:
        """Tell whether a slot may still put something into the outbox."""
        return not self.given_up and any(
            slot.task is not None and not slot.task.done() and slot.teller is not Teller.WATCHDOG for slot in self._slots
        )

    def ask(self) -> None:
        """Have `answered` become true when the loop comes to it. The watchdog's, in the main thread."""
        self.answered = False
        self.call(self._answer)

    def task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin a task with an empty context; called in the loop."""
        return self._loop.create_task(coroutine, context=Context())

    def stack_of(self, task: asyncio.Task[Any] | None, threads: Mapping[int, FrameType]) -> str:
        """Write the stack of a task of this loop; any thread may ask."""
        return of_task(task, threads.get(self._thread.ident or 0))

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Have the loop call a function soon; any thread may."""
        self._loop.call_soon_threadsafe(function, *args)

    def _answer(self) -> None:
        self.answered = True

    def _run_loop(self) -> None:
        """Run the loop as long as the process lives: no exception of a task that a job made and no `stop()` ends the others."""
        os.register_at_fork(after_in_child=self._loop.stop)  # its tasks are our jobs, which run here
        while True:
            try:
                self._loop.run_forever()
                if self._finished:
                    return
                reason = "a job stopped it"
            except (SystemExit, KeyboardInterrupt) as error:  # asyncio lets these two out; a job that awaits the task gets it
                reason = told(error)
            if forks.forked:
                forks.leave(RuntimeError("a process that a job forked awaits something, but the event loop is its parent's"))
            emit("loop.resumed", level=logging.WARNING, reason=reason)

    def start_slots(self, lane: LoopLane) -> None:
        """Start as many free slots as there are jobs."""
        for _ in range(min(len(lane.free), len(lane.inbox))):
            slot = lane.free.pop()
            slot.task = self.task(self._run(slot))

    async def _run(self, slot: LoopSlot) -> None:
        """Work jobs while there are any, and leave the slot free in any case, also where a job has cancelled this task."""
        lane = slot.lane
        try:
            await self._work(slot)
        finally:
            lane.free.append(slot)
            if lane.inbox:  # a job has left something in our context, or cancelled us behind its own end
                self.start_slots(lane)
            elif lane.hungry:
                lane.hungry = False
                lane.call_producer()

    async def _work(self, slot: LoopSlot) -> None:
        """Work jobs until the inbox is empty, or a job has left something to this task."""
        lane, board, outbox, number = slot.lane, slot.lane.board, self._outbox, slot.number
        inbox, words, put = lane.inbox, board.slots, outbox.append
        worked = last = 0
        batch: object = None
        while inbox:
            try:
                job = inbox.popleft()
            except IndexError:  # the last one was handed back just now
                return
            if job.batch is not batch:
                if job is Mark.REFILL:
                    lane.call_producer()
                    last = 0
                    continue
                batch = job.batch
                board.limits[number] = job.batch.limit
            words[number] = last = job.id
            await self._attempt(slot, job)
            if not slot.teller or not await self._was_given_up(slot):
                words[number] = 0
                put(job)
                if outbox.asleep:
                    outbox.wake()
            if lane.dispatcher is not None:
                lane.dispatcher.leave(lane)
            # A job's context variables end with its task. 50 ns: a context is but a reference; a task for each job would cost us.
            if copy_context() or (slot.task is not None and slot.task.cancelling()):
                return
            worked += 1
            if worked % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        board.rested[slot.number] = last

    async def _attempt(self, slot: LoopSlot, job: Job[Any]) -> None:
        """Await the user's coroutine, and give the job its outcome; a cancellation of ours becomes the reason it was made for."""
        value: object = None
        error: BaseException | None = None
        slot.current = job
        try:
            value = await job.batch.work(job)
        except asyncio.CancelledError as raised:
            ours = slot.aimed is job  # else the user's own code cancelled itself, and the attempt has failed
            error = slot.reason(str(raised) or "told to end") if ours else raised
        except BaseException as raised:  # noqa: BLE001 - nothing that a job raises may end the loop
            error = raised
        if slot.aimed is job:
            slot.aimed = None
            if slot.task is not None:
                slot.task.uncancel()
        if forks.forked:
            forks.leave(error)
        slot.current = None
        if error is not None or value is not None:
            slot.settling = job
            job.outcome = settle(job, value, error, leaving=slot.leaving)
            slot.settling = None
            error = None  # its traceback keeps this frame alive, and all that `work` held

    async def _was_given_up(self, slot: LoopSlot) -> bool:
        """Wait until the watchdog has decided which side tells of the job; the slot goes on with others in either case."""
        while slot.teller is Teller.CONTESTED:  # as long as one call of the watchdog takes
            with suppress(asyncio.CancelledError):  # the job's own, behind its end
                await asyncio.sleep(0)
        if slot.teller is not Teller.WATCHDOG:
            return False
        slot.tell_by(Teller.SLOT)
        return True
