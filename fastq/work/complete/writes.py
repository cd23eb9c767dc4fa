"""The statements that write outcomes, as a list: which fates each of them takes, and which columns it sends.

Used by the writer, in the completer's thread. A job goes to the first write of the list that takes its fate. Plain successes,
most of all jobs, have a constant fate: each costs a look at its outcome and at its batch, and no fate is made or kept for it.

A new way of writing outcomes is one more entry in WRITES. Everything else goes through the list: sorting a batch and cutting it
into parts that are small enough. It deliberately makes and runs no statement: writer.py does.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from fastq.jobs.outcome import SUCCESS, fate_of
from fastq.work.codec.codec import encode_bools, encode_floats, encode_texts

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


class Write(NamedTuple):
    """One statement that writes outcomes, and the fates that it takes.

    `takes` gets the state of a fate, whether the fate tells something (an error or an output), and whether the end of the job is
    kept in the archive: only a success is ever left out of it. Without columns the parameters are the ids and the distinct
    claims, and the number of rows is read from the command tag. With columns the parameters are an array of ids, one of claims
    and the columns, and the answer is a row that begins with the number.
    """

    statement: str
    takes: Callable[[State | None, bool, bool], bool]
    columns: tuple[Column, ...] = ()
    weigh: Callable[[Fate], int] | None = None  # bytes of a fate, near enough; None: as good as none
    hinted: bool = False  # its last parameter is the channel of the hints, null for none


def _size(fate: Fate) -> int:
    return len(fate.error or "") + len(fate.output or "")


STATES = Column(attrgetter("state"), encode_texts)
DELAYS = Column(attrgetter("delay"), encode_floats)
CHARGED = Column(attrgetter("charged"), encode_bools)
ERRORS = Column(attrgetter("error"), encode_texts)
OUTPUTS = Column(attrgetter("output"), encode_texts)

WRITES = (
    Write("job_complete_archive", lambda state, tells, kept: kept and state is SUCCESS and not tells),
    Write("job_complete", lambda _state, _tells, kept: not kept),
    Write("job_finish", lambda state, _tells, _kept: state is not None, (STATES, ERRORS, OUTPUTS), _size),
    Write("job_retry", lambda state, _tells, _kept: state is None, (DELAYS, CHARGED, ERRORS), _size, hinted=True),
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

    def ended(self) -> Iterator[tuple[str, int, str, int]]:
        """Return the jobs that end otherwise than completed: state, id, kind, attempt."""
        for job, fate in zip(self.jobs, self.fates, strict=False):  # plain successes have no fates
            if fate.state is not None and fate.state is not SUCCESS:
                yield fate.state, job.id, job.kind, job.attempt


@cache
def place_of(state: State | None, tells: bool, kept: bool) -> int:
    """Return the place in the list of the write that takes such a fate."""
    return next(place for place, write in enumerate(WRITES) if write.takes(state, tells, kept))


KEPT, UNKEPT = place_of(SUCCESS, False, True), place_of(SUCCESS, False, False)
"""The places of the writes for plain successes, with the archive and without it."""


def parts_of(jobs: Iterable[Job[Any]], *, archive: bool) -> list[Part]:
    """Sort a batch by the statements that write it; each is a commit of its own, so that one that was written stays written."""
    kept: list[Job[Any]] = []
    unkept: list[Job[Any]] = []
    others: list[Job[Any]] = []
    for job in jobs:
        if job.outcome is None:
            (kept if archive and job.batch.worker.archive else unkept).append(job)
        else:
            others.append(job)
    if not others:
        return [Part(WRITES[place], found, []) for place, found in ((KEPT, kept), (UNKEPT, unkept)) if found]
    parts = [Part(write, [], []) for write in WRITES]
    parts[KEPT].jobs.extend(kept)
    parts[UNKEPT].jobs.extend(unkept)
    others.sort(key=attrgetter("id"))
    for job in others:
        fate = fate_of(job.outcome)
        if fate.elsewhere:
            continue
        # only a success asks for the worker: a job that failed may have none here
        is_kept = fate.state is not SUCCESS or (archive and job.batch.worker.archive)
        part = parts[place_of(fate.state, fate.error is not None or fate.output is not None, is_kept)]
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
