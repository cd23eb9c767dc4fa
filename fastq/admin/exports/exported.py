"""Write and read the lines of an export: a head, a job on each line, an end.

    {"fastq_export": 1, "source": "65f0a1c3b2d40", "database": "shop", "filter": "state:discarded", "at": "2026-11-20T..."}
    {"id": 7, "kind": "mail", "queue": "default", ..., "args": {"to": "ada"}, "meta": {...}, "state": "discarded", ...}
    {"fastq_export_end": 1}

Pure functions over texts, in the thread that exports or imports. A field without a value is left out. Args, outputs, errors and
meta are the JSON that is stored, encrypted parts too: nothing is opened here.

Invariant: a job is one line: JSON has line ends between its tokens alone, where a blank means the same. A reader takes fields
that it does not know for those of a newer program, and leaves them alone; a format with another number it refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from fastq.args.faults import show
from fastq.errors import OptionError
from fastq.jobs.job import State

FORMAT = 1
HEAD, END = "fastq_export", "fastq_export_end"

LONGEST_SOURCE, LONGEST_ID = 100, 200
"""Characters of the name of a source and of an id, which together are the key under which an import is noted."""

COLUMNS = (
    *("id", "kind", "queue", "priority", "max_attempts", "tags", "state", "attempt", "crashes", "cancel_requested"),
    *("created_at", "scheduled_at", "attempted_at", "finalized_at", "waits_for"),
    *("args", "meta", "errors", "output"),
)
"""The columns of job_export.sql, which are the fields of a line."""

STORED = ("args", "meta", "errors", "output")
"""The columns that are JSON."""


class Line(msgspec.Struct):
    """A job as a line has it; all but its id, its kind and its args may be left out."""

    id: int | str
    kind: str
    args: msgspec.Raw
    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    tags: list[str] = []
    state: State = State.AVAILABLE
    created_at: datetime | None = None
    scheduled_at: datetime | None = None
    cancel_requested: bool = False
    meta: dict[str, Any] = {}


class Head(msgspec.Struct):
    """The first line."""

    fastq_export: int
    source: str


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_line = msgspec.json.Decoder(Line).decode
_head = msgspec.json.Decoder(Head).decode


def head(source: str, database: str, words: str, at: datetime) -> str:
    """Write the first line."""
    told = {HEAD: FORMAT, "source": source, "database": database, "filter": words, "at": at}
    return msgspec.json.encode(told).decode()


def end(jobs: int) -> str:
    """Write the last line, without which a file was cut."""
    return msgspec.json.encode({END: jobs}).decode()


def written(row: Sequence[Any]) -> str:
    """Write a job, given as a row of job_export.sql."""
    told = {
        name: _raw(value) if name in STORED else value
        for name, value in zip(COLUMNS, row, strict=True)
        if value not in (None, False, [])
    }
    return msgspec.json.encode(told).decode()


def read(text: bytes) -> Line | Head | int:
    """Read a line: a job, a head, or the number of jobs that an end tells; OptionError says what is wrong."""
    try:
        fields = _fields(text)
        if HEAD in fields:
            return _checked(_head(text))
        return int(bytes(fields[END])) if END in fields else _line(text)
    except RecursionError:
        raise OptionError("nested too deeply") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise OptionError(f"expected a job as `fastq export` writes it: {error}") from None


def _checked(found: Head) -> Head:
    if found.fastq_export != FORMAT:
        raise OptionError(f"{HEAD} {show(found.fastq_export)}: this program reads format {FORMAT}: a newer one may read this")
    if not found.source.isprintable() or not 0 < len(found.source) <= LONGEST_SOURCE:
        raise OptionError(f"source {show(found.source)}: expected 1 to {LONGEST_SOURCE} printable characters")
    return found


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.replace("\n", " ").replace("\r", " ").encode())
