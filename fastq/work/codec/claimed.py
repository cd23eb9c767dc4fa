"""The answer to one claim: columns for all its jobs, in the order in which they shall start.

Made by the producer from the blobs of sql/job_claim.sql; its jobs look things up here for as long as they live, through their
batch (`KindBatch` in codec.py). Columns are arrays: a claim of 5,000 jobs makes a dozen objects, not 50,000.

The rows of an UPDATE come in the order of the table's pages. That is nearly always the order of seq; where it is not (pages were
used again, or the claim spans priorities) the rows are sorted here, so that jobs start in their order. A claim is made and
written in the producer's thread of a worker process alone, here, in codec.py and in receiver.py, before any of its jobs is handed
out. Then it does not change, but for the `max_attempts` of a row, which the thread that has the job may raise. It deliberately
splits nothing by kind and decodes no args: codec.py does.
"""

from __future__ import annotations

import struct
import sys
from array import array
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

from fastq.args.meta import EMPTY
from fastq.leases.lease import boottime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SEPARATOR = b"\x1e"
"""Stands between kinds: valid JSON, which the args are, has no raw control character either."""

BETWEEN = b"," + SEPARATOR
"""Stands between the args of two jobs."""

EPOCH, UNIX = datetime(2000, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)
"""The moments from which Postgres counts the microseconds of a binary timestamptz, and `extract(epoch ...)` its seconds."""


class Beside(TypedDict):
    """The rest of a job that has meta; of a job that has tags alone the claim tells the list of these."""

    tags: list[str] | None
    meta: dict[str, Any]


class Claimed:
    """The columns of a claim. `claim` is the value of its rows in the column of that name."""

    __slots__ = (
        "_ahead",
        "args",
        "attempts",
        "beside",
        "claim",
        "counted",
        "created",
        "full",
        "ids",
        "kinds",
        "last_seqs",
        "left",
        "max_attempts",
        "priorities",
        "queue",
        "seqs",
    )

    def __init__(self, queue: str, claim: int, row: Sequence[bytes | None], limit: int = sys.maxsize) -> None:
        self.queue = queue
        self.claim = claim
        ids, seqs, counts, created, kinds, args, beside, clock, *large = row or [None] * 9
        self.ids = integers(ids)
        self.seqs = integers(seqs)
        shorts = array("h", counts or b"")  # four of them a job: nothing, attempt, max_attempts, priority
        if sys.byteorder == "little":
            shorts.byteswap()
        self.attempts, self.max_attempts, self.priorities = shorts[1::4], shorts[2::4], shorts[3::4]
        self.created = created or b""  # few jobs are asked for it: it stays as it came
        self.kinds = kinds or b""
        self.args = args or b""
        self.beside: dict[str, list[str] | Beside] = msgspec.json.decode(beside) if beside else {}
        self._ahead = float(clock) - boottime() if clock else 0.0  # of the database's clock, to ours
        counted, *where = map(int, (large[0] or b"0").split()) if large else (None,)
        self.counted = counted  # bytes of those args that are large, 0: none are; None: the statement did not count
        self.left = (where[0], where[1]) if where else None  # priority and seq of the first job that was left for its args
        if len(self.ids) > 1 and not self._ordered():
            self._sort()
        self.full = len(self.ids) >= limit or (bool(self.ids) and self.left is not None)  # it was bounded, there may be more
        self.last_seqs = self._last_seqs()  # the highest seq by priority, or that before the first job that was left

    def __len__(self) -> int:
        """Count the jobs."""
        return len(self.ids)

    def _last_seqs(self) -> dict[int, int]:
        """Return the seqs by priority from which on claims look again."""
        if not self.ids:
            return {}
        if self.left is not None:
            priority, seq = self.left
            above = [row for row in zip(self.priorities, self.seqs, strict=True) if row[0] < priority]
            return {**dict(above), priority: seq - 1}
        if self.priorities[0] == self.priorities[-1]:  # sorted by priority: then they are all the same
            return {self.priorities[0]: self.seqs[-1]}
        return dict(zip(self.priorities, self.seqs, strict=True))  # sorted by seq within each: the last one stays

    def split_args(self) -> list[bytes]:
        """Return the args of each job as JSON."""
        return self.args.split(BETWEEN)

    def created_at(self, row: int) -> datetime:
        """Say when a job was enqueued."""
        (microseconds,) = struct.unpack_from(">q", self.created, 8 * row)
        return EPOCH + timedelta(microseconds=microseconds)

    def now(self) -> datetime:
        """Say what time it is by the database's clock, for a job that has meta."""
        return UNIX + timedelta(seconds=boottime() + self._ahead)

    def tags(self, row: int) -> tuple[str, ...]:
        """Return a job's tags."""
        kept = self.beside.get(str(self.ids[row]), ())
        return tuple((kept["tags"] or ()) if isinstance(kept, dict) else kept)

    def meta(self, row: int) -> Mapping[str, Any]:
        """Return the values that features keep with a job."""
        kept = self.beside.get(str(self.ids[row]))
        return kept["meta"] if isinstance(kept, dict) else EMPTY

    def _ordered(self) -> bool:
        seqs = self.seqs.tolist()
        return self.priorities.tobytes() == self.priorities[:1].tobytes() * len(seqs) and sorted(seqs) == seqs

    def _sort(self) -> None:
        order = sorted(range(len(self.ids)), key=list(zip(self.priorities, self.seqs, strict=True)).__getitem__)
        kinds, args = self.kinds.split(SEPARATOR), self.split_args()
        self.kinds = SEPARATOR.join([kinds[row] for row in order])
        self.args = BETWEEN.join([args[row] for row in order])
        self.created = b"".join([self.created[8 * row : 8 * row + 8] for row in order])
        for name in ("ids", "seqs", "attempts", "max_attempts", "priorities"):
            column = getattr(self, name)
            setattr(self, name, array(column.typecode, [column[row] for row in order]))


def integers(blob: bytes | None) -> array[int]:
    """Read int8send's bytes, one number after the other."""
    numbers = array("q", blob or b"")
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
