"""Say which events a program subscribes to: their names, and the kinds, queues and jobs that they are about.

Plain values, no I/O. A filter is made in the thread or event loop that asks a client for events, lies in the row of the
subscription as JSON, and is read by the forwarder's thread of each process (work/forwarder.py). A `Sieve` is a filter made
ready: any thread that emits asks it.

Invariant: an event passes if it fits each thing that the filter names. One that says nothing of kinds, say, does not pass a
filter by kinds. A filter of a newer fastq that has more in it is no filter here (`read` raises): it must not let too much in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from fastq.args.meta import in_ascii
from fastq.errors import OptionError
from fastq.events import EVERYTHING, Names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fastq.jobs.job import Job

MOST = 1_000
"""Names, kinds, queues or ids of a filter: each process looks them up in a set. A guess; it bounds the row."""

LONGEST = 127
"""Bytes of a name: those of a kind in the database."""


class EventFilter(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The events that are wanted; an empty tuple names all."""

    names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    jobs: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """Write it as JSON."""
        return in_ascii(msgspec.json.encode(self).decode())


def filter_of(names: Iterable[str], kinds: Iterable[str], queues: Iterable[str], jobs: Iterable[int]) -> EventFilter:
    """Return a filter of an application's arguments, or raise OptionError."""
    texts = {"names": _texts("names", names), "kinds": _texts("kinds", kinds), "queues": _texts("queues", queues)}
    ids = tuple(jobs)
    if len(ids) > MOST:
        raise OptionError(
            f"jobs: expected {MOST:,} ids at most, got {len(ids):,}; leave them out, and compare event.fields['id']"
        )
    return EventFilter(**texts, jobs=ids)


def read(text: str) -> EventFilter:
    """Return the filter that a row has as JSON."""
    return _read(text)


_read = msgspec.json.Decoder(EventFilter).decode


class Sieve:
    """A filter made ready to be asked about each event of a process."""

    def __init__(self, wanted: EventFilter) -> None:
        self.names = Names(wanted.names or (EVERYTHING,))
        self._kinds, self._queues, self._jobs = frozenset(wanted.kinds), frozenset(wanted.queues), frozenset(wanted.jobs)
        self._by_name = not (self._kinds or self._queues or self._jobs)

    def takes(self, name: str, fields: Mapping[str, Any]) -> bool:
        """Tell whether an event passes."""
        if name not in self.names:
            return False
        if self._by_name:
            return True
        if self._kinds and fields.get("kind") not in self._kinds and self._kinds.isdisjoint(fields.get("kinds") or ()):
            return False
        if self._queues and fields.get("queue") not in self._queues:
            return False
        return not self._jobs or ("kind" in fields and fields.get("id") in self._jobs)  # without a kind it is no job's id

    def of_jobs(self, things: Sequence[tuple[Job[Any], Any, Any]]) -> Sequence[tuple[Job[Any], Any, Any]]:
        """Return those of the things which begin with such a job."""
        if self._by_name:
            return things
        passing = {id(job) for job in self.jobs_of([job for job, _, _ in things])}
        return [thing for thing in things if id(thing[0]) in passing]

    def jobs_of(self, jobs: Sequence[Job[Any]]) -> Sequence[Job[Any]]:
        """Return those of the jobs about which an event of a name that passes does."""
        if self._by_name:
            return jobs
        kinds, queues, ids = self._kinds, self._queues, self._jobs
        return [
            job
            for job in jobs
            if (not kinds or job.kind in kinds) and (not queues or job.queue in queues) and (not ids or job.id in ids)
        ]


def _texts(what: str, given: Iterable[Any]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise OptionError(f"{what}={given!r}: expected a list of texts, such as [{given!r}]")
    texts = tuple(given)
    if len(texts) > MOST:
        raise OptionError(f"{what}: expected {MOST:,} at most, got {len(texts):,}")
    for text in texts:
        if not isinstance(text, str) or not 0 < len(text.encode("utf-8", "replace")) <= LONGEST or not text.isprintable():
            raise OptionError(f"{what}: expected texts of 1 to {LONGEST} bytes, got {text!r}")
    return texts
