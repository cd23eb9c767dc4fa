"""Execute one job in a process of its own, from the request to its fate.

Runs in a child of the nursery, which the nursery has forked for this job (nursery.py); in its main thread, which alone writes
the attributes of `Attempt`, but for `_unsent` and `_in_message`: any thread that sends writes these under the lock. The main
thread makes the `_Batch`. Nobody writes it afterwards but the code of the job: `max_attempts` (`allow`) and `steps` are written
by its thread, or by one that it has started; a rule around the attempt may shorten `timeout`, in the main thread. The worker is
the one that the nursery has inherited, with its hooks. The attempt is settled here, so the code of the user's that has a say in
the outcome (`retry_delay`, the text of an exception) is as isolated as `work` is; the worker process gets the fate, and no
object of the user's.

A word of the worker process comes through the socket, together with SIGTERM, so that it ends a sleep: the handler reads it, and
raises its exception where `work` is. A coroutine is cancelled instead, at its next await.

Invariant: when `run` ends so does the process, whatever else it was about to do. The process deliberately has no connection
from its parents: a job that asks for the database opens one here.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import sys
import threading
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from setproctitle import setproctitle

from fastq import events
from fastq.hooks import leaving
from fastq.isolate import isolation_of
from fastq.joblogs import keeping, streams
from fastq.jobs.job import KEPT, STOPPING, Job, JobCancelled, JobInterrupt, JobTimeout
from fastq.jobs.outcome import fate_of
from fastq.leases.lease import boottime
from fastq.results import progress, transacting
from fastq.texts import clean
from fastq.work.execute.settle import settle
from fastq.work.isolated import bounds
from fastq.work.isolated.relay import Relay
from fastq.work.isolated.wire import (
    Allowed,
    Noted,
    Order,
    Pieces,
    Request,
    Said,
    Transacts,
    order_of,
    packed,
    request_of,
    settled,
)
from fastq.work.shared import forks, stdout
from fastq.work.shared.called import call_of
from fastq.work.shared.rules import around_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from fastq.events import Event
    from fastq.jobs.worker import Worker
    from fastq.results.progress import Note
    from fastq.work.isolated.wire import Message

PIECE = 65_536
"""Bytes that are read at once: a guess at the size of most requests."""

MEBIBYTE = 2**20


def run(workers: Mapping[str, Worker[Any]], line: socket.socket, trace: int) -> NoReturn:
    """Execute the job that comes through this socket, and end the process."""
    pieces = Pieces()
    text = None
    while text is None:
        piece = line.recv(PIECE)
        if not piece:
            os._exit(0)  # the worker process has ended before it could say which job
        text = next(pieces.add(piece), None)
    request = request_of(text)
    Attempt(request, workers[request.kind], line, pieces, trace).run()


class _Batch:
    """The batch of the one job that there is, as the job sees it (`JobBatch` in jobs/job.py)."""

    ends = KEPT
    steps: dict[int, Any] | None = None
    times: dict[int, Any] | None = None

    def __init__(self, request: Request, worker: Worker[Any], send: Callable[[Message], None]) -> None:
        self.kind, self.queue, self.claim = request.kind, request.queue, request.claim
        self.timeout = request.timeout
        self.priorities, self.max_attempts = (request.priority,), (request.max_attempts,)
        self.worker = worker
        self.work = call_of(worker)
        self.around: Any = around_of(request.meta, request.id)[0]
        self._request = request
        self._send = send
        self._since = boottime()

    def now(self) -> datetime:
        """Say what time it is by the database's clock."""
        assert self._request.now is not None  # there is a rule around the job
        return self._request.now + timedelta(seconds=boottime() - self._since)

    def created_at(self, row: int, /) -> datetime:  # noqa: ARG002 - JobBatch's signature
        """Say when the job was enqueued."""
        return self._request.created_at

    def tags(self, row: int, /) -> tuple[str, ...]:  # noqa: ARG002 - the same
        """Give the job's tags."""
        return self._request.tags

    def meta(self, row: int, /) -> Mapping[str, Any]:  # noqa: ARG002 - the same
        """Give the values that features keep with the job."""
        return self._request.meta

    def allow(self, row: int, attempts: int, /) -> None:  # noqa: ARG002 - the same
        """Take the number of attempts that the job's row allows by now, and tell the worker process: we may die soon."""
        self.max_attempts = (attempts,)
        self._send(Allowed(attempts))


class Attempt:
    """One attempt, which is all that this process is for."""

    def __init__(self, request: Request, worker: Worker[Any], line: socket.socket, pieces: Pieces, trace: int) -> None:
        self._request = request
        self._isolation = isolation_of(worker.isolate)
        self._line = line
        self._pieces = pieces
        self._trace = trace
        self._job: Job[Any] = Job(
            request.id, request.attempt, worker.kind.codec.decode(bytes(request.args)), 0, _Batch(request, worker, self._send)
        )
        self._running = False  # `work` runs: an exception of ours may be raised
        self._leaving = False
        self._task: asyncio.Task[Any] | None = None  # of `async def work`
        self._told: JobInterrupt | None = None  # the exception for that task
        self._sending = False  # this thread sends, and is not interrupted there: half a message would spoil the next
        self._lock = threading.RLock()  # held by a thread of the job's that sends
        self._in_message = False  # that thread is in the middle of one; under the lock, like the next
        self._unsent: list[bytes] = []  # messages that the same thread came to meanwhile, by a finalizer of the user's

    def run(self) -> NoReturn:
        """Execute the job, tell of its end, end."""
        request = self._request
        setproctitle(f"fastq: job {request.id} {request.kind}")
        self._set_up()
        value, error = self._attempt()
        if forks.forked:
            forks.leave(error)
        bounds.lift_limit(self._isolation)
        if isinstance(error, MemoryError):
            self._name_limit(error)
        outcome = settle(self._job, value, error, leaving=self._leaving)
        self._send(settled(fate_of(outcome)))
        leaving.send_off()
        for flush in (stdout.finish, sys.stderr.flush):
            with suppress(OSError, ValueError):
                flush()
        os._exit(0)

    def _set_up(self) -> None:
        """Make the process the job's own."""
        random.seed()
        events.redirect(self._say)
        progress.use(self._note)
        transacting.announce(lambda: self._send(Transacts()))
        if self._request.log_level is not None:
            keeping.use(lambda _: Relay(self._send))
            streams.listen(self._request.log_level)
        if self._request.stopping:
            STOPPING.set()
        forks.guard(self._hear)
        bounds.trace_when_told(self._trace)
        bounds.set_bounds(self._isolation, self._trace)

    def _attempt(self) -> tuple[object, BaseException | None]:
        """Call `work`; return its value or its exception. A word that comes behind its end is not heard any more."""
        value: object = None
        error: BaseException | None = None
        try:
            try:
                self._running = True
                self._hear()  # what has come before there was a handler
                value = self._work()
            except BaseException as raised:  # noqa: BLE001 - nothing that a job raises may keep us from telling of it
                error = raised
            self._running = False
        except JobInterrupt as raised:  # between the two lines above
            self._running = False
            error = raised if error is None else error
        return value, error

    def _work(self) -> object:
        job: Any = self._job
        if not job.batch.worker.is_async:
            return job.batch.work(job)
        return asyncio.run(self._await_work(job))

    async def _await_work(self, job: Any) -> object:
        self._task = asyncio.current_task()
        if self._told is not None:
            raise self._told
        try:
            return await job.batch.work(job)
        except asyncio.CancelledError:
            if self._told is None:
                raise  # the user's own
            raise self._told from None
        finally:
            self._task = None

    def _hear(self) -> None:
        """Obey the words that have come. Called by the handler of the signal, between any two instructions of the job."""
        if self._sending:
            return  # `_send` calls us
        self._obey_all(b"")  # one may have come with the request, or behind a word that raised an exception
        with suppress(BlockingIOError):
            while piece := self._line.recv(PIECE, socket.MSG_DONTWAIT):
                self._obey_all(piece)

    def _obey_all(self, piece: bytes) -> None:
        for text in self._pieces.add(piece):
            self._obey(order_of(text))

    def _obey(self, order: Order) -> None:
        if order.stopping:
            STOPPING.set()
            return
        self._job.cancelled = True
        self._leaving = self._leaving or order.leaving
        if not self._running:
            return
        reason = (JobTimeout if order.late else JobCancelled)(order.text)
        if not self._job.batch.worker.is_async:
            raise reason
        self._told = self._told or reason
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel, reason)

    def _name_limit(self, error: MemoryError) -> None:
        """Say which limit it was."""
        limit = self._isolation.memory if self._isolation is not None else None
        if limit is not None:
            error.args = (
                f"the job went beyond its limit of memory, {limit / MEBIBYTE:g} MiB (isolate = Isolate(memory={limit}))",
            )

    def _send(self, message: Message) -> None:
        if forks.forked:
            return  # this is a process that the job has forked, for which nobody listens
        ours = threading.current_thread() is threading.main_thread()
        within = ours and self._sending  # a finalizer of the user's has run in the middle of this function
        if ours:
            self._sending = True
        try:
            with self._lock:
                self._unsent.append(packed(message))
                if not self._in_message:
                    self._in_message = True
                    while self._unsent:
                        self._line.sendall(self._unsent.pop(0))
                    self._in_message = False
        finally:
            if ours and not within:
                self._sending = False
        if ours and self._running and not within:
            self._hear()

    def _say(self, event: Event) -> None:
        fields = {name: clean(value) if isinstance(value, str) else value for name, value in event.fields.items()}
        self._send(Said(event.name, event.level, fields))

    def _note(self, job_id: int, note: Note) -> None:  # noqa: ARG002 - Take's signature
        self._send(Noted(note.fraction, note.text))
