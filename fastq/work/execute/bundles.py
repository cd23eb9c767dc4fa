"""Execute the jobs of batch workers: many in one call of `work_many`, in a thread, or on the event loop in the name of a thread.

A lane per queue (work/bundles/), and as many slots as the queue's concurrency. A slot is a thread, which starts when jobs come
that need it: a queue without jobs of batch workers has none. It takes a bundle that is ready, calls `work_many` once, and puts
each job with its outcome into the outbox. Where that is an `async def`, the event loop of the process executes it, beside the
other coroutines, and the thread waits.

The supervisor sees each job of a bundle on the board, so the death of the process is charged to all of them. The watchdog sees a
bundle as it sees a job elsewhere: it has one timeout, is interrupted as a whole, and is given up as a whole. A single job of it
that is cancelled is told so (`job.cancelled`), and left to itself.

The main thread makes the objects, and makes all calls of `Bundles`; threads and the loop run what says so.
"""

from __future__ import annotations

import threading
import time
from asyncio import CancelledError
from typing import TYPE_CHECKING, Any

from fastq.jobs.job import JobCancelled, JobInterrupt
from fastq.jobs.worker import BUNDLES
from fastq.work.bundles.bundle_lane import BundleLane
from fastq.work.codec.timed import around_many
from fastq.work.execute.loop import Loop
from fastq.work.execute.mode import Mode, Slot, Teller
from fastq.work.execute.settle import settle
from fastq.work.shared import forks
from fastq.work.shared.called import many_of
from fastq.work.shared.interrupt import LOOK, Interrupt, saying

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    from fastq.board.board import LaneBoard
    from fastq.jobs.job import Job
    from fastq.jobs.worker import Worker
    from fastq.work.bundles.bundle import Bundle
    from fastq.work.shared.lane import Outbox


class BundleSlot(Slot):
    """A thread that executes one bundle after the other; `lane` and `number` never change."""

    lane: BundleLane

    def __init__(self, lane: BundleLane, number: int, outbox: Outbox, host: Loop | None) -> None:
        super().__init__(lane, number)
        self.thread = threading.Thread(target=self._run, name=f"fastq bundles {number}", daemon=True)
        self._outbox = outbox
        self._host: Any = host  # the event loop; None where there is no coroutine to execute
        self._interrupt = Interrupt(JobInterrupt, lambda: self.current)
        self._awaited: Bundle | None = None  # of which the coroutine has not ended; the thread writes it, the loop clears it
        self._task: asyncio.Task[None] | None = None  # of the coroutine; written on the loop, as the next two
        self._told: JobInterrupt | None = None  # by which it was told to end
        self._result: tuple[object, BaseException | None] = None, None  # read by the thread behind `_done`
        self._done = threading.Lock()
        self._done.acquire()

    @property
    def awaits(self) -> bool:
        """Tell whether it waits for a coroutine on the event loop."""
        unit: Any = self.occupant()[0]
        return unit is not None and unit.worker.is_async

    @property
    def thread_id(self) -> int | None:
        """Return the number of the thread."""
        return self.thread.ident

    def stack(self, threads: Mapping[int, FrameType]) -> str:
        """Write the stack of the thread, or that of the coroutine for which it waits."""
        return self._host.stack_of(self._task, threads) if self._task is not None else super().stack(threads)

    def interrupt(self, job: Any, reason: type[JobInterrupt], text: str) -> None:
        """Throw an exception into the thread if it still executes that bundle, or cancel its coroutine."""
        if job.worker.is_async:
            self._host.call(self._cancel, job, reason(text))
        else:
            self._interrupt.throw(self.thread.ident, job, saying(reason, text))

    def _cancel(self, bundle: Bundle, told: JobInterrupt) -> None:
        if self._awaited is bundle and self._told is None:
            self._told = told
            if self._task is not None:  # else it is told as soon as it begins
                self._task.cancel(told)

    def cancel(self, ids: set[int]) -> None:
        """Tell those jobs of the bundle that they were cancelled; it is interrupted when all of them are."""
        bundle: Any = self.current
        if bundle is not None and bundle.cancel(ids):
            self.interrupt(bundle, JobCancelled, "cancelled")

    def jobs_of(self, unit: Any) -> Sequence[Job[Any]]:
        """Return the jobs of a bundle."""
        jobs: Sequence[Job[Any]] = unit.jobs
        return jobs

    def _run(self) -> None:
        """Be the thread: take bundles until told to stop or given up."""
        while (bundle := self.lane.take()) is not None:
            count = len(bundle.jobs)
            if self._take_on(bundle):
                return
            self.lane.left(count)
            del bundle  # or the jobs live on while we sleep

    def _take_on(self, bundle: Bundle) -> bool:
        """Execute the jobs of a bundle that may start; True if the watchdog has told of them in our place."""
        starts, out = bundle.part(settle)
        if out is not None:
            self.lane.cells.end(out.cells, out.ids)
            self._put(out)
        return starts is not None and self._work(starts)

    def _work(self, bundle: Bundle) -> bool:
        """Execute a bundle; True if the watchdog has told of it in our place: then the thread ends."""
        lane, board, number = self.lane, self.lane.board, self.number
        work = around_many(many_of(bundle.worker), bundle.jobs, is_async=bundle.worker.is_async)
        value: object = None
        error: BaseException | None = None
        bundle.shorten()
        board.limits[number] = int((bundle.timeout or 0.0) * 1e9)
        lane.cells.start(bundle.cells, bundle.ids)
        board.slots[number] = bundle.id
        self.current = bundle
        try:
            try:
                if bundle.worker.is_async:
                    value, error = self._await(bundle, work)
                else:
                    value = work([*bundle.jobs])
            except BaseException as raised:  # noqa: BLE001 - SystemExit in a job must not end the thread either
                error = raised
            self.current = None
            self._interrupt.absorb(bundle)
        except JobInterrupt as raised:  # it landed outside of `work_many`
            self.current = None
            error = raised if error is None else error
            self._interrupt.absorb(bundle)
        given_up = self._end(bundle, value, error)
        error = None  # its traceback keeps this frame alive, and all that `work_many` held
        if not given_up:
            lane.cells.end(bundle.cells, bundle.ids)
            board.rested[number] = bundle.id
            board.slots[number] = 0
            self._put(bundle)
        return given_up

    def _end(self, bundle: Bundle, value: object, error: BaseException | None) -> bool:
        """Give the jobs their outcomes; True if the watchdog has told of them."""
        if forks.forked:
            forks.leave(error)
        if value is not None or error is not None:
            self.settling = bundle
            bundle.settle(value, error, settle, leaving=self.leaving)
            self.settling = None
        while self.teller is Teller.CONTESTED:
            time.sleep(LOOK)
        return self.teller is Teller.WATCHDOG

    def _put(self, bundle: Bundle) -> None:
        self._outbox.jobs.extend(bundle.jobs)
        if self._outbox.asleep:
            self._outbox.wake()

    def _await(self, bundle: Bundle, work: Callable[[Any], Any]) -> tuple[object, BaseException | None]:
        """Have the event loop execute a bundle, and wait for it."""
        self._told, self._awaited = None, bundle
        self._host.call(self._begin, bundle, work)
        self._done.acquire()
        result, self._result = self._result, (None, None)
        return result

    def _begin(self, bundle: Bundle, work: Callable[[Any], Any]) -> None:
        """Begin the task of a bundle; runs on the loop, like the next one."""
        task = self._task = self._host.task(self._execute(bundle, work))
        task.add_done_callback(self._finished)
        if self._told is not None:
            task.cancel(self._told)

    async def _execute(self, bundle: Bundle, work: Callable[[Any], Any]) -> None:
        value: object = None
        error: BaseException | None = None
        try:
            value = await work([*bundle.jobs])
        except BaseException as raised:  # noqa: BLE001 - nothing that a job raises may end the loop
            error = raised if self._told is None or not isinstance(raised, CancelledError) else self._told
        if forks.forked:
            forks.leave(error)
        self._result = value, error
        error = None

    def _finished(self, task: asyncio.Task[None]) -> None:
        """Let the thread go on; also where the task was told to end before it had begun."""
        if task.cancelled():
            self._result = None, self._told or CancelledError()
        self._task = self._awaited = None
        self._done.release()


class Bundles(Mode):
    """The bundles of all queues, and their threads."""

    name = BUNDLES
    polite_share = 0.2
    """As for other threads (threads.py)."""
    blocked = "a job blocked the event loop"

    def __init__(self, outbox: Outbox, number: int) -> None:
        super().__init__(outbox, number)
        self._slots: list[BundleSlot] = []
        self._lanes: list[BundleLane] = []
        self._host: Loop | None = None  # executes coroutines, if there are any
        self._own = False  # whether it is ours, and has no lanes
        self._alone = False  # whether there is no other mode
        self._takes = 1  # jobs of a bundle at most

    def meet(self, modes: Sequence[Mode], workers: Sequence[Worker[Any]]) -> None:
        """Use the event loop that there is: clients of the user's live on one. Learn how many jobs a bundle has at most."""
        ours = [worker for worker in workers if worker.mode == self.name]
        self._takes = max((worker.up_to for worker in ours), default=1)
        self._alone = len(modes) == 1
        if any(worker.is_async for worker in ours):
            known = [mode for mode in modes if isinstance(mode, Loop)]
            self._own = not known
            self._host = known[0] if known else Loop(self._outbox, self.number)
            self._host.guests = lambda: [slot for slot in self._slots if slot.awaits]

    @property
    def slots(self) -> Sequence[BundleSlot]:
        """Return the slots of all lanes."""
        return self._slots

    @property
    def bound(self) -> Sequence[Slot]:
        """Return those of all modes that wait for the event loop."""
        return self._host.bound if self._host is not None else ()

    def lane(self, board: LaneBoard, concurrency: int, call_producer: Callable[[], None]) -> BundleLane:
        """Make a lane for a queue, and its slots."""
        lane = BundleLane(board, concurrency, call_producer, self._takes)
        slots = [BundleSlot(lane, number, self._outbox, self._host) for number in range(concurrency)]
        lane.unstarted = [slot.thread for slot in slots]
        if self._alone:
            lane.expect()
        self._lanes.append(lane)
        self._slots += slots
        return lane

    def start(self) -> None:
        """Start the event loop, if it is ours; threads start when they are needed."""
        if self._own and self._host is not None:
            self._host.start()

    def stop(self) -> float:
        """Let each thread end when its bundle is done. The inboxes have been drained."""
        for lane in self._lanes:
            lane.stop()
        return 0.0

    def finish(self, by: float) -> float:
        """End the event loop, if it is ours."""
        if self._own and self._host is not None:
            self._host.finish(by)
        return super().finish(by)

    @property
    def ended(self) -> bool:
        """Tell whether no thread runs."""
        waits = self._own and self._host is not None and not self._host.ended
        return not waits and not any(slot.thread.is_alive() for slot in self._slots)

    @property
    def working(self) -> bool:
        """Tell whether a thread may still put something into the outbox."""
        return any(slot.thread.is_alive() and slot.teller is not Teller.WATCHDOG for slot in self._slots)

    def cancel(self, ids: set[int]) -> None:
        """Mark jobs that were cancelled and wait for others."""
        for lane in self._lanes:
            lane.inbox.cancel(ids)

    def ask(self) -> None:
        """Have `answered` become true when the event loop comes to it: a coroutine holds up all that run there."""
        self.answered = self._host is None
        if self._host is not None:
            self._host.call(self._answer)

    def _answer(self) -> None:
        self.answered = True
