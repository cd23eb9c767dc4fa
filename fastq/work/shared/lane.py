"""The way forward inside a process: inboxes of jobs on their way to be executed, an outbox of jobs on their way to the completer.

The main thread of a worker process makes all of it before any other thread starts. Shared by the producer's thread (puts jobs
into inboxes, and into the outbox those that cannot run here), the threads that execute (take jobs out, put them into the outbox),
the completer's thread (takes jobs out of the outbox) and the main thread (takes out jobs that have not started, as the producer's
thread does after an absence, puts STOP in, and puts jobs that were given up into the outbox). `deque.append`, `popleft`, `pop`,
`extend` and `insert` are atomic in CPython, so there is no lock per job.

A queue has a `Feed`: its lanes, and the inlets through which jobs come to them. There is a lane for each mode
(work/execute/mode.py) that the app's workers are of. If there is one, it is the inlet: jobs go straight into that lane's inbox.
Several share the queue's concurrency, and the inlet is a `Dispatcher` before the lanes: the jobs wait there, in their order, and
enter the lane of their mode when a place is free. A lane that gathers jobs into bundles shares no places: it is an inlet beside
that one. The producer's thread uses a feed and alone writes its counts; the main thread uses `drain`, `lanes` and `concurrency`,
too. How many jobs wait and run is read off the inlets, so executors do nothing for it.

A mark in an inbox (`Mark.REFILL`) says "here the inbox runs low": the slot that takes it calls the producer. `Mark.STOP` ends the
thread that takes it. Jobs are handed out one by one: in bundles, a slow job would hold up the rest of its bundle.
It deliberately does not know how a mode executes: a lane of a mode is a subclass, in that mode's module.
"""

from __future__ import annotations

import enum
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fastq.board.board import LaneBoard
    from fastq.jobs.job import Job


_batch_of = attrgetter("batch")


class Mark(enum.Enum):
    """An item of an inbox that is no job."""

    REFILL = "refill"
    STOP = "stop"

    @property
    def batch(self) -> Mark:
        """Give a batch that no job has: so a loop over jobs looks for marks only where the batch changes."""
        return self


class Lane(ABC):
    """The inbox of one queue for one mode; `mode`, `board`, `concurrency` and `call_producer` never change."""

    gathers = False
    """Whether its slots take many jobs at once, and their jobs none of the places that the lanes of a queue share."""

    def __init__(self, mode: str, board: LaneBoard, concurrency: int, call_producer: Callable[[], None]) -> None:
        self.mode = mode
        self.board = board
        self.concurrency = concurrency
        self.inbox: Any = deque()  # a lane that gathers has one of its own, with the same methods
        self.hungry = False  # written by the producer: there is more to claim; read and cleared by a slot that finds nothing
        self.resting: Any = ()  # the slots that have nothing to do, where the mode keeps them; each writes for itself
        self.call_producer = call_producer
        self.dispatcher: Dispatcher | None = None  # set once, before any thread starts

    @abstractmethod
    def wake(self) -> None:
        """Have the jobs of the inbox executed, if there are free slots; any thread may call this, any number of times."""

    def busy(self) -> int:
        """Count the jobs that are in slots, or the slots that do not rest. The producer's, as the next one."""
        return self.concurrency - len(self.resting)

    def room(self) -> int:
        """Count the jobs that could start at once if they came."""
        return len(self.resting)

    def brought(self, mine: int, of: int) -> None:
        """Take note how many of the jobs of a claim are for this lane, which gathers. The producer's."""
        raise NotImplementedError

    def put(self, jobs: list[Job[Any]], low: int) -> None:
        """Add jobs in their order and wake the mode; a mark goes in where `low` jobs are left. The producer's."""
        self.inbox.extend(_marked(jobs, low))
        self.wake()

    def mark(self, low: int) -> None:
        """Add a mark before the last `low` jobs, in front if there are no more. The producer's."""
        self.inbox.insert(-low, Mark.REFILL)

    def drain(self) -> list[Job[Any]]:
        """Take out all jobs that have not started, and drop marks. The main thread's or the producer's, beside running slots."""
        jobs = []
        while self.inbox:
            try:
                item = self.inbox.popleft()
            except IndexError:
                break
            if not isinstance(item, Mark):
                jobs.append(item)
        return jobs


class Dispatcher:
    """Where the jobs of a queue with several lanes wait for one of its places; a job keeps its place until it has ended.

    The producer puts jobs in; whichever thread ends a job lets the next one enter. Entering takes a lock: the lanes and a count
    change together, and no job may enter behind a `drain`.
    """

    def __init__(self, places: int, lanes: Sequence[Lane]) -> None:
        self.free = places  # changed under the lock, read by the producer
        self.inbox: deque[Any] = deque()  # jobs that have not entered, in their order; the same
        self.hungry = False  # written by the producer: there is more to claim; read and cleared by a thread that finds no job
        self._places = places
        self._lanes = {lane.mode: lane for lane in lanes}
        self._call_producer = lanes[0].call_producer
        self._lock = threading.Lock()
        for lane in lanes:
            lane.dispatcher = self

    def put(self, jobs: list[Job[Any]], low: int) -> None:
        """Add jobs in their order and let in as many as there are places; a mark goes in where `low` jobs are left."""
        with self._lock:
            self.inbox.extend(_marked(jobs, low))
            self._fill()

    def mark(self, low: int) -> None:
        """Add a mark before the last `low` jobs, in front if there are no more."""
        with self._lock:
            self.inbox.insert(-low, Mark.REFILL)

    def leave(self, lane: Lane) -> None:
        """Give up the place of a job that has ended in a lane; the caller looks into that lane's inbox next."""
        with self._lock:
            self.free += 1
            entered = self._let_in()
            if entered is not None and entered is not lane:
                entered.wake()
        if entered is None and self.hungry:
            self.hungry = False
            self._call_producer()

    def vacate(self, places: int) -> None:
        """Give up the places of jobs that the main thread, or the producer's, took out of the lanes before they had started."""
        with self._lock:
            self.free += places
            self._fill()

    def drain(self) -> list[Job[Any]]:
        """Take out all jobs that have not entered."""
        with self._lock:
            jobs = [item for item in self.inbox if not isinstance(item, Mark)]
            self.inbox.clear()
        return jobs

    def busy(self) -> int:
        """Count the places that are taken. The producer's."""
        return self._places - self.free

    def room(self) -> int:
        """Count the places that are free."""
        return max(0, self.free)

    def _fill(self) -> None:
        while self.free and (lane := self._let_in()):
            lane.wake()

    def _let_in(self) -> Lane | None:
        """Let the next job in and return its lane; None if no job waits."""
        while self.inbox:
            job = self.inbox.popleft()
            if isinstance(job, Mark):
                self._call_producer()
                continue
            self.free -= 1
            lane = self._lanes[job.batch.worker.mode]
            lane.inbox.append(job)
            return lane
        return None


OWN = 1 << 24
"""Added to a queue's number in a call by its own executors: more than the queues of any process."""


class Call:
    """The call of the producer by those that execute the jobs of one queue: `call_producer` of its lanes."""

    def __init__(self, queue: int, wake: Callable[[int], None]) -> None:
        self.feed: Feed | None = None  # set once, before any thread starts
        self._queue = queue
        self._wake = wake

    def __call__(self) -> None:
        """Call, and note the time if nothing is left: the producer may be busy with other queues for a while."""
        if self.feed is not None:
            self.feed.look_whether_dry()
        self._wake(OWN + self._queue)


class Load(NamedTuple):
    """The jobs of one queue in one process."""

    waiting: int  # that have not started
    busy: int  # that have started and not ended
    room: int  # that could start at once


class Feed:
    """The lanes of one queue."""

    def __init__(self, number: int, name: str, lanes: list[Lane], call: Call | None = None) -> None:
        if call is not None:
            call.feed = self
        self.number = number
        self.name = name
        self.lanes = lanes  # one per mode
        self.concurrency = lanes[0].concurrency
        shared = [lane for lane in lanes if not lane.gathers]
        self._gathering = [lane for lane in lanes if lane.gathers]
        self._gathers = {lane.mode: lane.gathers for lane in lanes}
        self.dispatcher = Dispatcher(self.concurrency, shared) if len(shared) > 1 else None
        self._first = self.dispatcher or (shared[0] if shared else None)
        self._inlets = [*([self._first] if self._first else []), *self._gathering]  # where jobs go in, wait and are counted
        self.claimed = 0  # jobs so far; written by the producer's thread alone, here and in demand.py, like the next two
        self.handed = 0  # jobs that were handed out last, 0 once they are known to have run out
        self.handed_at = time.monotonic()
        self.calls_when_dry = False  # in any case, not only when `hunger` was called; set once, by the producer's maker
        self.dry_at = 0.0  # monotonic time at which one that executes found nothing left; written by its thread, if it calls

    def look_whether_dry(self) -> None:
        """Note the time if nothing waits any more; the thread of an executor that calls the producer does."""
        if not any(len(inlet.inbox) for inlet in self._inlets):
            self.dry_at = time.monotonic()

    def load(self) -> Load:
        """Count the jobs of the queue in this process."""
        inlets = self._inlets
        waiting = sum([len(inlet.inbox) for inlet in inlets])
        return Load(waiting, sum([inlet.busy() for inlet in inlets]), sum([inlet.room() for inlet in inlets]))

    def hunger(self) -> None:
        """Have us called when nothing waits any more."""
        for inlet in self._inlets:
            inlet.hungry = True

    def mark(self, low: int) -> None:
        """Have us called when so many jobs are left; a lane that gathers calls by its own rule."""
        if self._first is not None:
            self._first.mark(low)

    def put(self, jobs: list[Job[Any]], low: int) -> None:
        """Hand jobs out, if there are any: to the dispatcher before several lanes, or to the only lane."""
        if not jobs:
            return
        self.handed, self.handed_at = len(jobs), time.monotonic()
        if self.calls_when_dry:
            self.hunger()
        if self._gathering:
            jobs = self._gather(jobs, low)
        if jobs and self._first is not None:
            self._first.put(jobs, low)

    def _gather(self, jobs: list[Job[Any]], low: int) -> list[Job[Any]]:
        """Hand out the jobs of lanes that gather, and return the others."""
        shares = dict(self.by_lane(jobs))
        for lane in self._gathering:
            mine = shares.get(lane, [])
            lane.brought(len(mine), len(jobs))
            if mine:
                lane.put(mine, low)
        if shares.keys().isdisjoint(self._gathering):
            return jobs
        return [job for job in jobs if not self._gathers[job.batch.worker.mode]]

    def by_lane(self, jobs: list[Job[Any]]) -> list[tuple[Lane, list[Job[Any]]]]:
        """Say which jobs are for which lane, by the modes of their workers; lanes without any are left out."""
        modes = {batch.worker.mode for batch in set(map(_batch_of, jobs))}
        lanes = [lane for lane in self.lanes if lane.mode in modes]
        if len(lanes) == 1:  # mostly: the jobs of a queue are of one kind
            return [(lanes[0], jobs)]
        return [(lane, [job for job in jobs if job.batch.worker.mode == lane.mode]) for lane in lanes]

    def drain(self) -> list[Job[Any]]:
        """Take out all jobs that have not started."""
        gathered = [job for lane in self._gathering for job in lane.drain()]
        waiting = self.dispatcher.drain() if self.dispatcher else []  # first: from there they enter the lanes
        entered = [job for lane in self.lanes if not lane.gathers for job in lane.drain()]
        if self.dispatcher:
            self.dispatcher.vacate(len(entered))
        return waiting + entered + gathered


class Outbox:
    """Completions on their way to the completer, which sleeps when there are none."""

    def __init__(self) -> None:
        self.jobs: deque[Job[Any]] = deque()  # any thread puts jobs in, the completer's alone takes them out
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

    def take(self, limit: int, timeout: float) -> list[Job[Any]]:
        """Take the jobs that are there, up to `limit`; first sleep until there is one, or until `timeout`. The completer's."""
        jobs, popleft = self.jobs, self.jobs.popleft
        if timeout > 0 and not jobs:
            self.asleep = True
            if not jobs:  # an executor either sees `asleep` or we see its job
                self._gate.acquire(timeout=timeout)
            self.asleep = False
        return [popleft() for _ in range(min(limit, len(jobs)))]


def _marked(jobs: list[Job[Any]], low: int) -> Iterable[Any]:
    """Return the jobs with a mark before the last `low` of them; where those are all of them, behind the first."""
    mark = max(1, len(jobs) - low)
    return [*jobs[:mark], Mark.REFILL, *jobs[mark:]] if 0 < low <= len(jobs) and mark < len(jobs) else jobs
