"""Write outcomes back: one thread per worker process, a batch at a time.

The first outcome after a quiet moment is written at once; while a statement is under way the next ones gather, so batches grow
with the load, and there is no interval to tune.

This is the thread: it takes batches out of the outbox, has the writer write them, counts the jobs that have left, calls the
producer when it waits for that, tries again the jobs that the writer has set aside, and has the tally of the statistics written
now and then (tally.py). The main thread makes the `Completer` and
calls the methods that a service has (`start`, `finish`, `watched`, `owes`); `_run` and all that it calls are the completer's
thread, which alone writes the attributes that name no other writer. It deliberately knows no statement and no outcome: the
statements are listed in writes.py, and writer.py decides how a batch that fails is tried again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from fastq.board import board
from fastq.service import Threaded
from fastq.work.complete.writer import LOCKED_REST, Writer

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from fastq.config import Config
    from fastq.jobs.job import Job
    from fastq.postgres.db import Connection
    from fastq.work.complete.tally import Untold
    from fastq.work.shared.budget import Budget
    from fastq.work.shared.lane import Outbox

SHARE = 2 / 3
"""Of FASTQ_BATCH, taken at once: less makes standstills shorter, and costs two processes some speed (docs/adr/0014)."""

LAST_REST = 0.1
"""Seconds between looks at the jobs that are set aside, at the end of the process: a guess; each look costs a statement."""

QUIET = 60.0
"""Seconds to sleep at most while nothing comes; only so that a stop is never missed."""


class Completer(Threaded):
    """The completer's thread. `completed` counts the jobs that have left for good; the producer reads it to know its room."""

    def __init__(
        self,
        config: Config,
        outbox: Outbox,
        connect: Callable[[], Connection],
        desk: memoryview,
        tally: Untold | None = None,
    ) -> None:
        super().__init__("completer")
        self.outbox = outbox
        self.writer = Writer(
            config, self._counted, tally
        )  # the jobs that it sets aside are read by the producer's thread (held.py)
        self.completed = 0  # written here, read by the producer
        self.sessions = 0  # opened so far; the same
        self.call_when_written: Callable[[], None] | None = None  # set by the producer, which waits; cleared here, by the batch
        self.stopping = False  # written by the main thread: end when the outbox is empty
        self.budget: Budget | None = None  # set by the producer
        self.batch: list[Job[Any]] = []  # under way; read by the producer's thread (held.py)
        self.seen: deque[Job[Any]] | None = None  # the jobs that have left; the producer's thread sets and empties it
        self._look_at = 0.0  # monotonic time of the next look at the jobs that are set aside; the thread's own
        self._at_once = max(1, int(config.batch * SHARE))  # jobs that are taken
        self._connect = connect
        self._desk = desk  # of its process, on the board
        self._statement_timeout = config.statement_timeout

    def watched(self) -> list[Connection]:
        """Give the connection to the watchdog."""
        return self.writer.session.watched()

    def finish(self, by: float) -> float:
        """End when the outbox is empty, and try nothing again after that monotonic time; called by the main thread."""
        self.writer.give_up_at = by
        self.stopping = True
        self.writer.ending.set()
        self.outbox.wake()
        return max(0.0, by - time.monotonic()) + self._statement_timeout  # the last statement may be sent just before

    @property
    def owes(self) -> str:
        """Say how many jobs could not be written: the supervisor gives them back."""
        return f"{self.writer.unwritten} outcomes are not written" if self.writer.unwritten else ""

    def _counted(self) -> Connection:
        """Open a session, and show the producer that it is another one."""
        opened = self._connect()
        self.sessions += 1
        return opened

    def _run(self) -> None:
        writer, tally, outbox, rest = self.writer, self.writer.tally, self.outbox, 0.0
        while True:
            jobs = outbox.take(self._at_once, rest)
            if jobs:
                self._settle(jobs)
            elif self.stopping and (not writer.aside or writer.gives_up):
                if writer.aside:
                    writer.leave_unwritten(len(writer.aside), "their rows are locked")
                if not writer.gives_up:
                    tally.write(writer.session)
                return
            if time.monotonic() >= tally.write_at:
                tally.write(writer.session)
            if writer.aside and (self.stopping or time.monotonic() >= self._look_at):
                aside, writer.aside = writer.aside, []
                self._settle(aside)
                self._look_at = time.monotonic() + LOCKED_REST
            ending, waiting = LAST_REST if writer.aside else 0.0, LOCKED_REST if writer.aside else QUIET
            rest = ending if self.stopping else waiting  # a stop that is told from here on ends the sleep
            if (budget := self.budget) is not None and budget.left != budget.trimmed and not outbox.jobs:
                rest = budget.rest(rest)
            rest = max(0.0, min(rest, tally.write_at - time.monotonic()))

    def _settle(self, jobs: list[Job[Any]]) -> None:
        """Write a batch and count the jobs that have left."""
        writer = self.writer
        kept = len(writer.aside)
        self.batch = jobs
        writer.write(jobs)
        done = len(jobs) + kept - len(writer.aside)
        seen = self.seen
        if seen is not None:
            seen.extend(jobs)
        self.batch = []  # before it counts: a job that is seen here has not been counted
        if (budget := self.budget) is not None and budget.came != budget.left:
            budget.ended(jobs, writer.aside)
        self.completed += done
        self._desk[board.ENDED] += done
        # The producer sets this and then looks at `completed`, here it is the other way round: one sees the other.
        if (call := self.call_when_written) is not None:
            self.call_when_written = None
            call()
