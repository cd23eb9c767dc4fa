"""The parts of a worker process as a test has them: the same code, called in the test's own thread or event loop.

Each class here is one of a worker process's, derived so that a call does what its thread would do: claim once, execute all that
is in an inbox, write a batch. Made and used by workplace.py, in the thread of the test; the coroutines run on the event loop
that it was given.

Invariant: nothing of the route is written here a second time. It deliberately starts no thread that claims, executes or
completes, and has no watchdog: no timeout interrupts a job, so that a test may be stepped through in a debugger.
"""

from __future__ import annotations

import asyncio
import math
import threading
from typing import TYPE_CHECKING, Any

from fastq.jobs.worker import ISOLATED
from fastq.work.bundles.bundle_lane import BundleLane
from fastq.work.claim.producer import Producer
from fastq.work.complete.completer import Completer
from fastq.work.execute.bundles import Bundles, BundleSlot
from fastq.work.execute.loop import Loop
from fastq.work.execute.mode import Mode
from fastq.work.execute.threads import Executor, ThreadLane, Threads
from fastq.work.notes import Notes
from fastq.work.scribe import Scribe
from fastq.work.shared.lane import Feed, Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from fastq.board.board import LaneBoard
    from fastq.jobs.job import Job
    from fastq.work.bundles.bundle import Bundle

Errors = dict[int, BaseException]
"""The exceptions that attempts have raised, by the ids of their jobs."""


class HandProducer(Producer):
    """Claims when it is asked to."""

    def look(self) -> None:
        """Make one round, as after a hint of each sort."""
        words = self._sources[0].cursor.words
        words.wakes += 1
        words.waiting_hints += 1
        words.pause_hints += 1
        self._round()

    def _lost(self, error: BaseException) -> float:
        """Let the test hear of the error at once: nobody waits here for a database to come back."""
        raise error


class HandCompleter(Completer):
    """Writes when it is asked to."""

    def write(self) -> list[Job[Any]]:
        """Write a batch of outcomes; return its jobs, none when the outbox is empty."""
        jobs = self.outbox.take(self._at_once, 0.0)
        if jobs:
            self.writer.give_up_at = 0.0  # an error is the test's to hear of, not to be waited out
            self._settle(jobs)
        return jobs


class HandNotes(Notes):
    """Writes the notes of jobs when it is asked to."""

    def write(self) -> None:
        """Write those that have come."""
        self._write()


class HandScribe(Scribe):
    """Writes what jobs have logged when it is asked to."""

    def _begin(self) -> None:
        """Start no thread."""

    def write(self) -> None:
        """Write all that was logged and printed."""
        self._gather()
        self._write()


class HandFeed(Feed):
    """The lanes of a queue; it notes what their jobs raise."""

    def __init__(self, name: str, lanes: list[Any], errors: Errors) -> None:
        super().__init__(0, name, lanes)
        self._errors = errors
        self._noted: set[Any] = set()  # the functions that note

    def put(self, jobs: list[Job[Any]], low: int) -> None:
        """Hand jobs out; what their `work` raises is noted, and raised on."""
        batches: dict[int, Any] = {id(job.batch): job.batch for job in jobs}
        for batch in batches.values():
            work, is_async = batch.work, batch.worker.is_async
            if work in self._noted:  # its jobs were taken out, and come again
                continue
            if batch.worker.mode == ISOLATED and is_async:
                work, is_async = _in_a_loop_of_its_own(work), False
            batch.work = self._noting_async(work) if is_async else self._noting(work)
            self._noted.add(batch.work)
        super().put(jobs, low)

    def _noting(self, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def noted(job: Job[Any]) -> Any:
            try:
                return work(job)
            except BaseException as error:
                self._errors[job.id] = error
                raise

        return noted

    def _noting_async(self, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
        async def noted(job: Job[Any]) -> Any:
            try:
                return await work(job)
            except BaseException as error:
                self._errors[job.id] = error
                raise

        return noted


class HandMode(Mode):
    """A mode that executes when it is asked to."""

    errors: Errors

    def settle_in(self, loop: asyncio.AbstractEventLoop, errors: Errors) -> None:
        """Take the event loop for coroutines, and the place where errors are noted; called before any lane is made."""
        del loop
        self.errors = errors

    def execute(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Execute the jobs of all inboxes; the coroutines that it gives are to be awaited on the event loop, one by one."""
        raise NotImplementedError


class HandLane(ThreadLane):
    """An inbox without a thread behind it: while somebody claims, nobody executes."""

    def wake(self) -> None:
        """Wake nobody."""

    def busy(self) -> int:
        """Count none."""
        return 0

    def room(self) -> int:
        """Count the only slot."""
        return self.concurrency


class HandExecutor(Executor):
    """An executor that is the thread which asks it."""

    def execute(self) -> None:
        """Work jobs until the inbox is empty."""
        self.thread = threading.current_thread()
        while self._work() is Mark.REFILL:
            continue


class HandThreads(HandMode, Threads):
    """Jobs of `def work`, in the thread of the test."""

    def lane(self, board: LaneBoard, concurrency: int, call_producer: Callable[[], None]) -> ThreadLane:
        """Make a lane."""
        lane = HandLane(board, concurrency, call_producer, self.name)
        self._lanes.append(lane)
        self._executors.append(HandExecutor(lane, 0, self._outbox))
        return lane

    def execute(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Work the jobs."""
        for executor in self._executors:
            if executor.lane.inbox and isinstance(executor, HandExecutor):
                executor.execute()
        return iter(())


class HandIsolated(HandThreads):
    """Jobs of workers with `isolate`: in the thread of the test as well, where a debugger and a patch reach them."""

    name = ISOLATED


class HandLoop(HandMode, Loop):
    """Jobs of `async def work`, on the event loop of the test."""

    def settle_in(self, loop: asyncio.AbstractEventLoop, errors: Errors) -> None:
        """Use that loop in place of one of our own."""
        super().settle_in(loop, errors)
        self._loop.close()
        self._loop = loop

    def execute(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Have the slots work; the lane has called them when the jobs came."""
        if any(slot.lane.inbox for slot in self._slots):
            yield self._come_to_rest()

    async def _come_to_rest(self) -> None:
        await asyncio.sleep(0)  # the slots are started by a call that waits in the loop
        while tasks := [slot.task for slot in self._slots if slot.task is not None and not slot.task.done()]:
            await asyncio.wait(tasks)


class HandBundleSlot(BundleSlot):
    """A slot of bundles that is the thread which asks it."""

    def execute(self, bundle: Bundle, errors: Errors) -> None:
        """Execute a bundle, as far as its jobs may start."""
        self.thread = threading.current_thread()
        self.errors = errors
        self._take_on(bundle)

    def _end(self, bundle: Bundle, value: object, error: BaseException | None) -> bool:
        """Note what `work_many` has raised, or returned as errors."""
        given_up = super()._end(bundle, value, error)
        results = value if isinstance(value, list | tuple) and len(value) == len(bundle.jobs) else ()
        own = dict(zip(bundle.jobs, results, strict=False)) if not isinstance(value, dict) else value
        for job in bundle.jobs:
            raised = error or own.get(job)
            if isinstance(raised, BaseException):
                self.errors[job.id] = raised
        return given_up


class HandBundles(HandMode, Bundles):
    """Jobs of batch workers: all that wait in one call of `work_many`, in the thread or on the event loop of the test."""

    loop: asyncio.AbstractEventLoop

    def settle_in(self, loop: asyncio.AbstractEventLoop, errors: Errors) -> None:
        """Use that loop for coroutines, where no other mode brings one."""
        super().settle_in(loop, errors)
        if self._own and isinstance(self._host, Loop):
            self._host._loop.close()  # noqa: SLF001 - of an object that we have just made
            host = HandLoop(self._outbox, self.number)
            host.settle_in(loop, errors)
            self._host = host

    def lane(self, board: LaneBoard, concurrency: int, call_producer: Callable[[], None]) -> BundleLane:
        """Make a lane that starts no thread."""
        lane = super().lane(board, concurrency, call_producer)
        lane.unstarted = []
        self._slots[-1] = HandBundleSlot(lane, 0, self._outbox, self._host)
        return lane

    def execute(self) -> Iterator[Coroutine[Any, Any, None]]:
        """Execute all that has gathered, without waiting for more."""
        for slot in self._slots:
            while isinstance(slot, HandBundleSlot) and (bundle := slot.lane.inbox.take(math.inf)) is not None:
                if bundle.worker.is_async:  # its slot waits for the event loop, so it has to be another thread than the loop's
                    yield asyncio.to_thread(slot.execute, bundle, self.errors)
                else:
                    slot.execute(bundle, self.errors)


HANDS = (HandThreads, HandLoop, HandIsolated, HandBundles)
"""The modes of a test, in the order of those that they stand for (work/modes.py)."""


def _in_a_loop_of_its_own(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that runs a coroutine to its end in another thread, as an isolated job runs its own in its process."""

    def run(job: Job[Any]) -> Any:
        told: list[Any] = []

        def body() -> None:
            try:
                told.append((asyncio.run(work(job)), None))
            except BaseException as error:  # noqa: BLE001 - raised on in the thread that waits
                told.append((None, error))

        thread = threading.Thread(target=body, name="fastq isolated in a test")
        thread.start()
        thread.join()
        ((value, error),) = told
        if error is not None:
            raise error
        return value

    return run
