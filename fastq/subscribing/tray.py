"""Gather the events of one process for one subscription until they are written, up to a bound, and count the others.

Each thread of the process that emits puts events into a `Tray`, under the lock of the forwarder (work/forwarder.py). The thread
of the forwarder takes a `Sheet` out now and then and writes it: one row. The events that pass the subscription's filter are
numbered, and so are those for which there is no room: a sheet says the number of its first event, so a reader sees how many are
missing before it.

Invariants:
- A tray holds EVENTS events and BYTES bytes at most, whatever happens to the database and to the programs that read.
- The numbers of a sheet follow one another. So once an event has found no room, none does until the next sheet is taken.

It deliberately knows no time: the forwarder says how often a sheet is taken.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from fastq.events import MAX_VALUE, TRACEBACK
from fastq.texts import clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

EVENTS = 200
"""Events of a sheet at most: with ten sheets a second 2,000 a second of each process, more than a person or most programs can
follow. It bounds the cost of events to a process that works jobs at full speed: docs/adr/0034 has the figures."""

BYTES = 131_072
"""Bytes of a sheet at most, for events with long texts."""

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Sheet(NamedTuple):
    """A row of the table `event`."""

    subscription: int
    source: str  # host:pid:random of a tray
    number: int  # among the sheets of that tray
    start_at: int  # events that came into the tray before
    size: int  # events
    events: str  # a list as JSON: of name, time of the host in seconds since 1970, level and fields of each


class Tray:
    """The events for one subscription that are not taken yet. All methods but the first are called under the forwarder's lock."""

    def __init__(self, subscription: int, source: str) -> None:
        self._subscription = subscription
        self._source = source
        self._kept: list[bytes] = []
        self._bytes = 0
        self._begin = 0  # the number of the first that is kept
        self._told = 0  # events so far
        self._written = -1  # the number behind the last sheet; the first one is taken without an event: it says that we hear
        self._sheets = 0  # so far

    @property
    def room(self) -> int:
        """Return how many events find room now, if they are short."""
        return EVENTS - len(self._kept) if self._begin + len(self._kept) == self._told else 0

    @property
    def due(self) -> bool:
        """Tell whether there is something to take."""
        return bool(self._kept) or self._begin != self._written

    def put(self, event: bytes | None) -> None:
        """Keep an event, or count it if there is no room or it could not be encoded."""
        fits = event is not None and self.room > 0 and self._bytes + len(event) <= BYTES
        self._told += 1
        if fits and event is not None:
            self._kept.append(event)
            self._bytes += len(event)

    def miss(self, count: int) -> None:
        """Count events that were not encoded, since there was no room for them."""
        self._told += count

    def take(self) -> Sheet | None:
        """Take the events out, if there are some, or some that found no room before."""
        if not self.due:
            return None
        events = (b"[" + b",".join(self._kept) + b"]").decode()
        sheet = Sheet(self._subscription, self._source, self._sheets, self._begin, len(self._kept), events)
        self._sheets += 1
        self._written = self._begin + len(self._kept)
        self._kept, self._bytes, self._begin = [], 0, self._told
        return sheet


def encoded(name: str, level: int, fields: Mapping[str, object]) -> bytes | None:
    """Write an event as JSON, without a traceback and with long texts cut; None if a value of it cannot be written."""
    try:
        shown = {key: _cut(value) for key, value in fields.items() if value is not None and key != TRACEBACK}
        return _encode((name, time.time(), max(level, logging.DEBUG), shown))
    except Exception:  # noqa: BLE001 - a value of any class: its text may raise anything
        return None


def encoded_each(name: str, all_fields: Iterable[tuple[float, Mapping[str, Any]]]) -> list[bytes]:
    """Write events of one name with the times at which they were; their fields are numbers and short texts of ours."""
    return [_encode((name, at, logging.DEBUG, fields)) for at, fields in all_fields]


def _cut(value: object) -> object:
    """Return a value that is a number, or a text that can be stored."""
    if value is None or isinstance(value, int | float | list | tuple | set | frozenset | dict):
        return value
    text = clean(value if isinstance(value, str) else str(value))
    return f"{text[:MAX_VALUE]}..." if len(text) > MAX_VALUE else text
