"""Turn args and options into the parameters of a statement, or into the rows of a COPY: all of enqueueing but the driver.

Runs in the enqueuing thread, on plain values; the clients (client.py, client_async.py) carry its results to Postgres.

Invariant: everything is checked and written as JSON before the first statement, so that whatever is refused leaves nothing
behind; only a COPY sends jobs while more are read, and an error takes them back. What an option is: the job's own (`Enqueue`)
comes before the call's, that before the kind's, that before the defaults of job.py.

It deliberately compares no time with the local clock: whether a job is due is the database's to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, Unpack, overload

from fastq.args.kinds import Args, Kind, kind_of
from fastq.args.text import ArgsCodec
from fastq.enqueue.call import RECORD, Call
from fastq.errors import ArgsError, OptionError, UnknownKind
from fastq.jobs.spec import UNIT, JobSpec, Options, check_names, spec_of, when
from fastq.postgres import hints

A = TypeVar("A")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

BLOCK = 131_072
"""Bytes per write of a COPY: from 64 kB on the rate stays the same (measured)."""


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


class Enqueued(int):
    """The id of a job that was enqueued: a number, which also says whether the job is new."""

    __slots__ = ()

    @property
    def new(self) -> bool:
        """Tell whether this call has made the job: always, for fastq has no jobs yet of which there can be only one."""
        return True


def one(args: Any, kind: Kind[Any] | None, options: Options, max_bytes: int) -> Call:
    """Prepare one job; raise ArgsError, OptionError or UnknownKind if it is refused."""
    if isinstance(args, Enqueue):
        raise OptionError("expected args, got an Enqueue, which is for enqueue_many: write enqueue(args, priority=...)")
    of = kind_of(args, kind)
    check_names(options)
    spec = spec_of(of, options)
    wakes, first, rest = _wakes(spec), spec[:4], spec[4:]
    text = of.codec.encode(args, max_bytes).decode()
    return Call("job_enqueue", (*first, text, *rest), wakes)


def many(items: Iterable[Any], kind: Kind[Any] | None, options: Options, max_bytes: int) -> Call | None:
    """Prepare many jobs for one statement, None if there are none; one that is refused refuses them all."""
    check_names(options)
    rows = list(_encoded(several(items), kind, options, max_bytes))
    if not rows:
        return None
    specs = [spec for spec, _ in rows]
    kinds, queues, priorities, max_attempts, tags, delays, times, metas = zip(*specs, strict=True)
    values = (
        RECORD.join(kinds),
        RECORD.join(queues),
        RECORD.join(map(str, priorities)),
        RECORD.join(map(str, max_attempts)),
        b"\x1e".join([encoded for _, encoded in rows]).decode(),
        RECORD.join([text or "" for text in tags]),
        RECORD.join(["" if delay is None else repr(delay) for delay in delays]),
        RECORD.join(["" if at is None else at.isoformat() for at in times]),
        RECORD.join([text or "" for text in metas]) if any(metas) else None,
    )
    return Call("job_enqueue_many", values, set().union(*map(_wakes, set(specs))))


def _wakes(spec: JobSpec) -> set[str]:
    """Return the hints to send: a given time may have passed already, so it wakes the queue and the promotion."""
    scheduled = {hints.DUE.word} if spec.delay is not None or spec.at is not None else set()
    return scheduled if spec.delay is not None else scheduled | {spec.queue}


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
        columns = ["kind", "queue", "priority", "max_attempts", "tags", "meta", "args"]
        return columns if self._at is None else [*columns, "seq", "state", "scheduled_at"]

    def blocks(self, max_bytes: int) -> Iterator[bytes]:
        """Yield the rows in COPY's text format, some BLOCK bytes at a time."""
        end = b"\n" if self._at is None else f"\t\\N\tscheduled\t{self._at.isoformat()}\n".encode()
        head, last = b"", None
        block: list[bytes] = []
        size = 0
        for spec, encoded in _encoded(self._items, self._kind, self._options, max_bytes):
            if spec is not last:  # jobs that follow one another mostly share their spec
                head, last = self._head(spec), spec
            row = head + _escaped(encoded) + end
            block.append(row)
            size += len(row)
            if size >= BLOCK:
                self.count += len(block)
                yield b"".join(block)
                block, size = [], 0
        self.count += len(block)
        yield b"".join(block)

    def _head(self, spec: JobSpec) -> bytes:
        if spec.delay is not None or spec.at is not None:
            raise OptionError("enqueue_copy takes one delay or time for all its jobs, as its own option; this is in an Enqueue")
        self.wakes.add(spec.queue if self._at is None else hints.DUE.word)
        tags = "\\N" if spec.tags is None else "{" + ",".join(map(_array_element, spec.tags.split(UNIT))) + "}"
        meta = b"\\N" if spec.meta is None else _escaped(spec.meta.encode())
        values = (spec.kind, spec.queue, str(spec.priority), str(spec.max_attempts))
        return b"\t".join(value.encode() for value in (*values, "")) + _escaped_tags(tags) + b"\t" + meta + b"\t"


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


def _encoded(items: Iterable[Any], kind: Kind[Any] | None, options: Options, max_bytes: int) -> Iterator[tuple[JobSpec, bytes]]:
    """Yield the spec and the JSON of each job; jobs of one kind without options of their own share their spec."""
    shared: dict[Kind[Any], tuple[JobSpec, ArgsCodec[Any]]] = {}
    for position, item in enumerate(items):
        try:
            if type(item) is Enqueue:
                of = kind_of(item.args, item.kind or kind)
                args, spec, codec = item.args, spec_of(of, options, item.options), of.codec
            else:
                args, of = item, kind_of(item, kind)
                if of not in shared:
                    shared[of] = (spec_of(of, options), of.codec)
                spec, codec = shared[of]
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
        yield spec, encoded


def several(items: Any) -> Iterable[Any]:
    """Return the items, or raise OptionError where they are one: also a pydantic model, which yields its fields."""
    if isinstance(items, Iterable) and not isinstance(items, Args | Enqueue):
        given: Iterable[Any] = items
        return given
    hint = "for one job: enqueue(args)"
    if hasattr(items, "__aiter__"):
        hint = "collect them first: [args async for args in ...]"
    raise OptionError(f"expected an iterable of args, got one {type(items).__qualname__}; {hint}")


def copied_at(options: Options) -> tuple[float | None, datetime | None]:
    """Check the options of a COPY and return its delay and its time, which are for all its jobs."""
    check_names(options)
    return when(options.get("delay"), options.get("at"))


def time_of(microseconds: int) -> datetime:
    """Return the time that is so far from 1970: what a session of somebody else's can tell, whatever its DateStyle."""
    return EPOCH + timedelta(microseconds=int(microseconds))
