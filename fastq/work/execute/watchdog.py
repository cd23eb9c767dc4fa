"""See to it that no job outlasts its timeout and no statement its deadline.

A `Watchdog` has no thread of its own: the main thread of a worker process makes it, makes all its calls, and alone writes its
attributes and those of `Watched`.

A tick looks at each slot's job. The first tick that sees a job notes the time, so a timeout is late by one tick at
most and no slot ever reads a clock. Then, in this order:

    timeout           `job.cancelled = True`: a job that looks at it ends in its own way. A task is cancelled at once, which is
                      polite enough: it lands at an await.
    + grace / 5       JobTimeout is thrown into the thread: it lands at the next bytecode of Python code, wherever that is, or
                      when the C call that the thread is in returns.
    + grace           the slot is given up: the watchdog tells of the job's failure in its place, nothing that the job still does
                      counts, and the process is to be recycled, since Python cannot end a thread.
    + grace + 2 s     nobody ticked any more (a C call holds the interpreter lock): the supervisor reads the time
                      from the desk and kills the process.

Code of the user's that runs after `work` (`retry_delay`) has the same time once more, and is given up uninterrupted.
A job that somebody has cancelled, or that the process will not wait for any longer, is told and interrupted at once.

How a job is interrupted, and how long it may look at `job.cancelled` before, its mode says (mode.py). This module names no mode.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from fastq.events import emit
from fastq.jobs import outcome
from fastq.jobs.job import STOPPING, Job, JobCancelled, JobTimeout
from fastq.service import Service
from fastq.work.execute.mode import Phase, Teller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fastq.work.execute.mode import Mode, Slot, Unit
    from fastq.work.shared.lane import Outbox

BEYOND_GRACE = 2.0
"""Seconds after the grace until the supervisor kills: some ticks, so that a process that can help itself does."""


class Watched:
    """One slot and its job, as they were seen last. The watchdog's own; `slot` and `mode` are shared with other threads."""

    def __init__(self, mode: Mode, slot: Slot) -> None:
        self.mode = mode
        self.slot = slot
        self.job: Unit | None = None
        self.phase = Phase.RESTING
        self.since = 0.0  # monotonic time at which the job was first seen in this phase
        self.overdue = False  # its timeout has come, and it was told
        self.interrupt_at: float | None = None  # monotonic time at which it is interrupted

    def see(self, now: float) -> Unit | None:
        """Look at the slot; begin anew unless its job is the one that we know, in the phase that we know. Return the job."""
        job, phase = self.slot.occupant()
        if self.job is not job or self.phase is not phase:
            self.job, self.phase, self.since, self.overdue, self.interrupt_at = job, phase, now, False, None
        return job


class Watchdog(Service):
    """Look after the slots of one process."""

    def __init__(self, modes: Sequence[Mode], outbox: Outbox, grace: float, holds: Callable[[], bool] = lambda: True) -> None:
        self.given_up = 0  # slots that are stuck: the process is to be recycled
        self.kill_after = 0.0  # monotonic time by which it must have ticked again, or be killed; 0: it does not matter
        self._modes = modes
        self._watched = [Watched(mode, slot) for mode in modes for slot in mode.slots]
        self._outbox = outbox
        self._grace = grace
        self._holds = holds  # whether the process may hold a job at all: a process that idles may have thousands of slots
        self._held = True  # it did at the last tick

    def start(self) -> None:
        """Have jobs see that the process is not told to stop."""
        STOPPING.clear()

    def stop(self) -> float:
        """Have jobs see that the process was told to stop."""
        STOPPING.set()
        return 0.0

    @property
    def stuck(self) -> int:
        """Count the slots that were given up."""
        return self.given_up

    def tick(self) -> None:
        """End overdue jobs."""
        now = time.monotonic()
        ends = []
        held, self._held = self._held, self._holds()
        for watched in self._watched if held or self._held else ():  # once more after the last job: nothing is to be kept of it
            job = watched.see(now)
            if job is not None:
                ends.append(self._look(watched, job, now))
        for mode in self._modes:
            if mode.asked_at is not None:
                self._await_answer(mode, now)
        self.kill_after = min((end for end in ends if end is not None), default=0.0)

    def _look(self, watched: Watched, job: Unit, now: float) -> float | None:
        """Act on a slot's job if it is time; return the time by which we must have looked again, None if it does not matter."""
        slot, timeout = watched.slot, job.batch.timeout
        if timeout is not None and now >= watched.since + timeout and not watched.overdue:
            job.cancelled = True
            watched.since, watched.overdue = now - timeout, True  # the grace begins when it was told
            watched.interrupt_at = now + watched.mode.polite_share * self._grace
        if watched.interrupt_at is not None and now >= watched.interrupt_at and watched.phase is Phase.EXECUTING:
            watched.interrupt_at = None
            slot.interrupt(job, JobTimeout, f"took longer than {timeout:g} s")
        if timeout is None:
            return None
        limit = watched.since + timeout + self._grace
        if watched.overdue and now >= limit and slot.teller is Teller.SLOT:
            self._give_up(watched, job, timeout)
        return limit + BEYOND_GRACE if slot.teller is Teller.SLOT else None

    def _await_answer(self, mode: Mode, now: float) -> None:
        """Give a mode up if it does not answer: a job that was given up may hold up others, whose timeouts are far."""
        if mode.answered:
            mode.asked_at = None
        elif mode.asked_at is not None and now >= mode.asked_at + self._grace:
            mode.asked_at = None
            self._hand_back_all(mode)

    def _hand_back_all(self, mode: Mode) -> None:
        """Hand back the jobs that a mode executes, uncharged: they may never go on, and a successor does them."""
        mode.given_up = True
        count = 0
        for slot in mode.bound:
            unit, phase = slot.occupant()
            if unit is not None and slot.teller is Teller.SLOT and slot.contest(unit, phase):
                jobs = slot.jobs_of(unit)
                self._tell_for(slot, [(job, outcome.Release()) for job in jobs])
                slot.interrupt(unit, JobCancelled, mode.blocked)  # should the mode run on after all
                count += len(jobs)
        emit(f"{mode.name}.given_up", level=logging.WARNING, handed_back=count, grace=self._grace)

    def executing(self) -> int:
        """Count the slots with jobs that are executing now and not given up."""
        return sum(bool(watched.slot.held()) for watched in self._watched) if self._holds() else 0

    def cancel(self, ids: set[int]) -> None:
        """Tell these jobs, if they execute here or wait here for others, that they were cancelled."""
        for mode in self._modes:
            mode.cancel(ids)
        for watched in self._watched:
            watched.slot.cancel(ids)

    def cancel_all(self) -> None:
        """Tell every executing job that the process will not wait for it any longer."""
        for watched in self._watched:
            slot, job = watched.slot, watched.slot.current
            if job is not None and slot.teller is Teller.SLOT:
                watched.interrupt_at = None
                slot.leaving = True  # first: an end that the job comes to on this account is then a release
                job.cancelled = True
                slot.interrupt(job, JobCancelled, "the process stops")

    def held(self) -> list[Job[Any]]:
        """Return the jobs that are still executing and have not been given up."""
        return [job for watched in self._watched for job in watched.slot.held()]

    def _give_up(self, watched: Watched, unit: Unit, timeout: float) -> None:
        if not watched.slot.contest(unit, watched.phase):
            return
        told = f"and did not end within {self._grace:g} s of being told to"
        if watched.phase is Phase.SETTLING:
            told = "to tell its outcome (retry_delay, an error's text, a subscriber), and is not interrupted there"
        ends: list[tuple[Job[Any], object]] = []
        for job in watched.slot.jobs_of(unit):
            failed = outcome.failed(job, f"JobTimeout: took longer than {timeout:g} s {told}")
            fields = {"id": job.id, "kind": job.kind, **outcome.attempt_of(job, failed), "timeout": timeout, "grace": self._grace}
            emit("job.given_up", level=logging.WARNING, **fields)
            ends.append((job, failed))
        self._tell_for(watched.slot, ends)
        self.given_up += 1
        mode = watched.mode
        if mode.asked_at is None:
            mode.asked_at = time.monotonic()
            mode.ask()

    def _tell_for(self, slot: Slot, ends: Iterable[tuple[Job[Any], object]]) -> None:
        """Tell the completer of the ends of contested jobs: by twins, as the jobs themselves may still be written to."""
        twins = []
        for job, result in ends:
            twin = Job(job.id, job.attempt, job.args, job.row, job.batch)
            twin.outcome = job.outcome if isinstance(job.outcome, outcome.Standing) else result
            twins.append(twin)
        slot.tell_by(Teller.WATCHDOG)
        self._outbox.jobs.extend(twins)
        self._outbox.wake()
