"""The statements that write outcomes, as a list: which fates each of them takes, and which columns it sends.

Read by the writer, in the completer's thread of a worker process, and by the ends of blocks (work/effects/ending.py), where the
jobs execute. The list never changes; kept are the places that `place_of` has found, and `LIMITS`, which the completer's thread
alone uses. A job goes to the first write of the list that takes its fate. Plain successes, most of all jobs, have a constant
fate: each costs a look at its outcome and at its batch, and no fate is made or kept for it.

A new way of writing outcomes is one more entry in WRITES. Everything else goes through the list: sorting a batch and cutting it
into parts that are small enough. It deliberately makes and runs no statement: writer.py does.
"""

from __future__ import annotations

import logging
from collections import Counter
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from fastq.events import emit
from fastq.jobs.job import TIED
from fastq.jobs.outcome import SUCCESS, fate_of
from fastq.work.codec.codec import encode_bools, encode_floats, encode_texts
from fastq.work.complete.limited import Limited

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from fastq.jobs.job import Job, State
    from fastq.jobs.outcome import Fate

BYTES = 33_554_432
"""Bytes of outputs and errors in one part, and one job beyond: the figure of a claim's args. A server takes no more than 1 GB."""


class Column(NamedTuple):
    """One array that a write sends: a value of each fate, and its encoding."""

    value: Callable[[Fate], Any]
    encode: Callable[[Sequence[Any]], bytes]


class Ending(NamedTuple):
    """What a write is chosen by: a fate, and some facts about its job."""

    state: State | None  # of the fate
    tells: bool  # the fate has an error or an output
    kept: bool  # the end of the job is kept in the archive: only a success is ever left out of it
    tied: bool  # somebody has to hear of the end of the job
    barred: bool  # it is to wait at gates
    limited: bool = False  # it has found a rate exceeded
    unsure: bool = False  # the job may have ended already
    caused: bool = False  # the fate has a cause of its own
    parked: bool = False  # it waits for a signal
    crashed: bool = False  # its own process has died, and there is a next attempt


class Write(NamedTuple):
    """One statement that writes outcomes, and the endings that it takes.

    Without columns the parameters are the ids and the distinct claims; with columns an array of ids, one of claims and the
    columns. A write with columns or hints answers with a row that begins with the number of rows, any other tells that number in
    the command tag.
    """

    statement: str
    takes: Callable[[Ending], bool]
    columns: tuple[Column, ...] = ()
    weigh: Callable[[Fate], int] | None = None  # bytes of a fate, near enough; None: as good as none
    hinted: bool = False  # its last parameter is the channel of the hints, null for none
    tell: Callable[[Sequence[Job[Any]], Sequence[Fate]], None] | None = None  # reports the jobs that it has written
    unsure: bool = False  # rows that are no longer ours are as expected
    again: bool = False  # a row that somebody else changes under the statement may be left by it, and found by a second one


def _size(fate: Fate) -> int:
    return len(fate.error or "") + len(fate.output or "")


def _tell_late(jobs: Sequence[Job[Any]], fates: Sequence[Fate]) -> None:
    """Report jobs that ended without an attempt: one event for each queue, kind and cause."""
    late = [(job.queue, job.kind, fate.cause) for job, fate in zip(jobs, fates, strict=True) if not fate.charged]
    for (queue, kind, cause), count in Counter(late).items():
        emit("jobs.expired", level=logging.WARNING, queue=queue, kind=kind, cause=cause, count=count)


STATES = Column(attrgetter("state"), encode_texts)
DELAYS = Column(attrgetter("delay"), encode_floats)
CHARGED = Column(attrgetter("charged"), encode_bools)
ERRORS = Column(attrgetter("error"), encode_texts)
OUTPUTS = Column(attrgetter("output"), encode_texts)
GATES = Column(attrgetter("gates"), encode_texts)
CAUSES = Column(attrgetter("cause"), encode_texts)
PARKS = Column(attrgetter("parks"), encode_texts)
CRASHES = Column(attrgetter("crash"), encode_texts)
LIMITED = Column(attrgetter("limited"), encode_floats)

LIMITS = Limited()
"""What this process has told of jobs that found a rate exceeded. Read and written by the completer's thread."""

WRITES = (
    Write("job_complete_archive", lambda it: it.state is SUCCESS and it.kept and not it.tells and not it.tied),
    Write("job_complete", lambda it: not it.kept and not it.tied),
    Write("job_complete_tied_archive", lambda it: it.state is SUCCESS and it.kept and not it.tells, hinted=True),
    Write("job_complete_tied", lambda it: not it.kept, hinted=True),
    Write(
        "job_finish_late",
        lambda it: it.unsure and it.caused,
        (STATES, ERRORS, CAUSES, CHARGED),
        _size,
        hinted=True,
        tell=_tell_late,
        unsure=True,
    ),
    Write(
        "job_finish",
        lambda it: it.unsure and it.state is not None,
        (STATES, ERRORS, OUTPUTS),
        _size,
        hinted=True,
        unsure=True,
    ),
    Write("job_crashed", lambda it: it.unsure and it.crashed, (DELAYS, ERRORS, CRASHES), _size, hinted=True, unsure=True),
    Write(
        "job_retry",
        lambda it: it.unsure and not it.limited,
        (DELAYS, CHARGED, ERRORS),
        _size,
        hinted=True,
        unsure=True,
        again=True,
    ),
    Write("job_finish_late", lambda it: it.caused, (STATES, ERRORS, CAUSES, CHARGED), _size, hinted=True, tell=_tell_late),
    Write("job_finish", lambda it: it.state is not None, (STATES, ERRORS, OUTPUTS), _size, hinted=True),
    Write("job_bar", lambda it: it.barred, (GATES,), hinted=True),
    Write("job_rate_limited", lambda it: it.limited, (LIMITED,), hinted=True, tell=LIMITS.tell),
    Write("job_crashed", lambda it: it.crashed, (DELAYS, ERRORS, CRASHES), _size, hinted=True),
    Write("job_park", lambda it: it.parked, (DELAYS, PARKS), hinted=True),
    Write("job_retry", lambda it: it.state is None, (DELAYS, CHARGED, ERRORS), _size, hinted=True, again=True),
)


class Part(NamedTuple):
    """Jobs of a batch that one statement writes, sorted by id where it has columns; then `fates` has the fate of each."""

    write: Write
    jobs: list[Job[Any]]
    fates: list[Fate]

    def piece(self, begin: int, end: int | None) -> Part:
        """Return a part with some of its jobs."""
        return Part(self.write, self.jobs[begin:end], self.fates[begin:end])

    def without(self, ids: Container[int]) -> Part:
        """Return a part with the jobs of other ids."""
        left = [place for place, job in enumerate(self.jobs) if job.id not in ids]
        return Part(self.write, [self.jobs[place] for place in left], [self.fates[place] for place in left if self.fates])

    def ended(self) -> Iterator[tuple[str, Job[Any]]]:
        """Return the jobs whose attempt ends them otherwise than completed, each with its state."""
        for job, fate in zip(self.jobs, self.fates, strict=False):  # plain successes have no fates
            if fate.state is not None and fate.state is not SUCCESS and (fate.charged or fate.cause is None):
                yield fate.state, job

    def successes(self) -> Sequence[Job[Any]]:
        """Return the jobs that complete; some of them may be no longer ours, if that was reported."""
        if not self.write.columns:
            return self.jobs
        return [job for job, fate in zip(self.jobs, self.fates, strict=True) if fate.state is SUCCESS]

    def completed(self) -> Counter[str]:
        """Count the jobs that complete by kind."""
        return Counter(job.kind for job in self.successes())


@cache
def place_of(ending: Ending) -> int:
    """Return the place in the list of the write that takes such an ending."""
    return next(place for place, write in enumerate(WRITES) if write.takes(ending))


PLAIN_KEPT, PLAIN_UNKEPT = (place_of(Ending(SUCCESS, False, kept, False, False)) for kept in (True, False))
"""The places of the writes for plain successes, with the archive and without it."""


def parts_of(jobs: Iterable[Job[Any]], *, archive: bool, elsewhere: list[tuple[Job[Any], Fate]] | None = None) -> list[Part]:
    """Sort a batch by the statements that write it; each is a commit of its own, so that one that was written stays written.

    Jobs that have ended elsewhere go into that list, with their fates.
    """
    kept: list[Job[Any]] = []
    unkept: list[Job[Any]] = []
    others: list[Job[Any]] = []
    by_end = (unkept, kept if archive else unkept, others)
    for job in jobs:
        if job.outcome is None:
            by_end[job.batch.ends].append(job)
        else:
            others.append(job)
    if not others:
        return [Part(WRITES[place], found, []) for place, found in ((PLAIN_KEPT, kept), (PLAIN_UNKEPT, unkept)) if found]
    parts = [Part(write, [], []) for write in WRITES]
    parts[PLAIN_KEPT].jobs.extend(kept)
    parts[PLAIN_UNKEPT].jobs.extend(unkept)
    others.sort(key=attrgetter("id"))
    for job in others:
        fate = fate_of(job.outcome)
        if fate.elsewhere:
            if elsewhere is not None:
                elsewhere.append((job, fate))
            continue
        # only a success asks for the worker: a job that failed may have none here
        is_kept = fate.state is not SUCCESS or (archive and job.batch.worker.archive)
        tells = fate.error is not None or fate.output is not None
        tied, barred = job.batch.ends == TIED, fate.gates is not None
        limited, caused = fate.limited is not None, fate.cause is not None
        parked, crashed = fate.parks is not None, fate.crash is not None
        part = parts[place_of(Ending(fate.state, tells, is_kept, tied, barred, limited, fate.unsure, caused, parked, crashed))]
        part.jobs.append(job)
        if part.write.columns:
            part.fates.append(fate)
    return [part for part in parts if part.jobs]


def cut(parts: Iterable[Part], most: int) -> list[Part]:
    """Cut parts into pieces that are small enough, by their count and by the bytes of errors and outputs."""
    pieces: list[Part] = []
    for part in parts:
        for light in _lighter(part) if part.write.weigh else (part,):
            whole = len(light.jobs) <= most
            pieces += [light] if whole else [light.piece(at, at + most) for at in range(0, len(light.jobs), most)]
    return pieces


def _lighter(part: Part) -> Iterator[Part]:
    begin, size, weigh = 0, 0, part.write.weigh
    for at, weight in enumerate(map(weigh, part.fates) if weigh else ()):
        if size >= BYTES:
            yield part.piece(begin, at)
            begin, size = at, 0
        size += weight
    yield part.piece(begin, None)
