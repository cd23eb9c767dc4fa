"""Say which jobs a worker process holds, by looking where they are; hand back those that have not started.

On its way a job is with the dispatcher before several lanes, in an inbox, in a slot, in the outbox, or with the
completer. Nothing keeps a list of them: it would cost each job something, and is wanted now and then. Between two places a job
is, for some instructions, in a local variable of a thread alone. So a look (`Held.jobs`) may miss those of threads that just then
wait for the interpreter. An `Account` is exact: it looks until it has seen as many as were held when it was begun.

The main thread makes a `Held`. The producer's thread uses it; the main thread calls `let_go`, too. It keeps nothing but the
places where it looks, which belong to others. It deliberately talks to no database.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from fastq.jobs.outcome import Release
from fastq.work.shared.lane import Mark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastq.jobs.job import Job
    from fastq.work.complete.completer import Completer
    from fastq.work.shared.lane import Feed, Outbox


class Slot(Protocol):
    """Where one job is executed, or several together."""

    def held(self) -> Sequence[Job[Any]]:
        """Return the jobs that are there, unless the watchdog has reported their end already."""
        ...


class Slots(Protocol):
    """A way of executing, as far as this module looks at it."""

    @property
    def slots(self) -> Sequence[Slot]:
        """Give all places where it executes."""
        ...


class Places(Protocol):
    """The places where the jobs of a process are: attributes of `Process`, which its main thread has set before, once."""

    feeds: list[Feed]
    outbox: Outbox
    completer: Completer

    @property
    def modes(self) -> Sequence[Slots]:
        """Give the ways in which it executes."""
        ...


class Held:
    """The jobs of one process, wherever they are."""

    def __init__(self, places: Places) -> None:
        self.completer = places.completer
        self._feeds = places.feeds
        self._outbox = places.outbox
        self._slots = [slot for mode in places.modes for slot in mode.slots]

    def jobs(self) -> list[Job[Any]]:
        """Return the jobs that are seen now: all but those between two places."""
        found: list[Any] = []  # each copy is one call, during which no other thread runs
        for feed in self._feeds:
            if feed.dispatcher is not None:
                found += feed.dispatcher.inbox.copy()
            for lane in feed.lanes:
                found += lane.inbox.copy()
        for slot in self._slots:
            found += slot.held()
        found += self._outbox.jobs.copy()
        found += self.completer.batch
        found += self.completer.writer.aside
        return [job for job in found if not isinstance(job, Mark)]

    def let_go(self) -> int:
        """Hand back the jobs that have not started, uncharged, through the outbox like any end of an attempt. Return how many."""
        jobs = [job for feed in self._feeds for job in feed.drain()]
        for job in jobs:
            job.outcome = Release()
        if jobs:
            self._outbox.jobs.extend(jobs)
            self._outbox.wake()
            for feed in self._feeds:
                feed.lanes[0].call_producer()  # a mark that calls it may have been among them
        return len(jobs)


class Account:
    """The jobs that were held at one moment, without a gap. Made and used by the producer's thread, which alone claims.

    `claimed` is how many jobs were claimed so far, and `last` the last claim: later claims do not count. A job that
    is held no longer has left through the completer, which shows the jobs that it has written meanwhile (`seen`).
    """

    def __init__(self, held: Held, claimed: int, last: int) -> None:
        self._held = held
        self._last = last
        self._found: set[tuple[int, int]] = set()  # claim, id: a job that was rescued may be held twice, under two claims
        completer = held.completer
        completed = -1
        while completed != completer.completed:  # else jobs that it has just written would be neither here nor there
            completed = completer.completed
            completer.seen = deque()
        self._outstanding = claimed - completed

    def whole(self) -> set[int] | None:
        """Look once; return the ids of all that was held, None if some have not been seen yet."""
        completer, last = self._held.completer, self._last
        jobs = self._held.jobs()
        while completer.seen:
            jobs.append(completer.seen.popleft())
        self._found |= {(job.batch.claim, job.id) for job in jobs if job.batch.claim <= last}
        if len(self._found) < self._outstanding:
            return None
        self.close()
        return {id_ for _, id_ in self._found}

    def close(self) -> None:
        """Have the completer show nothing any more."""
        self._held.completer.seen = None
