"""Write completions back: one thread per worker process, a batch at a time.

The first completion after a quiet moment is written at once; while a statement is under way the next ones gather, so batches
grow with the load, and there is no interval to tune.

Only rows that still carry the claim of the execution change; the others are reported as lost ownership.
Sorted ids keep two completers from deadlocking. A batch is written in up to four parts, each a commit. If Postgres refuses a
part because of a value, the part is split until that row is found, and its job fails with the reason.
If that is refused too, the failure is written without a text; if even that is refused, forgotten.py takes the job.
Parts that are written are not sent again: their jobs would be reported as lost. A lost connection is rebuilt and its part sent
again, which is safe: rows that were committed before the answer was lost are no longer ours, and the statement leaves them alone.
A part is bounded by the bytes of its outputs and errors, and halved when the connection is lost over it twice: it may be too much
for the server, or too slow on its way. A locked job (by an open transaction that cancels it, say) is set aside when it has held
up a part, and tried again.
It deliberately never looks at args, nor at a worker beyond its `archive`.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import TYPE_CHECKING, Any

from fastq.errors import DatabaseUnavailable
from fastq.events import Seldom, emit, tell_ended
from fastq.jobs import outcome
from fastq.jobs.job import Cancel, Job
from fastq.jobs.outcome import Failed, Output
from fastq.postgres import db, hints, sqlstate
from fastq.work.codec.codec import encode_bools, encode_floats, encode_ids, encode_texts
from fastq.work.shared.pauses import FIRST_PAUSE, LONGEST_PAUSE

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from fastq.config import Config
    from fastq.postgres.db import Connection
    from fastq.work.shared.budget import Budget
    from fastq.work.shared.lane import Outbox

    Part = tuple[Callable[[list[Job[Any]]], None], list[Job[Any]]]

BYTES = 33_554_432
"""Bytes of outputs and errors in one part, and one job beyond: the figure of a claim's args. A server takes no more than 1 GB."""

SHARE = 2 / 3
"""Of FASTQ_BATCH, taken at once: less makes standstills shorter, and costs two processes some speed (docs/adr/0014)."""

LOSSES = 2
"""Connections that are lost over a part before it is halved: one is lost whenever the server restarts."""

GROW_AFTER = 60.0
"""Seconds after which parts that were halved are tried at twice their size: the server may be faster again. A guess."""

LOCKED_REST, LAST_REST = 1.0, 0.1
"""Seconds between looks at jobs set aside, and at the end of the process: a guess; each look costs a statement."""

QUIET = 60.0
"""Seconds to sleep at most while nothing comes; only so that a stop is never missed."""


class Completer:
    """The completer's thread. `completed` counts jobs that have left for good; the producer reads it to know its room."""

    def __init__(
        self, config: Config, outbox: Outbox, connect: Callable[[], Connection], on_completed: Callable[[int], None]
    ) -> None:
        self.outbox = outbox
        self.completed = 0  # written here, read by the producer
        self.call_when_written: Callable[[], None] | None = None  # set by the producer, which waits; cleared here, by the batch
        self.connection: Connection | None = None  # read by the watchdog
        self.stopping = False  # written by the main thread: end when the outbox is empty
        self.give_up_at: float | None = None  # written by the main thread: monotonic time after which nothing is tried again
        self._ending = threading.Event()
        self.budget: Budget | None = None  # set by the producer
        self.unwritten = 0  # completions that could not be written
        self.batch: list[Job[Any]] = []  # under way; this and `aside` are read by the producer's thread (held.py)
        self.aside: list[Job[Any]] = []  # with rows that others had locked
        self.seen: deque[Job[Any]] | None = None  # jobs that have left; the producer's thread sets and empties it
        self._refused: Job[Any] | None = None  # with the outcome that was refused last; the thread's own, like all that follows
        self._held_up = False  # a part was, and there may be locked rows: look before each
        self._look_at = 0.0  # monotonic time of the next look at them
        self._seldom = Seldom()
        self._at_once = max(1, int(config.batch * SHARE))  # taken
        self._most = config.batch  # jobs in a part
        self._grow_at = 0.0  # monotonic
        self._config = config
        self._connect = connect
        self._on_completed = on_completed
        self.thread = threading.Thread(target=self._run, name="fastq completer", daemon=True)

    def finish(self, give_up_at: float) -> None:
        """End when the outbox is empty, and try nothing again after that monotonic time; called by the main thread."""
        self.give_up_at = give_up_at
        self.stopping = True
        self._ending.set()
        self.outbox.wake()

    def _run(self) -> None:
        while True:
            jobs = self.outbox.take(self._at_once)
            if jobs:
                self._settle(jobs)
            elif self.stopping and (not self.aside or self._gives_up):
                if self.aside:
                    self._leave_unwritten(len(self.aside), "their rows are locked")
                return
            else:
                self.outbox.wait((LAST_REST if self.stopping else LOCKED_REST) if self.aside else QUIET)
            if self.aside and (self.stopping or time.monotonic() >= self._look_at):
                aside, self.aside = self.aside, []
                self._settle(aside)
                self._look_at = time.monotonic() + LOCKED_REST

    def _settle(self, jobs: list[Job[Any]]) -> None:
        """Write a batch and count the jobs that have left."""
        kept = len(self.aside)
        self.batch = jobs
        self._write(jobs)
        done = len(jobs) + kept - len(self.aside)
        seen = self.seen
        if seen is not None:
            seen.extend(jobs)
        self.batch = []  # before it counts: a job that is seen here has not been counted
        if self.budget is not None:
            self.budget.ended(jobs, self.aside)
        self.completed += done
        self._on_completed(done)
        # The producer sets this and then looks at `completed`, here it is the other way round: one sees the other.
        if (call := self.call_when_written) is not None:
            self.call_when_written = None
            call()
        self._held_up = bool(self.aside)

    @property
    def _gives_up(self) -> bool:
        return self.give_up_at is not None and time.monotonic() >= self.give_up_at

    def _leave_unwritten(self, count: int, why: str) -> None:
        self.unwritten += count
        emit("completions.unwritten", level=logging.ERROR, count=count, error=why)

    def _write(self, jobs: list[Job[Any]]) -> None:
        """Write a batch, however long the database takes to come back; each of its parts is written once."""
        parts, pause, losses = self._cut(self._parts(jobs)), FIRST_PAUSE, 0
        while parts:
            write, part = parts[0]
            try:
                if self._held_up:
                    part = self._without_locked(part)
                    parts[0] = write, part
                if part:
                    write(part)
            except (db.Error, DatabaseUnavailable) as error:
                count = sum(len(some) for _, some in parts)
                if self._gives_up:
                    self._leave_unwritten(count, db.first_line(error))
                    return
                if sqlstate.row_refused(error):
                    self._bisect(part, error)
                    del parts[0]
                    continue
                self._held_up = True  # perhaps by a locked row; after a lost connection it costs one more statement
                losses += self.connection is not None  # else it is an attempt at a new one that has failed
                if losses >= LOSSES and len(part) > 1:
                    losses, self._most, self._grow_at = 0, len(part) // 2, time.monotonic() + GROW_AFTER
                    parts = self._cut(parts)
                emit("completer.waits", level=logging.WARNING, count=count, error=db.first_line(error), pause=pause)
                self._drop_connection()
                spread = pause * random.uniform(0.5, 1.0)  # noqa: S311 - spreads processes, keeps no secret
                if self._ending.wait(spread):  # the end does not wait out a long pause, but does not spin either
                    time.sleep(FIRST_PAUSE)
                pause = min(pause * 2, LONGEST_PAUSE)
            except (ValueError, TypeError, OverflowError) as error:  # an outcome that cannot be encoded must not end the process
                self._bisect(part, error)
                del parts[0]
            else:
                del parts[0]
                pause, losses = FIRST_PAUSE, 0
                self._grow()

    def _without_locked(self, jobs: list[Job[Any]]) -> list[Job[Any]]:
        """Set those aside that somebody has locked; return the others."""
        locked = {id_ for (id_,) in self._open.run("job_locked", [job.id for job in jobs])}
        if not locked:
            return jobs
        if self._seldom.lets("locked"):
            emit("completer.waits", level=logging.WARNING, count=len(locked), error="their rows are locked", pause=LOCKED_REST)
        self.aside += [job for job in jobs if job.id in locked]
        return [job for job in jobs if job.id not in locked]

    def _grow(self) -> None:
        """Take twice as much again, some time after it was halved."""
        if self._most < self._config.batch and time.monotonic() >= self._grow_at:
            self._most = min(2 * self._most, self._config.batch)
            self._grow_at = time.monotonic() + GROW_AFTER

    def _bisect(self, jobs: list[Job[Any]], error: BaseException) -> None:
        """Write the halves apart; a single job that is refused fails with the reason, or if that is too much, without it."""
        if len(jobs) > 1:
            self._write(jobs[: len(jobs) // 2])
            self._write(jobs[len(jobs) // 2 :])
            return
        job, told = jobs[0], db.first_line(error)
        emit("completion.refused", level=logging.ERROR, id=job.id, kind=job.kind, error=told)
        if job is not self._refused:
            self._refused, job.outcome = job, outcome.failed(job, f"the outcome could not be stored: {told}")
        elif isinstance(job.outcome, Failed) and job.outcome.error:  # the list of its errors may hold no more
            job.outcome = Failed("", job.outcome.delay)
        else:  # a trigger of yours, say, lets it neither succeed nor fail
            self._leave_unwritten(1, told)
            return
        self._write(jobs)

    def _cut(self, parts: list[Part]) -> list[Part]:
        """Cut parts into pieces that are small enough, by jobs and by the bytes of outputs and errors."""
        pieces: list[Part] = []
        for write, part in parts:
            begin, size = 0, 0
            for at, job in enumerate(part) if write in (self._finish, self._give_back) else ():
                if size >= BYTES:
                    pieces.append((write, part[begin:at]))
                    begin, size = at, 0
                size += len(_told(job.outcome))
            pieces.append((write, part[begin:]))
        most = self._most
        return [(write, piece[at : at + most]) for write, piece in pieces for at in range(0, len(piece), most)]

    def _parts(self, jobs: list[Job[Any]]) -> list[Part]:
        """Sort a batch by the statements that write it; each is a commit of its own, so the rows of one stay written."""
        archived: list[Job[Any]] = []
        deleted: list[Job[Any]] = []
        finished: list[Job[Any]] = []
        given_back: list[Job[Any]] = []
        archive = self._config.archive
        for job in jobs:
            if job.outcome is None:
                (archived if archive and job.batch.worker.archive else deleted).append(job)
                continue
            match job.outcome:
                case Output():
                    (finished if archive and job.batch.worker.archive else deleted).append(job)
                case Cancel() | Failed(delay=None):
                    finished.append(job)
                case _:
                    given_back.append(job)
        parts = [
            (self._archive, archived),
            (self._delete, deleted),
            (self._finish, finished),
            (self._give_back, given_back),
        ]
        return [(write, part) for write, part in parts if part]

    def _archive(self, jobs: list[Job[Any]]) -> None:
        self._complete("job_complete_archive", jobs)

    def _delete(self, jobs: list[Job[Any]]) -> None:
        self._complete("job_complete", jobs)

    def _complete(self, name: str, jobs: list[Job[Any]]) -> None:
        """Write successes of which nothing more is to be kept: the ids, and the few claims that they came with."""
        ids = sorted([job.id for job in jobs])
        claims = list({job.batch.claim for job in jobs})
        count, _ = self._open.run_blobs(name, [encode_ids(ids), encode_ids(claims)])
        self._check_count(len(ids), count)

    def _finish(self, jobs: list[Job[Any]]) -> None:
        jobs.sort(key=_id)
        states = [
            "completed" if type(job.outcome) is Output else "cancelled" if type(job.outcome) is Cancel else "discarded"
            for job in jobs
        ]
        errors = [outcome.error_of(job.outcome) for job in jobs]
        outputs = [job.outcome.json if isinstance(job.outcome, Output) else None for job in jobs]
        self._tell("job_finish", jobs, encode_texts(states), encode_texts(errors), encode_texts(outputs))
        fates = zip(states, jobs, strict=True)
        tell_ended((state, job.id, job.kind, job.attempt) for state, job in fates if state != "completed")

    def _give_back(self, jobs: list[Job[Any]]) -> None:
        jobs.sort(key=_id)
        delays = [outcome.delay_of(job.outcome) for job in jobs]
        charged = [type(job.outcome) is Failed for job in jobs]
        errors = [outcome.error_of(job.outcome) for job in jobs]
        columns = encode_floats(delays), encode_bools(charged), encode_texts(errors)
        hints.sending(self._open, lambda to: self._tell("job_retry", jobs, *columns, to.encode() if to else None))

    def _tell(self, name: str, jobs: list[Job[Any]], *columns: bytes | None) -> None:
        """Run a statement that takes ids, claims and more of each job, and answers with the number that were still ours."""
        ids, claims = encode_ids([job.id for job in jobs]), encode_ids([job.batch.claim for job in jobs])
        _, row = self._open.run_blobs(name, [ids, claims, *columns])
        self._check_count(len(jobs), int.from_bytes(row[0] or b"", "big"))

    def _check_count(self, expected: int, count: int) -> None:
        if count != expected:
            emit("ownership.lost", level=logging.WARNING, count=expected - count)

    @property
    def _open(self) -> Connection:
        if self.connection is None:
            self.connection = self._connect()
        return self.connection

    def _drop_connection(self) -> None:
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


def _id(job: Job[Any]) -> int:
    return job.id


def _told(result: object) -> str:
    """Return the text that is written of an outcome, or near enough to know its size."""
    return result.json if isinstance(result, Output) else outcome.error_of(result) or ""
