"""Keep this host's processes registered, and give the jobs of dead ones back: one thread of the supervisor, one connection.

The beat keeps all rows of this host alive with one statement; worker processes do not beat for themselves, because a job
whose C call holds the interpreter lock would then look like a dead host. What is to be cancelled is asked for after it. A row
that vanished (the table was restored, the host was frozen longer than its time to live) is made again by the next beat.

When a child has died, in this order, each step before the next:
    1. its database sessions are ended, and awaited: a claim or completion on its way is now committed, or never will be
    2. its ids are read from the board, with what was executing; the unanswered claim is looked for
    3. one statement gives the jobs back, and charges an attempt only to those that were executing
    4. its row goes
Until this has succeeded it is tried again; if this host dies meanwhile, the row expires and the leader does it. Before each try
there is a beat: a recovery that is refused (by a user's trigger) or waits for a lock must not make the living look dead. What was
locked when a try had waited for it is left to the leader's rescue, which comes by again: the other jobs do not wait for it.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from fastq import board, db
from fastq.errors import DatabaseUnavailable
from fastq.events import Seldom, emit, tell_ended
from fastq.lease import identity
from fastq.outcome import error_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fastq.board import Board
    from fastq.config import Config
    from fastq.db import Connection

NUMBERS = 64
"""Process numbers that one call takes: the increment of the sequence fastq.process_number."""

SESSION_END_TIMEOUT = 2_000
"""Milliseconds to wait for the sessions of a dead child: a backend notices at its next query or wait."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 1.0
"""Seconds between attempts while the database is away or refuses, doubling: a restarted server is found soon."""


class Dead(NamedTuple):
    """A dead child: what is known of its end, and what its desk and lanes showed."""

    number: int
    pid: int
    cause: str
    claimed: list[int]  # ids, sorted, like the next
    executing: list[int]
    claim: int  # that had no answer; 0: none
    after: int  # below every seq of that claim
    queue: str  # of that claim
    sessions: list[int]  # pids of its backends
    held_up: bool = False  # a recovery waited for a lock in vain


class Registrar:
    """The registrar's thread. `take_number`, `add`, `recover` and `beat_now` are called by the supervisor's main thread."""

    def __init__(
        self, config: Config, url: str, board: Board, cancel: Callable[[dict[int, list[int]]], None], declared: Sequence[str] = ()
    ) -> None:
        self._declared = list(declared)
        self._config = config
        self._url = url
        self._board = board
        self._cancel = cancel
        self._numbers: deque[int] = deque()
        self.lost: frozenset[int] = frozenset()  # numbers of children that are somebody else's too; written by our thread
        self._pids: dict[int, int] = {}  # of living children by number; changed under the lock
        self._dead: deque[Dead] = deque()  # the main thread adds, ours takes out
        self._lock = threading.Lock()
        self._wakeup = threading.Event()
        self._hinted = False  # at a cancellation; set by the listener's thread, cleared by ours, who asks then
        self._stopping = False
        self._registered = False  # a process, ever
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._run, name="fastq registrar", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def take_number(self) -> int | None:
        """Take a number for a new process; None until the database has given some. It is registered before its child starts."""
        with self._lock:
            if not self._numbers:
                self._wakeup.set()
                return None
            return self._numbers.popleft()

    def add(self, number: int, pid: int) -> None:
        """Beat for a new child from now on."""
        with self._lock:
            self._pids[number] = pid
        self._wakeup.set()

    def recover(self, number: int, desk: int, pid: int, cause: str) -> None:
        """Give back what a dead child held: read the board now, before somebody else sits down there; write soon."""
        claimed: list[int] = []
        executing: set[int] = set()
        for queue in range(len(self._board.concurrency)):
            for mode in range(board.MODES):
                held = self._board.lane(desk, queue, mode).outstanding()
                claimed += held[0]
                executing |= held[1]
        shown = self._board.desk(desk)
        dead = Dead(
            number=number,
            pid=pid,
            cause=cause,
            claimed=sorted(claimed),
            executing=sorted(executing),
            claim=shown[board.CLAIM],
            after=shown[board.CLAIM_AFTER],
            queue=list(self._config.concurrency)[shown[board.CLAIM_QUEUE]],
            sessions=[shown[at] for at in board.SESSIONS if shown[at]],
        )
        with self._lock:
            self._pids.pop(number, None)
        self._dead.append(dead)
        self._wakeup.set()

    def beat_now(self) -> None:
        """Beat at once, and ask for cancellations: there is one."""
        self._hinted = True
        self._wakeup.set()

    def stop(self) -> None:
        """End after all recoveries."""
        self._stopping = True
        self._wakeup.set()

    @property
    def owes(self) -> bool:
        """Tell whether jobs of dead processes have not been given back yet."""
        return bool(self._dead)

    @property
    def ended(self) -> bool:
        """Tell whether it has ended; if not, the leader of another host will make the recoveries that are left."""
        return not self._thread.is_alive()

    def watched(self) -> Iterable[Connection]:
        """Give the connection, for the watchdog."""
        connection = self._connection
        return [] if connection is None else [connection]

    def _run(self) -> None:
        next_beat, pause, seldom = 0.0, FIRST_PAUSE, Seldom()
        while True:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                if not self._numbers:
                    self._take_numbers(self._connection)
                if self._stopping and not self._dead:
                    ahead = list(self._numbers)[:1]  # registered, and not needed any more
                    self._connection.run("process_end", ahead, identity())
                    return
                self._beat(self._connection)
                self._registered = True
                next_beat = time.monotonic() + self._config.beat_interval
                self._tell_cancelled(self._connection)
                if self._dead:
                    self._recover_next(self._connection)
                pause = FIRST_PAUSE
            except (db.Error, DatabaseUnavailable) as error:
                if seldom.lets(text := db.first_line(error)):
                    emit("registrar.waits", level=logging.WARNING, error=text)
                self._drop()
                if self._stopping and not self._registered and not self._dead:
                    return  # there is nothing to undo
                time.sleep(min(pause, FIRST_PAUSE if self._stopping else self._config.beat_interval))
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            if self._dead or self._stopping:
                continue
            self._wakeup.wait(max(0.0, next_beat - time.monotonic()))
            self._wakeup.clear()

    def _connect(self) -> Connection:
        """Open a session in which nothing waits for a lock for longer than until the next beat is due."""
        limit = str(int(self._config.beat_interval * 1000))
        return db.session(self._config, self._url, "registrar", settings={"lock_timeout": limit})

    def _take_numbers(self, connection: Connection) -> None:
        first, used = connection.run_one("process_take_numbers")
        while used:
            first, used = connection.run_one("process_take_numbers")
        with self._lock:
            self._numbers.extend(range(first, first + NUMBERS))

    def _beat(self, connection: Connection) -> None:
        with self._lock:
            pids = dict(self._pids)
            if self._numbers:
                pids.setdefault(self._numbers[0], os.getpid())  # registered before its child claims anything
        config = self._config
        ours = connection.run(
            "process_beat",
            list(pids),
            list(pids.values()),
            socket.gethostname(),
            identity(),
            ",".join(config.concurrency),
            config.process_ttl,
            config.leader_domain,
            self._declared,
        )
        others = frozenset(pids.keys() - {id_ for (id_,) in ours})
        if others - self.lost:
            emit("process.number_taken", level=logging.WARNING, numbers=sorted(others))
            with self._lock:
                self._numbers.clear()  # they come from the same time
        self.lost = others

    def _tell_cancelled(self, connection: Connection) -> None:
        hinted, self._hinted = self._hinted, False  # should the question fail, the next beat asks where a job executes
        if not hinted and not self._board.executing():
            return  # who idles has nothing to cancel
        with self._lock:
            numbers = list(self._pids)
        cancelled: dict[int, list[int]] = {}
        for id_, number in connection.run("job_to_cancel", numbers):
            cancelled.setdefault(number, []).append(id_)
        if cancelled:
            self._cancel(cancelled)

    def _recover_next(self, connection: Connection) -> None:
        try:
            self._recover_one(connection, self._dead[0])
        except (db.Error, DatabaseUnavailable) as error:
            # It may be this one that cannot be recovered: the others first.
            self._dead.append(self._dead[0]._replace(held_up=db.too_slow(error)))
            self._dead.popleft()
            raise
        self._dead.popleft()

    def _recover_one(self, connection: Connection, dead: Dead) -> None:
        began = time.monotonic()
        if dead.sessions and not self._config.poll_only:  # through a pooler the pids are somebody else's
            _, left = connection.run_one("session_end", dead.sessions, SESSION_END_TIMEOUT)
            if left:
                raise DatabaseUnavailable(f"sessions of the dead process {dead.pid} have not ended yet: a claim may still commit")
        locked = {id_ for (id_,) in connection.run("job_locked", dead.claimed)} if dead.held_up or self._stopping else ()
        again, ended, _, fates = connection.run_one(
            "job_recover",
            [id_ for id_ in dead.claimed if id_ not in locked],
            dead.claim,
            dead.after,
            dead.queue,
            dead.executing,
            self._config.max_crashes,
            dead.number,
            self._config.channel,
            error_json(f"the process {dead.pid} that executed the job died ({dead.cause})"),
        )
        connection.run("process_end", [dead.number], identity())
        tell_ended(fates)
        if again or ended:
            took = time.monotonic() - began
            emit("jobs.recovered", level=logging.WARNING, pid=dead.pid, again=again, ended=ended, took=round(took, 4))

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
