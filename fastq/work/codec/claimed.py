"""The answer to one claim: columns for all its jobs, in the order in which they shall start.

Made by the producer from the blobs of sql/job_claim.sql; its jobs look things up here for as long as they live
(`JobBatch` in job.py). Columns are arrays: a claim of 5,000 jobs makes a dozen objects, not 50,000.

The rows of an UPDATE come in the order of the table's pages. That is nearly always the order of seq; where it is not (pages were
used again, or the claim spans priorities) the rows are sorted here, so that jobs start in their order. It splits the rows by kind
and deliberately does not decode args: codec.py does. A claim and its batches are made and written in the producer's thread of a
worker process alone, here, in codec.py and in receiver.py, before any of their jobs is handed out. Then the thread that has a job
reads its batch; it writes there only what a comment names, for its own row or for all.
"""

from __future__ import annotations

import struct
import sys
from array import array
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import msgspec

from fastq.args.gates import GATES
from fastq.args.meta import EMPTY, WORKFLOW
from fastq.args.versions.names import name_of, version_in
from fastq.events import timed
from fastq.hooks import timing
from fastq.jobs.job import KEPT, TIED
from fastq.leases.lease import boottime
from fastq.work.shared.rules import around_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fastq.jobs.worker import Worker
    from fastq.work.shared.rules import Around

SEPARATOR = b"\x1e"
"""Stands between kinds: valid JSON, which the args are, has no raw control character either."""

BETWEEN = b"," + SEPARATOR
"""Stands between the args of two jobs."""

EPOCH, UNIX = datetime(2000, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)
"""The moments from which Postgres counts the microseconds of a binary timestamptz, and `extract(epoch ...)` its seconds."""

BETWEEN_EPOCHS = (EPOCH - UNIX).total_seconds()
"""Seconds from the one to the other."""


class Beside(TypedDict):
    """The rest of a job that has meta; of a job that has tags alone the claim tells the list of these."""

    tags: list[str] | None
    meta: dict[str, Any]


class Tie(NamedTuple):
    """The parts of fastq that hear of the end of a job, and the rules around its attempts."""

    gated: bool  # the gatekeeper: the job went through gates
    member: bool  # the leader's chore of workflows: the job is a step of one
    around: tuple[Around, ...] = ()  # rules that keys of its meta stand for
    apart: int = 0  # the job's own id, if a rule says that it shares its batch with no other one
    version: str = ""  # of its args, where the job says one


PLAIN = Tie(gated=False, member=False)
"""Nobody hears of the end of a job but the job's own row, and nothing is around its attempts."""


class Claimed:
    """The columns of a claim. `claim` is the value of its rows in the column of that name."""

    __slots__ = (
        "_ahead",
        "_created",
        "args",
        "attempts",
        "beside",
        "claim",
        "counted",
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
        self._created = created or b""  # few jobs are asked for it: it stays as it came
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

    def batches(self) -> Iterator[tuple[KindBatch, Sequence[int], bytes]]:
        """Split the claim by kind; yield batch, rows and args of each; the text of one kind at a time is in memory."""
        tied = self._tied() if self.beside else {}
        alike = not tied or (len(tied) == len(self.ids) and len({*tied.values()}) == 1)
        only = self._only_kind() if alike else None
        if only is not None:
            yield KindBatch(self, only.decode(), tie=next(iter(tied.values()), PLAIN)), range(len(self.ids)), self.args
            return
        elements = self.split_args()
        rows_by_kind: dict[tuple[bytes, Tie], list[int]] = {}
        for row, kind in enumerate(self.kinds.split(SEPARATOR)):
            rows_by_kind.setdefault((kind, tied.get(self.ids[row], PLAIN)), []).append(row)
        for (kind, tie), rows in rows_by_kind.items():
            yield KindBatch(self, kind.decode(), tie=tie), rows, BETWEEN.join([elements[row] for row in rows])

    def _tied(self) -> dict[int, Tie]:
        """Return the ids of the jobs that are not plain, each with its ties."""
        metas = {int(id_): kept["meta"] for id_, kept in self.beside.items() if isinstance(kept, dict)}
        ties = {
            id_: Tie(GATES.name in meta, WORKFLOW.name in meta, *around_of(meta, id_), version_in(meta))
            for id_, meta in metas.items()
        }
        return {id_: tie for id_, tie in ties.items() if tie != PLAIN}

    def _only_kind(self) -> bytes | None:
        """Return the kind if all jobs have the same one, without splitting: one comparison of bytes."""
        end = self.kinds.find(SEPARATOR)
        kind = self.kinds if end < 0 else self.kinds[:end]
        return kind if SEPARATOR.join([kind] * len(self.ids)) == self.kinds else None

    def created_at(self, row: int) -> datetime:
        """Say when a job was enqueued."""
        (microseconds,) = struct.unpack_from(">q", self._created, 8 * row)
        return EPOCH + timedelta(microseconds=microseconds)

    def created_seconds(self, row: int) -> float:
        """Say when a job was enqueued, in seconds since 1970; it raises for no time that Postgres can hold."""
        (microseconds,) = struct.unpack_from(">q", self._created, 8 * row)
        return BETWEEN_EPOCHS + float(microseconds) / 1e6

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
        self._created = b"".join([self._created[8 * row : 8 * row + 8] for row in order])
        for name in ("ids", "seqs", "attempts", "max_attempts", "priorities"):
            column = getattr(self, name)
            setattr(self, name, array(column.typecode, [column[row] for row in order]))


class KindBatch:
    """The rows of one kind in a claim, the `batch` of each of their jobs. Rows are numbered as in the claim."""

    __slots__ = (
        "_claimed",
        "around",
        "asks_for",
        "claim",
        "ends",
        "gated",
        "kind",
        "max_attempts",
        "priorities",
        "queue",
        "steps",
        "timeout",
        "times",
        "version",
        "work",
        "worker",
    )

    def __init__(self, claimed: Claimed, kind: str, worker: Any = None, work: Any = None, tie: Tie = PLAIN) -> None:
        self._claimed = claimed
        self.kind = kind
        self.queue = claimed.queue
        self.claim = claimed.claim
        self.priorities = claimed.priorities
        self.max_attempts = claimed.max_attempts
        self.ends = TIED if tie.gated or tie.member else KEPT  # `decode` looks whether the worker keeps them
        self.gated = tie.gated
        self.worker = worker  # None until `decode` has found it, and for a kind without one
        self.work = work
        self.timeout: float | None = None  # of an attempt; a rule around it may write it when the attempt begins
        self.around: Any = tie.around
        self.steps: dict[int, Any] | None = None  # what attempts know of their steps: steps/attempt.py writes it
        self.times: dict[int, Any] | None = None  # when attempts began and ended, if somebody asks: hooks/timing.py writes it
        self.version = tie.version
        self.asks_for = name_of(kind, tie.version) if tie.version else kind  # the name under which its jobs ask for a worker

    def found(self, worker: Worker[Any], work: Callable[[Any], Any], row: int) -> None:
        """Take the worker of the kind and the function to call with each job; `row` is the first of them."""
        self.worker, self.work, self.timeout = worker, work, worker.timeout
        if timed(len(self._claimed)):
            self.times = {}
            self.work = timing.within(work, self.times, is_async=worker.is_async)
        for rule in self.around:
            rule.put_around(self, row)

    @property
    def beside(self) -> bool:
        """Tell whether any job of the claim has tags or meta."""
        return bool(self._claimed.beside)

    def now(self) -> datetime:
        """Say what time it is by the database's clock, for jobs that have meta."""
        return self._claimed.now()

    def created_at(self, row: int, /) -> datetime:
        """Say when the job was enqueued, by the database's clock."""
        return self._claimed.created_at(row)

    def tags(self, row: int, /) -> tuple[str, ...]:
        """Give the job's tags."""
        return self._claimed.tags(row)

    def meta(self, row: int, /) -> Mapping[str, Any]:
        """Give the values that features keep with the job."""
        return self._claimed.meta(row)

    def allow(self, row: int, attempts: int, /) -> None:
        """Take the number of attempts that the job's row allows by now."""
        self._claimed.max_attempts[row] = attempts


def integers(blob: bytes | None) -> array[int]:
    """Read int8send's bytes, one number after the other."""
    numbers = array("q", blob or b"")
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
