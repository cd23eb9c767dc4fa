"""Write a batch of outcomes, however long the database takes to come back, and find the one that it refuses.

Used by the completer's thread of a worker process; starts none of its own, so that a test or a tool may write a batch in place.
The list of statements is in writes.py; this module decides how to go on when one of them fails:

- A part that Postgres refuses because of a value is halved until the one row at fault is found, and that job fails with the
  reason. Where Postgres refuses that too, the failure is written without a text; where even that is refused, the writer counts
  the outcome in `unwritten` and lets go of the job, and the row stays `running`. The producer's thread (claim/forgotten.py) finds
  the row later, as one that this process runs according to the table and does not hold. If the process ends before that, its
  supervisor gives the job back.
- An object that is no outcome, or one that cannot be encoded, fails its job in the same way: it must neither end the process nor
  have the job run again for ever.
- A lost connection is rebuilt and its part sent again, which is safe: rows that were committed before the answer was lost are no
  longer ours, and the statement leaves them alone. Parts that are written are not sent again: their jobs would be reported as
  lost.
- A part over which the connection is lost twice is halved: it may be too much for the server, or too slow on its way.
- Rows that somebody has locked (a transaction that cancels a running job and is not ended) are set aside once they have held up a
  part; the completer tries them again.

Only rows that still carry the claim of the execution change; any other row is reported as lost ownership. It deliberately never
looks at args, nor at a worker beyond its `archive`, and never asks for the type of an outcome.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from fastq import events
from fastq.backoff import Backoff, spread
from fastq.errors import DatabaseUnavailable
from fastq.events import UNLOGGED, Seldom, asked, emit, emit_each, heard
from fastq.hooks.timing import facts_of
from fastq.jobs.outcome import failed, fate_of
from fastq.postgres import db, hints, sqlstate
from fastq.postgres.kept import FIRST_PAUSE, LONGEST_PAUSE, Kept
from fastq.size import Size
from fastq.work.codec import codec
from fastq.work.complete.tally import BATCH, Untold
from fastq.work.complete.writes import cut, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from fastq.config import Config
    from fastq.jobs.job import Job
    from fastq.jobs.outcome import Fate
    from fastq.postgres.db import Connection
    from fastq.work.complete.writes import Part

LOSSES = 2
"""Connections that are lost over a part before it is halved: one is lost whenever the server restarts."""

GROW_AFTER = 60.0
"""Seconds after which parts that were halved are tried at twice their size: the server may be faster by then. A guess."""

LOCKED_REST = 1.0
"""Seconds between looks at the jobs that are set aside: a guess; each look costs a statement."""


class Writer:
    """The way of outcomes into the database. The completer's thread writes; attributes say which others read or write them."""

    def __init__(self, config: Config, connect: Callable[[], Connection], tally: Untold | None = None) -> None:
        # Opened and dropped by the completer's thread; the main thread reads its connection to cut an overdue statement.
        self.session = Kept(connect)
        # Jobs with locked rows. The writer adds to this list in the completer's thread, and the completer takes the whole
        # list and has it written again; the producer's thread (held.py) and, when the process breaks, its main thread
        # (process.py) only read it.
        self.aside: list[Job[Any]] = []
        self.unwritten = 0  # outcomes that could not be written; read by the main thread
        self.give_up_at: float | None = None  # written by the main thread: monotonic time after which nothing is tried again
        self.ending = threading.Event()  # set by the main thread: the process ends, so pauses are short
        self.tally = tally or Untold()  # counts what has been written
        self._archive = config.archive
        self._encode_ids = codec.chosen().encode_ints
        self._size = Size(config.batch, rest=GROW_AFTER)  # jobs in a part
        self._pauses = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._troubled = False  # it had to wait, and is not yet as it was
        self._losses = 0  # connections lost over the part under way
        self._held_up = False  # a part was, and there may be locked rows: look before each
        self._refused: Job[Any] | None = None  # its outcome was the last to be refused
        self._seldom = Seldom()

    @property
    def gives_up(self) -> bool:
        """Tell whether nothing is tried again."""
        return self.give_up_at is not None and time.monotonic() >= self.give_up_at

    def write(self, jobs: list[Job[Any]]) -> None:
        """Write a batch; each of its parts is written once."""
        self._write(jobs)
        self._held_up = bool(self.aside)

    def leave_unwritten(self, count: int, why: str) -> None:
        """Count outcomes that are given up, and report them."""
        self.unwritten += count
        emit("completions.unwritten", level=logging.ERROR, count=count, error=why)

    def _write(self, jobs: list[Job[Any]]) -> None:
        try:
            parts = self._parts(jobs)
        except Exception as error:  # noqa: BLE001 - a mistake in the class of one outcome must not hold up the batch
            self._bisect(jobs, error)
            return
        while parts:
            try:
                if self._held_up:
                    parts[0] = self._without_locked(parts[0])
                self._send(parts[0])
            except (db.Error, DatabaseUnavailable) as error:
                if self.gives_up:
                    self.leave_unwritten(sum(len(part.jobs) for part in parts), db.first_line(error))
                    return
                if sqlstate.row_refused(error):
                    self._bisect(parts.pop(0).jobs, error)
                else:
                    parts = self._wait(parts, error)
            except (ValueError, TypeError, OverflowError) as error:
                self._bisect(parts.pop(0).jobs, error)
            else:
                del parts[0]
                if self._troubled:
                    self._went_well()

    def _parts(self, jobs: list[Job[Any]]) -> list[Part]:
        """Sort a batch by the statements that write it, in pieces that are small enough; count the jobs that ended elsewhere."""
        elsewhere: list[tuple[Job[Any], Fate]] = []
        parts = cut(parts_of(jobs, archive=self._archive, elsewhere=elsewhere), self._size.now)
        if elsewhere:
            self.tally.elsewhere(elsewhere)
        return parts

    def _send(self, part: Part) -> None:
        """Run the statement of a part; report rows that were no longer ours, and jobs that have ended without success."""
        if not part.jobs:
            return
        batches = set() if part.write.columns else set(map(BATCH, part.jobs))
        name, parameters, began = part.write.statement, self._parameters(part, batches), time.monotonic()
        connection = self.session.connection or self.session.open()
        if part.write.hinted:
            rows, row = hints.sending(
                connection, lambda to: connection.run_blobs(name, [*parameters, to.encode() if to else None])
            )
        else:
            rows, row = connection.run_blobs(name, parameters)
        answered = part.write.columns or part.write.hinted
        count = int.from_bytes(row[0] or b"", "big") if answered else rows
        if count < len(part.jobs) and part.write.again:
            count += self._once_more(part, parameters)
        ours = count == len(part.jobs)
        if not ours and not part.write.unsure:
            emit("ownership.lost", level=logging.WARNING, count=len(part.jobs) - count)
        if batches:
            self.tally.plain(part.jobs, batches, count)
        else:
            self.tally.others(part.jobs, part.fates, count)
        if part.fates and (ours or not part.write.unsure):
            _tell_ended(part)
            if part.write.tell is not None:
                part.write.tell(part.jobs, part.fates)
        if events.subscribed:
            _tell_completed(part, time.monotonic() - began)

    def _parameters(self, part: Part, batches: Iterable[Any]) -> list[bytes]:
        """Return the parameters of a part's statement, without the channel; rows are locked in the order of their ids everywhere.

        `batches` are those of its jobs, where it has no columns.
        """
        jobs, fates = part.jobs, part.fates
        ids = [job.id for job in jobs]
        if not part.write.columns:
            return [self._encode_ids(sorted(ids)), self._encode_ids(list({batch.claim for batch in batches}))]
        columns = (column.encode([*map(column.value, fates)]) for column in part.write.columns)
        return [self._encode_ids(ids), self._encode_ids([job.batch.claim for job in jobs]), *columns]

    def _once_more(self, part: Part, parameters: Sequence[bytes]) -> int:
        """Run the statement of a part again; return how many rows it has found that it had left."""
        name, connection = part.write.statement, self.session.open()
        _, row = hints.sending(connection, lambda to: connection.run_blobs(name, [*parameters, to.encode() if to else None]))
        return int.from_bytes(row[0] or b"", "big")

    def _went_well(self) -> None:
        self._losses = 0
        self._pauses.reset()
        self._size.succeeded(self._size.now)  # a small part as well as a large one: the server may be faster again
        self._troubled = not self._size.whole

    def _wait(self, parts: list[Part], error: BaseException) -> list[Part]:
        """Rest after the connection was lost; return the parts to go on with, smaller ones if it was lost over one before."""
        count = sum(len(part.jobs) for part in parts)
        self._troubled = self._held_up = True  # perhaps by a locked row; after a lost connection it costs one more statement
        self._losses += self.session.drop()  # where there was none, an attempt at a new one has failed
        if self._losses >= LOSSES and len(parts[0].jobs) > 1:
            self._losses = 0
            self._size.shrink(len(parts[0].jobs))
            parts = cut(parts, self._size.now)
        pause = self._pauses.next()
        emit("completer.waits", level=logging.WARNING, count=count, error=db.first_line(error), pause=pause)
        if self.ending.wait(spread(pause)):  # the end does not wait out a long pause, but does not spin either
            time.sleep(FIRST_PAUSE)
        return parts

    def _without_locked(self, part: Part) -> Part:
        """Set the jobs aside whose rows somebody has locked; return a part with the others."""
        locked = {id_ for (id_,) in self.session.open().run("job_locked", [job.id for job in part.jobs])}
        if not locked:
            return part
        if self._seldom.lets("locked"):
            emit("completer.waits", level=logging.WARNING, count=len(locked), error="their rows are locked", pause=LOCKED_REST)
        self.aside += [job for job in part.jobs if job.id in locked]
        return part.without(locked)

    def _bisect(self, jobs: list[Job[Any]], error: BaseException) -> None:
        """Write the halves apart; a single job that is refused fails with the reason, or if that is too much, without it."""
        if len(jobs) > 1:
            self._write(jobs[: len(jobs) // 2])
            self._write(jobs[len(jobs) // 2 :])
        elif self._refuse(jobs[0], error):
            self._write(jobs)

    def _refuse(self, job: Job[Any], error: BaseException) -> bool:
        """Put an outcome in the place of one that was refused; False if there is none that has not been refused too."""
        told = db.first_line(error)
        emit("completion.refused", level=logging.ERROR, id=job.id, kind=job.kind, error=told)
        if job is not self._refused:
            self._refused, job.outcome = job, failed(job, f"the outcome could not be stored: {told}")
            return True
        fate = fate_of(job.outcome)
        if fate.error is None:  # a trigger of yours, say, lets it neither succeed nor fail
            self.leave_unwritten(1, told)
            return False
        job.outcome = replace(fate, error=None)  # the list of its errors may hold no more
        return True


def _tell_ended(part: Part) -> None:
    """Tell of each job that has ended otherwise than completed."""
    for state, job in part.ended():
        name = f"job.{state}"
        emit(name, level=logging.WARNING, id=job.id, kind=job.kind, attempt=job.attempt, **facts_of(job, name))


def _completed(job: Job[Any], _: float) -> dict[str, object]:
    """Return what is told of one job that has completed, to those who have asked for it."""
    return {"id": job.id, "kind": job.kind, "attempt": job.attempt, **facts_of(job, "job.completed")}


def _tell_completed(part: Part, took: float) -> None:
    """Tell the subscribers how many jobs of each kind a statement has completed, and which: the log says nothing of these."""
    if heard("jobs.completed") and (kinds := part.completed()):
        emit("jobs.completed", level=UNLOGGED, count=kinds.total(), kinds=dict(kinds), took=round(took, 6))
    if asked("job.completed") and (jobs := part.successes()):
        emit_each("job.completed", jobs, _completed)
