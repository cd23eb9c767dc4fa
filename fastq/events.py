"""Report facts as events, each with a name and fields, to the log and to subscribers.

Any process and thread may emit; the subscribers of a process are called by the thread that emits, so they must be quick. The list
of subscribers is the module's only state; any thread may add to it. The functions that write texts are pure. Names are
`thing.verb` in the past tense (`job.failed`, `process.died`); fields are plain values, durations in seconds.

A subscriber may say the names of the events that it wants. Some events nearly every job has, and some fields are measured for
each attempt: only a subscriber that asks for such an event by its name has them made (ASKED, TIMED).

Invariants:
- An event costs next to nothing when its level is not logged and nobody subscribed: the line is written on demand.
- A subscriber that changes the names that it wants misses no event of those that it wanted before and wants still.
- An event is one line with any values in its fields: characters that could forge a line or drive a terminal are escaped. A field
  `traceback` is left out there: `below` writes it, each of its lines indented and escaped.
- A subscriber that raises is logged and does not disturb the code that emitted.

It deliberately does not configure logging (that is log.py) and keeps no history.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    FieldsOf = Callable[[Any, float], Mapping[str, object]]
    """A function that makes the fields of an event about a thing, which was at a time of this host's clock."""

    Each = Callable[[str, Sequence[Any], FieldsOf], object]

LOGGER = logging.getLogger("fastq")

MAX_VALUE = 2_000
"""Characters of one value in a line: a guess at how much a person still reads. JSON gets more of it, subscribers get all."""

SAID_AGAIN = 10.0
"""Seconds until `Seldom` lets the same text through again: a guess at how often a person wants to read that it goes on."""

TRACEBACK = "traceback"
"""The field that takes more than a line."""

UNLOGGED = 5
"""A level below `logging.DEBUG`: for events of each batch, which subscribers hear and no log of ours shows."""

ASKED = frozenset({"job.started", "job.completed"})
"""Events that nearly every job has: a subscriber hears them if it asks for them by name."""

TIMED = ASKED | {"job.failed", "job.snoozed", "job.cancelled", "job.discarded"}
"""Events that tell how long an attempt ran, to subscribers that ask for them by name: while there is one, attempts are timed."""

FEW = 500
"""Jobs of one claim that are timed for subscribers which do not take each event. A claim brings more where jobs take
microseconds: then far more end than such a subscriber takes (subscribing/tray.py), and timing all would cost each of them."""

EVERYTHING = "*"
"""The name that stands for all events, those of ASKED too."""

_QUOTED = re.compile(r'[ "=\\]')
"""The characters for which a printable value is put in quotes."""

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


class Wanted(Protocol):
    """The names that a subscriber wants, to be asked by `name in wanted`."""

    def __contains__(self, name: str, /) -> bool:
        """Tell whether it wants events of this name."""
        ...


class Names:
    """Names that were asked for; one that ends in `*` stands for all that begin so."""

    def __init__(self, names: Iterable[str]) -> None:
        self.texts = frozenset(names)
        self._whole = frozenset(name for name in self.texts if not name.endswith(EVERYTHING))
        self._beginnings = tuple(name.removesuffix(EVERYTHING) for name in self.texts - self._whole)

    def __contains__(self, name: str, /) -> bool:
        """Tell whether events of this name were asked for."""
        return name in self._whole or name.startswith(self._beginnings)


class _Unasked:
    """The names that a subscriber hears which has said none."""

    def __contains__(self, name: str, /) -> bool:
        return name not in ASKED


_UNASKED = _Unasked()


class _Subscriber(NamedTuple):
    """One subscriber: a function for one event; and one for many of a name, if it takes as many as it likes."""

    callback: Callable[[Event], object]
    names: Wanted
    each: Each | None


subscribed = False  # whether there is any subscriber: who makes a list for them looks here first; as the next one
_subscribers: tuple[_Subscriber, ...] = ()  # replaced as a whole under the lock, read without it
_asked: frozenset[str] = frozenset()  # the names of TIMED that somebody has asked for; the same
_all_timed = False  # whether a subscriber that takes each event has asked for one of them, or any for starts; the same
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
        if name in subscriber.names:
            _hand(subscriber, event)


def emit_each(name: str, things: Sequence[Any], fields_of: FieldsOf) -> None:
    """Hand an event about each of these things to the subscribers that want it; no log of ours shows it.

    The fields are made for those that hear one event after the other, and for as many as the others take.
    """
    for subscriber in _subscribers:
        if name not in subscriber.names:
            continue
        if subscriber.each is None:
            now = time.time()
            for thing in things:
                _hand(subscriber, Event(name, UNLOGGED, fields_of(thing, now)))
            continue
        try:
            subscriber.each(name, things, fields_of)
        except Exception:
            LOGGER.exception("a subscriber raised on %s", name)


def _hand(subscriber: _Subscriber, event: Event) -> None:
    try:
        subscriber.callback(event)
    except Exception:
        LOGGER.exception("a subscriber raised on %s", event.name)


def heard(name: str) -> bool:
    """Tell whether a subscriber wants this event: it costs less to ask than to make the fields of one that nobody hears."""
    return any(name in subscriber.names for subscriber in _subscribers)


def asked(name: str) -> bool:
    """Tell whether somebody has asked for this event of TIMED by its name."""
    return name in _asked


def timed(jobs: int = 1) -> bool:
    """Tell whether attempts are to be timed, of so many jobs that were claimed together."""
    return _all_timed or (bool(_asked) and jobs <= FEW)


def tell_ended(fates: Iterable[tuple[str, int, str, int]] | None) -> None:
    """Emit an event for each job that ended otherwise than completed (state, id, kind, attempt), once its end is written."""
    for state, job, kind, attempt in fates or ():
        emit(f"job.{state}", level=logging.WARNING, id=job, kind=kind, attempt=attempt)


class Subscription:
    """A subscriber's place among the others; calling it ends the subscription."""

    def __init__(self, callback: Callable[[Event], object], names: Wanted, each: Each | None) -> None:
        self._mine: _Subscriber | None = None  # under the lock
        self._callback = callback
        self._each = each
        self._put(names)

    def __call__(self) -> None:
        """End it; a second time it does nothing."""
        self._put(None)

    def change(self, names: Iterable[str]) -> None:
        """Hear other names from now on."""
        self._put(Names(names))

    def _put(self, names: Wanted | None) -> None:
        mine = None if names is None else _Subscriber(self._callback, names, self._each)
        with _lock:
            others = [other for other in _subscribers if other is not self._mine]
            _replace([*others, mine] if mine is not None else others)
            self._mine = mine


def subscribe(
    callback: Callable[[Event], object], names: Iterable[str] | None = None, *, each: Each | None = None
) -> Subscription:
    """Have the callback called with each event of this process; call the returned object to end that.

    With `names` with events of these names alone, such as `["job.started", "process.*"]`; without them with all but those of
    ASKED. `each` is called in place of the callback for those of ASKED, with the jobs that they are about.
    """
    if isinstance(names, str):
        raise TypeError(f"names={names!r}: expected a list of names, such as [{names!r}]")
    return Subscription(callback, _UNASKED if names is None else Names(names), each)


def redirect(callback: Callable[[Event], object]) -> None:
    """Have a callback called with each event in place of the log and of all who have subscribed: another process reports them."""
    LOGGER.disabled = True
    with _lock:
        _replace([_Subscriber(callback, _UNASKED, None)])


def _replace(subscribers: Iterable[_Subscriber]) -> None:
    """Take another list of subscribers; under the lock."""
    global subscribed, _subscribers, _asked, _all_timed  # noqa: PLW0603 - the list of the process
    _subscribers = tuple(subscribers)
    subscribed = bool(_subscribers)
    named = [subscriber for subscriber in _subscribers if subscriber.names is not _UNASKED]
    _asked = frozenset(name for name in TIMED if any(name in subscriber.names for subscriber in named))
    takes_all = [subscriber.names for subscriber in named if subscriber.each is None]
    _all_timed = "job.started" in _asked or any(name in names for name in TIMED for names in takes_all)


class Seldom:
    """Lets the same text through once in a while: for an operation that fails again and again.

    One thread at a time uses it; where several do at once, the worst is that a text passes twice.
    """

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
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").removesuffix(".")
    if isinstance(value, list | tuple | set | frozenset):
        value = ",".join(map(str, value))
    text = str(value)
    if len(text) > MAX_VALUE:
        text = text[:MAX_VALUE] + "..."
    if text and text.isprintable() and not _QUOTED.search(text):
        return text
    return '"' + escaped(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def escaped(text: str) -> str:
    r"""Write unprintable characters (line ends, escape sequences, marks that turn the direction of text) as \n or \xNN."""
    if text.isprintable():  # as nearly all: mark by mark, a traceback of 400 took 40 us
        return text
    return "".join(_NAMED.get(mark) or (mark if mark.isprintable() else _hex(ord(mark))) for mark in text)


def _hex(point: int) -> str:
    short = 0x100
    return f"\\x{point:02x}" if point < short else f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"  # noqa: PLR2004
