"""The answer to one claim: columns for all its jobs, in the order in which they shall start.

Made by the producer from the blobs of sql/job_claim.sql; its jobs look things up here for as long as they live
(`JobBatch` in job.py). Columns are arrays: a claim of 5,000 jobs makes a dozen objects, not 50,000.

The rows of an UPDATE come in the order of the table's pages. That is nearly always the order of seq; where it is not (pages
were used again, or the claim spans priorities) the rows are sorted here, so that jobs start in their order. It splits the rows
by kind and deliberately does not decode args: codec.py does. Made and read in the producer's thread; a job looks its batch up
in the thread that has the job.
"""

from __future__ import annotations

import struct
import sys
from array import array
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

from fastq.args.meta import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SEPARATOR = b"\x1e"
"""Stands between kinds: valid JSON, which the args are, has no raw control character either."""

BETWEEN = b"," + SEPARATOR
"""Stands between the args of two jobs."""

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""The moment from which Postgres counts microseconds in a binary timestamptz."""


class Beside(TypedDict):
    """The rest of a job that has meta; of a job that has tags alone the claim tells the list of these."""

    tags: list[str] | None
    meta: dict[str, Any]


class Claimed:
    """The columns of a claim. `claim` is the value of its rows in the column of that name."""

    __slots__ = (
        "_created",
        "_kinds",
        "args",
        "attempts",
        "beside",
        "claim",
        "counted",
        "full",
        "ids",
        "left",
        "max_attempts",
        "priorities",
        "queue",
        "seqs",
    )

    def __init__(self, queue: str, claim: int, row: Sequence[bytes | None]) -> None:
        self.queue = queue
        self.claim = claim
        self.full = False  # written by the cursor: it was bounded, and there may be more
        ids, seqs, counts, created, kinds, args, beside, *large = row or [None] * 8
        self.ids = integers(ids)
        self.seqs = integers(seqs)
        shorts = array("h", counts or b"")  # four of them a job: nothing, attempt, max_attempts, priority
        if sys.byteorder == "little":
            shorts.byteswap()
        self.attempts, self.max_attempts, self.priorities = shorts[1::4], shorts[2::4], shorts[3::4]
        self._created = created or b""  # few jobs are asked for it: it stays as it came
        self._kinds = kinds or b""
        self.args = args or b""
        self.beside: dict[str, list[str] | Beside] = msgspec.json.decode(beside) if beside else {}
        counted, *where = map(int, (large[0] or b"0").split()) if large else (None,)
        self.counted = counted  # bytes of those args that are large, 0: none are; None: the statement did not count
        self.left = (where[0], where[1]) if where else None  # priority and seq of the first job that was left for its args
        if len(self.ids) > 1 and not self._ordered():
            self._sort()

    def __len__(self) -> int:
        """Count the jobs."""
        return len(self.ids)

    def last_seqs(self) -> dict[int, int]:
        """Return the highest seq by priority, or that before the first job that was left: from there on claims look again."""
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

    def batches(self) -> Iterator[tuple[KindBatch, Sequence[int], bytes]]:
        """Split the claim by kind; yield batch, rows and args of each; the text of one kind at a time is in memory."""
        only = self._only_kind()
        if only is not None:
            yield KindBatch(self, only.decode()), range(len(self.ids)), self.args
            return
        elements = self.split_args()
        rows_by_kind: dict[bytes, list[int]] = {}
        for row, kind in enumerate(self._kinds.split(SEPARATOR)):
            rows_by_kind.setdefault(kind, []).append(row)
        for kind, rows in rows_by_kind.items():
            yield KindBatch(self, kind.decode()), rows, BETWEEN.join([elements[row] for row in rows])

    def forget_args(self) -> None:
        """Let go of the undecoded args: a job that runs for hours keeps its claim, but needs no neighbour's args."""
        self.args = self._kinds = b""

    def _only_kind(self) -> bytes | None:
        """Return the kind if all jobs have the same one, without splitting: one comparison of bytes."""
        end = self._kinds.find(SEPARATOR)
        kind = self._kinds if end < 0 else self._kinds[:end]
        return kind if SEPARATOR.join([kind] * len(self.ids)) == self._kinds else None

    def created_at(self, row: int) -> datetime:
        """Say when a job was enqueued."""
        (microseconds,) = struct.unpack_from(">q", self._created, 8 * row)
        return EPOCH + timedelta(microseconds=microseconds)

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
        kinds, args = self._kinds.split(SEPARATOR), self.split_args()
        self._kinds = SEPARATOR.join([kinds[row] for row in order])
        self.args = BETWEEN.join([args[row] for row in order])
        self._created = b"".join([self._created[8 * row : 8 * row + 8] for row in order])
        for name in ("ids", "seqs", "attempts", "max_attempts", "priorities"):
            column = getattr(self, name)
            setattr(self, name, array(column.typecode, [column[row] for row in order]))


class KindBatch:
    """The rows of one kind in a claim, the `batch` of each of their jobs. Rows are numbered as in the claim."""

    __slots__ = ("_claimed", "claim", "kind", "max_attempts", "priorities", "queue", "work", "worker")

    def __init__(self, claimed: Claimed, kind: str, worker: object = None, work: object = None) -> None:
        self._claimed = claimed
        self.kind = kind
        self.queue = claimed.queue
        self.claim = claimed.claim
        self.priorities = claimed.priorities
        self.max_attempts = claimed.max_attempts
        self.worker = worker  # None until `decode` has found it, and for a kind without one
        self.work = work

    def created_at(self, row: int, /) -> datetime:
        """Say when the job was enqueued, by the database's clock."""
        return self._claimed.created_at(row)

    def tags(self, row: int, /) -> tuple[str, ...]:
        """Give the job's tags."""
        return self._claimed.tags(row)

    def meta(self, row: int, /) -> Mapping[str, Any]:
        """Give the values that features keep with the job."""
        return self._claimed.meta(row)


def integers(blob: bytes | None) -> array[int]:
    """Read int8send's bytes, one number after the other."""
    numbers = array("q", blob or b"")
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
