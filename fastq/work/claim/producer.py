"""Claim jobs in bulk for all executors of a process, decode them, hand them out: one thread per worker process.

A round looks at each queue: is there room, and can a look at the database find something? Then it takes the queue's turn,
claims, decodes and fills the inbox. Between rounds it sleeps on a pipe, into which write: the supervisor (a notification
came), the executors (the inbox runs low, or ran dry while there was more to claim), the completer (a batch was written while
the producer waited for room) and the thread that stops the process. docs/adr/0014 lists every sleep and the thread that ends it.

How much to claim: enough for the executors that rest, and as much again as they will start within FASTQ_PREFETCH seconds
at the pace of the last rounds. So slow jobs are not hoarded by one process while another idles, and fast ones come by
the thousand. Two bounds: the board's ring must be able to hold every id, and the args must stay within their budget (budget.py).

A claim without an answer may have committed: then rows carry our claim that no process knows of. On the next connection they are
handed back first (unanswered.py).
It deliberately has no fixed cooldown and never claims for a rate of its own.
"""

from __future__ import annotations

import logging
import os
import select
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from fastq.backoff import Backoff
from fastq.errors import DatabaseUnavailable
from fastq.events import emit
from fastq.postgres import db, sqlstate
from fastq.postgres.kept import FIRST_PAUSE, LONGEST_PAUSE, Kept
from fastq.service import Threaded
from fastq.work.claim.forgotten import Forgotten
from fastq.work.claim.receiver import Receiver, Taken
from fastq.work.claim.source import Source
from fastq.work.claim.unanswered import Unanswered
from fastq.work.claim.under_way import UnderWay
from fastq.work.cursor.looks import Claim
from fastq.work.cursor.sending import send, send_part
from fastq.work.shared.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastq.board.board import Board
    from fastq.config import Config
    from fastq.jobs.worker import Worker
    from fastq.postgres.db import Connection
    from fastq.work.codec.claimed import Claimed
    from fastq.work.shared.away import Away
    from fastq.work.shared.feed import Feed
    from fastq.work.shared.held import Held
    from fastq.work.shared.lane import Outbox


class Numbers(Protocol):
    """The part of its process's seat that a producer needs."""

    number: int
    wake_read: int
    wake_write: int


class Written(Protocol):
    """The part of the completer that a producer needs."""

    completed: int  # jobs so far
    budget: Budget | None  # the producer's, from which the completer takes the args of jobs that are written
    call_when_written: Callable[[], None] | None


class Surroundings(Protocol):
    """The part of the process around it that a producer needs."""

    @property
    def seat(self) -> Numbers:
        """Give the process's number, and the pipe that wakes the producer."""
        ...

    @property
    def completer(self) -> Written:
        """Give the completer."""
        ...

    config: Config
    board: Board
    desk: memoryview
    feeds: list[Feed]
    outbox: Outbox
    held: Held
    away: Away


class Producer(Threaded):
    """The producer's thread."""

    def __init__(self, around: Surroundings, workers: Mapping[str, Worker[Any]], connect: Callable[[], Connection]) -> None:
        self.stopping = False  # written by the main thread
        super().__init__("producer")
        self._around = around
        self._config = around.config
        self._wake_read, self._wake_write = around.seat.wake_read, around.seat.wake_write
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        self._poller = select.poll()
        self._poller.register(self._wake_read, select.POLLIN)
        self._sources = [Source(feed, around.board, workers, self._config) for feed in around.feeds]
        self.session = Kept(connect)
        self._under_way = UnderWay(around.desk, around.seat.number)
        self._unanswered = Unanswered(self._under_way, around.config, [feed.name for feed in around.feeds])
        self._away = around.away
        self._forgotten = Forgotten(around)
        self._budget = around.completer.budget = Budget(around.config.prefetch_bytes, around.board.ring)
        self._receiver = Receiver(around, workers, self._under_way, self._budget)
        self._pauses = Backoff(FIRST_PAUSE, LONGEST_PAUSE)

    def stop(self) -> float:
        """End after this round; the other parts wait for that, since the jobs that it claims are handed back."""
        self.stopping = True
        self.wake()
        return self._config.statement_timeout + 1.0

    def watched(self) -> list[Connection]:
        """Give the connection, for the watchdog."""
        return self.session.watched()

    def wake(self) -> None:
        """Make the producer look; any thread may call this, any number of times."""
        try:
            os.write(self._wake_write, b"!")
        except BlockingIOError:
            return  # the pipe is full of wake-ups

    def _run(self) -> None:
        while not self.stopping:
            timeout = self._round()
            if timeout > 0:
                self._sleep(timeout)
        self.session.drop()

    def _sleep(self, seconds: float) -> None:
        """Sleep until somebody calls, at most so long."""
        if self._poller.poll(seconds * 1000):
            with suppress(BlockingIOError):
                os.read(self._wake_read, 65_536)

    def _round(self) -> float:
        """Look at each queue once; return the seconds to sleep."""
        absences = self._away.times
        try:
            connection = self._connected()
            self._unanswered.look_again(connection)
            found = self._forgotten.look(connection, self._receiver.claimed, self._under_way.last, self._ring_room())
            if found:
                self._receiver.hold(*found)
            again = False
            for source in self._sources:
                again |= self._feed(source)
        except (db.Error, DatabaseUnavailable) as error:
            return self._lost(error)
        finally:
            self._away.check(absences)
        self._pauses.reset()
        if again:
            return 0.0
        return self._forgotten.wait(self._unanswered.wait(min(map(self._rest, self._sources))))

    def _connected(self) -> Connection:
        """Return the connection. On a new one the claims without an answer are handed back before anything is claimed."""
        if self.session.connection is None:
            self._under_way.connecting()
            connection = self.session.open()
            self._unanswered.settle(connection)
            self._forgotten.soon()
            if connection.prepares:
                self._sources[0].cursor.claims.prepare(connection)
        return self.session.open()

    def _rest(self, source: Source) -> float:
        """Return the seconds that a queue can be left alone while nobody calls."""
        if not source.feed.free() or self._is_full():
            return self._config.poll_interval  # the executors call, or the completer does
        return max(source.wait(), 0.001)

    def _feed(self, source: Source) -> bool:
        """Claim for one queue if there is room and reason; tell whether it may be worth to look again at once."""
        prefetch = source.demand.prefetch()
        wanted = self._wanted(source, prefetch)
        if not wanted:
            source.feed.hunger()  # tell us when you run dry ...
            if self._is_full():
                self._around.completer.call_when_written = self.wake  # ... and you when there is room in the ring ...
            return self._wanted(source, prefetch) > 0  # ... unless that has just happened
        if not source.due():
            return False
        try:
            return self._claim(source, wanted, prefetch // 2)
        except db.Error as error:
            self._claim_failed(source, error)
            return True

    def _wanted(self, source: Source, prefetch: int) -> int:
        """Return how many jobs to claim now, 0 for none."""
        return 0 if self._is_full() else source.demand.wanted(prefetch, self._ring_room())

    def _is_full(self) -> bool:
        """Tell whether nothing can be claimed before some outcomes are written."""
        return self._ring_room() <= 0 or self._budget.room() <= 0

    def _ring_room(self) -> int:
        """Count the ids that can be claimed before the ring may lose one that is not written yet."""
        return self._around.board.ring - (self._receiver.claimed - self._around.completer.completed)

    def _claim(self, source: Source, wanted: int, low: int) -> bool:
        """Claim in our turn, and hand out after it: a job that keeps the interpreter must not keep others from their turn."""
        cursor, connection = source.cursor, self.session.open()
        taken: list[Taken] = []
        part = last = None
        turn = cursor.take_turn()
        try:
            if source.waiting.due():
                found = source.waiting.claim(connection, lambda: self._named(source), wanted, self._budget)
                self._forgotten.reach(source.feed.number, found.last_seqs())
                taken.append(self._receiver.take(source, found))
                wanted -= len(found)
            for kind, job in source.resting.look(connection):
                self._receiver.oddities.unknown(kind, cursor.name, job)
            if not wanted or not cursor.due():  # another process of this host has just looked
                return bool(taken and any(taken[0]))
            cursor.claims.bound = source.portion.bound(self._budget)
            part = cursor.take_part(wanted) if turn and source.portion.whole else None
            if part is None:
                last = self._look(source, connection, wanted, taken)
        finally:
            if turn:
                cursor.end_turn()
            for each in taken:  # also where a later statement has failed: these are ours
                self._receiver.hand_out(source.feed, each, low)
        if part is not None:
            last = send_part(cursor, connection, self._named(source), part)
        if last is not None:
            taken.append(self._receiver.take(source, last))
            self._receiver.hand_out(source.feed, taken[-1], low)
        return part is not None or any(map(any, taken))

    def _look(self, source: Source, connection: Connection, wanted: int, taken: list[Taken]) -> Claimed | None:
        """Send the statements of a look; return the jobs of its last claim: they are decoded after the turn."""
        cursor, look, last = source.cursor, source.cursor.look(wanted), None
        while (step := look.next_step()) is not None:
            if last is not None and (isinstance(step, Claim) or not step.brief):
                taken.append(self._receiver.take(source, last))
                cursor.claims.bound, last = source.portion.bound(self._budget), None
            answer = send(cursor, connection, step, lambda: self._named(source))
            look.learn(step, answer)
            last = answer if isinstance(step, Claim) else last
        return last

    def _named(self, source: Source) -> int:
        """Name the claim that is about to be sent."""
        return self._under_way.send(source.feed.number, source.cursor.lowest())

    def _claim_failed(self, source: Source, error: db.Error) -> None:
        """Claim less next time, and at last pass by the single job that cannot be claimed; raise errors that no job causes."""
        cursor, connection = source.cursor, self.session.open()
        tried, cursor.claims.tried = cursor.claims.tried, None
        if tried is not None:
            source.portion.failed(tried.limit, cursor.name, error)
        if tried is None or not sqlstate.row_refused(error):
            raise error
        self._under_way.answered()
        cursor.look_again()
        first = cursor.claims.first(connection, tried) if tried.limit == 1 else None
        if first is not None:
            job, kind, priority, seq = first
            if source.portion.set_aside(job, kind, error):
                cursor.pass_by(tried, priority, seq)

    def _lost(self, error: BaseException) -> float:
        pause = self._pauses.next()
        emit("producer.waits", level=logging.WARNING, error=db.first_line(error), pause=pause)
        if self.session.drop():  # else it is an attempt at a new one that has failed, and all has been said
            for source in self._sources:
                source.cursor.distrust()
        until = time.monotonic() + pause
        while not self.stopping and (left := until - time.monotonic()) > 0:
            self._sleep(left)  # a call gets a look at all queues after the pause; only the end of the process cuts it short
        return 0.0
