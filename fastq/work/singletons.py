"""Run the singletons of an application: each in a thread of its own, while this process holds its lease.

The main thread of each worker process makes a `Singletons`, with a `Runner` for each singleton, and makes all calls of it. It has
threads and connections only in the process in the supervisor's first place, and only if the registry has singletons: a thread for
each singleton, and one elector, which stands for all leases 'singleton:NAME' in a thread and on a connection of its own. The
supervisor's listener asks `is_singletons`, which is pure.

    begins      the elector acquired the lease: the thread calls the function, again AGAIN s after it has returned
    fails       the function raised: the lease is given up, so that another process may try, and we rest, longer each time
    is lost     the function is told to return; after FASTQ_TIMEOUT_GRACE an exception is thrown into it (a coroutine is
                cancelled); after that time once more the process is recycled: Python cannot end a thread
    is to end   (the process stops, or somebody asked for the lease) the function is told to return, has FASTQ_SHUTDOWN_TIMEOUT
                to do so, and then the lease is released

Invariants:
- A function never runs twice at once in this process: a new term waits for the end of the old one's run.
- At an orderly end a lease is released only after its function has returned. If that never returns, the lease runs out by itself.
- A process with a function that cannot be ended holds no later term of that singleton: nobody would run in it.

It deliberately looks at no clock on its own: an overdue function is found by `tick`, which the main thread calls.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import threading
from typing import TYPE_CHECKING, Any

from fastq import texts
from fastq.backoff import Backoff
from fastq.errors import LeaseLost
from fastq.events import emit
from fastq.jobs.declaration import SINGLETON_NAME
from fastq.leases.elector import ASKED, REST, Candidacy, Elector
from fastq.leases.lease import boottime
from fastq.leases.singleton import Notice, Session, Singleton, SingletonStopped
from fastq.service import Service
from fastq.work.shared import forks
from fastq.work.shared.called import unrun
from fastq.work.shared.interrupt import Interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fastq.config import Config
    from fastq.leases.elector import Trust
    from fastq.leases.lease import Fence
    from fastq.postgres.db import Connection

AGAIN = 1.0
"""Seconds until a function that has returned is called again: one that does a batch and returns polls at this pace."""

FIRST_REST, LONGEST_REST = 1.0, 30.0
"""Seconds that a lease is left to others after the function raised, doubling; a run of the longest begins anew with the first."""

RELEASE_WAIT = 2.0
"""Seconds that the last releases get at the end of the process: one attempt and its repetition; then the leases run out."""

WITHDRAWN = 86_400.0
"""Seconds that a lease is left to others by a process that cannot run its function any more: longer than its recycling takes."""

IN_ORDER = ("stop", "resign")
"""Reasons of an end that nothing hurries: the lease stays ours until the function has returned."""

LEASE = "singleton:"
NAMED = re.compile(LEASE + SINGLETON_NAME.pattern)


def is_singletons(lease: str) -> bool:
    """Tell whether a lease that a hint names is a singleton's; anybody may have sent the hint, so the name is checked."""
    return NAMED.fullmatch(lease) is not None


class Held:
    """The lease of a singleton, held by this process for one term. Made by the elector's thread, for the runner's."""

    def __init__(self, handle: Singleton, notice: Notice) -> None:
        self.handle = handle
        self.notice = notice
        self.thrown_at: float | None = None  # boottime; written by the main thread


class Runner:
    """One singleton.

    `begin`, `end` and `leave` belong to the elector's thread, `tick` and `stop` to the main one, `_live` and `_serve` to its own.
    """

    def __init__(self, name: str, function: Callable[[Singleton], Any], config: Config, url: str) -> None:
        self.candidacy = Candidacy(LEASE + name, self.begin, self.end, leave=self.leave)
        self.session = Session(config, url)
        self.stuck = False  # written by the main thread, under the lock
        self.elector: Elector | None = None  # set before anything begins
        self._name = name
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function)
        self._config = config
        self._rests = Backoff(FIRST_REST, LONGEST_REST)  # after failures; the function's thread uses it
        self._stopping = False  # written by the main thread, under the lock
        self._held: Held | None = None  # a term until its run ends; set by the elector's thread, cleared by ours, under the lock
        self._lock = threading.Lock()
        self._wakeup = threading.Event()
        self._inside: Held | None = None  # written by our thread: the function runs, in that term; the other two read it
        self._interrupt = Interrupt(SingletonStopped, lambda: self._inside)
        self._task: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None  # ours writes it, the main thread reads it
        self.thread = threading.Thread(target=self._live, name=f"fastq singleton {name}", daemon=True)

    @property
    def working(self) -> bool:
        """Tell whether its run is still to be waited for."""
        return self._held is not None and not self.stuck

    def begin(self, fence: Fence, trust: Trust) -> None:
        """Run the function from now on."""
        notice = Notice(trust)
        with self._lock:
            refused = self._stopping or self.stuck
            self.candidacy.rest = WITHDRAWN if refused else REST
            if not refused:
                self._held = Held(Singleton(self._name, fence, notice, self.session), notice)
        if refused:
            self._resign(fence, "an earlier run of it goes on here" if self.stuck else "its process stops")
        self._wakeup.set()

    def leave(self, fence: Fence) -> None:
        """Tell the function of that term to return; then the lease is given up. Called again with each renewal until it is."""
        self.end(fence, "resign")

    def end(self, fence: Fence, reason: str) -> None:
        """Tell the function of that term to return."""
        for held in {self._held, self._inside}:
            if held is not None and held.handle.fence == fence:
                held.notice.give(reason)

    def stop(self) -> None:
        """Tell the function to return, and begin no more."""
        with self._lock:
            self._stopping = True
            held = self._held
        if held is not None:
            held.notice.give("stop")
        self._wakeup.set()

    def tick(self) -> None:
        """Interrupt a function that should have returned, or give it up."""
        held = self._inside
        if held is None or self.stuck or not held.notice.given():
            return
        now, in_order = boottime(), held.notice.reason in IN_ORDER and held.notice.trust.holds()
        limit = self._config.shutdown_timeout if in_order else self._config.timeout_grace
        if held.thrown_at is None:
            if now - held.notice.at >= limit:
                held.thrown_at = now
                emit("singleton.interrupted", level=logging.WARNING, singleton=self._name, term=held.handle.term, after=limit)
                self._throw(held)
        elif now - held.thrown_at >= self._config.timeout_grace:
            self._give_up(held)
            emit("singleton.stuck", level=logging.ERROR, singleton=self._name, term=held.handle.term)

    def _give_up(self, held: Held) -> None:
        """Leave the lease to other processes from now on, and a new term that has come while the old one's run went on."""
        with self._lock:
            self.stuck, self.candidacy.rest = True, WITHDRAWN
            newer = self._held
        if newer is not None and newer is not held:
            self._resign(newer.handle.fence, "an earlier run of it goes on here")

    def _throw(self, held: Held) -> None:
        """Raise an exception in the function if it still runs in that term."""
        if self._is_async:
            if self._task is not None:
                loop, task = self._task
                try:
                    loop.call_soon_threadsafe(task.cancel, "told to end")
                except RuntimeError:
                    return  # the loop has just been closed
            return
        self._interrupt.throw(self.thread.ident, held, SingletonStopped)

    def _live(self) -> None:
        while True:
            self._wakeup.wait()
            self._wakeup.clear()
            stopping = self._stopping  # read before `_held`: after it is set, no term begins
            while (held := self._held) is not None:
                self._serve(held)
                with self._lock:
                    if self._held is held:
                        self._held = None
                if held.notice.reason in IN_ORDER:
                    self._resign(held.handle.fence, "its process stops" if held.notice.reason == "stop" else ASKED)
            if stopping:
                return

    def _serve(self, held: Held) -> None:
        """Call the function until its term ends."""
        term = held.handle.term
        emit("singleton.started", singleton=self._name, term=term)
        while not held.notice.given():
            began = boottime()
            error = self._run(held)
            if error is not None:
                self._failed(held, error, boottime() - began)
            error = None  # its traceback keeps all that the function held alive
            held.notice.wait(AGAIN)
        self.session.close()
        emit("singleton.ended", singleton=self._name, term=term, reason=held.notice.reason)

    def _failed(self, held: Held, error: BaseException, lasted: float) -> None:
        """Tell of a function that raised, and give the lease up; an exception because it is to end is no failure."""
        told = held.notice.given()
        if told and isinstance(error, SingletonStopped | LeaseLost | asyncio.CancelledError):
            return
        trace = texts.trace_of(error)  # which no exception of the user's can break: this thread must go on
        fields = {"singleton": self._name, "term": held.handle.term, "error": texts.told(error), "traceback": trace}
        emit("singleton.failed", level=logging.ERROR, **fields)
        if not told:
            if lasted >= LONGEST_REST:
                self._rests.reset()
            self.candidacy.rest = self._rests.next()
            held.notice.give("failed")
            self._resign(held.handle.fence, "it raised")

    def _run(self, held: Held) -> BaseException | None:
        """Call the function once; return its exception. One that is thrown into it can land on either side of its end."""
        error: BaseException | None = None
        try:
            self._inside = held
            try:
                self._call(held.handle)
            except BaseException as raised:  # noqa: BLE001 - SystemExit in a function must not end the thread either
                error = raised
            self._inside = None
            self._interrupt.absorb(held)
        except SingletonStopped as raised:
            self._inside = None
            error = raised if error is None else error
            self._interrupt.absorb(held)
        if forks.forked:
            forks.leave(error)
        return error

    def _call(self, handle: Singleton) -> None:
        if not self._is_async:
            if unrun(self._function(handle)) is not None:
                raise TypeError(
                    "it returned a coroutine or generator, which nobody runs: the outermost decorator must give an async def "
                    "(or a function without yield)"
                )
            return
        try:
            asyncio.run(self._main(handle))
        finally:
            self._task = None

    async def _main(self, handle: Singleton) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._task = (asyncio.get_running_loop(), task)
        await self._function(handle)

    def _resign(self, fence: Fence, why: str) -> None:
        if self.elector is not None:
            self.elector.resign(fence, why)


class Singletons(Service):
    """All singletons of one process; with none of them every method does nothing."""

    def __init__(self, config: Config, url: str, functions: Mapping[str, Callable[[Singleton], Any]]) -> None:
        self._runners = [Runner(name, function, config, url) for name, function in functions.items()]
        self._stopping = False
        self._elector: Elector | None = None
        if self._runners:
            self._elector = Elector(config, url, [runner.candidacy for runner in self._runners], role="singleton")

    def start(self) -> None:
        """Stand for the leases."""
        if self._elector is None:
            return
        for runner in self._runners:
            runner.elector = self._elector
            runner.thread.start()
        self._elector.start()

    def hint(self, name: str) -> None:
        """Look at a lease now."""
        if self._elector is not None:
            self._elector.hint(name)

    def tick(self) -> None:
        """Look for functions that should have returned."""
        for runner in self._runners:
            runner.tick()
        if self._stopping and self._elector is not None and not any(runner.working or runner.stuck for runner in self._runners):
            self._elector.stop()

    def stop(self) -> float:
        """Tell all functions to return; each lease is released when its own has. Jobs end beside them."""
        self._stopping = True
        for runner in self._runners:
            runner.stop()
        self.tick()
        return 0.0

    @property
    def working(self) -> bool:
        """Tell whether a function still runs that may return."""
        return any(runner.working for runner in self._runners)

    @property
    def stuck(self) -> int:
        """Count the functions that could not be made to return: the process is to be recycled."""
        return sum(runner.stuck for runner in self._runners)

    def watched(self) -> Iterable[Connection]:
        """Give the connections, for the watchdog; the elector's statements have deadlines of their own."""
        return [connection for runner in self._runners for connection in runner.session.kept.watched()]

    def finish(self, by: float) -> float:
        """Release the leases. A function that still runs keeps its lease: that runs out after our end."""
        if self._elector is None or self.working or self.stuck:
            return 0.0
        return min(RELEASE_WAIT, self._elector.finish(by))

    @property
    def ended(self) -> bool:
        """Tell whether the leases are released, and no function runs."""
        return self._elector is None or (self._elector.ended and not any(runner.thread.is_alive() for runner in self._runners))
