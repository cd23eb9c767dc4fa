"""Turn args and options into the parameters of a statement, or into the rows of a COPY: all of enqueueing but the driver.

Runs in the enqueuing thread, on plain values; the clients (client.py, client_async.py) carry its results to Postgres.

Invariant: everything is checked and written as JSON before the first statement, so that whatever is refused leaves nothing
behind; only a COPY sends jobs while more are read, and an error takes them back. What an option is: the job's own (`Enqueue`)
comes before the call's, that before the kind's, that before the defaults of job.py.

It deliberately compares no time with the local clock: whether a job is due is the database's to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack, overload

from fastq.args import Args, Kind, check_max_attempts, check_priority, check_queue, check_tags, kind_of
from fastq.args_faults import show
from fastq.args_json import ArgsCodec
from fastq.errors import ArgsError, OptionError, UnknownKind
from fastq.job import DEFAULT_MAX_ATTEMPTS, DEFAULT_PRIORITY, DEFAULT_QUEUE, EARLIEST, LATEST, MAX_DELAY, Tags

A = TypeVar("A")

DUE = "@due"
"""The wake-up for scheduled jobs: not a queue's name, whose pattern has no '@'."""

RECORD, UNIT = "\x1e", "\x1f"
"""What joins jobs, and the tags of one job, in a statement's parameters; no kind, queue, tag or JSON text has either."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

BLOCK = 131_072
"""Bytes per write of a COPY: from 64 kB on the rate stays the same (measured)."""


class Options(TypedDict, total=False):
    """How a job is enqueued; None stands for "not given"."""

    queue: str | None
    priority: int | None
    max_attempts: int | None
    delay: float | timedelta | None
    at: datetime | None
    tags: Tags | None


OPTIONS = Options.__optional_keys__


class Enqueue:
    """One job of `enqueue_many` with options of its own: `Enqueue(SortArgs(["b", "a"]), priority=2)`."""

    __slots__ = ("args", "kind", "options")

    @overload
    def __init__(self, args: Args, **options: Unpack[Options]) -> None: ...
    @overload
    def __init__(self, args: A, *, kind: Kind[A], **options: Unpack[Options]) -> None: ...
    def __init__(self, args: Any, *, kind: Kind[Any] | None = None, **options: Unpack[Options]) -> None:
        check_names(options)
        self.args = args
        self.kind = kind
        self.options = options

    def __repr__(self) -> str:
        """Show what was given."""
        given = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"Enqueue({self.args!r}{given})"


class Terms(NamedTuple):
    """All that a job is enqueued with but its args."""

    kind: str
    queue: str
    priority: int
    max_attempts: int
    tags: str | None
    delay: float | None
    at: datetime | None

    @property
    def wakes(self) -> set[str]:
        """Say who is to be woken; a time given may have passed already, so that wakes both."""
        scheduled = {DUE} if self.delay is not None or self.at is not None else set()
        return scheduled if self.delay is not None else scheduled | {self.queue}


ARGS, TAGS = 4, 5
"""Where these stand among the values of a Call, of one job or of many."""

_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def _escape(found: re.Match[str]) -> str:
    """Write a character as JSON does in ASCII; it stands in a string, for nothing else in JSON is not ASCII."""
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


class Call(NamedTuple):
    """A statement of fastq/sql with its parameters, ready for any driver."""

    statement: str
    values: tuple[object, ...]
    wakes: set[str]

    def parameters(self, channel: str, *, wake: bool) -> tuple[object, ...]:
        """Return the statement's parameters, with the wake-up or without."""
        return (*self.values, wake, channel)

    @property
    def is_ascii(self) -> bool:
        """Tell whether it reads the same in every encoding that a connection may have."""
        return all(not isinstance(value, str) or value.isascii() for value in (self.values[ARGS], self.values[TAGS]))

    def in_ascii(self) -> Call:
        """Return the call with its JSON in ASCII: what is more is written as escapes, which the worker reads as the same text."""
        values = [*self.values]
        values[ARGS] = _BEYOND_ASCII.sub(_escape, str(values[ARGS]))
        return self._replace(values=tuple(values))

    def odd_tag(self) -> str | None:
        """Return the first tag that is not in ASCII."""
        tags = re.split(f"[{RECORD}{UNIT}]", str(self.values[TAGS] or ""))
        return next((tag for tag in tags if not tag.isascii()), None)


def one(args: Any, kind: Kind[Any] | None, options: Options, max_bytes: int) -> Call:
    """Prepare one job; raise ArgsError, OptionError or UnknownKind if it is refused."""
    check_names(options)
    if isinstance(args, Enqueue):
        raise OptionError("expected args, got an Enqueue, which is for enqueue_many: write enqueue(args, priority=...)")
    of = kind_of(args, kind)
    terms = terms_of(of, options)
    text = of.codec.encode(args, max_bytes).decode()
    first, rest = terms[:4], terms[4:]
    return Call("job_enqueue", (*first, text, *rest), terms.wakes)


def many(items: Iterable[Any], kind: Kind[Any] | None, options: Options, max_bytes: int) -> Call | None:
    """Prepare many jobs for one statement, None if there are none; one that is refused refuses them all."""
    check_names(options)
    rows = list(_encoded(several(items), kind, options, max_bytes))
    if not rows:
        return None
    terms = [terms for terms, _ in rows]
    kinds, queues, priorities, max_attempts, tags, delays, times = zip(*terms, strict=True)
    values = (
        RECORD.join(kinds),
        RECORD.join(queues),
        RECORD.join(map(str, priorities)),
        RECORD.join(map(str, max_attempts)),
        b"\x1e".join([encoded for _, encoded in rows]).decode(),
        RECORD.join([text or "" for text in tags]),
        RECORD.join(["" if delay is None else repr(delay) for delay in delays]),
        RECORD.join(["" if at is None else at.isoformat() for at in times]),
    )
    return Call("job_enqueue_many", values, set().union(*(each.wakes for each in set(terms))))


class Copy:
    """The rows of one COPY, made while they are read; afterwards it knows how many there were and who is to be woken.

    All jobs of a COPY are available at once, or all are scheduled for the one time `at`, since the sequence's default
    for a column applies to all rows or to none.
    """

    def __init__(self, items: Iterable[Any], kind: Kind[Any] | None, options: Options, at: datetime | None) -> None:
        self._items = several(items)
        self._kind = kind
        self._options = Options(**{**options, "delay": None, "at": None})
        self._at = at
        self.count = 0
        self.wakes: set[str] = set()

    @property
    def columns(self) -> list[str]:
        """Name the columns in the order of the rows' values."""
        columns = ["kind", "queue", "priority", "max_attempts", "tags", "args"]
        return columns if self._at is None else [*columns, "seq", "state", "scheduled_at"]

    def blocks(self, max_bytes: int) -> Iterator[bytes]:
        """Yield the rows in COPY's text format, some BLOCK bytes at a time."""
        end = b"\n" if self._at is None else f"\t\\N\tscheduled\t{self._at.isoformat()}\n".encode()
        head, last = b"", None
        block: list[bytes] = []
        size = 0
        for terms, encoded in _encoded(self._items, self._kind, self._options, max_bytes):
            if terms is not last:  # jobs that follow one another mostly share their terms
                head, last = self._head(terms), terms
            row = head + _escaped(encoded) + end
            block.append(row)
            size += len(row)
            if size >= BLOCK:
                self.count += len(block)
                yield b"".join(block)
                block, size = [], 0
        self.count += len(block)
        yield b"".join(block)

    def _head(self, terms: Terms) -> bytes:
        if terms.delay is not None or terms.at is not None:
            raise OptionError("enqueue_copy takes one delay or time for all its jobs, as its own option; this is in an Enqueue")
        self.wakes.add(terms.queue if self._at is None else DUE)
        tags = "\\N" if terms.tags is None else "{" + ",".join(map(_array_element, terms.tags.split(UNIT))) + "}"
        values = (terms.kind, terms.queue, str(terms.priority), str(terms.max_attempts))
        return b"\t".join(value.encode() for value in (*values, "")) + _escaped_tags(tags) + b"\t"


def _array_element(tag: str) -> str:
    escaped = tag.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _escaped_tags(tags: str) -> bytes:
    return tags.encode() if tags == "\\N" else _escaped(tags.encode())


def _escaped(value: bytes) -> bytes:
    """Write a value as COPY's text format wants it."""
    value = value.replace(b"\\", b"\\\\")
    if b"\n" in value or b"\t" in value or b"\r" in value:  # white space between JSON's tokens, which a type may keep
        value = value.replace(b"\n", b"\\n").replace(b"\t", b"\\t").replace(b"\r", b"\\r")
    return value


def _encoded(items: Iterable[Any], kind: Kind[Any] | None, options: Options, max_bytes: int) -> Iterator[tuple[Terms, bytes]]:
    """Yield the terms and the JSON of each job; jobs of one kind without options of their own share their terms."""
    shared: dict[Kind[Any], tuple[Terms, ArgsCodec[Any]]] = {}
    for position, item in enumerate(items):
        try:
            if type(item) is Enqueue:
                of = kind_of(item.args, item.kind or kind)
                args, terms, codec = item.args, terms_of(of, options, item.options), of.codec
            else:
                args, of = item, kind_of(item, kind)
                if of not in shared:
                    shared[of] = (terms_of(of, options), of.codec)
                terms, codec = shared[of]
            encoded = codec.encode(args, max_bytes)
        except ArgsError as error:
            error.position = position
            raise
        except UnknownKind as error:
            raise UnknownKind(f"at position {position}: {error}") from None
        except OptionError as error:
            if type(item) is Enqueue:  # else it is the call's, and no item's
                raise OptionError(f"at position {position}: {error}") from None
            raise
        yield terms, encoded


def several(items: Any) -> Iterable[Any]:
    """Return the items, or raise OptionError where they are one: also a pydantic model, which yields its fields."""
    if isinstance(items, Iterable) and not isinstance(items, Args | Enqueue):
        given: Iterable[Any] = items
        return given
    hint = "for one job: enqueue(args)"
    if hasattr(items, "__aiter__"):
        hint = "collect them first: [args async for args in ...]"
    raise OptionError(f"expected an iterable of args, got one {type(items).__qualname__}; {hint}")


def check_names(options: Options) -> None:
    """Refuse an option that there is not, once per call: a job whose `delay` is misspelt would run at once."""
    if not options.keys() <= OPTIONS:
        unknown = ", ".join(sorted(options.keys() - OPTIONS))
        raise OptionError(f"unknown option {unknown}; expected one of {', '.join(Options.__annotations__)}")


def copied_at(options: Options) -> tuple[float | None, datetime | None]:
    """Check the options of a COPY and return its delay and its time, which are for all its jobs."""
    check_names(options)
    return when(options.get("delay"), options.get("at"))


def time_of(microseconds: int) -> datetime:
    """Return the time that is so far from 1970: what a session of somebody else's can tell, whatever its DateStyle."""
    return EPOCH + timedelta(microseconds=int(microseconds))


def terms_of(kind: Kind[Any], options: Options, own: Options | None = None) -> Terms:
    """Settle and check a job's options, its own first; a job is given a delay or a time, in one place or the other."""
    given = options if own is None else _merged(options, own)
    get = given.get
    queue = get("queue")
    priority = get("priority")
    max_attempts = get("max_attempts")
    tags = get("tags")
    return Terms(
        kind.name,
        check_queue(queue) if queue is not None else kind.queue or DEFAULT_QUEUE,
        check_priority(priority) if priority is not None else kind.priority or DEFAULT_PRIORITY,
        check_max_attempts(max_attempts) if max_attempts is not None else kind.max_attempts or DEFAULT_MAX_ATTEMPTS,
        UNIT.join(kind.tags if tags is None else check_tags(tags)) or None,
        *when(get("delay"), get("at")),
    )


def when(delay: object, at: object) -> tuple[float | None, datetime | None]:
    """Check a delay and a time, of which one may be given; no delay at all is None."""
    if delay is not None and at is not None:
        raise OptionError(f"expected a delay or a time, got both: delay={delay!r}, at={at!r}")
    if at is not None and (not isinstance(at, datetime) or at.utcoffset() is None):
        raise OptionError(f"at {at!r}: expected a datetime with a time zone, such as datetime.now(UTC) + timedelta(hours=1)")
    if at is not None and not EARLIEST <= at <= LATEST:
        raise OptionError(f"at {at!r}: expected a time from {EARLIEST.date()} to {LATEST.date()}: others cannot be read back")
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if seconds is not None and not (
        isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds <= MAX_DELAY
    ):
        raise OptionError(f"delay {show(delay)}: expected seconds from 0 to {MAX_DELAY:.0f}, or a timedelta")
    return (float(seconds) if seconds else None), at


def _merged(options: Options, own: Options) -> Options:
    """Put a job's own options over the call's; its own delay or time replaces either."""
    told = {name: value for name, value in own.items() if value is not None}
    left = {name: value for name, value in options.items() if name not in ("delay", "at") or not told.keys() & {"delay", "at"}}
    return Options(**{**left, **told})  # type: ignore[typeddict-item]
