"""Jobs as the rows of a COPY, made while they are read.

Runs in the enqueuing thread or event loop, on plain values; the clients send the rows. A row is the text format of COPY. A `Copy`
belongs to the client's method that makes it, and changes while its blocks are read; the functions are pure.

Invariant: a job is checked before its row is made. A COPY sends jobs while more are read, and an error takes all of them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

from fastq.args.hook import Hook
from fastq.args.kinds import Kind
from fastq.args.meta import quoted
from fastq.enqueue.calls import RECORD
from fastq.enqueue.items import encoded, several
from fastq.errors import OptionError
from fastq.jobs.spec import UNIT, JobSpec, Options, check_names, when
from fastq.postgres import hints

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

BLOCK = 131_072
"""Bytes per write of a COPY: from 64 kB on the rate stays the same (measured)."""


LINES = 10_000
"""Lines that one statement tells the gatekeeper of: a megabyte or so."""


class Copy:
    """The rows of one COPY, made while they are read; afterwards it knows how many there were, and the hints to send.

    All jobs of a COPY are available at once, or all are scheduled for the one time `at`, since the sequence's default
    for a column applies to all rows or to none.
    """

    def __init__(
        self,
        items: Iterable[Any],
        kind: Kind[Any] | None,
        options: Options,
        at: datetime | None,
        max_bytes: int,
        hooks: Sequence[Hook] = (),
    ) -> None:
        rows = encoded(several(items), kind, Options(**{**options, "delay": None, "at": at}), max_bytes, hooks)
        first = next(rows, None)
        self._rows = chain([first] if first is not None else [], rows)
        self._gated = first is not None and at is None and first[0].gates is not None
        self._at = at
        self.count = 0
        self.wakes: set[str] = set()
        self._lines: dict[tuple[str, str, int], None] = {}

    @property
    def columns(self) -> list[str]:
        """Name the columns in the order of the rows' values."""
        columns = ["kind", "queue", "priority", "max_attempts", "tags", "meta", "args"]
        if self._gated:
            return [*columns, "seq", "state", "waits_for"]
        return columns if self._at is None else [*columns, "seq", "state", "scheduled_at"]

    def lines(self) -> Iterator[tuple[str, str, str]]:
        """Yield the queues, gates and priorities of jobs that wait at gates now, for the gatekeeper to be told."""
        known = list(self._lines)
        for at in range(0, len(known), LINES):
            queues, gates, priorities = zip(*known[at : at + LINES], strict=True)
            yield RECORD.join(queues), quoted(RECORD.join(gates)), RECORD.join(map(str, priorities))

    def blocks(self) -> Iterator[bytes]:
        """Yield the rows in COPY's text format, some BLOCK bytes at a time."""
        end = b"\n" if self._at is None else f"\t\\N\tscheduled\t{self._at.isoformat()}\n".encode()
        head, last = b"", None
        block: list[bytes] = []
        size = 0
        for spec, text in self._rows:
            if spec is not last:  # jobs that follow one another mostly share their spec
                head, last = self._head(spec), spec
                if self._at is None:
                    end = self._end(spec)
            row = head + _escaped(text) + end
            block.append(row)
            size += len(row)
            if size >= BLOCK:
                self.count += len(block)
                yield b"".join(block)
                block, size = [], 0
        self.count += len(block)
        yield b"".join(block)

    def _end(self, spec: JobSpec) -> bytes:
        gates = spec.gates
        if (gates is not None) is not self._gated:
            raise OptionError(
                "enqueue_copy takes jobs that go through gates, or jobs that do not, and here are both; copy them apart, or take "
                "enqueue_many"
            )
        if gates is None:
            return b"\n"
        self._lines[spec.queue, gates, spec.priority] = None
        return b"\t\\N\twaiting\t" + _escaped(gates.encode()) + b"\n"

    def _head(self, spec: JobSpec) -> bytes:
        if spec.asked is not None:
            raise OptionError(
                f"enqueue_copy takes no unique jobs, and this one of kind '{spec.kind}' is: a COPY asks nobody who holds a key; "
                "use enqueue_many"
            )
        if spec.delay is not None or spec.at is not self._at:
            raise OptionError("enqueue_copy takes one delay or time for all its jobs, as its own option; this is in an Enqueue")
        now = hints.GATE.word if self._gated else spec.queue
        self.wakes.add(now if self._at is None else hints.DUE.word)
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


def copied_at(options: Options) -> tuple[float | None, datetime | None]:
    """Check the options of a COPY and return its delay and its time, which are for all its jobs."""
    check_names(options)
    return when(options.get("delay"), options.get("at"))


def time_of(microseconds: int) -> datetime:
    """Return the time that is so far from 1970: a caller's session gives it so, since its DateStyle may be any."""
    return EPOCH + timedelta(microseconds=int(microseconds))
