"""Execute the jobs of workers that say `isolate`: each in a process of its own, forked for it and ended for certain.

The main thread of a worker process makes the mode, which opens the nursery (nursery.py) before any other thread runs. From there
on a slot is an executor as in threads.py, with one difference: its worker's function (`Warden.attend`) has a process do the work
and waits for its end. So inbox, board, watchdog and completer see an executor, and the rules around an attempt
(shared/rules.py) are put around `attend`.

How a job is ended, all in the main thread but for the wait:
    timeout           JobTimeout is raised in its process
    + grace           the watchdog wants to give the job up: its process is killed instead, so no thread is ever stuck
    cancelled         JobCancelled is raised in its process, which is killed PATIENCE seconds later
    the process stops the same, after STOP_PATIENCE: before the jobs are handed back

A process that ends without a fate has died: that attempt fails, with the signal as the cause of its death and the trace of where
it was. No other job is touched. When the nursery dies, so do the processes of all its jobs; those attempts fail, and the worker
process recycles, since it has threads and cannot fork another one.

Invariant: `attend` returns when the process of its job is gone, and not before. It deliberately reads nothing of a job's process
but messages (wire.py): no object of the user's comes back.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from fastq.events import Seldom, emit
from fastq.hooks.timing import facts_of
from fastq.joblogs import keeping
from fastq.jobs import outcome
from fastq.jobs.job import JobCancelled, JobTimeout
from fastq.jobs.outcome import COMPLETED, Fate, Verdict
from fastq.results import progress
from fastq.work.execute.threads import Executor, Threads
from fastq.work.isolated import child
from fastq.work.isolated.deaths import Told, crashed, killed, report, unforked
from fastq.work.isolated.nursery import Nursery, send_with
from fastq.work.isolated.traces import Trace
from fastq.work.isolated.wire import (
    DEATH,
    FORK,
    KILL,
    LOOK,
    ORDER,
    TELL,
    Allowed,
    Death,
    Logged,
    Noted,
    Order,
    Pieces,
    Said,
    Settled,
    asked,
    message_of,
    packed,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.joblogs.keeping import Telling
    from fastq.jobs.job import Job, JobInterrupt
    from fastq.jobs.worker import Worker
    from fastq.work.execute.mode import Phase
    from fastq.work.isolated.wire import Message

PATIENCE = 5.0
"""Seconds that a cancelled job has before its process is killed: as many as one that is late has by default."""

STOP_PATIENCE = 0.5
"""The same where the worker process does not wait for it any longer: half of what the process waits then (work/process.py)."""

UNHEARD = 5.0
"""Seconds after which a slot of which no process dies, though it is killed, is given up as a thread is: somebody has stopped the
nursery, say. It answers within milliseconds, so this is far beyond. A guess."""

PIECE = 262_144
"""Bytes that are read at once: the largest output."""


class Warden(Executor):
    """An executor that has a process do the work of each of its jobs.

    Its own thread runs `attend` and writes all attributes but those of the order to end, which are the main thread's. The lock is
    held for some instructions: it keeps the main thread from a socket that is being closed.
    """

    def __init__(self, mode: Apart, lane: Any, number: int, outbox: Any) -> None:
        super().__init__(lane, number, outbox)
        self._nursery = mode.nursery
        self._seldom = mode.seldom
        self._line = mode.nursery.line()
        self._number = 0  # of the attempt; each has its own
        self._job: Job[Any] | None = None  # whose process runs; changed under the lock, as the socket is
        self._socket: socket.socket | None = None  # once the request is sent
        self._unsent: list[Order] = []  # before that; under the lock
        self._lock = threading.Lock()
        self._trace = Trace()
        self._fate: Fate | None = None
        self._transacts = False
        self._transcript: Telling | None = None  # from the first word of the job on
        self._late = False  # why it is to end, by the main thread, like the next three
        self._why = ""
        self._kill_at: float | None = None  # monotonic time
        self._killed_at: float | None = None  # the same

    def _run(self) -> None:
        _here.warden = self
        super()._run()

    def interrupt(self, job: Job[Any], reason: type[JobInterrupt], text: str) -> None:
        """Have an exception raised in the job's process; the watchdog's."""
        with self._lock:
            if self.current is not job:
                return
            self._why, self._late = text, issubclass(reason, JobTimeout)
            if not self._late:
                self._kill_at = time.monotonic() + (STOP_PATIENCE if self.leaving else PATIENCE)
            self._tell(Order(late=self._late, text=text, leaving=self.leaving))

    def stack(self, threads: object) -> str:  # noqa: ARG002 - where this thread waits helps nobody
        """Have the job's process write down where it is."""
        return self._trace.looked(self._look)

    def _look(self) -> None:
        with self._lock:
            self._order(LOOK)

    def tell_stopping(self) -> None:
        """Let the job see that its worker process stops; the main thread's."""
        with self._lock:
            self._tell(Order(stopping=True))

    def contest(self, job: Any, phase: Phase) -> bool:
        """Kill the job's process instead of giving the job up; `attend` tells of its end. Give it up if no end comes."""
        unheard = self._killed_at is not None and time.monotonic() - self._killed_at > UNHEARD
        if self.current is not job or unheard:
            return super().contest(job, phase)
        self.kill(job)
        if self._killed_at is None:  # there is no process: what hangs is the thread, which is given up as any other
            self._killed_at = time.monotonic()
        return False

    def kill_in_time(self, now: float) -> None:
        """Kill the process of a job that was cancelled, and has not ended since; the main thread's."""
        job = self.current
        if job is not None and self._kill_at is not None and now >= self._kill_at:
            self.kill(job)

    def kill(self, job: object) -> None:
        """Kill the process of this job; the main thread's."""
        with self._lock:
            if self._job is job and self._killed_at is None:
                self._killed_at = time.monotonic()
                self._order(KILL)

    def _tell(self, order: Order) -> None:
        """Send a word to the job's process, under the lock; it never waits, so a process that is deaf is killed later."""
        if self._job is not None and self._socket is None:
            self._unsent.append(order)
        elif self._socket is not None:
            with suppress(OSError):
                self._socket.send(packed(order), socket.MSG_DONTWAIT)
                self._order(TELL)

    def _order(self, what: int) -> None:
        with suppress(OSError):  # the nursery is gone, and with it the process
            self._line.send(ORDER.pack(what, self._number))

    def attend(self, job: Job[Any]) -> Verdict | None:
        """Have a process do the work of a job, and wait for its end; the `work` of an isolated worker, as this process has it."""
        if self._nursery.gone:
            return Told(outcome.Release().fate)  # the worker process recycles
        death, sent = None, False
        ours, theirs = socket.socketpair()
        self._fate, self._transacts, self._transcript = None, False, None
        self._trace.empty()
        with self._lock:
            self._number += 1
            self._late, self._why, self._kill_at, self._killed_at = False, "", None, None
            self._job, self._unsent = job, []
            if job.cancelled:  # since the slot has it, and before we could be told
                self._why, self._kill_at = "cancelled", time.monotonic() + PATIENCE
                self._unsent.append(Order(text=self._why))
        try:
            request = packed(asked(job))
            with theirs:
                send_with(self._line, ORDER.pack(FORK, self._number), theirs.fileno(), self._trace.fileno())
            sent = True
            death = self._follow(ours, request)
        except OSError:
            pass  # the nursery has died
        except BaseException:
            self._outlive(sent=sent)
            raise
        finally:
            with self._lock:
                self._job = self._socket = None
            ours.close()
            self._end_transcript()
        if death is None:
            self._nursery.lose()
            if not sent or self._nursery.closed:
                return Told(outcome.Release().fate)
        return self._decide(job, death)

    def _outlive(self, *, sent: bool) -> None:
        """Kill the process of the attempt, and wait for its end: it must not go on beside the next attempt."""
        with suppress(OSError):
            if sent:
                self._order(KILL)
            while sent and (record := self._line.recv(DEATH.size)):
                sent = Death(*DEATH.unpack(record)).number != self._number

    def _follow(self, ours: socket.socket, request: bytes) -> Death | None:
        """Send the request, take what the process says, return its death; None if the nursery has died instead."""
        with suppress(OSError):  # it is dead already
            ours.sendall(request)
        with self._lock:
            self._socket = ours
            for order in self._unsent:
                self._tell(order)
        pieces, poller = Pieces(), select.poll()
        poller.register(ours, select.POLLIN)
        poller.register(self._line, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poller.poll()}
            if ours.fileno() in ready and not self._take(ours, pieces):
                poller.unregister(ours)
            if self._line.fileno() in ready:
                record = self._line.recv(DEATH.size)
                if not record:
                    return None
                death = Death(*DEATH.unpack(record))
                if death.number == self._number:
                    while self._take(ours, pieces):
                        pass
                    return death

    def _take(self, ours: socket.socket, pieces: Pieces) -> bool:
        """Take what is there; False if there is nothing, or nothing will come any more."""
        try:
            piece = ours.recv(PIECE, socket.MSG_DONTWAIT)
        except OSError:
            return False
        for text in pieces.add(piece):
            self._hear(message_of(text))
        return bool(piece)

    def _hear(self, message: Message) -> None:
        job = self._job
        assert job is not None  # set before the process is asked for
        match message:
            case Settled():
                self._fate = message.whole()
            case Noted(fraction, text):
                progress.note(job.id, job.attempt, fraction, text)
            case Said(name, level, fields):
                emit(name, level=level, **{**facts_of(job, name), **fields})  # it knows no subscription
            case Logged():
                self._keep(job, message)
            case Allowed(attempts):
                job.batch.allow(job.row, attempts)
            case _:
                self._transacts = True

    def _keep(self, job: Job[Any], logged: Logged) -> None:
        """Keep a word of the job in its log, as if it had been told here: so it is there though the process dies."""
        self._transcript = told = self._transcript or keeping.begun(job)
        if told is not None and logged.level:
            told.log(logged.at, logged.level, logged.source, logged.text)
        elif told is not None:
            told.print(logged.source, logged.text)

    def _end_transcript(self) -> None:
        if self._transcript is not None:
            self._transcript.end()

    def _decide(self, job: Job[Any], death: Death | None) -> Verdict | None:
        """Return what the process has said, or the failure that its death is; raise JobCancelled if that is why we killed it."""
        if self._fate is not None:
            return None if self._fate == COMPLETED else Told(self._fate)
        if death is not None and death.failure:
            return unforked(job, death, self._seldom)
        trace = self._trace.last()
        if self._killed_at and not self._late:
            report("job.killed", job, death, reason=self._why, traceback=trace)
            raise JobCancelled(f"{self._why}; its process did not end, and was killed")
        fate = killed(job, death, self._why, trace) if self._killed_at else crashed(job, death, trace)
        return Told(replace(fate, unsure=True) if self._transacts else fate)


class Apart(Threads):
    """The processes of isolated jobs, and the threads that attend them. The main thread makes it and makes all calls of it."""

    name = "isolated"
    polite_share = 0.0  # of the grace: a job is told that it is late by the exception itself

    nursery: Nursery

    def __init__(self, outbox: Any, number: int) -> None:
        super().__init__(outbox, number)
        self.seldom = Seldom()  # several threads may use it: at worst there are two equal events
        self._wardens: list[Warden] = []

    def prepare(self, workers: Sequence[Worker[Any]]) -> None:
        """Open the nursery, which has the workers as they are; here their work is to attend.

        The process has not mapped the board yet, so no job can write to it, whatever its C code does.
        """
        inside = {name: worker for worker in workers for name in (worker.kind.name, *worker.kind.aliases)}
        for worker in workers:
            _ = worker.kind.codec  # made at its first use: each process would make its own
        self.nursery = Nursery(lambda line, trace: child.run(inside, line, trace))
        for worker in workers:
            worker.called, worker.is_async = attend, False

    def _executor(self, lane: Any, number: int) -> Executor:
        self._wardens.append(warden := Warden(self, lane, number, self._outbox))
        return warden

    def tick(self) -> None:
        """Kill the processes of jobs that were cancelled and do not end; see whether the nursery lives."""
        if not self.nursery.gone and self.nursery.ended():
            self.nursery.lose()
        now = time.monotonic()
        for warden in self._wardens:
            warden.kill_in_time(now)

    def stop(self) -> float:
        """Let the jobs see that the process stops, and each executor end when its job is done."""
        for warden in self._wardens:
            warden.tell_stopping()
        return super().stop()

    def finish(self, by: float) -> float:
        """End the nursery, which kills the processes that still run. Nothing waits for it: it does not outlive this process."""
        self.nursery.close()
        return super().finish(by)

    @property
    def stuck(self) -> int:
        """Count the nursery, if it has died: this process cannot fork another one."""
        return int(self.nursery.gone and not self.nursery.closed)


_here = threading.local()
"""`warden`: the one whose thread this is."""


def attend(job: Job[Any]) -> Verdict | None:
    """Have the warden of this thread attend a job."""
    warden: Warden = _here.warden
    return warden.attend(job)
