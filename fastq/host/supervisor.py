"""Keep the places of a host filled with worker processes; hear signals; nothing else. The parent of everything on a host.

Main thread: one loop over the children's sentinels and a signal pipe; how they are started, buried and replaced is in places.py.
It never talks to the database, so no outage there can make it deaf; the threads that do are `Registrar` (beat, and a thread for
the recovery of dead children's jobs), `Listener` and `Maintainer`. It never forks itself (children.py), so it may own them.

Signals: the first SIGTERM or SIGINT stops in order, the second kills within a second. A SIGHUP stops in order too, but is never
a second one: a closing terminal sends several, its shell and some service managers another. Handlers only write a byte, but a
second signal also ends a wait for the fork server: it is the only thing that the loop waits for, and it may be importing the app
or hang. Should an error that nobody expected end a thread, then this host beats, recovers or leads no more, and stops in order.
Whatever has not ended in time is killed, the fork server last, since with it all its children die and their last words are lost.
"""

from __future__ import annotations

import logging
import os
import select
import selectors
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from setproctitle import setproctitle

from fastq import board
from fastq.board import Board
from fastq.environment import tell_nursery
from fastq.events import emit
from fastq.host.children import Nursery
from fastq.host.listener import Listener
from fastq.host.places import STOP_MARGIN, Places
from fastq.host.registrar import Registrar
from fastq.host.waker import Waker
from fastq.lead.maintainer import Maintainer
from fastq.postgres import hints
from fastq.postgres.kept import cut_overdue
from fastq.sql.statements import read_statements
from fastq.work.execute.modes import MODES
from fastq.work.execute.watchdog import BEYOND_GRACE
from fastq.work.process import desk_count, ring_size
from fastq.work.singletons import is_singletons

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from fastq.config import Config
    from fastq.host.children import Child
    from fastq.postgres.hints import Hint

KILL_TIMEOUT = 0.6
"""Seconds between asking children to leave at once and SIGKILL; with LAST_WORDS the end comes within a second."""

REAP_TIMEOUT = 0.05
"""Seconds from SIGKILL to the children until the fork server gets it, which tells of their ends within milliseconds or hangs."""

LAST_WORDS = 0.3
"""Seconds that the threads that talk to the database get after a second signal."""

END_TIMEOUT = 5.0
"""Seconds that they get otherwise: to give jobs of dead children back to a database that restarts."""

CANCELS = select.PIPE_BUF // 20 - 1
"""Ids in a line to a child, of 19 digits and a space: a pipe takes lines of up to PIPE_BUF bytes whole or not at all."""

OWED = "the jobs of dead processes are not given back"
KEPT = "the rows of this host and its leases stay until they run out"

GAP = 2.0
"""Seconds between two looks that say that we were not running, and perhaps nobody else of this host (docker pause): four times
TICK. A child that could not tick is not stuck; it gets BEYOND_GRACE to do so."""

TICK = 0.5
"""Seconds between looks at what no descriptor tells: overdue children, pauses that have ended."""


class Supervisor:
    """The supervisor of one host's worker processes for one app."""

    def __init__(
        self,
        config: Config,
        app: str,
        url: str,
        app_dir: Path | None = None,
        declared: Sequence[str] = (),
        kinds: Sequence[str] | None = None,
    ) -> None:
        read_statements()
        self._config = config
        self._board = Board.make(list(config.concurrency.values()), desk_count(config), ring_size(config), len(MODES))
        tell_nursery(app, str(app_dir or ""))
        self._nursery = Nursery(config, app, app_dir, url, self._board)
        self._registrar = Registrar(config, url, self._board, self._cancel, declared, kinds)
        self._maintainer = Maintainer(config, url)
        self._selector = selectors.DefaultSelector()
        self._places = Places(config, self._board, self._nursery, self._registrar, self._selector)
        self._waker = Waker(self._board, list(config.concurrency), desk_count(config), self._places)
        self._hearers: dict[Hint | None, tuple[Callable[[str], object], ...]] = {
            hints.QUEUE: (self._waker.wake_one,),
            hints.WAITING: (lambda queue: self._waker.wake_one(queue, board.WAITING_HINTS),),
            hints.CANCEL: (lambda _: self._registrar.beat_now(),),
            hints.DUE: (partial(self._maintainer.hint, hints.DUE),),
            hints.PERIODIC: (partial(self._maintainer.hint, hints.PERIODIC),),
            hints.LEASE: (partial(self._maintainer.hint, hints.LEASE), self._hint_singleton),
        }
        self._listener = Listener(config, url, self._hear, self._waker.look)
        self._failure: str | None = None
        self._stopping = False
        self._signals = 0
        self._heard = 0  # signals that the handler has seen; `_signals` counts those acted on
        self._broken = ""  # what the last thread died of that did; written by that thread
        self._looked_at = self._patient_until = time.monotonic()  # for children that hold the interpreter lock
        self._killed = False  # the children were, at `_kill_at`
        self._kill_at: float | None = None
        self._app = app

    def run(self) -> int:
        """Supervise until stopped; return 0 after a stop in order, 1 if something had to be killed or could not start."""
        read, self._signal_pipe = os.pipe()
        os.set_blocking(self._signal_pipe, False)
        self._selector.register(read, selectors.EVENT_READ, "signal")
        old = {number: signal.signal(number, self._signalled) for number in self._stop_signals()}
        setproctitle(f"fastq: supervisor {self._app}")  # whoever sees this may send signals
        tell, threading.excepthook = threading.excepthook, lambda args: self._thread_broke(args, tell)
        try:
            # All threads of ours but this one block the signals: one that came to them would not end a wait of this one.
            unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, old)
            try:
                self._registrar.start()
                self._listener.start()
                self._maintainer.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            while self._places.everybody() or not self._stopping:
                if not self._stopping:
                    self._places.fill()
                self._wait(read)
            return self._end(read)
        finally:
            threading.excepthook = tell
            for number, handler in old.items():
                signal.signal(number, handler)

    @staticmethod
    def _stop_signals() -> list[int]:
        ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # by nohup, that we live on without the terminal
        return [signal.SIGTERM, signal.SIGINT, *([] if ignored else [signal.SIGHUP])]

    def _signalled(self, number: int, _: object) -> None:
        if number == signal.SIGHUP and self._heard:
            return
        self._heard += 1
        with suppress(BlockingIOError):
            os.write(self._signal_pipe, bytes([number]))
        if self._heard > 1:
            self._nursery.interrupt()

    def _thread_broke(self, args: threading.ExceptHookArgs, tell: Callable[[threading.ExceptHookArgs], object]) -> None:
        """Note that an error has ended a thread of ours; the main thread hears of it by a byte that is no signal."""
        tell(args)
        if args.thread is not None and args.thread.name.startswith("fastq"):
            self._broken = f"the thread '{args.thread.name}' ended by an error: {args.exc_type.__name__}"
            with suppress(BlockingIOError):
                os.write(self._signal_pipe, b"\0")

    def _wait(self, signal_read: int, timeout: float | None = None) -> None:
        """Wait for a signal, a death or the tick, and act."""
        if timeout is None:
            timeout = 0.02 if self._places.vacant else TICK
            if self._kill_at is not None:
                timeout = max(0.0, min(timeout, self._kill_at - time.monotonic()))
        for key, _ in self._selector.select(timeout):
            if key.data == "signal":
                for number in os.read(signal_read, 64):
                    self._stop() if number else self._fail(self._broken)
            else:
                self._bury(key.data)
        now = time.monotonic()
        if now - self._looked_at > GAP:
            self._patient_until = now + BEYOND_GRACE
        self._looked_at = now
        if (rival := self._registrar.neighbours.rival) is not None and not self._stopping:
            self._fail(f"{rival}; the other one was there first")
        self._kill_overdue(now)
        self._cut_overdue(now)
        for child in self._places.everybody():
            child.remind()
        self._places.succeed()

    def _kill_overdue(self, now: float) -> None:
        """Kill who has not ended in time, and who cannot because something of it holds the interpreter lock."""
        if self._kill_at is not None and now >= self._kill_at:
            for child in self._places.everybody():
                self._kill(child, "did not stop in time")
            if self._killed:
                self._kill_nursery()
            self._killed, self._kill_at = True, now + REAP_TIMEOUT
        spare = int((self._config.timeout_grace + BEYOND_GRACE) * 1e9)
        for child in self._places.everybody():
            if now > self._patient_until and self._board.overdue(child.desk, int(now * 1e9), spare):
                self._kill(child, "a job held the interpreter lock beyond its timeout")
            elif child.kill_at is not None and now >= child.kill_at:
                self._kill(child, "did not stop in time")
                child.kill_at = now + KILL_TIMEOUT

        if now > self._patient_until and not self._stopping:
            self._replace_silent(now)

    def _replace_silent(self, now: float) -> None:
        """See to it that a process of this host stands for the singletons: one that cannot even tick has lost their leases.

        It may be a singleton that holds the interpreter lock, or a job that may, or somebody has stopped it. Without a job
        nothing is lost by killing it, and a function whose lease is over must not go on. Jobs keep the time that they have.
        """
        config = self._config
        limit = int((config.lease_ttl + config.timeout_grace + BEYOND_GRACE) * 1e9)
        for child in self._places.working():
            if self._board.silent(child.desk, int(now * 1e9), limit):
                if not self._board.executing_at(child.desk):
                    self._kill(child, "it gave no sign for longer than the leases of its singletons last")
                elif child.silent_since is None:
                    emit("process.silent", level=logging.WARNING, pid=child.pid, after=round(limit / 1e9, 1))
                    child.silent_since = now
                    child.order("recycle")

    def _kill(self, child: Child, reason: str) -> None:
        emit("process.killed", level=logging.WARNING, pid=child.pid, reason=reason)
        child.kill(reason)

    def _kill_nursery(self) -> None:
        if not self._nursery.ended() and (pid := self._nursery.pid) is not None:
            os.kill(pid, signal.SIGKILL)

    def _cut_overdue(self, now: float) -> None:
        """Free a thread of ours from a statement that Postgres, or the network, does not answer."""
        for part in (self._registrar, self._listener, self._maintainer):
            cut_overdue(part.watched(), now)

    def _bury(self, child: Child) -> None:
        if failure := self._places.bury(child):
            self._fail("killed by a second signal" if self._signals > 1 else failure)

    def _fail(self, reason: str) -> None:
        """Note why the exit code will be 1, and stop in order."""
        self._failure = self._failure or reason
        self._stop_in_order()

    def _stop(self) -> None:
        """React to a signal: stop in order the first time, kill the second."""
        self._signals += 1
        if self._signals == 1:
            self._stop_in_order()
        else:
            emit("supervisor.kills", level=logging.WARNING)
            self._stop_children("kill")
            self._kill_at = time.monotonic() + KILL_TIMEOUT

    def _stop_in_order(self) -> None:
        """Seat nobody any more and tell all children to stop, once."""
        if self._stopping:
            return
        self._stopping = True
        executing, timeout = self._board.executing(), self._config.shutdown_timeout
        hint = "a second signal (Ctrl-C) ends them at once" if executing else None
        emit("supervisor.stops", executing=executing, timeout=timeout, reason=self._failure, hint=hint)
        self._places.close()
        self._stop_children("stop")
        self._kill_at = time.monotonic() + self._config.shutdown_timeout + STOP_MARGIN
        self._maintainer.stop()

    def _stop_children(self, word: str) -> None:
        for child in self._places.everybody():
            child.order(word)

    def _hear(self, payload: str) -> None:
        """Hand a hint on to all that hear it; an empty one says that any may have been missed. By the listener's thread."""
        if not payload:
            self._waker.wake_all()
            self._maintainer.hint(None)
            return
        hint, name = hints.read(payload)
        for hear in self._hearers.get(hint, ()):
            hear(name)

    def _hint_singleton(self, lease: str) -> None:
        """Hand a lease on to the first process, which runs the singletons."""
        if is_singletons(lease) and (first := self._places.first()):
            first.hint(f"lease {lease}")

    def _cancel(self, ids_by_number: dict[int, list[int]]) -> None:
        """Tell children which of their jobs were cancelled, after each beat while they execute; the registrar's thread does."""
        for child in self._places.everybody():
            ids = ids_by_number.get(child.number, [])
            for at in range(0, len(ids), CANCELS):
                child.tell(f"cancel {' '.join(map(str, ids[at : at + CANCELS]))}")

    def _end(self, signal_read: int) -> int:
        """End the threads; they are daemons, so what does not end in time, because the database is away, is left."""
        self._maintainer.stop()
        self._listener.stop()
        self._registrar.stop()
        self._nursery.dismiss()
        began, signals = time.monotonic(), self._signals
        while not (threads_ended := self._registrar.ended and self._maintainer.ended) or not self._nursery.ended():
            if time.monotonic() - began > (LAST_WORDS if self._signals > 1 else END_TIMEOUT):
                if not threads_ended:
                    self._failure = self._failure or f"the database did not answer: {OWED if self._registrar.owes else KEPT}"
                self._kill_nursery()
                break
            self._wait(signal_read, 0.01)
            if self._signals != signals:
                began, signals = time.monotonic(), self._signals
        if self._failure:
            emit("supervisor.failed", level=logging.ERROR, reason=self._failure)
        else:
            emit("supervisor.stopped")
        return 1 if self._failure else 0
