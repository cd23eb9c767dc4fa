"""Report facts as events, each with a name and fields, to the log and to subscribers.

Any process and thread may emit; the subscribers of a process are called by the thread that emits, so they must be quick. The list
of subscribers is the module's only state; any thread may add to it. The functions that write texts are pure. Names are
`thing.verb` in the past tense (`job.failed`, `process.died`); fields are plain values, durations in seconds.

Invariants:
- An event costs next to nothing when its level is not logged and nobody subscribed: the line is written on demand.
- An event is one line with any values in its fields: characters that could forge a line or drive a terminal are escaped. A field
  `traceback` is left out there: `below` writes it, each of its lines indented and escaped.
- A subscriber that raises is logged and does not disturb the code that emitted.

It deliberately does not configure logging (that is log.py) and keeps no history.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

LOGGER = logging.getLogger("fastq")

MAX_VALUE = 2_000
"""Characters of one value in a line: a guess at how much a person still reads. JSON gets more of it, subscribers get all."""

SAID_AGAIN = 10.0
"""Seconds until `Seldom` lets the same text through again: a guess at how often a person wants to read that it goes on."""

TRACEBACK = "traceback"
"""The field that takes more than a line."""

UNLOGGED = 5
"""A level below `logging.DEBUG`: for events of each batch, which subscribers hear and no log of ours shows."""

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True, slots=True)
class Event:
    """One fact; `str()` gives its line."""

    name: str
    level: int
    fields: Mapping[str, object]

    def __str__(self) -> str:
        """Write `name key=value ...`, the values quoted and escaped where they need it; a field of None is left out."""
        fields = ((key, value) for key, value in self.fields.items() if value is not None and key != TRACEBACK)
        return " ".join([self.name, *(f"{key}={written(value)}" for key, value in fields)])

    def below(self) -> str:
        """Write the traceback, if there is one, on lines of its own below the first: none of them can be taken for an event's."""
        return "".join([f"\n    {escaped(line)}" for line in str(self.fields.get(TRACEBACK) or "").splitlines()])


_subscribers: tuple[Callable[[Event], object], ...] = ()  # replaced as a whole under the lock, read without it
_lock = threading.Lock()


def emit(name: str, /, *, level: int = logging.INFO, **fields: object) -> None:
    """Log an event and hand it to the subscribers."""
    wanted = LOGGER.isEnabledFor(level)
    subscribers = _subscribers
    if not wanted and not subscribers:
        return
    event = Event(name, level, fields)
    if wanted:
        LOGGER.log(level, event, stacklevel=2)
    for subscriber in subscribers:
        try:
            subscriber(event)
        except Exception:
            LOGGER.exception("a subscriber raised on %s", name)


def heard() -> bool:
    """Tell whether anybody has subscribed: it costs less to ask than to make the fields of an event that nobody hears."""
    return bool(_subscribers)


def tell_ended(fates: Iterable[tuple[str, int, str, int]] | None) -> None:
    """Emit an event for each job that ended otherwise than completed (state, id, kind, attempt), once its end is written."""
    for state, job, kind, attempt in fates or ():
        emit(f"job.{state}", level=logging.WARNING, id=job, kind=kind, attempt=attempt)


def subscribe(callback: Callable[[Event], object]) -> Callable[[], None]:
    """Have the callback called with each event of this process; call the returned function to end that."""
    global _subscribers  # noqa: PLW0603 - the list of the process
    with _lock:
        _subscribers = (*_subscribers, callback)

    def unsubscribe() -> None:
        global _subscribers  # noqa: PLW0603 - the same
        with _lock:
            _subscribers = tuple(other for other in _subscribers if other is not callback)

    return unsubscribe


def redirect(callback: Callable[[Event], object]) -> None:
    """Have a callback called with each event in place of the log and of all who have subscribed: another process reports them."""
    global _subscribers  # noqa: PLW0603 - the same
    LOGGER.disabled = True
    with _lock:
        _subscribers = (callback,)


class Seldom:
    """Lets the same text through once in a while: for an operation that fails again and again. One thread uses it."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0.0  # monotonic time at which it was let through

    def lets(self, text: str) -> bool:
        """Tell whether to say this: it is something else than the last time, or that was a while ago."""
        now = time.monotonic()
        if text == self._text and now - self._at < SAID_AGAIN:
            return False
        self._text, self._at = text, now
        return True


def written(value: object) -> str:
    """Write a value so that it stays on its line and cannot be taken for anything else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").removesuffix(".")
    if isinstance(value, list | tuple | set | frozenset):
        value = ",".join(map(str, value))
    text = str(value)
    if len(text) > MAX_VALUE:
        text = text[:MAX_VALUE] + "..."
    if text and text.isprintable() and not any(mark in text for mark in ' "=\\'):
        return text
    return '"' + escaped(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def escaped(text: str) -> str:
    r"""Write unprintable characters (line ends, escape sequences, marks that turn the direction of text) as \n or \xNN."""
    return "".join(_NAMED.get(mark) or (mark if mark.isprintable() else _hex(ord(mark))) for mark in text)


def _hex(point: int) -> str:
    short = 0x100
    return f"\\x{point:02x}" if point < short else f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"  # noqa: PLR2004
