"""Read the sheets of a subscription as events, and find out how many are missing between them.

Run in the thread or event loop that hears the events of a client; no I/O. A `Reading` keeps, for each source (a tray of a
process), the numbers of the next sheet and of the next event. With that it asks for the next sheets (event_read.sql), and sees
where events were left out: they found no room in their process, or the sheet was removed before it was read, or Postgres has
crashed and emptied the table, which is not logged. It is owned by its stream (event_stream.py, event_stream_async.py), and
written only by the thread or task that reads from that; each subscription begins with a new one.

Invariant: events that are missing are told of, as an event `events.dropped`, before the next one of their process. Where their
number is unknown, its `count` is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.events import Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

DROPPED = "events.dropped"
"""The name of an event that says how many others are missing."""

SOURCES = 10_000
"""The newest sources, each with its numbers, are kept: those of processes that are gone are needed for seconds."""

_decode = msgspec.json.Decoder(list[tuple[str, float, int, dict[str, Any]]]).decode


@dataclass(frozen=True, slots=True)
class HeardEvent(Event):
    """An event of another process: `name`, `level` and `fields` as in its log; when and where it was; `str()` gives its line.

    `at` is the time of that process's host. `dropped` is true of an event that stands for others which are missing: so many of
    the process `pid` on that host, `fields["count"]`, or None if nobody knows how many.
    """

    at: datetime
    host: str
    pid: int

    @property
    def dropped(self) -> bool:
        """Tell whether it stands for events that are missing."""
        return self.name == DROPPED


class Reading:
    """How far the sheets of a subscription were read."""

    def __init__(self) -> None:
        self._next: dict[str, tuple[int, int]] = {}  # sheet and event, by source; the source that was read last stands last
        self._places: dict[tuple[str, int], None] = {}  # hosts and pids that were heard; the same

    def seen(self) -> tuple[list[str], list[int]]:
        """Return the sources of which sheets were read, and the numbers of their next sheets."""
        return list(self._next), [sheet for sheet, _ in self._next.values()]

    def events(self, rows: Sequence[Sequence[Any]]) -> Iterator[HeardEvent]:
        """Yield the events of rows of event_read.sql."""
        for source, number, start, size, at, text in rows:
            host, pid = _place(source)
            if number < self._next.get(source, (0, 0))[0]:  # the server's clock was set back: it was told of as missing
                continue
            if source not in self._next and (host, pid) in self._places:  # it had forgotten us for a while
                yield missed(None, at, host, pid)
            _, before = self._next.pop(source, (0, 0))
            if start > before:
                yield missed(start - before, at, host, pid)
            self._next[source], self._places[host, pid] = (number + 1, start + size), None
            for name, when, level, fields in _decode(text):
                yield HeardEvent(name, level, fields, datetime.fromtimestamp(when, UTC), host, pid)
        for known in (self._next, self._places):
            _trim(known)


def missed(count: int | None, at: datetime, host: str, pid: int) -> HeardEvent:
    """Return the event that stands for some that are missing."""
    fields: Mapping[str, object] = {"count": count}
    return HeardEvent(DROPPED, 30, fields, at, host, pid)


def _trim(known: dict[Any, Any]) -> None:
    """Forget the oldest sources."""
    while len(known) > SOURCES:
        del known[next(iter(known))]


def _place(source: str) -> tuple[str, int]:
    host, pid, _ = source.rsplit(":", 2)
    return host, int(pid)
