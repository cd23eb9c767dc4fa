"""Tell where the jobs of this process are: their stacks, and those of all its threads, when an operator asks.

A part of each worker process, which does nothing until somebody asks. A request is a row of the table `stack`, with the number
of this process (admin/running/whereabouts.py). A hint goes to the supervisor, and the main thread hands the supervisor's word on
by `ask`. The first one starts this part's thread, which has a session of its own: it reads the requests, takes the stacks, writes
them into the rows, and closes the session after KEPT seconds without another request.

Invariants:
- No thread waits for it: no job is stopped or slowed, no lock is taken but the interpreter's, for some microseconds a frame.
- No value is told, but ids, kinds, names of functions and lines of source text (execute/frames.py). An answer has LONGEST
  characters at most.
- A request is answered once, or not at all: the program that has asked waits for some seconds, and may ask again.

It deliberately cannot tell anything while code in C holds the interpreter; SIGQUIT can, into the output of `fastq run` (seat.py).
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

from fastq import texts
from fastq.backoff import Backoff
from fastq.errors import FastqError
from fastq.events import emit
from fastq.postgres import db
from fastq.postgres.kept import FIRST_PAUSE, LONGEST_PAUSE, Rebuilt
from fastq.service import Service
from fastq.work.execute import frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fastq.postgres.db import Connection
    from fastq.work.execute.mode import Mode, Slot
    from fastq.work.shared.held import Held

KEPT = 10.0
"""Seconds that the session is kept after an answer: after one look the next comes soon. A guess."""

MOST = 16
"""Requests that one look reads: more than people look at one process at once."""

LONGEST = 65_536
"""Characters of an answer: that of a process with sixteen executors at work has some 20,000."""

TRIES = 2
"""Times that an answer is tried: its session may have been closed by the server while it rested."""


class Stacks(Service):
    """The answers of one worker process. The main thread makes it, and calls all methods but those that say otherwise."""

    def __init__(self, number: int, modes: Sequence[Mode], held: Held, connect: Callable[[], Connection]) -> None:
        self._number = number
        self._modes = modes
        self._held = held
        self._session = Rebuilt("stacks", connect, Backoff(FIRST_PAUSE, LONGEST_PAUSE))
        self._asked = threading.Event()  # the main thread sets it, the part's own clears it
        self._started = self._ending = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Answer from now on; the thread starts with the first request."""
        self._started = True
        self._begin()

    def ask(self) -> None:
        """Look for requests."""
        self._asked.set()
        self._begin()

    def _begin(self) -> None:
        if self._thread is None and self._started and self._asked.is_set() and not self._ending:
            self._thread = threading.Thread(target=self._run, name="fastq stacks", daemon=True)
            self._thread.start()

    @property
    def ended(self) -> bool:
        """Tell whether the thread does not run."""
        return self._thread is None or not self._thread.is_alive()

    def finish(self, by: float) -> float:
        """End; a program that waits for an answer sees that the process is gone."""
        self._ending = True
        self._asked.set()
        return 0.0 if self.ended else max(0.0, by - time.monotonic())

    def join(self, seconds: float) -> None:
        """Wait for the thread's end, so long at most."""
        if self._thread is not None:
            self._thread.join(seconds)

    def watched(self) -> Iterable[Connection]:
        """Give the session to the watchdog."""
        return self._session.watched()

    def _run(self) -> None:
        try:
            while not self._ending:
                if self._asked.wait(KEPT if self._session.connection is not None else None):
                    self._asked.clear()
                    self._answer_all()
                else:
                    self._session.drop()
        finally:
            self._session.drop()

    def _answer_all(self) -> None:
        """Answer the requests that there are."""
        for _ in range(TRIES):
            if self._ending:
                return
            try:
                connection = self._session.open()
                for request, job in connection.run("stack_wanted", self._number, MOST):
                    text = self._told(job)
                    connection.run("stack_answer", request, text)
                    emit("stack.told", process=self._number, job=job, characters=len(text))
            except (db.Error, FastqError) as error:
                self._session.failed(db.first_line(error))
            else:
                self._session.pauses.reset()
                return

    def _told(self, job: int | None) -> str:
        """Write the stack of a job, or those of the whole process."""
        try:
            text = self._of_process() if job is None else self._of_job(job)
        except Exception as error:  # noqa: BLE001 - a look at things that move must not end the process
            text = f"its stack could not be written: {texts.told(error)}\n"
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n... {len(text) - LONGEST:,} characters left out ...\n"

    def _of_job(self, job: int) -> str:
        for slot in self._slots():
            found = next((one for one in slot.held() if one.id == job), None)
            if found is None:
                continue
            text = _about(found, slot, frames.of_threads())
            if any(one is found for one in slot.held()):  # else that was the stack of another one, or of none
                return text
        if any(one.id == job for one in self._held.jobs()):
            return "it is in this process and in no executor: it has not begun, or it has just ended\n"
        return "it is not in this process any more: it has just ended\n"

    def _of_process(self) -> str:
        threads = frames.of_threads()
        at_work = [(slot, jobs) for slot in self._slots() if (jobs := slot.held())]
        told = {slot.thread_id for slot in self._slots()} | {threading.get_ident()}
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        head = f"pid {os.getpid()}: {len(at_work)} of {sum(1 for _ in self._slots())} executors at work, {len(threads)} threads\n"
        parts = [_about(jobs[0], slot, threads, len(jobs)) for slot, jobs in at_work]
        for ident, frame in threads.items():
            if ident not in told:
                name = names.get(ident, f"thread {ident}, which Python's threading does not know")
                parts.append(f"{name}\n{frames.of_thread(frame)}")
        return "\n".join([head, *parts])

    def _slots(self) -> Iterable[Slot]:
        return (slot for mode in self._modes for slot in mode.slots)


def _about(job: Any, slot: Slot, threads: Any, count: int = 1) -> str:
    """Write the stack of a slot that executes a job, or several together."""
    others = f" and {count - 1:,} more in one call" if count > 1 else ""
    text = slot.stack(threads) or "  no Python code runs there now\n"
    return f"job {job.id} {job.kind}, attempt {job.attempt}{others}, in {slot.lane.mode} of queue {job.queue}\n{text}"
