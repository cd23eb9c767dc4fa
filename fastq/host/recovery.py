"""Give the jobs of this host's dead processes back: one thread of the supervisor, with a connection while there are any.

It has a thread of its own so that the beat does not wait for it: a recovery that is refused (by a user's trigger), that waits for
a lock or has a hundred thousand jobs to give back must not make the living look dead. For a dead child, in this order, each step
before the next:
    1. its ids are read from the board, with the jobs that were executing or had just ended, and its unanswered claim: before
       another process sits at its desk
    2. its database sessions are ended, and awaited: a claim or completion on its way is now committed, or never will be
    3. one statement gives the jobs back, and charges an attempt only to those that were executing or had just ended
    4. the leases of its singletons are released, so that they run elsewhere, or here again, at once
    5. the registrar is told, which removes the process's row
Until this has succeeded it is tried again; if this host dies meanwhile, the row expires and the leader does it. A job that is
still locked after a try has waited for it is left to the leader's rescue, which comes by again: the other jobs do not wait for
it.

It deliberately starts no process in the place of the dead one, and knows no process that lives.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from fastq.backoff import Backoff
from fastq.board import board
from fastq.errors import DatabaseUnavailable
from fastq.events import emit, tell_ended
from fastq.leases.lease import identity_of
from fastq.postgres import db, hints, sqlstate
from fastq.postgres.kept import Rebuilt
from fastq.service import Threaded
from fastq.texts import error_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fastq.board.board import Board
    from fastq.config import Config
    from fastq.postgres.db import Connection

SESSION_END_TIMEOUT = 2_000
"""Milliseconds to wait for the sessions of a dead child: a backend notices at its next query or wait."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 1.0
"""Seconds between attempts while the database is away or refuses, doubling: a restarted server is found soon."""

OWED = "the jobs of dead processes are not given back"
"""The work that a host that ends now leaves to the leader of another one."""


class Dead(NamedTuple):
    """A dead child: the cause of its end as far as known, and the contents of its desk and lanes."""

    number: int
    pid: int
    cause: str
    claimed: list[int]  # ids, sorted, like the next
    executing: list[int]
    done: list[int]  # had ended, and may have been written
    claim: int  # that had no answer; 0: none
    after: int  # below every seq of that claim
    queue: str  # of that claim
    sessions: list[int]  # pids of its backends
    holder: str  # as which it held leases of singletons; '': it did not
    held_up: bool = False  # a recovery waited for a lock in vain


class Recovery(Threaded):
    """The recovery's thread.

    The supervisor's main thread makes it and calls `add`, `finish`, `owes` and `watched`; the registrar's thread asks `owes`,
    too. Our thread owns the session, and calls `ended`, the registrar's, with each number that is done with.
    """

    def __init__(self, config: Config, url: str, board: Board, ended: Callable[[int], None]) -> None:
        super().__init__("recovery")
        self._config = config
        self._url = url
        self._board = board
        self._ended = ended
        self._dead: deque[Dead] = deque()  # the main thread adds, ours takes out, and puts one that failed behind the others
        self._wakeup = threading.Event()
        self._stopping = False  # written by the main thread
        self._session = Rebuilt("recovery", self._connect, Backoff(FIRST_PAUSE, LONGEST_PAUSE))

    def add(self, number: int, desk: int, pid: int, cause: str) -> list[int]:
        """Give back the jobs of a dead child: read the board now, before another process sits down there; write soon.

        Return the ids of the jobs that it was executing.
        """
        shown = self._board.desk(desk)
        claimed: list[int] = []
        executing: set[int] = set()
        done: set[int] = set()
        for lane in self._board.all_lanes(desk):
            held = lane.outstanding()
            claimed += held[0]
            executing |= held[1]
            done |= lane.ended(told=bool(shown[board.LEFT]))
        cells = self._board.cells(desk)
        in_bundles, at_work = cells.outstanding()
        claimed, executing, done = list({*claimed, *in_bundles}), executing | at_work, done | cells.ended_with(done)
        dead = Dead(
            number=number,
            pid=pid,
            cause=cause,
            claimed=sorted(claimed),
            executing=sorted(executing),
            done=sorted(done),
            claim=shown[board.CLAIM],
            after=shown[board.CLAIM_AFTER],
            queue=list(self._config.concurrency)[shown[board.CLAIM_QUEUE]],
            sessions=[shown[at] for at in board.SESSIONS if shown[at]],
            holder=identity_of(pid, shown[board.STANDS]) if shown[board.STANDS] else "",
        )
        self._dead.append(dead)
        self._wakeup.set()
        return dead.executing

    def finish(self, by: float) -> float:
        """End after all recoveries."""
        self._stopping = True
        self._wakeup.set()
        return max(0.0, by - time.monotonic())

    @property
    def owes(self) -> str:
        """Say that jobs of dead processes have not been given back yet."""
        return OWED if self._dead else ""

    def watched(self) -> Iterable[Connection]:
        """Give the connection, for the watchdog."""
        return self._session.watched()

    def _run(self) -> None:
        while True:
            if not self._dead:
                self._session.drop()  # deaths are rare, and an idle host keeps no connection for them
                if self._stopping:
                    return
                self._wakeup.wait()
                self._wakeup.clear()
                continue
            try:
                self._recover_next(self._session.open())
                self._session.pauses.reset()
            except (db.Error, DatabaseUnavailable) as error:
                pause = self._session.failed(db.first_line(error))
                time.sleep(FIRST_PAUSE if self._stopping else pause)

    def _connect(self) -> Connection:
        """Open a session in which nothing waits for a lock for longer than a beat takes to come round."""
        limit = str(int(self._config.beat_interval * 1000))
        return db.session(self._config, self._url, "recovery", settings={"lock_timeout": limit})

    def _recover_next(self, connection: Connection) -> None:
        try:
            self._recover_one(connection, self._dead[0])
        except (db.Error, DatabaseUnavailable) as error:
            # It may be this one that cannot be recovered: the others first.
            self._dead.append(self._dead[0]._replace(held_up=sqlstate.too_slow(error)))
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
        held = [id_ for id_ in dead.claimed if id_ not in locked]
        of_executing = error_json(f"the process {dead.pid} that executed the job died ({dead.cause})", died=dead.cause)
        of_done = error_json(
            f"the process {dead.pid} died ({dead.cause}) when the job had just ended, before its outcome was written",
            died=dead.cause,
        )
        lost = (held, dead.claim, dead.after, dead.queue, dead.executing, self._config.max_crashes, dead.number)
        again, ended, _, fates = hints.sending(
            connection, lambda channel: connection.run_one("job_recover", *lost, channel, of_executing, dead.done, of_done)
        )
        if dead.holder:
            hints.sending(connection, lambda channel: connection.run("lease_release_all", dead.holder, channel))
        self._ended(dead.number)
        tell_ended(fates)
        if again or ended:
            took = time.monotonic() - began
            emit("jobs.recovered", level=logging.WARNING, pid=dead.pid, again=again, ended=ended, took=round(took, 4))
