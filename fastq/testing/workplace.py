"""Work the jobs of one queue in the test's own thread, by the parts of a worker process put together without its threads.

Made and used in the thread of a test. A `Workplace` is a `Process` (work/process.py) of one queue and one slot: a real claim
statement, the decoding of args, the modes of executing, the list of writes. The parts are those of hands.py. One job is claimed,
executed and written after the other, so jobs that a job has enqueued come in their turn, by their priority.

Invariants:
- No more is started than was asked for. Jobs that were claimed beside it, since a batch worker takes many, are handed back as at
  the stop of a process.
- An error of the database is raised in the test; nothing is tried again.
- No job stays claimed that was not started, unless the database cannot be told.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fastq.board import board
from fastq.board.board import Board
from fastq.board.extent import ring_size
from fastq.errors import FastqError
from fastq.joblogs import keeping
from fastq.jobs.outcome import Release
from fastq.jobs.worker import BUNDLES
from fastq.postgres import db
from fastq.results import progress
from fastq.testing.hands import HANDS, HandCompleter, HandFeed, HandMode, HandNotes, HandProducer, HandScribe
from fastq.testing.ran import failure_of, ran, read_states
from fastq.work.modes import MODES, modes_for
from fastq.work.shared.away import Away
from fastq.work.shared.held import Held
from fastq.work.shared.lane import Outbox

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Iterator

    from fastq.config import Config
    from fastq.jobs.job import Job
    from fastq.jobs.registry import Registry
    from fastq.postgres.db import Connection
    from fastq.testing.hands import Errors
    from fastq.testing.ran import Ran
    from fastq.work.complete.completer import Completer

BATCH = 500
"""Jobs of one claim at most, which only a batch worker has: more than any `work_many` of a test is given. A guess."""


@dataclass
class Seat:
    """The part of a process's seat that its producer needs."""

    number: int
    wake_read: int
    wake_write: int


class Workplace:
    """The parts for one queue. All attributes are those that the parts want of their process."""

    def __init__(
        self,
        queue: str,
        connection: Connection,
        config: Config,
        registry: Registry,
        number: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._connection = connection
        self._closing = ExitStack()
        self._returned: list[Job[Any]] = []  # handed back, and not written yet
        self.errors: Errors = {}
        self.results: list[tuple[Ran, BaseException | None]] = []  # with the exception to raise, if there is one
        self.config = config = replace(config, queues={queue: 1}, prefetch=0.0, batch=BATCH)
        self.seat = Seat(number, *os.pipe())
        self._closing.callback(os.close, self.seat.wake_read)
        self._closing.callback(os.close, self.seat.wake_write)
        self.outbox = Outbox()
        self.modes = [mode for mode in modes_for(registry.workers.values(), self.outbox, HANDS) if isinstance(mode, HandMode)]
        for mode in self.modes:
            mode.settle_in(loop, self.errors)
        self.board = Board.make([1], 1, ring_size(config), len(MODES))
        self._closing.callback(os.close, self.board.fd)
        self.desk = self.board.desk(0)
        self.desk[board.PROCESS] = number
        boards = self.board.lanes(0, 0)
        self.feeds: list[Any] = [
            HandFeed(queue, [mode.lane(boards[mode.number], 1, _nobody) for mode in self.modes], self.errors)
        ]
        self._writing = HandCompleter(config, self.outbox, lambda: connection, self.desk)
        self.completer: Completer = self._writing
        self.held = Held(self)
        self.away = Away(config, self.held)
        self.producer = HandProducer(self, registry.workers, lambda: connection)
        self.notes = HandNotes(lambda: connection)

    def close(self) -> None:
        """Hand back the jobs that have not started, since the test has met an error; close the pipe and the board."""
        left = self.feeds[0].drain()
        for job in left:
            job.outcome = Release()
        self.outbox.jobs.extend(left)
        with self._closing, suppress(db.Error):
            self._writing.write()

    def turn(self, *, once: bool) -> Iterator[Coroutine[Any, Any, None]]:
        """Claim, execute and write: one job, or `once` not asked for all of a batch worker that came with it.

        The coroutines that it gives are to be awaited on the event loop, each before the next. `results` has the attempts.
        """
        self.results = []
        while self._claims():
            continue
        self._keep(once=once)
        with ExitStack() as heard:
            scribe = self._hear(heard)
            while any(lane.inbox for lane in self.feeds[0].lanes):
                for mode in self.modes:
                    yield from mode.execute()
            self.notes.write()
            scribe.write()
        self._write()

    def _claims(self) -> bool:
        """Claim once; tell whether that brought jobs of a batch worker, of which more may come."""
        feed = self.feeds[0]
        before = feed.claimed
        self.producer.look()
        gathers = any(lane.gathers and lane.inbox for lane in feed.lanes)
        return bool(feed.claimed > before and gathers)

    def _keep(self, *, once: bool) -> None:
        """Hand back the jobs that are not to start now: all but the first, or but its bundle."""
        feed = self.feeds[0]
        jobs: list[Job[Any]] = sorted(feed.drain(), key=_turn_of)
        if not jobs:
            return
        first = jobs[0].batch.worker
        mine = [job for job in jobs if job.batch.worker is first] if first.mode == BUNDLES else jobs[:1]
        if once and first.mode == BUNDLES:
            mine = mine[: first.up_to]
        kept = {id(job) for job in mine}
        self._returned = [job for job in jobs if id(job) not in kept]
        for job in self._returned:
            job.outcome = Release()
        self.outbox.jobs.extend(self._returned)
        feed.put(mine, 0)

    def _hear(self, heard: ExitStack) -> HandScribe:
        """Take the notes of the jobs and, for this turn, their log lines: between two turns it is the test that prints."""
        progress.use(self.notes.take)
        heard.callback(progress.use, None)
        scribe = HandScribe(self.config.job_log_level, lambda: self._connection)
        if keeping.is_wanted():
            scribe.start()
            heard.callback(scribe.finish, 0.0)
        return scribe

    def _write(self) -> None:
        """Write all outcomes, and keep the results."""
        written: list[Job[Any]] = []
        while jobs := self._writing.write():
            written += jobs
        writer = self._writing.writer
        if writer.unwritten or writer.aside:
            raise FastqError(
                f"the outcomes of {writer.unwritten + len(writer.aside)} jobs could not be written: the log has the reason "
                "(completions.unwritten), or a transaction of the test has their rows locked"
            )
        returned = {id(job) for job in self._returned}
        ended = [job for job in written if id(job) not in returned]
        states = read_states(self._connection, [job.id for job in ended]) if ended else {}
        for job in ended:
            result = ran(job, states, self.errors.get(job.id))
            self.results.append((result, failure_of(job, result)))


def _nobody() -> None:
    """Call no producer: it looks when it is asked to."""


def _turn_of(job: Job[Any]) -> tuple[int, int, int]:
    return job.priority, job.batch.claim, job.row
