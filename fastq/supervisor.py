"""Start worker processes, see them die, start others; hear signals; nothing else. The parent of everything on a host.

Main thread: one loop over the children's sentinels and a signal pipe. It never talks to the database, so no outage there
can make it deaf; the threads that do are `Registrar` (beat, recovery of dead children's jobs), `Listener` and `Maintainer`.
It never forks itself (children.py), so it may own them.

A child that dies: its jobs go to the registrar at once (milliseconds, not a time to live), and a new child with a new number
takes its place; after a crash within YOUNG seconds with a growing pause, and not at all when it could not even start.

A child that recycles leaves its desk and keeps its other jobs, which may take hours: its successor starts at once, at the place's
second desk. Should that one recycle too, the first is told to stop, since a place has two desks: so a host never has more than
twice its processes, and is never without one that claims for longer than a stop takes.

Signals: the first SIGTERM or SIGINT stops in order, the second kills within a second. Handlers only write a byte, but the second
also ends a wait for the fork server: it is the only thing that the loop waits for, and it may be importing the app or hang.
Whatever has not ended in time is killed, the fork server last, since with it all its children die and their last words are lost.
"""

from __future__ import annotations

import logging
import os
import select
import selectors
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from setproctitle import setproctitle

from fastq import board
from fastq.board import Board
from fastq.children import Child, Nursery
from fastq.config import tell_nursery
from fastq.events import emit
from fastq.listener import Listener
from fastq.maintainer import Maintainer
from fastq.process import BOOT_FAILED, RECYCLED, desk_count, ring_size
from fastq.registrar import Registrar
from fastq.singletons import hinted
from fastq.watchdog import BEYOND_GRACE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fastq.config import Config

YOUNG = 10.0
"""Seconds of life below which a death counts as failing to start: an import and a connection take about one."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a child that died young is replaced, doubling."""

KILL_TIMEOUT = 0.6
"""Seconds between asking children to leave at once and SIGKILL; with LAST_WORDS the end comes within a second."""

REAP_TIMEOUT = 0.05
"""Seconds from SIGKILL to the children until the fork server gets it, which tells of their ends within milliseconds or hangs."""

LAST_WORDS = 0.3
"""Seconds that the threads that talk to the database get after a second signal."""

END_TIMEOUT = 5.0
"""Seconds that they get otherwise: to give jobs of dead children back to a database that restarts."""

STOP_MARGIN = 15.0
"""Seconds beyond the jobs' own time that a stopping child gets: cancelling, handing back, writing completions."""

CANCELS = select.PIPE_BUF // 20 - 1
"""Ids in a line to a child, of 19 digits and a space: a pipe takes lines of up to PIPE_BUF bytes whole or not at all."""

LINGER = 1.0
"""Seconds that a process that recycles gets to end by itself before the one that leaves before it is told to stop: without other
jobs it takes milliseconds, and theirs may have hours to go."""

TICK = 0.5
"""Seconds between looks at what no descriptor tells: overdue children, pauses that have ended."""


class Supervisor:
    """The supervisor of one host's worker processes for one app."""

    def __init__(self, config: Config, app: str, url: str, app_dir: Path | None = None, declared: Sequence[str] = ()) -> None:
        self._config = config
        self._count = config.process_count
        self._board = Board.make(list(config.concurrency.values()), desk_count(config), ring_size(config))
        tell_nursery(app, str(app_dir or ""))
        self._nursery = Nursery(config, app, app_dir, url, self._board)
        self._registrar = Registrar(config, url, self._board, self._cancel, declared)
        self._listener = Listener(config, url, self._wake)
        self._maintainer = Maintainer(config, url)
        self._children: dict[int, Child] = {}  # by place
        self._leaving: dict[int, Child] = {}  # those that recycle, by place
        self._respawn_at: dict[int, float] = dict.fromkeys(range(self._count), 0.0)  # by place
        self._pauses: dict[int, float] = {}
        self._failure: str | None = None
        self._signals = 0
        self._heard = 0  # signals that the handler has seen; `_signals` counts those acted on
        self._killed = False  # the children were, at `_kill_at`
        self._kill_at: float | None = None
        self._app = app

    def run(self) -> int:
        """Supervise until stopped; return 0 after a stop in order, 1 if something had to be killed or could not start."""
        self._selector = selectors.DefaultSelector()
        read, self._signal_pipe = os.pipe()
        os.set_blocking(self._signal_pipe, False)
        self._selector.register(read, selectors.EVENT_READ, "signal")
        old = {number: signal.signal(number, self._signalled) for number in (signal.SIGTERM, signal.SIGINT)}
        setproctitle(f"fastq: supervisor {self._app}")  # whoever sees this may send signals
        try:
            # All threads of ours but this one block the signals: one that came to them would not end a wait of this one.
            unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, old)
            try:
                self._registrar.start()
                self._listener.start()
                self._maintainer.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            while self._everybody() or not self._signals:
                self._spawn()
                self._wait(read)
                if self._failure and not self._everybody():
                    break
            return self._end(read)
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)

    def _everybody(self) -> list[Child]:
        """Return all children: those that work and those that leave. Any thread may call this: who changes over is in both."""
        return [*self._children.values(), *self._leaving.values()]

    def _signalled(self, number: int, _: object) -> None:
        self._heard += 1
        with suppress(BlockingIOError):
            os.write(self._signal_pipe, bytes([number]))
        if self._heard > 1:
            self._nursery.interrupt()

    def _spawn(self) -> None:
        """Fill the empty places whose pause is over."""
        if self._signals or self._failure:
            return
        now = time.monotonic()
        for place, at in list(self._respawn_at.items()):
            if now >= at:
                number = self._registrar.take_number()
                if number is None:
                    return  # the database has not answered yet
                del self._respawn_at[place]
                leaving = self._leaving.get(place)
                desk = place if leaving is None or leaving.desk != place else place + self._count
                self._board.clear(desk)
                try:
                    child = self._nursery.start(number, place, desk)
                except (OSError, EOFError) as error:
                    emit("process.not_started", level=logging.WARNING, place=place + 1, error=repr(error))
                    self._respawn_at[place] = now + FIRST_PAUSE
                    self._registrar.recover(number, desk, 0, "was not started")
                    return
                self._children[place] = child
                self._registrar.add(child.number, child.pid)
                self._selector.register(child.sentinel, selectors.EVENT_READ, child)
                emit("process.started", level=logging.DEBUG, number=number, pid=child.pid, place=place + 1)

    def _wait(self, signal_read: int, timeout: float | None = None) -> None:
        """Wait for a signal, a death or the tick, and act."""
        if timeout is None:
            timeout = 0.02 if self._respawn_at and not self._signals else TICK
            if self._kill_at is not None:
                timeout = max(0.0, min(timeout, self._kill_at - time.monotonic()))
        for key, _ in self._selector.select(timeout):
            if key.data == "signal":
                for _number in os.read(signal_read, 64):
                    self._stop()
            else:
                self._buried(key.data)
        now = time.monotonic()
        self._kill_overdue(now)
        self._cut_overdue(now)
        for child in self._everybody():
            child.remind()
        for child in list(self._children.values()):
            desk = self._board.desk(child.desk)
            if desk[board.TICKED] and not desk[board.PROCESS]:  # it was at its desk and has left it
                self._succeed(child, now)

    def _kill_overdue(self, now: float) -> None:
        """Kill who has not ended in time, and who cannot because a job of it holds the interpreter lock."""
        if self._kill_at is not None and now >= self._kill_at:
            for child in self._everybody():
                self._kill(child, "did not stop in time")
            if self._killed:
                self._kill_nursery()
            self._killed, self._kill_at = True, now + REAP_TIMEOUT
        for child in self._everybody():
            if self._board.overdue(child.desk, time.monotonic_ns(), int((self._config.timeout_grace + BEYOND_GRACE) * 1e9)):
                self._kill(child, "a job held the interpreter lock beyond its timeout")
            elif child.kill_at is not None and now >= child.kill_at:
                self._kill(child, "did not stop in time")
                child.kill_at = now + KILL_TIMEOUT

    def _succeed(self, child: Child, now: float) -> None:
        """Give the place of a child that recycles to another, once the one before it has gone."""
        before = self._leaving.get(child.place)
        child.left_at = child.left_at or now
        if self._signals or self._failure:
            return
        if before is None:
            self._leaving[child.place] = child
            del self._children[child.place]
            self._respawn_at[child.place] = now
        elif before.kill_at is None and now - child.left_at > LINGER:
            before.order("stop")
            before.kill_at = now + self._config.shutdown_timeout + STOP_MARGIN

    def _kill(self, child: Child, reason: str) -> None:
        emit("process.killed", level=logging.WARNING, pid=child.pid, reason=reason)
        child.kill(reason)

    def _kill_nursery(self) -> None:
        if not self._nursery.ended() and (pid := self._nursery.pid) is not None:
            os.kill(pid, signal.SIGKILL)

    def _cut_overdue(self, now: float) -> None:
        """Free a thread of ours from a statement that Postgres, or the network, does not answer."""
        for part in (self._registrar, self._listener, self._maintainer):
            for connection in part.watched():
                if connection.deadline is not None and now > connection.deadline:
                    emit("connection.cut", level=logging.WARNING, after=connection.timeout)
                    connection.cut()

    def _buried(self, child: Child) -> None:
        """Handle the death of a child: its jobs first, then its place."""
        self._selector.unregister(child.sentinel)
        pid, code = child.pid, child.reap()
        leaving = self._leaving.get(child.place) is child
        del (self._leaving if leaving else self._children)[child.place]
        cause = child.killed_because or (f"signal {-code}" if code < 0 else f"exit code {code}")
        self._registrar.recover(child.number, child.desk, pid, cause)
        if self._signals:
            self._failure = self._failure or (f"exit code {code}" if code not in (0, RECYCLED) else None)
            return
        lived, worked = time.monotonic() - child.started_at, self._board.desk(child.desk)[board.ENDED]
        if code == BOOT_FAILED:
            self._failure = "a worker process could not start"
            self._stop_children("stop")
            return
        if code not in (0, RECYCLED):
            hint = "out of memory?" if code == -signal.SIGKILL and not child.killed_because else None
            emit("process.died", level=logging.WARNING, pid=pid, code=code, lived=round(lived, 1), hint=hint)
        if leaving:
            return  # a successor sits there, or is about to
        pause = 0.0
        if lived < YOUNG and code != RECYCLED and not worked:  # who has completed a job was killed by it, not by its start
            crashes = self._pauses.get(child.place, 0.0)
            pause = min(max(crashes * 2, FIRST_PAUSE), LONGEST_PAUSE) if crashes or code > 0 else 0.0
            self._pauses[child.place] = pause or FIRST_PAUSE / 4
        else:
            self._pauses.pop(child.place, None)
        self._respawn_at[child.place] = time.monotonic() + pause

    def _stop(self) -> None:
        """React to a signal: stop in order the first time, kill the second."""
        self._signals += 1
        if self._signals == 1:
            emit("supervisor.stops", timeout=self._config.shutdown_timeout)
            self._stop_children("stop")
            self._kill_at = time.monotonic() + self._config.shutdown_timeout + STOP_MARGIN
        else:
            emit("supervisor.kills", level=logging.WARNING)
            self._stop_children("kill")
            self._kill_at = time.monotonic() + KILL_TIMEOUT
        self._respawn_at.clear()
        self._maintainer.stop()

    def _stop_children(self, word: str) -> None:
        for child in self._everybody():
            child.order(word)

    def _wake(self, hint: str) -> None:
        """Make producers look: a notification came. Called by the listener's thread."""
        if hint == "@cancel":
            self._registrar.beat_now()
        if hint.startswith("@"):
            self._maintainer.hint(hint)
            lease, first = hinted(hint), self._children.get(0)
            if lease and first:
                first.hint(f"lease {lease}")
            return
        for queue, name in enumerate(self._config.concurrency):
            if hint in ("", name):
                self._board.cursor(queue)[board.WAKES] += 1
        for child in list(self._children.values()):
            child.wake()

    def _cancel(self, ids_by_number: dict[int, list[int]]) -> None:
        """Tell children which of their jobs were cancelled, after each beat anew. Called by the registrar's thread."""
        for child in self._everybody():
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
                    self._failure = self._failure or "the database did not answer: the jobs of dead processes are not given back"
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
