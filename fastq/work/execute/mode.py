"""A way of executing jobs, as the rest of a worker process knows it.

A mode takes jobs from the inboxes of its lanes, one per queue, and puts each job with its outcome into the outbox. It executes in
*slots*, as many per lane as the queue's concurrency; a slot works one job after the other. The board shows each slot's job to the
supervisor, and `Slot` shows it to the watchdog, which tells overdue jobs to end through `Slot.interrupt`, in the main thread of
the worker process. A slot of bundles.py executes a bundle of jobs at once: then that has the phases, the timeout and the teller
that a job has elsewhere, and `jobs_of` gives its jobs.

The main thread of a worker process makes modes, lanes and slots; each attribute and table below names its writer. The producer's
thread reads the slots, too (shared/held.py). modes.py lists all modes. A mode is a module of its own and that list's line:
process, feed, dispatcher, watchdog, board and supervisor go through the classes of this module, and name no mode.

An attempt, as its slot shows it (`Phase`), written by the slot:
    RESTING    no job, or between two of the others for some instructions
    EXECUTING  `work` runs: the job may be interrupted
    SETTLING   code of the user's has a say in the outcome (`retry_delay`, an exception's text): it is not interrupted
A slot skips SETTLING for a job that returned None.

The slot tells the completer of the attempt's end, unless the watchdog gives the job up and tells of it instead (`Teller`):
    SLOT       as ever
    CONTESTED  the watchdog is about to give the job up, and looks whether the slot still has it; a slot that sees this waits
    WATCHDOG   the watchdog has told of the job: whatever the slot still does with it does not count
Both sides write before they read, as in shared/interrupt.py, so exactly one of them tells of each job.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from fastq.jobs.job import JobCancelled
from fastq.service import Service
from fastq.work.execute.frames import of_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    from fastq.board.board import LaneBoard
    from fastq.jobs.job import Job, JobInterrupt
    from fastq.jobs.worker import Worker
    from fastq.work.bundles.bundle import Bundle
    from fastq.work.shared.lane import Lane, Outbox

    Unit = Job[Any] | Bundle
    """What a slot executes at once."""


class Phase(enum.Enum):
    """The state of the attempt in a slot."""

    RESTING = "resting"
    EXECUTING = "executing"
    SETTLING = "settling"


PHASES = {
    (Phase.RESTING, Phase.EXECUTING),
    (Phase.EXECUTING, Phase.RESTING),
    (Phase.RESTING, Phase.SETTLING),
    (Phase.SETTLING, Phase.RESTING),
}
"""Every transition of an attempt, as others see it. A slot stores one word at a time, so it seems to rest before it settles."""


class Teller(enum.IntEnum):
    """Which side tells the completer of a job's end. SLOT is 0: a slot asks after each job, by a bare `if`."""

    SLOT = 0
    CONTESTED = 1
    WATCHDOG = 2


TELLERS = {
    (Teller.SLOT, Teller.CONTESTED),  # by the watchdog
    (Teller.CONTESTED, Teller.SLOT),  # by the watchdog: the job had ended
    (Teller.CONTESTED, Teller.WATCHDOG),  # by the watchdog
    (Teller.WATCHDOG, Teller.SLOT),  # by the slot, if it goes on with other jobs
}
"""Every transition of the right to tell."""


class Slot(ABC):
    """One place for a job, and the state of the attempt in it. Phases are written by the slot's own thread."""

    def __init__(self, lane: Lane, number: int) -> None:
        self.lane = lane
        self.number = number  # among the slots of its lane, on the board too
        self.current: Unit | None = None  # while EXECUTING
        self.settling: Unit | None = None  # while SETTLING
        self.teller = Teller.SLOT
        self.leaving = False  # written by the watchdog: the process stops and does not wait for the job

    @property
    def thread_id(self) -> int | None:
        """Return the number of the slot's own thread, if it has one that runs."""
        return None

    def stack(self, threads: Mapping[int, FrameType]) -> str:
        """Write down where the slot's job is; '' if that is not known. `threads` has their frames; stacks.py asks."""
        return of_thread(threads.get(self.thread_id or 0))

    @abstractmethod
    def interrupt(self, job: Any, reason: type[JobInterrupt], text: str) -> None:
        """Raise an exception in the user's code if the slot still executes that job. The watchdog's."""

    def cancel(self, ids: set[int]) -> None:
        """Tell the slot's job that it was cancelled, if it is one of these. The watchdog's."""
        job: Any = self.current
        if job is not None and job.id in ids and not job.cancelled:
            job.cancelled = True
            self.interrupt(job, JobCancelled, "cancelled")

    def jobs_of(self, unit: Any) -> Sequence[Job[Any]]:
        """Return the jobs that are executed together as this one."""
        return (unit,)

    def occupant(self) -> tuple[Unit | None, Phase]:
        """Return the job that the slot has, and the phase of its attempt."""
        if (job := self.current) is not None:
            return job, Phase.EXECUTING
        return (job, Phase.SETTLING) if (job := self.settling) is not None else (None, Phase.RESTING)

    def held(self) -> Sequence[Job[Any]]:
        """Return the job that the slot will tell of; none if the watchdog has told of it, by a job in the outbox."""
        unit = None if self.teller is Teller.WATCHDOG else self.occupant()[0]
        return () if unit is None else self.jobs_of(unit)

    def contest(self, job: Unit, phase: Phase) -> bool:
        """Take the right to tell of a job from the slot; False if that job has just left this phase. The watchdog's."""
        self.tell_by(Teller.CONTESTED)
        if self.occupant() == (job, phase):
            return True
        self.tell_by(Teller.SLOT)
        return False

    def tell_by(self, teller: Teller) -> None:
        """Hand the right to tell on."""
        assert (self.teller, teller) in TELLERS, f"{teller.name} cannot tell of a job after {self.teller.name}"
        self.teller = teller


class Mode(Service, ABC):
    """One way of executing, in one worker process. Made and used by the main thread; the slots run in threads of the mode's."""

    name: ClassVar[str]  # the `Worker.mode` of the workers that it executes
    polite_share: ClassVar[float] = 0.0
    """The part of the grace that a job gets to see `job.cancelled` by itself before it is interrupted."""
    blocked: ClassVar[str] = "another job blocked its thread"
    """Why a job of this mode is told to end when the mode is given up."""

    def __init__(self, outbox: Outbox, number: int) -> None:
        self.number = number  # among all modes: so its lanes stand on the board
        self.answered = True  # written by the watchdog when it asks, and by the mode when it comes to that
        self.given_up = False  # written by the watchdog: the mode did not answer in time
        self.asked_at: float | None = None  # monotonic time of the question that the watchdog waits for; the watchdog's own
        self._outbox = outbox

    def prepare(self, workers: Sequence[Worker[Any]]) -> None:
        """Do what must be done before any thread of the process runs, such as a fork; `workers` are those of this mode."""

    @property
    @abstractmethod
    def slots(self) -> Sequence[Slot]:
        """Return the slots of all lanes."""

    @property
    def bound(self) -> Sequence[Slot]:
        """Return the slots that are held up together if one of this mode's blocks its thread."""
        return self.slots

    def meet(self, modes: Sequence[Mode], workers: Sequence[Worker[Any]]) -> None:
        """Take note of all modes and workers of the process; called once, before any lane is made."""

    @abstractmethod
    def lane(self, board: LaneBoard, concurrency: int, call_producer: Callable[[], None]) -> Lane:
        """Make a lane for a queue, and its slots; called before `start`."""

    @property
    @abstractmethod
    def working(self) -> bool:
        """Tell whether a slot may still put something into the outbox."""

    def cancel(self, ids: set[int]) -> None:
        """Take note that these jobs were cancelled, if they wait here for others; those in slots are told by themselves."""

    def ask(self) -> None:
        """Have `answered` become true as soon as the mode's own thread comes to it: one job may hold up all of a mode."""
