"""Keep the places of a host filled with worker processes; hear signals; nothing else. The parent of everything on a host.

Main thread: one loop over the children's sentinels and a signal pipe; places.py starts and replaces the children, overdue.py
kills those that do not end. It never talks to the database, so no outage there can make it deaf; the services that do have
threads of their own: `Registrar` (beat), `Recovery` (jobs of dead children), `Listener`, `Maintainer`. It never forks itself
(fork_server.py), so it may own threads.

    run                    start the services; then fill places and `_step` until all children have ended after a stop
    _step                  wait for a signal, an end or the tick, and act on all that is due
    _begin_to_stop         once: seat nobody any more, tell children and services to stop
    _finish                when no child is left: end the services and the fork server; return the exit code

Signals: the first SIGTERM or SIGINT stops in order, the second kills within a second. A SIGHUP stops in order too, but is never
a second one: a closing terminal sends several, its shell and some service managers another. Handlers only write a byte, but a
second signal also ends a wait for the fork server: it is the only thing that the loop waits for, and it may be importing the app
or hang. Should an error that nobody expected end a thread, then this host beats, recovers or leads no more, and stops in order.
Processes that have not ended in time are killed, the fork server last: with it all its children die, and their last words are
lost.
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
from typing import TYPE_CHECKING

from setproctitle import setproctitle

from fastq.board.board import Board
from fastq.board.extent import desk_count, ring_size
from fastq.environment import tell_fork_server
from fastq.events import emit
from fastq.host.fork_server import ForkServer
from fastq.host.listener import Listener, table_of
from fastq.host.overdue import KILL_TIMEOUT, Overdue
from fastq.host.places import STOP_MARGIN, Places
from fastq.host.registrar import Registrar
from fastq.host.vitals.showing import shown
from fastq.host.waker import Waker
from fastq.lead.maintainer import Maintainer
from fastq.postgres import db, hints
from fastq.postgres.kept import cut_overdue
from fastq.sql.statements import read_statements
from fastq.work.forwarder import Forwarder
from fastq.work.modes import MODES
from fastq.work.singletons import is_singletons

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from fastq.config import Config
    from fastq.host.children import Child
    from fastq.service import Service

LAST_WORDS = 0.3
"""Seconds that the services get after a second signal."""

END_TIMEOUT = 5.0
"""Seconds that they get otherwise: to give jobs of dead children back to a database that restarts."""

CANCELS = select.PIPE_BUF // 20 - 1
"""Ids in a line to a child, of 19 digits and a space: a pipe takes lines of up to PIPE_BUF bytes whole or not at all."""

KEPT = "the rows of this host and its leases stay until they run out"

TICK = 0.5
"""Seconds between looks for events that no descriptor signals: overdue children, pauses that have ended."""

VACANT_TICK = 0.02
"""The same while a place is empty: for a number from the database, or the end of a pause."""

END_TICK = 0.01
"""The same at the end: too short for a person to notice."""


class Supervisor:
    """The supervisor of one host's worker processes for one app. Its attributes are the main thread's, but for `_broken`."""

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
        self._app = app
        self._config = config
        self._board = Board.make(list(config.concurrency.values()), desk_count(config), ring_size(config), len(MODES))
        tell_fork_server(app, str(app_dir or ""))
        self._fork_server = ForkServer(config, app, app_dir, url, self._board)
        self._registrar = Registrar(config, url, self._board, self._cancel, declared, kinds, self._tell_asked)
        self._selector = selectors.DefaultSelector()
        self._places = Places(config, self._board, self._fork_server, self._registrar, self._selector)
        self._overdue = Overdue(config, self._board, self._places, self._kill_fork_server)
        waker = Waker(self._board, list(config.concurrency), desk_count(config), self._places)
        maintainer = Maintainer(config, url)
        self._forwarder = Forwarder(config, lambda: db.session(config, url, "events"))
        tells = {hints.LEASE: self._tell_singletons, hints.STACK: self._tell_asked}
        tells |= dict.fromkeys((hints.EVENTS, hints.MISSED), self._tell_forwarders)
        hears = table_of(waker.hears(), self._registrar.hears(), maintainer.hears(), tells)
        # The recovery's jobs end before the registrar, which takes away the rows of the dead; the maintainer leads until we stop.
        self._services: list[Service] = [
            self._forwarder,
            self._registrar,
            self._registrar.recovery,
            Listener(config, url, hears, waker.look),
            maintainer,
            *shown(config, self._board, self._registrar, self._places.count_at_desks, maintainer),
        ]
        self._failure: str | None = None
        self._stopping = False
        self._signals = 0
        self._heard = 0  # signals that the handler has seen; `_signals` counts those acted on
        self._broken = ""  # which thread died, and the error; written by that thread

    def run(self) -> int:
        """Supervise until stopped; return 0 after a stop in order, 1 if something had to be killed or could not start."""
        self._signal_read, self._signal_write = os.pipe()
        os.set_blocking(self._signal_write, False)
        self._selector.register(self._signal_read, selectors.EVENT_READ, None)
        old = {number: signal.signal(number, self._signalled) for number in self._stop_signals()}
        setproctitle(f"fastq: supervisor {self._app}")  # whatever program sees this may send signals
        tell, threading.excepthook = threading.excepthook, lambda args: self._thread_broke(args, tell)
        try:
            self._start_services(list(old))
            while self._places.everybody() or not self._stopping:
                if not self._stopping:
                    self._places.fill()
                self._step(VACANT_TICK if self._places.vacant else TICK)
            return self._finish()
        finally:
            threading.excepthook = tell
            for number, handler in old.items():
                signal.signal(number, handler)

    @staticmethod
    def _stop_signals() -> list[int]:
        ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # by nohup, that we live on without the terminal
        return [signal.SIGTERM, signal.SIGINT, *([] if ignored else [signal.SIGHUP])]

    def _start_services(self, signals: list[int]) -> None:
        """Start all, with the signals blocked in their threads: one that came to them would not end a wait of the main thread."""
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        try:
            for service in self._services:
                service.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)

    def _signalled(self, number: int, _: object) -> None:
        """Handle a signal: only note it, and end a wait for the fork server upon the second."""
        if number == signal.SIGHUP and self._heard:
            return
        self._heard += 1
        with suppress(BlockingIOError):
            os.write(self._signal_write, bytes([number]))
        if self._heard > 1:
            self._fork_server.interrupt()

    def _thread_broke(self, args: threading.ExceptHookArgs, tell: Callable[[threading.ExceptHookArgs], object]) -> None:
        """Note that an error has ended a thread of ours; the main thread hears of it by a byte that is no signal."""
        tell(args)
        if args.thread is not None and args.thread.name.startswith("fastq"):
            self._broken = f"the thread '{args.thread.name}' ended by an error: {args.exc_type.__name__}"
            with suppress(BlockingIOError):
                os.write(self._signal_write, b"\0")

    def _step(self, longest: float) -> None:
        """Wait for a signal or the end of a child, so long at most, and act on it and on all that is due."""
        for key, _ in self._selector.select(self._overdue.wait(longest)):
            if key.data is None:
                self._read_signals()
            else:
                self._child_ended(key.data)
        if (rival := self._registrar.neighbours.rival) is not None and not self._stopping:
            self._fail(f"{rival}; the other one was there first")
        self._overdue.look(stopping=self._stopping)
        for service in self._services:
            service.tick()
            cut_overdue(service.watched(), time.monotonic())
        for child in self._places.everybody():
            child.remind()
        self._places.replace()

    def _read_signals(self) -> None:
        """Act on the bytes in the signal pipe: signals, and the news that a thread has broken."""
        for number in os.read(self._signal_read, 64):
            if number == 0:
                self._fail(self._broken)
                continue
            self._signals += 1
            if self._signals == 1:
                self._begin_to_stop()
            else:
                emit("supervisor.kills", level=logging.WARNING)
                self._places.order("kill")
                self._overdue.kill_all(KILL_TIMEOUT)

    def _child_ended(self, child: Child) -> None:
        if failure := self._places.ended(child):
            self._fail("killed by a second signal" if self._signals > 1 else failure)

    def _fail(self, reason: str) -> None:
        """Note why the exit code will be 1, and stop in order."""
        self._failure = self._failure or reason
        self._begin_to_stop()

    def _begin_to_stop(self) -> None:
        """Seat nobody any more and tell children and services to stop, once."""
        if self._stopping:
            return
        self._stopping = True
        executing, timeout = self._board.executing(), self._config.shutdown_timeout
        hint = "a second signal (Ctrl-C) ends them at once" if executing else None
        emit("supervisor.stops", executing=executing, timeout=timeout, reason=self._failure, hint=hint)
        self._places.stop()
        self._overdue.kill_all(timeout + STOP_MARGIN)
        for service in reversed(self._services):
            service.stop()

    def _finish(self) -> int:
        """End the services and the fork server. The threads are daemons: one that waits for a database that is away is left."""
        awaited = [service for service in reversed(self._services) if service.finish(time.monotonic() + END_TIMEOUT)]
        self._fork_server.dismiss()
        began, signals = time.monotonic(), self._signals
        while (late := [service for service in awaited if not service.ended]) or not self._fork_server.ended():
            if time.monotonic() - began > (LAST_WORDS if self._signals > 1 else END_TIMEOUT):
                if late:
                    owed = next((service.owes for service in self._services if service.owes), KEPT)
                    self._failure = self._failure or f"the database did not answer: {owed}"
                self._kill_fork_server()
                break
            self._step(END_TICK)
            if self._signals != signals:
                began, signals = time.monotonic(), self._signals
        if self._failure:
            emit("supervisor.failed", level=logging.ERROR, reason=self._failure)
        else:
            emit("supervisor.stopped")
        return 1 if self._failure else 0

    def _kill_fork_server(self) -> None:
        if not self._fork_server.ended() and (pid := self._fork_server.pid) is not None:
            os.kill(pid, signal.SIGKILL)

    def _tell_singletons(self, lease: str) -> None:
        """Tell the process that stands for singletons of a hint at one of their leases. The listener's thread calls this."""
        if is_singletons(lease) and (first := self._places.first()):
            first.hint(f"lease {lease}")

    def _tell_forwarders(self, _: str) -> None:
        """Tell all processes of this host that somebody may hear events, or no longer. The listener's thread calls this."""
        self._forwarder.hint()
        for child in self._places.everybody():
            child.hint("events")

    def _tell_asked(self, number: str) -> None:
        """Tell a process that somebody asks for its stacks. By the listener's thread; without one, by the registrar's."""
        for child in self._places.everybody():
            if str(child.number) == number:
                child.hint("stacks")

    def _cancel(self, ids_by_number: dict[int, list[int]]) -> None:
        """Tell children which of their jobs were cancelled, after each beat while they execute. By the registrar's thread."""
        for child in self._places.everybody():
            ids = ids_by_number.get(child.number, [])
            for at in range(0, len(ids), CANCELS):
                child.tell(f"cancel {' '.join(map(str, ids[at : at + CANCELS]))}")
