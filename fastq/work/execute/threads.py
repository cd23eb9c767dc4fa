"""Execute the jobs of `def work`: in threads, as many per queue as its concurrency. Here the user's code meets fastq.

The main thread of a worker process makes the objects of this module, starts and stops `Threads`, and interrupts jobs. A
`ThreadLane` is shared by the threads that put jobs in and by its executors.

An executor is a thread and its slot. It takes a job from its lane's inbox, calls `work`, and puts the same job with its outcome
into the outbox. There is no database, no lock and no clock on the way: the slot's word on the board tells the supervisor which
job was executing should the process die, `current` tells the watchdog, and both are single stores.

Executors that have nothing to do sleep, each on a lock of its own. Waking them is a chain: the thread that puts jobs in wakes one
executor, and each that wakes up wakes the next while there are jobs left. So sixteen idle threads do not all fall upon one job,
and a thousand jobs still find all sixteen.

The watchdog interrupts a job by an exception that is thrown into the thread; shared/interrupt.py sees to it that it is raised
in the user's code or nowhere. A job that cannot be interrupted is given up, and so is its thread: Python cannot end a thread.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from fastq.jobs.job import JobInterrupt
from fastq.work.execute.mode import Mode, Slot, Teller
from fastq.work.execute.settle import settle
from fastq.work.shared import forks
from fastq.work.shared.interrupt import LOOK, Interrupt, saying
from fastq.work.shared.lane import Lane, Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastq.board.board import LaneBoard
    from fastq.jobs.job import Job
    from fastq.work.shared.lane import Outbox


class ThreadLane(Lane):
    """The inbox that the executors of one queue share, and those of them that rest."""

    def __init__(self, board: LaneBoard, concurrency: int, call_producer: Callable[[], None], mode: str = "threads") -> None:
        super().__init__(mode, board, concurrency, call_producer)
        self.resting: deque[threading.Lock] = deque()  # an executor puts its gate in; it or its waker takes it out

    def rest(self, gate: threading.Lock) -> None:
        """Sleep until another thread wakes this executor; on waking, wake the next while there are jobs."""
        self.resting.append(gate)
        if self.inbox:  # a job came in between: the thread that put it there may have looked before we lay down
            try:
                self.resting.remove(gate)
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
            self.resting.pop().release()
        except IndexError:
            return

    def stop(self) -> None:
        """Let the executors end when they have taken all that stands before this in the inbox."""
        for _ in range(self.concurrency):
            self.inbox.append(Mark.STOP)
            self.wake()


class Executor(Slot):
    """One executor thread and its slot."""

    lane: ThreadLane

    def __init__(self, lane: ThreadLane, number: int, outbox: Outbox) -> None:
        super().__init__(lane, number)
        self.thread = threading.Thread(target=self._run, name=f"fastq executor {number}", daemon=True)
        self._outbox = outbox
        self._interrupt = Interrupt(JobInterrupt, lambda: self.current)
        self._gate = threading.Lock()
        self._gate.acquire()

    @property
    def thread_id(self) -> int | None:
        """Return the number of the thread."""
        return self.thread.ident

    def interrupt(self, job: Job[Any], reason: type[JobInterrupt], text: str) -> None:
        """Throw an exception into the thread if it still executes that job."""
        self._interrupt.throw(self.thread.ident, job, saying(reason, text))

    def _run(self) -> None:
        """Be the thread: work and rest in turns, until told to stop or given up."""
        while True:
            match self._work():
                case None:
                    self.lane.rest(self._gate)
                case Mark.REFILL:
                    self.lane.call_producer()
                case _:
                    return

    def _work(self) -> Mark | Teller | None:
        """Work jobs until a mark comes (the mark), the inbox is empty (None), or the watchdog gives us up (WATCHDOG)."""
        lane, board, slots, number = self.lane, self.lane.board, self.lane.board.slots, self.number
        popleft, outbox, interrupt = lane.inbox.popleft, self._outbox, self._interrupt
        put = outbox.append if lane.dispatcher is None else self._put_and_leave
        job: Any = None
        batch: object = None
        work: Any = None
        while True:
            value: object = None
            error: BaseException | None = None  # a traceback keeps the frames of `work` and all they hold alive
            try:
                job = popleft()
            except IndexError:
                board.rested[number] = job.id if job is not None else 0
                return None
            if job.batch is not batch:
                if isinstance(job, Mark):
                    return job
                batch, work = job.batch, job.batch.work
                board.limits[number] = job.batch.limit
            slots[number] = job.id
            self.current = job
            try:
                try:
                    value = work(job)
                except BaseException as raised:  # noqa: BLE001 - SystemExit in a job must not end the thread either
                    error = raised
                self.current = None
                if interrupt.under_way is not None:
                    interrupt.absorb(job)
            except JobInterrupt as raised:  # it landed outside of `work`
                self.current = None
                error = raised if error is None else error
                interrupt.absorb(job)
            if (value is not None or error is not None or self.teller or forks.forked) and self._end(job, value, error):
                return Teller.WATCHDOG
            slots[number] = 0
            put(job)
            if outbox.asleep:
                outbox.wake()

    def _end(self, job: Job[Any], value: object, error: BaseException | None) -> bool:
        """Give the job its outcome; True if the watchdog has told of the job in our place: then the thread ends."""
        if forks.forked:
            forks.leave(error)
        if value is not None or error is not None:
            self.settling = job
            job.outcome = settle(job, None if error is not None else value, error, leaving=self.leaving)
            self.settling = None
        while self.teller is Teller.CONTESTED:
            time.sleep(LOOK)
        return self.teller is Teller.WATCHDOG

    def _put_and_leave(self, job: Job[Any]) -> None:
        """Hand a job on, and let the next one in: for a lane behind a dispatcher."""
        self._outbox.append(job)
        if self.lane.dispatcher is not None:
            self.lane.dispatcher.leave(self.lane)


class Threads(Mode):
    """The executor threads of all queues: the main thread's, which makes them before any starts and makes all calls of this."""

    name = "threads"
    polite_share = 0.2
    """1 s of 5, so that a loop which looks at `job.cancelled` between two requests is in time, most of the grace is left for jobs
    that must be interrupted, and a longer grace makes both longer."""

    def __init__(self, outbox: Outbox, number: int) -> None:
        super().__init__(outbox, number)
        self._executors: list[Executor] = []
        self._lanes: list[ThreadLane] = []

    @property
    def slots(self) -> Sequence[Executor]:
        """Return the executors of all lanes."""
        return self._executors

    def lane(self, board: LaneBoard, concurrency: int, call_producer: Callable[[], None]) -> ThreadLane:
        """Make a lane for a queue, and its executors."""
        lane = ThreadLane(board, concurrency, call_producer, self.name)
        self._lanes.append(lane)
        self._executors += [self._executor(lane, number) for number in range(concurrency)]
        return lane

    def _executor(self, lane: ThreadLane, number: int) -> Executor:
        """Make one of a lane's executors."""
        return Executor(lane, number, self._outbox)

    def start(self) -> None:
        """Start the threads."""
        for executor in self._executors:
            executor.thread.start()

    def stop(self) -> float:
        """Let each executor end when its job is done. The inboxes have been drained."""
        for lane in self._lanes:
            lane.stop()
        return 0.0

    @property
    def ended(self) -> bool:
        """Tell whether no executor runs."""
        return not any(executor.thread.is_alive() for executor in self._executors)

    @property
    def working(self) -> bool:
        """Tell whether an executor may still put something into the outbox."""
        return any(executor.thread.is_alive() and executor.teller is not Teller.WATCHDOG for executor in self._executors)
