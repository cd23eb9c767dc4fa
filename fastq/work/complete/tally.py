"""Count the attempts that this process has ended, and write the counts every few seconds: the process's part of the statistics.

The completer's own: the writer tells it of each statement that has been answered, and the completer has it write, on the session
that it has anyway. Nothing else touches it, so it has no lock. Of a batch of plain successes of one kind it takes the number; a
job that was timed (codec/timed.py) brings its times.

Jobs wait from when they are due. A claim does not tell that moment, but it tells the job's seq, and there are notes of when seqs
were given out. If the seq is in the range of a promotion (sql/job_promote.sql), the job was due when that note says. If the seq
was given out at the time of the enqueue, the job was due then. Any other job was handed back, or let go at a gate, or is a step
of a workflow: nobody knows since when it was due, and its waiting is not timed.

Invariant: an attempt is counted at most once. It counts when the answer to its statement has come, and the counts are sent once:
if no answer comes to that, they are dropped, with an event. The last seconds of a process that is killed are lost. It
deliberately never holds up a completion: counts that cannot be written are tried again after a while.
"""

from __future__ import annotations

import logging
import math
import time
from bisect import bisect_right
from collections import Counter
from contextlib import contextmanager
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from fastq.errors import FastqError
from fastq.events import Seldom, emit
from fastq.jobs.job import State
from fastq.leases.lease import boottime
from fastq.postgres import db, sqlstate
from fastq.statistics.bins import OF_WAITS, bin_of
from fastq.work.codec.timed import Timed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from fastq.jobs.job import Job
    from fastq.jobs.outcome import Fate
    from fastq.postgres.db import Connection
    from fastq.postgres.kept import Kept

BATCH = attrgetter("batch")

INTERVAL = 5.0
"""Seconds from the first count until the counts are written: as fresh as a person needs them, for a millisecond of work."""

AGAIN = 60.0
"""Seconds until counts that the database refused are sent again: somebody has to migrate the schema, or to grant a right."""

PATIENCE = 0.01
"""Seconds that a write waits for a lock that somebody has on the tables: completions wait meanwhile. A lock that is held for a
moment, as by a vacuum that cuts the table, may pass; for any other the counts wait until the next write."""

MOST = 20_000
"""Timed jobs that wait for their notes at most: those of a minute at 40,000 jobs a second. Others have no waiting time then."""

NOTES = 5_000
"""Notes that one look reads at most: seqs that span more of them are hours apart, and the later ones have no waiting time."""

KEYS = 20_000
"""Keys under which counts are kept that cannot be written: some 12 MB. Each minute in which jobs were enqueued is a key, so where
nobody grants the right they become more for as long as the process lives. A guess."""

SLACK = 0.001
"""Seconds between the `created_at` of a job and its seq, which one statement gives both: it is microseconds."""

ENQUEUED = "enqueued"
"""The word, beside the states, under which a job that has ended is counted in the minute in which it was enqueued."""

SUCCESS = State.COMPLETED.value

ENDED = {State.COMPLETED, State.CANCELLED, State.DISCARDED}

Key = tuple[str, str, str, float | None]  # queue, kind, outcome, and the minute where it is not the present one


Times = tuple[str, str, State, float, float, int, int, float]
"""Queue, kind and state of a timed job, when it began and ended, for how many it stands, its seq, and when it was enqueued."""


class Cell:
    """What there is to write about one key."""

    __slots__ = ("counts", "jobs", "run_seconds", "runs", "wait_seconds", "waits")

    def __init__(self) -> None:
        self.jobs = self.runs = self.waits = 0
        self.run_seconds = self.wait_seconds = 0.0
        self.counts: Counter[int] = Counter()  # by bin; those of waiting times from OF_WAITS on

    def row(self) -> tuple[object, ...]:
        """Return it as the values of a row behind the key."""
        bins, counts = _array(self.counts), _array(self.counts.values())
        return self.jobs, self.runs, self.run_seconds, self.waits, self.wait_seconds, bins, counts


class Wait(NamedTuple):
    """A timed job, of which the waiting time is not known yet."""

    cell: Cell
    seq: int
    enqueued: float
    began: float
    stands_for: int


class Untold:
    """Counts nothing: for a process without statistics, and for tools that write outcomes."""

    write_at = math.inf
    """The monotonic time at which there is something to write; endless: there is nothing."""

    def plain(self, jobs: Sequence[Job[Any]], batches: AbstractSet[Any], ours: int) -> None:
        """Count plain successes; `batches` are those of the jobs."""

    def others(self, jobs: Sequence[Job[Any]], fates: Sequence[Fate], ours: int) -> None:
        """Count attempts with these fates."""

    def elsewhere(self, ended: Sequence[tuple[Job[Any], Fate]]) -> None:
        """Count attempts that have ended in transactions of their own."""

    def write(self, session: Kept[[]]) -> None:
        """Write the counts."""


class Tally(Untold):
    """The counts of one process that are not written yet. All of it is the completer's thread's."""

    def __init__(self) -> None:
        self._cells: dict[Key, Cell] = {}
        self._times: list[Times] = []  # as they came: to count them one after the other takes a third of the time that it takes
        # between two batches, when the processor has forgotten the code
        self._waits: list[Wait] = []
        self._seldom = Seldom()

    def plain(self, jobs: Sequence[Job[Any]], batches: AbstractSet[Any], ours: int) -> None:
        """Count plain successes, of which so many rows were ours; which of the jobs these are the answer does not say.

        Mostly all are of one kind: then it is their number, without a look at each.
        """
        named = {(batch.queue, batch.kind) for batch in batches}
        if len(named) == 1:
            self._cell((*named.pop(), SUCCESS, None)).jobs += ours
        else:
            for batch, count in Counter(map(BATCH, jobs[len(jobs) - ours :])).items():
                self._cell((batch.queue, batch.kind, SUCCESS, None)).jobs += count
        for batch in batches:
            if type(batch) is Timed:
                self._time(batch, State.COMPLETED)

    def others(self, jobs: Sequence[Job[Any]], fates: Sequence[Fate], ours: int) -> None:
        """Count attempts by their fates, likewise."""
        first = len(jobs) - ours
        self.elsewhere([*zip(jobs[first:], fates[first:], strict=True)])

    def elsewhere(self, ended: Sequence[tuple[Job[Any], Fate]]) -> None:
        """Count attempts, each by its fate."""
        for job, fate in ended:
            state = state_after(fate)
            if state is not None:
                batch: Any = job.batch
                self._cell((batch.queue, batch.kind, state.value, None)).jobs += 1
                if type(batch) is Timed:
                    self._time(batch, state)

    def _time(self, batch: Timed, state: State) -> None:
        """Take the times of a job that is timed; its batch has the columns of a claim, so it is not kept."""
        watch = batch.stopwatch
        self._times.append(
            (batch.queue, batch.kind, state, watch.began, watch.ended, batch.stands_for, batch.seq, batch.enqueued)
        )
        if len(self._times) >= MOST:
            self._settle_times()

    def _settle_times(self) -> None:
        """Count the times that were taken, and the minutes in which the jobs were enqueued that have ended."""
        times, self._times = self._times, []
        for queue, kind, state, began, ended, stands_for, seq, enqueued in times:
            cell = self._cell((queue, kind, state.value, None))
            if state in ENDED:
                self._cell((queue, kind, ENQUEUED, enqueued // 60 * 60)).jobs += stands_for
            if ended:
                cell.runs += 1
                cell.run_seconds += stands_for * (ended - began)
                cell.counts[bin_of(ended - began)] += stands_for
            if began and len(self._waits) < MOST:
                self._waits.append(Wait(cell, seq, enqueued, began, stands_for))

    def _cell(self, key: Key) -> Cell:
        """Return the cell of a key; the first one since the counts were written says when they are to be written again."""
        if not self._cells:
            self.write_at = time.monotonic() + INTERVAL
        return self._cells.get(key) or self._cells.setdefault(key, Cell())

    def write(self, session: Kept[[]]) -> None:
        """Write the counts, if there are any; keep those that the database has refused, or that a lock has held up."""
        if not self._cells:
            return
        asked_to_commit = False
        try:
            self._settle_times()
            connection = session.open()
            with _patient(connection):
                self._settle_waits(connection)
                rows = [(*key, *cell.row()) for key, cell in self._cells.items()]
                connection.run("stat_write", *map(list, zip(*rows, strict=True)))
                asked_to_commit = True
        except (db.Error, FastqError) as error:
            if not sqlstate.lock_not_available(error):  # which leaves the session as good as it was
                session.drop()
            self.write_at = time.monotonic() + (INTERVAL if sqlstate.passes(error) else AGAIN)
            refused = asked_to_commit or sqlstate.row_refused(error)
            if refused or len(self._cells) > KEYS:
                self._forget(error)
            elif self._seldom.lets(told := db.first_line(error)):
                emit("stats.waits", level=logging.WARNING, error=told)
            return
        self._cells.clear()
        self.write_at = math.inf

    def _forget(self, error: BaseException) -> None:
        """Drop counts that are refused for good, or too many to keep, or written perhaps: twice is worse than not at all."""
        jobs = sum(cell.jobs for (_, _, outcome, _), cell in self._cells.items() if outcome != ENQUEUED)
        emit("stats.dropped", level=logging.WARNING, jobs=jobs, error=db.first_line(error))
        self._cells.clear()
        self._waits.clear()
        self.write_at = math.inf

    def _settle_waits(self, connection: Connection) -> None:
        """Turn the times at which jobs began into times for which they had waited, by the database's clock."""
        if not self._waits:
            return
        seqs = [wait.seq for wait in self._waits]
        asked = boottime()
        clock, *notes = connection.run_one("stat_notes", min(seqs), max(seqs), NOTES)
        known, ahead = Known(*notes), clock - (asked + boottime()) / 2  # to half a round trip
        waits, self._waits = self._waits, []
        for wait in waits:
            since = known.due_since(wait)
            if since is None:
                continue
            seconds, cell = max(0.0, wait.began + ahead - since), wait.cell
            cell.waits += 1
            cell.wait_seconds += wait.stands_for * seconds
            cell.counts[OF_WAITS + bin_of(seconds)] += wait.stands_for


class Known:
    """When seqs were given out: notes in the order of their first seqs, each with its last seq, if it is one of a promotion."""

    def __init__(self, firsts: Sequence[int], lasts: Sequence[int | None], ats: Sequence[float]) -> None:
        self._firsts = firsts
        self._after = list(accumulate(ats, max))  # each seq from such a first one on was given out after that time
        notes = zip(firsts, lasts, ats, strict=True)
        self._promotions = [(first, last, at) for first, last, at in notes if last is not None]
        self._promoted = [first for first, _, _ in self._promotions]
        self._end = firsts[-1] if len(firsts) == NOTES else math.inf  # there may be notes behind it

    def due_since(self, wait: Wait) -> float | None:
        """Return since when a job was due; None if nobody knows."""
        place = bisect_right(self._firsts, wait.seq) - 1
        if place < 0 or wait.seq > self._end:
            return None
        if self._promoted and (before := bisect_right(self._promoted, wait.seq)):
            _, last, at = self._promotions[before - 1]
            if wait.seq <= last and wait.enqueued <= at:
                return at  # one that was enqueued later took its seq between those of the promotion
        return wait.enqueued if wait.enqueued >= self._after[place] - SLACK else None


@contextmanager
def _patient(connection: Connection) -> Iterator[None]:
    """Run statements as one transaction, which is refused where a lock does not come within PATIENCE.

    A setting of the session would not do: a pooler may hand the session to others.
    """
    try:
        connection.execute(f"begin; set local lock_timeout = {int(PATIENCE * 1000)}")
        yield
    except BaseException:
        if connection.usable:
            connection.execute("rollback")
        raise
    connection.execute("commit")


def state_after(fate: Fate) -> State | None:
    """Return the state in which an attempt leaves its job; None if another process has it, and this one says nothing of it.

    A failed attempt is `retryable` though the next one follows at once; one that was handed back is `available`.
    """
    if fate.elsewhere and fate.unsure:
        return None
    if fate.state is not None:
        return fate.state
    if fate.charged:
        return State.RETRYABLE
    if fate.gates is not None or fate.limited is not None or fate.parks is not None or math.isinf(fate.delay):
        return State.WAITING
    return State.SCHEDULED if fate.delay > 0 else State.AVAILABLE


def _array(numbers: Any) -> str:
    return f"{{{','.join(map(str, numbers))}}}"
