"""Claim jobs in bulk for all executors of a process, decode them, hand them out: one thread per worker process, the producer's.

The main thread makes the `Producer` and calls the methods that a service has (`start`, `stop`, `watched` ...); any thread calls
`wake`. All else runs in the producer's thread, which alone writes the attributes, but for `stopping`.

A round looks at a queue: is there room, and can a look at the database find something? Then it takes the queue's turn,
claims, decodes and fills the inbox. Between rounds it sleeps on a pipe, into which write: the supervisor (a notification
came), the executors (the inbox runs low, or ran dry while there was more to claim), the completer (a batch was written while
the producer waited for room) and the thread that stops the process. docs/adr/0014 lists every sleep and the thread that ends it.
Where there are several queues, the rota (rota.py) says which one is next, if any.

How much to claim is a question to demand.py. What is seldom to be done, such as the looks of waiting.py and forgotten.py, has the
time when it is due as an attribute: a round in which none of it is due makes no call for it.

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
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from fastq.args.versions.names import names_of
from fastq.backoff import Backoff
from fastq.errors import DatabaseUnavailable
from fastq.events import emit
from fastq.postgres import db, sqlstate
from fastq.postgres.kept import FIRST_PAUSE, LONGEST_PAUSE, Kept
from fastq.service import Threaded
from fastq.work.claim.forgotten import Forgotten
from fastq.work.claim.paused import Paused
from fastq.work.claim.receiver import Receiver
from fastq.work.claim.rota import ALL, Rota, encode, rota_of
from fastq.work.claim.sources import Source
from fastq.work.claim.unanswered import Unanswered
from fastq.work.codec.timed import choose
from fastq.work.cursor.claims import UnderWay
from fastq.work.shared.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fastq.board.board import Board
    from fastq.config import Config
    from fastq.jobs.job import Job
    from fastq.jobs.worker import Worker
    from fastq.postgres.db import Connection
    from fastq.work.shared.away import Away
    from fastq.work.shared.held import Held
    from fastq.work.shared.lane import Feed, Outbox


class Numbers(Protocol):
    """The part of its process's seat that a producer needs."""

    number: int
    wake_read: int
    wake_write: int


class Written(Protocol):
    """The part of the completer that a producer needs; completer.py says which thread writes which attribute."""

    completed: int  # jobs so far
    sessions: int  # opened so far
    budget: Budget | None  # the producer's, from which the completer takes the args of jobs that are written
    call_when_written: Callable[[], None] | None


class Surroundings(Protocol):
    """The attributes of `Process` (work/process.py) that the producer needs.

    The main thread sets them before it makes the producer, and they are not replaced afterwards.
    """

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
    """The producer's thread, and all that it keeps."""

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
        self._completer = around.completer
        self._budget = around.completer.budget = Budget(around.config.prefetch_bytes, around.board.ring)
        self.session = Kept(connect)
        self._under_way = UnderWay(around.desk, around.seat.number)
        named = names_of(workers)
        self._sources = [self._source(feed, named) for feed in around.feeds]
        self._rota = rota_of(self._sources, around.board, around.config, around.seat.number)
        self._unanswered = Unanswered(self._under_way, around.config, [feed.name for feed in around.feeds])
        self._away = around.away
        self._forgotten = Forgotten(around, [source.reached for source in self._sources])
        self._paused = Paused(self._sources[0].cursor.words, self._config)
        self._receiver = Receiver(around, named, self._under_way, choose if self._config.stats else None)
        self._pauses = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._failed = False  # the last round has

    def _source(self, feed: Feed, kinds: Iterable[str]) -> Source:
        name, around = partial(self._under_way.send, feed.number), self._around
        return Source(feed, name, around.board, kinds, self._budget, self._config, len(around.feeds))

    def stop(self) -> float:
        """End after this round; the other parts wait for that, since the jobs that it claims are handed back."""
        self.stopping = True
        self.wake()
        return self._config.statement_timeout + 1.0

    def watched(self) -> list[Connection]:
        """Give the connection, for the watchdog."""
        return self.session.watched()

    def holds(self) -> bool:
        """Tell whether there are jobs that were claimed and have not been written; any thread may ask."""
        return self._receiver.claimed != self._completer.completed

    def wake(self, queue: int = ALL) -> None:
        """Make the producer look at a queue; any thread may call this, any number of times."""
        try:
            os.write(self._wake_write, encode(queue))
        except BlockingIOError:
            return  # the pipe is full of wake-ups

    def _run(self) -> None:
        while not self.stopping:
            seconds = self._round()
            if (seconds > 0 or self._rota) and self._poller.poll(seconds * 1000):  # somebody calls
                self._hear()
        self.session.drop()

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            calls = os.read(self._wake_read, 65_536)
            if self._rota is not None:
                self._rota.hear(calls)

    def _round(self) -> float:
        """Look at a queue; return the seconds to sleep."""
        absences, unanswered, forgotten, paused = self._away.times, self._unanswered, self._forgotten, self._paused
        try:
            connection = self.session.connection or self._connected()
            now = time.monotonic()
            if now >= unanswered.look_at:
                unanswered.look_again(connection)
            if now >= forgotten.look_at or forgotten.sessions != self._completer.sessions:
                self._end_forgotten(connection)
            if now >= paused.look_at or paused.heard != paused.words.pause_hints:
                self._learn_paused(connection)
            rest = self._feed(self._sources[0], connection) if self._rota is None else self._visit(self._rota, connection)
        except (db.Error, DatabaseUnavailable) as error:
            return self._lost(error)
        finally:
            if self._away.times != absences:
                self._away.let_go()
        if self._failed:
            self._failed = False
            self._pauses.reset()
        return rest and max(0.0, min(rest, min(unanswered.look_at, forgotten.look_at, paused.look_at) - time.monotonic()))

    def _visit(self, rota: Rota, connection: Connection) -> float:
        """Look at the queue that is next, if one is; return the seconds until one is due."""
        rota.scan(connection)
        source = rota.next()
        if source is None:
            return rota.rest()
        rota.put(source, self._feed(source, connection))
        return 0.0

    def _connected(self) -> Connection:
        """Open a connection. The claims without an answer are handed back before anything is claimed on it."""
        self._under_way.connecting()
        connection = self.session.open()
        self._unanswered.settle(connection)
        self._forgotten.soon()
        self._paused.soon()
        if connection.prepares:
            self._sources[0].cursor.claims.prepare(connection)
        return connection

    def _learn_paused(self, connection: Connection) -> None:
        """Have the parts know which kinds are paused."""
        if self._paused.look(connection):
            self._receiver.pause(self._paused.kinds)
            for source in self._sources:
                source.waiting.pause(self._paused.kinds)
                source.resting.pause(self._paused.kinds)
            if self._rota is not None:
                self._rota.call_all()

    def _end_forgotten(self, connection: Connection) -> None:
        """Have jobs end that the table says we run and that we do not hold."""
        found = self._forgotten.look(connection, self._receiver.claimed, self._under_way.last, self._ring_room())
        if found:
            self._receiver.hold(*found)

    def _feed(self, source: Source, connection: Connection) -> float:
        """Claim for one queue if there is room and reason; return the seconds that it can be left alone while nobody calls."""
        try:
            again = self._claim(source, connection, waits=source.waits())
        except db.Error as error:
            self._claim_failed(source, error)
            again = True
        if not again and not source.demand.jobs:
            source.demand.mark_again()
            source.feed.hunger()  # tell us when you run dry ...
            if self._is_full():
                call = self.wake if self._rota is None else self._rota.await_room(source, self.wake)
                self._completer.call_when_written = call  # ... and you when there is room in the ring ...
            # ... unless that has just happened.
            return 0.0 if source.demand.wanted(self._room(), source.feed.load()) else self._config.poll_interval
        if again and (source.cursor.due() or source.waits()):
            return 0.0
        # It has claimed all that there was: whoever wakes up for that gets the interpreter now, not after another round.
        due_at = min(source.cursor.due_at(), source.waiting.look_at)
        return max((due_at - time.monotonic_ns()) / 1e9, 0.001)

    def _is_full(self) -> bool:
        """Tell whether nothing can be claimed before some outcomes are written."""
        return self._room() <= 0 or self._budget.room() <= 0

    def _room(self) -> int:
        """Count the ids that a queue may claim now: of those that there is room for, its share."""
        return self._ring_room() if self._rota is None else self._rota.share(self._ring_room())

    def _ring_room(self) -> int:
        """Count the ids that can be claimed before the ring may lose one that is not written yet."""
        return self._around.board.ring - self.held

    @property
    def held(self) -> int:
        """Count the jobs that were claimed and are not written; the main thread asks, too."""
        return self._receiver.claimed - self._completer.completed

    def _claim(self, source: Source, connection: Connection, *, waits: bool) -> bool:
        """Claim in our turn, and hand out after it: a job that keeps the interpreter must not keep others from their turn.

        Jobs may wait for a worker of their kind, too. Return whether it may be worth to look again at once.
        """
        cursor, demand, receiver, before = source.cursor, source.demand, self._receiver, self._receiver.claimed
        wanted = demand.wanted(self._room(), source.feed.load())
        if not wanted or not (cursor.due() or waits):
            return False
        taken: list[list[Job[Any]]] = []
        part = last = None
        turn = cursor.take_turn()
        cursor.words.holder = self._around.seat.number
        try:
            if waits or source.resting.first or source.resting.met:
                self._look_beside(source, connection, wanted, taken)
                wanted -= receiver.claimed - before
            if not wanted or not cursor.due():  # another process of this host has just looked
                return receiver.claimed > before
            if turn and cursor.words.backlog and demand.portion.whole:
                part = cursor.take_part(wanted)
            if part is None:
                last = cursor.send_look(connection, source.name, wanted, lambda found: taken.append(receiver.take(source, found)))
        finally:
            if turn:
                cursor.end_turn()
            for jobs in taken:  # also where a later statement has failed: these are ours
                source.feed.put(jobs, demand.low)
        if part is not None:
            last = cursor.send_part(connection, source.name, part)
        if last is not None:
            source.feed.put(receiver.take(source, last), demand.low)
        return part is not None or receiver.claimed > before

    def _look_beside(self, source: Source, connection: Connection, wanted: int, taken: list[list[Job[Any]]]) -> None:
        """Claim jobs that wait for a worker of their kind, and put others to waiting, each if it is due."""
        if source.waiting.due():
            found = source.waiting.claim(connection, lambda: source.name(source.cursor.rescan.lowest()), wanted, self._budget)
            taken.append(self._receiver.take(source, found))
        for kind, job in source.resting.look(connection):
            self._receiver.unknown(kind, source.feed.name, job)

    def _claim_failed(self, source: Source, error: db.Error) -> None:
        """Claim less next time, and at last pass by the single job that cannot be claimed; raise errors that no job causes."""
        cursor, portion, connection = source.cursor, source.demand.portion, self.session.open()
        tried, cursor.claims.tried = cursor.claims.tried, None
        if tried is not None:
            portion.failed(tried.limit, cursor.name, error)
        if tried is None or not sqlstate.row_refused(error):
            raise error
        self._under_way.answered()
        cursor.look_again()
        first = cursor.claims.first(connection, tried) if tried.limit == 1 else None
        if first is not None:
            job, kind, priority, seq = first
            if portion.set_aside(job, kind, error):
                cursor.pass_by(tried, priority, seq)

    def _lost(self, error: BaseException) -> float:
        self._failed, pause = True, self._pauses.next()
        emit("producer.waits", level=logging.WARNING, error=db.first_line(error), pause=pause)
        if self.session.drop():  # else it is an attempt at a new one that has failed, and all has been said
            for source in self._sources:
                source.cursor.distrust()
        if self._rota is not None:
            self._rota.distrust()
        until = time.monotonic() + pause
        while not self.stopping and (left := until - time.monotonic()) > 0:
            if self._poller.poll(left * 1000):
                self._hear()  # a call gets a look at all queues after the pause; only the end of the process cuts it short
        return 0.0
