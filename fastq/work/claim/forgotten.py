"""Find jobs that this process runs according to the table, but does not hold, and end their attempts: nobody else ever would.

A row stays `running` with nobody running it when the database has forgotten a completion (a failover to a standby that lagged, a
restore, a crash where commits are not waited for), or when a completion was given up since the database refused it. The process
lives, so no rescue comes for its jobs. The main thread of a worker process makes a `Forgotten`; from then on the producer's
thread alone uses it and writes it: serial with its claims, so no claim of its own is on its way, and a claim without an answer
has been settled by then (unanswered.py).

    when     on each new connection of the producer or the completer, and every INTERVAL; after a long look, later
    where    job_ready from the left, as far as this process has ever claimed: not through the backlog (`reached`, the
    producer's);
             queues from which it has never claimed are passed over
    read     a window of rows a statement; jobs that the process was seen to hold before it was sent are left out
    sure     a job that is left may be between two places (held.py), so an exact account is taken of all held jobs
    then     the attempt has been executed, as far as anybody can know, so it counts as failed: the job goes to the completer as
             a failed one, and is retried, split and set aside as ever. The claim is the fence: a row that somebody has changed
             stays

It comes again for a job that cannot be ended either (a trigger of the user's), ever later. It deliberately does not ask why a
row was forgotten, and does nothing at the end of a process: its supervisor or the leader gives the rest back.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from fastq.backoff import Backoff
from fastq.board.cursor_words import PRIORITIES
from fastq.events import emit
from fastq.jobs.job import KEPT, Job
from fastq.jobs.outcome import Failed, failed
from fastq.postgres import db, sqlstate
from fastq.size import Size
from fastq.texts import error_json
from fastq.work.codec.claimed import integers
from fastq.work.shared.held import Account

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastq.board.board import Board
    from fastq.postgres.db import Connection
    from fastq.work.shared.held import Held
    from fastq.work.shared.lane import Feed

INTERVAL = 4.0
"""Seconds between looks while nothing calls for one: after a restore that cut no connection no job is stuck for longer than that
and a moment. An idle process sends a statement for each queue so often."""

REST = 200
"""A look is followed by this many times its own length without one: half a hundredth of the producer's time at most, also
where a forgotten transaction keeps dead rows alive and makes each walk long. The wait for a lock does not count: a restore locks
the table for a while, and fills it then."""

REST_BETWEEN = 4
"""The same after one window of several: in between jobs are claimed as ever."""

SLOW_REST = 60.0
"""Seconds until the next look after one that the server has ended: it was slow, or the table was locked. A guess."""

LONGEST_REST = 600.0
"""Seconds between looks, however long they take. A guess: ten minutes are better than never."""

WINDOW, SMALLEST_WINDOW = 5_000, 100
"""Rows that are looked at in one statement, some 5 ms, for which claims wait. Halved where the server says it takes too long."""

SOON, PATIENCE = 0.005, 5.0
"""Seconds between two looks of an account, and until one that does not come out is begun anew: threads that wait for the
interpreter get it within milliseconds, unless a job of C code keeps it."""

FULL_REST = 1.0
"""Seconds until the next look when there was no room for all that was found: completions have made some by then. A guess."""

FIRST_AGAIN, LAST_AGAIN = 10.0, 600.0
"""Seconds until the refused end of a job is tried again, doubling. Guesses: each try is a few statements and log lines."""

TOLD = (
    "the database does not know the outcome of this attempt, though its process lives: the completion was refused (see "
    "completion.refused in the log), or lost with a failover, a restore or a crash of the server"
)

_NUMBER = struct.Struct(">q")


class Numbers(Protocol):
    """The part of the process's seat that is needed here."""

    number: int


class Surroundings(Protocol):
    """The attributes of `Process` (work/process.py) that are needed here; its main thread has set them before, once."""

    feeds: list[Feed]
    held: Held
    board: Board

    @property
    def seat(self) -> Numbers:
        """Give the process's number."""
        ...


@dataclass
class Batch:
    """The batch of a job that was found in the table: it has one row, is never executed, and never changes."""

    kind: str
    queue: str
    claim: int
    max_attempts: Sequence[int]
    priorities: Sequence[int] = (1,)
    worker: Any = None
    work: Any = None
    ends: int = KEPT
    timeout: float | None = None
    around: Any = ()
    steps: dict[int, Any] | None = None
    times: dict[int, Any] | None = None

    def created_at(self, row: int, /) -> datetime:  # noqa: ARG002 - JobBatch's signature
        """Say nothing: nobody asks."""
        return datetime.min.replace(tzinfo=UTC)

    def tags(self, row: int, /) -> tuple[str, ...]:  # noqa: ARG002 - the same
        """Say nothing either."""
        return ()

    def meta(self, row: int, /) -> Mapping[str, Any]:  # noqa: ARG002 - the same
        """Say nothing either."""
        return {}

    def allow(self, row: int, attempts: int, /) -> None:
        """Do nothing: the job is never executed."""


class Forgotten:
    """The looks of one process, all by its producer's thread."""

    def __init__(self, around: Surroundings, reached: Sequence[list[int]]) -> None:
        self.look_at = 0.0  # monotonic: when there is something to do; read by the producer
        self.sessions = 0  # that the completer was last seen to have opened; the same
        self._held = around.held
        self._feeds = around.feeds
        self._me = (around.seat.number, os.getpid())
        self._host = socket.gethostname().encode()
        self._words = [around.board.cursor(feed.number) for feed in around.feeds]
        self._reached = reached  # by feed: how far our claims and the frontiers ever were; written by the receiver, too
        self._window = Size(WINDOW, SMALLEST_WINDOW)  # rows
        self._at = 0.0  # monotonic: when the next window is due
        self._took = 0.0  # seconds that the look under way has taken so far
        self._feed = 0  # that it has come to
        self._after = [0] * PRIORITIES  # and how far in that
        self._suspects: list[int] = []  # ids of a window that were not seen to be held ...
        self._queue = self._feeds[0]  # ... of this queue ...
        self._account: Account | None = None  # ... until an account tells whether they are
        self._account_at = self._account_by = 0.0  # monotonic: the next look of it, and its last
        self._tried: dict[tuple[int, int], tuple[Backoff, float]] = {}  # id, claim: when it may be ended again, by pauses

    def soon(self) -> None:
        """Have the next look come at once, and begin at the left: the database may be another one than it was."""
        if self._account is not None:
            self._account.close()
        self._suspects, self._account = [], None
        self._begin(0.0)
        self.look_at = 0.0

    def look(self, connection: Connection, claimed: int, last: int, room: int) -> tuple[Feed, list[Job[Any]]] | None:
        """Look; return jobs to complete, as failed, `room` at most, and their queue.

        `claimed` says how many jobs the process has claimed so far, those from here among them; `last` is its last claim.
        """
        if self.sessions != self._held.completer.sessions:
            self.sessions = self._held.completer.sessions
            self.soon()
        try:
            if not self._suspects:
                self._walk(connection)
            if not self._suspects or not self._is_sure(claimed, last):
                return None
            return self._queue, self._take(connection, room)
        finally:
            self.look_at = self._account_at if self._suspects else self._at

    def _begin(self, rest: float) -> None:
        self._feed, self._after, self._took = 0, [0] * PRIORITIES, 0.0
        self._at = time.monotonic() + rest

    def _find_claimed(self) -> bool:
        """Go on to a queue from which this process has claimed something, ever: in others no row can say that we run it."""
        while self._feed < len(self._feeds) and not any(self._reached[self._feed]):
            self._feed += 1
        return self._feed < len(self._feeds)

    def _walk(self, connection: Connection) -> None:
        """Look at a window of rows, and note which of the jobs there this process was not seen to hold."""
        if not self._find_claimed():
            self._begin(INTERVAL)
            return
        began = time.monotonic()
        self._queue, reached = self._feeds[self._feed], self._reached[self._feed]
        reached[:] = map(max, reached, self._words[self._feed].frontier)
        seen = {job.id for job in self._held.jobs()}
        own = time.monotonic() - began
        number, pid, *places = map(_NUMBER.pack, (*self._me, *self._after, *reached, self._window.now))
        try:
            _, row = connection.run_blobs("job_of_process", [number, pid, self._host, self._queue.name.encode(), *places])
        except db.Error as error:
            if not sqlstate.too_slow(error):
                raise
            self._window.shrink(self._window.now)
            self._begin(SLOW_REST)
            return
        ids, looked, priority, seq, micros = map(integers, row)
        self._suspects = [id_ for id_ in ids if id_ not in seen]
        took = own + micros[0] / 1e6
        self._took += took
        if looked[0] == self._window.now:
            lane = priority[0] - 1
            self._after = [*reached[:lane], seq[0], *self._after[lane + 1 :]]
        else:
            self._feed, self._after = self._feed + 1, [0] * PRIORITIES
        if self._feed == len(self._feeds):
            self._begin(min(max(INTERVAL, REST * self._took), LONGEST_REST))
        else:
            self._at = time.monotonic() + REST_BETWEEN * took

    def _is_sure(self, claimed: int, last: int) -> bool:
        """Go on with the account that tells which suspects are held; when it has come out, leave the others, and return True."""
        now = time.monotonic()
        if self._account is None:
            self._account, self._account_by = Account(self._held, claimed, last), now + PATIENCE
        here = self._account.whole()
        if here is None:
            self._account_at = now + SOON
            if now > self._account_by:
                self._account.close()
                self._account = None
            return False
        self._suspects, self._account = [id_ for id_ in self._suspects if id_ not in here], None
        return True

    def _take(self, connection: Connection, room: int) -> list[Job[Any]]:
        """Make failed jobs of the forgotten rows, but for those that have been ended in vain a moment ago."""
        ids, self._suspects = self._suspects, []
        if not ids:
            return []
        now = time.monotonic()
        rows = [
            row
            for row in connection.run("job_forgotten", ids, self._me[0])
            if (row[0], row[1]) not in self._tried or self._tried[row[0], row[1]][1] <= now
        ]
        if len(rows) > room:  # the rest when these are written
            rows = rows[: max(room, 0)]
            self._begin(FULL_REST)
        self._tried = {job: tried for job, tried in self._tried.items() if now < tried[1] + LAST_AGAIN}
        for id_, claim, *_ in rows:
            pauses, _ = self._tried.get((id_, claim), (Backoff(FIRST_AGAIN, LAST_AGAIN), 0.0))
            self._tried[id_, claim] = (pauses, now + pauses.next())
        if rows:
            emit("jobs.forgotten", level=logging.WARNING, queue=self._queue.name, count=len(rows))
        return [self._failed(row) for row in rows]

    def _failed(self, row: tuple[Any, ...]) -> Job[Any]:
        id_, claim, attempt, max_attempts, kind, cancel_requested = row
        job: Job[Any] = Job(id_, attempt, None, 0, Batch(kind, self._queue.name, claim, (max_attempts,)))
        # The statement that gives jobs back ends those with a cancellation asked for, be it the last attempt or not.
        job.outcome = Failed(error_json(TOLD), 0.0) if cancel_requested else failed(job, TOLD)
        return job
