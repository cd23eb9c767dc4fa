"""Keep this host's processes registered: one thread of the supervisor, one connection.

The supervisor's main thread calls the methods without an underscore, but for `beat_now`, which the listener's thread calls;
`_recovered` is called by the recovery's thread.

The beat keeps all rows of this host alive with one statement, and takes the figures of its processes along (vitals/gauges.py).
Worker processes do not beat for themselves, because a C call of a job that holds the interpreter lock would then look like a dead
host. After it the jobs to cancel are asked for. A row that vanished (the table was restored, the host was frozen longer than its
time to live) is made again by the next beat.

Invariant: two beats may be lost, even if their connections hang. A try has FASTQ_PROCESS_TTL - FASTQ_BEAT_INTERVAL, divided by
three, for its connection and its statements; one that brings no answer within that is given up, and the next has a connection of
its own. So the third try after a beat has as much time again before the rows run out. Other statements on this connection have no
more time than a beat, and a beat follows at once if they have used that up.

Jobs of children that have died are given back by recovery.py, in a thread of its own. This one takes their rows away after that,
so that no beat which was on its way puts them back.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from fastq.backoff import Backoff
from fastq.errors import DatabaseUnavailable
from fastq.events import emit
from fastq.host.neighbours import Neighbours
from fastq.host.recovery import OWED, Recovery
from fastq.host.vitals.gauges import Gauges
from fastq.leases.lease import identity
from fastq.postgres import db, hints
from fastq.postgres.connecting import Opener
from fastq.postgres.kept import Rebuilt
from fastq.service import Threaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from fastq.board.board import Board
    from fastq.config import Config
    from fastq.postgres.db import Connection
    from fastq.postgres.hints import Hint

NUMBERS = 64
"""Process numbers that one call takes: the increment of the sequence fastq.process_number."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 1.0
"""Seconds between the beginnings of two tries while the database is away or refuses, doubling: a restarted server is found soon.
A try that has used up its time is followed by the next at once."""


class Registrar(Threaded):
    """The registrar's thread. It alone writes the attributes for which no other writer is named."""

    def __init__(
        self,
        config: Config,
        url: str,
        board: Board,
        cancel: Callable[[dict[int, list[int]]], None],
        declared: Sequence[str] = (),
        kinds: Sequence[str] | None = None,
        asked: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__("registrar")
        self._asked = asked  # tells the process with a number that somebody asks for its stacks
        self._declared, self._kinds = list(declared), None if kinds is None else sorted(kinds)
        self._config = config
        self._board = board
        self._cancel = cancel
        self._numbers: deque[int] = deque()  # for new processes; ours adds them, the main thread takes them, under the lock
        self.lost: frozenset[int] = frozenset()  # numbers of children that are somebody else's too; written by our thread
        self._pids: dict[int, tuple[int, int | None]] = {}  # of living children, with their desks, by number; by the main thread,
        # under the lock
        self._gone: deque[int] = deque()  # numbers of the rows to take away; the recovery adds, our thread takes out
        self._lock = threading.Lock()
        self._wakeup = threading.Event()
        self._hinted = False  # at a cancellation; set by the listener's thread, cleared by ours, which asks then
        self._stopping = False  # written by the main thread
        self._registered = False  # a process, ever
        self.beaten_at: float | None = None  # monotonic time of the last beat that was answered; read by the main thread
        opener = Opener(config, url, "registrar", min(config.beat_timeout, config.statement_timeout))
        self._session = Rebuilt("registrar", opener.open, Backoff(FIRST_PAUSE, LONGEST_PAUSE))
        self._until = 0.0  # monotonic time at which the present try is given up
        self.neighbours = Neighbours(config)
        self.gauges = Gauges(board)
        self.recovery = Recovery(config, url, board, self._recovered)  # a service of its own: started and ended beside this one

    def take_number(self) -> int | None:
        """Take a number for a new process; None until the database has given some. It is registered before its child starts."""
        with self._lock:
            if not self._numbers:
                self._wakeup.set()
                return None
            return self._numbers.popleft()

    def add(self, number: int, pid: int, desk: int | None = None) -> None:
        """Beat for a new child from now on, and measure it if it has a desk."""
        with self._lock:
            self._pids[number] = (pid, desk)
        self._wakeup.set()

    def recover(self, number: int, desk: int, pid: int, cause: str) -> list[int]:
        """Beat no more for a child that has died, and have its jobs given back; return the ids that it was executing."""
        with self._lock:
            self._pids.pop(number, None)
        return self.recovery.add(number, desk, pid, cause)

    def _recovered(self, number: int) -> None:
        """Note that a dead child's row can go; the recovery's thread does."""
        self._gone.append(number)
        self._wakeup.set()

    def beat_now(self) -> None:
        """Beat at once, and ask for cancellations: there is one."""
        self._hinted = True
        self._wakeup.set()

    def finish(self, by: float) -> float:
        """End after all recoveries: until then it beats."""
        self._stopping = True
        self._wakeup.set()
        return max(0.0, by - time.monotonic())

    @property
    def owes(self) -> str:
        """Say that rows of dead processes are still there."""
        return OWED if self._gone else ""

    def hears(self) -> Mapping[Hint, Callable[[str], None]]:
        """Name the hint upon which it does not wait for the next beat."""
        return {hints.CANCEL: lambda _: self.beat_now()}

    def watched(self) -> Iterable[Connection]:
        """Give the connection, for the watchdog."""
        return self._session.watched()

    def _run(self) -> None:
        while True:
            began = time.monotonic()
            self._begin_try()
            try:
                connection = self._connected()
                if self._is_done:
                    self._leave(connection)
                    return
                self._look_after(connection)
            except (db.Error, DatabaseUnavailable, RuntimeError) as error:  # the last: no more threads for a while
                pause = self._session.failed(db.first_line(error))
                if self._is_done and not self._registered:
                    return  # there is nothing to undo
                rest = FIRST_PAUSE if self._stopping else min(pause, self._config.beat_timeout)
                time.sleep(max(0.0, began + rest - time.monotonic()))
                continue
            if not self._is_done:
                self._wakeup.wait(max(0.0, began + self._config.beat_interval - time.monotonic()))
                self._wakeup.clear()

    @property
    def _is_done(self) -> bool:
        """Tell whether nobody needs a beat any more: we are to end, and the jobs of all dead children have been given back."""
        return self._stopping and not self.recovery.owes

    def _look_after(self, connection: Connection) -> None:
        """Beat, then do the other work that is due: in a try of its own, and the beat is the first thing of the next."""
        if not self._numbers:
            self._take_numbers(connection)
        self._beat(connection)
        self._registered, self.beaten_at = True, time.monotonic()
        self._session.pauses.reset()
        self._begin_try()
        self._take_away(connection)
        self._tell_cancelled(connection)
        self.neighbours.look(lambda name, *params: self._ask(self._connected(), name, *params))

    def _leave(self, connection: Connection) -> None:
        """Take away the rows of this host's processes that are left."""
        ahead = list(self._numbers)[:1]  # registered, and not needed any more
        self._ask(connection, "process_end", [*ahead, *self._gone], identity())
        self._gone.clear()
        self._session.drop()

    def _begin_try(self) -> None:
        self._until = time.monotonic() + self._config.beat_timeout

    def _left(self) -> float:
        """Return the seconds that are left of the present try: a moment at least, since a late statement fails by then."""
        return max(0.01, self._until - time.monotonic())

    def _connected(self) -> Connection:
        """Return the connection, or make one within the rest of the try."""
        return self._session.open(self._left())

    def _ask(self, connection: Connection, name: str, *params: object) -> list[tuple[Any, ...]]:
        """Run a statement within the rest of the try; a connection that is cut for that is not used again."""
        return connection.run_within(min(self._left(), self._config.statement_timeout), name, *params)

    def _take_numbers(self, connection: Connection) -> None:
        while True:
            ((first, used),) = self._ask(connection, "process_take_numbers")
            if not used:
                break
        with self._lock:
            self._numbers.extend(range(first, first + NUMBERS))

    def _beat(self, connection: Connection) -> None:
        with self._lock:
            pids = dict(self._pids)
            if self._numbers:
                pids.setdefault(self._numbers[0], (os.getpid(), None))  # registered before its child claims anything
        config = self._config
        ours = self._ask(
            connection,
            "process_beat",
            list(pids),
            [pid for pid, _ in pids.values()],
            socket.gethostname(),
            identity(),
            ",".join(config.concurrency),
            config.process_ttl,
            config.leader_domain,
            self._declared,
            self._kinds,
            self.gauges.measure(pids),
        )
        others = frozenset(pids.keys() - {id_ for (id_,) in ours})
        if others - self.lost:
            emit("process.number_taken", level=logging.WARNING, numbers=sorted(others))
            with self._lock:
                self._numbers.clear()  # they come from the same time
        self.lost = others

    def _take_away(self, connection: Connection) -> None:
        """Remove the rows of dead children once their jobs have been given back."""
        if gone := list(self._gone):
            self._ask(connection, "process_end", gone, identity())
            for _ in gone:
                self._gone.popleft()

    def _tell_cancelled(self, connection: Connection) -> None:
        hinted, self._hinted = self._hinted, False  # should the question fail, the next beat asks where a job executes
        if not hinted and not self._board.executing():
            return  # an idle host has nothing to cancel
        with self._lock:
            numbers = list(self._pids)
        cancelled: dict[int, list[int]] = {}
        for id_, number in self._ask(connection, "job_to_cancel", numbers):
            cancelled.setdefault(number, []).append(id_)
        if cancelled:
            self._cancel(cancelled)
        if self._config.poll_only:  # no hint comes here
            for (number,) in self._ask(connection, "stack_unheard", numbers):
                self._asked(str(number))
