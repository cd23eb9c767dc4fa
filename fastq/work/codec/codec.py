"""The one door to the codec: from a claim to its jobs, and from completions to arrays, by the C core or its Python twin.

In a worker process, `decode` runs in the producer's thread, `encode_ids` there and in the completer's, and the other encoders in
the completer's thread alone. `FASTQ_CODEC` asks for one of the twins; `auto` takes C where it is there. Decided once per process,
at its start: the main thread of a worker process (seat.py) or of a command calls `use`, before any thread of ours runs. Without
that, it is decided at the first call. That decision is the only state (`_twin`).

Splitting a claim by kind and making its jobs is the same with either twin, so it is done here; a twin reads the args of one kind.
A batch is made and written in the producer's thread, before any of its jobs is handed out. Then the thread that has a job reads
its batch; it writes there only what a comment names, for its own row or for all. This module deliberately does not decide over a
job that cannot run: the producer does.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fastq import events
from fastq.args.gates import GATES
from fastq.args.meta import WORKFLOW
from fastq.args.queues import QUEUES
from fastq.args.versions.names import name_of, version_in
from fastq.config import Config
from fastq.errors import ArgsError, ConfigError
from fastq.hooks import timing
from fastq.jobs.job import KEPT, TIED, UNKEPT, Job
from fastq.work.codec import twin
from fastq.work.codec.claimed import BETWEEN, SEPARATOR
from fastq.work.shared.called import call_of
from fastq.work.shared.rules import around_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from fastq.args.text import ArgsCodec
    from fastq.jobs.worker import Worker
    from fastq.work.codec.claimed import Claimed
    from fastq.work.shared.rules import Around

    Read = Callable[[ArgsCodec[Any], bytes, int], tuple[list[Any], list[int]]]

SMALL = 64
"""Jobs of a kind below which the Python twin is faster, whatever their args are (shapes.py): nobody else is asked then."""

Jobs = list[Job[Any]]

MAX_TEXT = 2**20
"""Bytes that are kept of one text. More than any text of outcome.py has; it bounds a statement in any case."""


class Twin(Protocol):
    """The functions of twin.py, which is their specification, and of core.py."""

    def read(self, codec: ArgsCodec[Any], blob: bytes, count: int) -> tuple[list[Any], list[int]]:
        """Read the args of `count` jobs of a kind."""
        raise NotImplementedError

    def worth(self, codec: ArgsCodec[Any], count: int) -> bool:
        """Tell whether it reads the args of so many jobs of a kind faster than the Python twin."""
        raise NotImplementedError

    def encode_ints(self, values: Sequence[int]) -> bytes:
        """Encode a bigint[]."""
        raise NotImplementedError

    def encode_floats(self, values: Sequence[float]) -> bytes:
        """Encode a float8[]."""
        raise NotImplementedError

    def encode_bools(self, values: Sequence[bool]) -> bytes:
        """Encode a boolean[]."""
        raise NotImplementedError

    def encode_texts(self, values: Sequence[str | None], cap: int = 0) -> bytes:
        """Encode a text[]."""
        raise NotImplementedError


class Tie(NamedTuple):
    """The parts of fastq that hear of the end of a job, and the rules around its attempts."""

    gated: bool  # the gatekeeper: the job went through gates
    member: bool  # the leader's chore of workflows: the job is a step of one
    around: tuple[Around, ...] = ()  # rules that keys of its meta stand for
    apart: int = 0  # the job's own id, if a rule says that it shares its batch with no other one
    version: str = ""  # of its args, where the job says one


PLAIN = Tie(gated=False, member=False)
"""Nobody hears of the end of a job but the job's own row, and nothing is around its attempts."""


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
        "limit",
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
        self.limit = 0  # the same in ns, as it was before any attempt began: what the board shows; 0: none
        self.around: Any = tie.around
        self.steps: dict[int, Any] | None = None  # what attempts know of their steps: steps/attempt.py writes it
        self.times: dict[int, Any] | None = None  # when attempts began and ended, if somebody asks: hooks/timing.py writes it
        self.version = tie.version
        self.asks_for = name_of(kind, tie.version) if tie.version else kind  # the name under which its jobs ask for a worker

    def found(self, worker: Worker[Any], row: int) -> None:
        """Take the worker of the kind, and find the function to call with each job; `row` is the first of them."""
        self.worker, self.work, self.timeout = worker, call_of(worker), worker.timeout
        if events.subscribed and events.timed(len(self._claimed)):
            self.times = {}
            self.work = timing.within(self.work, self.times, is_async=worker.is_async)
        for rule in self.around:
            rule.put_around(self, row)
        self.limit = int((self.timeout or 0.0) * 1e9)

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


class Decoded(NamedTuple):
    """The jobs of a claim."""

    good: Jobs  # to execute
    bad: Jobs  # their args do not decode; the outcome is the error
    unknown: Jobs  # their kind has no worker here
    barred: Jobs  # they came past the gates of their kind or queue: the program that enqueued them did not know these


_twin: Twin | None = None  # written by `use`


def use(wanted: str = "auto") -> str:
    """Take the twin that is wanted, `auto`, `c` or `python`, and name it; ConfigError if C is wanted and was not built."""
    global _twin  # noqa: PLW0603 - one decision per process, like which extension module is loaded
    _twin = twin
    if wanted != "python":
        try:
            from fastq.work.codec import core  # noqa: PLC0415 - may not be there

            _twin = core
        except (ImportError, AttributeError) as error:  # not built, or of another version
            if wanted == "c":
                raise ConfigError(
                    f"FASTQ_CODEC=c: expected the C core, but it cannot be used ({error}); "
                    f"install from a wheel or with a C compiler, or leave FASTQ_CODEC at 'auto'"
                ) from error
    return in_use()


def in_use() -> str:
    """Name the twin that works here; asked by `use`, and by `fastq bench`."""
    return "python" if chosen() is twin else "c"


def decoder(args: ArgsCodec[Any], count: int) -> str:
    """Name the twin that reads the args of so many jobs of a kind, and how; asked by `fastq bench`."""
    return "c, by column" if count >= SMALL and chosen().worth(args, count) else "python, by msgspec"


def decode(
    claimed: Claimed,
    workers: Mapping[str, Worker[Any]],
    read: Read | None = None,
    choose: Callable[[Jobs], object] | None = None,
) -> Decoded:
    """Make the jobs of a claim; `workers` are those by the names that jobs ask for (args/versions/names.py).

    A test gives the `read` of a twin; otherwise it is that of the twin in use, and for a few jobs that of the Python twin.
    `choose` is given the jobs of each batch that can run, and may have some of them timed (timed.py).
    """
    good, bad, unknown, barred = made = Decoded([], [], [], [])
    many = chosen()
    whole = True
    for batch, rows, blob in _batches(claimed):
        whole = len(rows) == len(claimed.ids)
        ids = claimed.ids if whole else [claimed.ids[row] for row in rows]
        attempts = claimed.attempts if whole else [claimed.attempts[row] for row in rows]
        worker = workers.get(batch.asks_for)
        if worker is None:
            unknown.extend(map(Job, ids, attempts, repeat(None), rows, repeat(batch)))
            continue
        batch.found(worker, rows[0])
        if batch.ends is KEPT and not worker.archive:
            batch.ends = UNKEPT
        reading, count = worker.kind.reading(batch.version), len(rows)
        reader = read or (many.read if count >= SMALL and many.worth(reading, count) else twin.read)
        args, refused = reader(reading, blob, count)
        jobs = list(map(Job, ids, attempts, args, rows, repeat(batch)))
        for place in refused:
            jobs[place].outcome = jobs[place].args
            bad.append(jobs[place])
        mine = jobs if not refused else [job for job in jobs if type(job.args) is not ArgsError]
        if choose is not None:
            choose(mine)
        (barred if (worker.kind.gates or claimed.queue in QUEUES) and not batch.gated else good).extend(mine)
    if not whole:
        good.sort(key=lambda job: job.row)  # as claimed, not kind by kind
    return made


def _batches(claimed: Claimed) -> Iterator[tuple[KindBatch, Sequence[int], bytes]]:
    """Split the claim by kind; yield batch, rows and args of each; the text of one kind at a time is in memory."""
    tied = _tied(claimed) if claimed.beside else {}
    alike = not tied or (len(tied) == len(claimed.ids) and len({*tied.values()}) == 1)
    only = _only_kind(claimed) if alike else None
    if only is not None:
        yield KindBatch(claimed, only.decode(), tie=next(iter(tied.values()), PLAIN)), range(len(claimed.ids)), claimed.args
        return
    elements = claimed.split_args()
    rows_by_kind: dict[tuple[bytes, Tie], list[int]] = {}
    for row, kind in enumerate(claimed.kinds.split(SEPARATOR)):
        rows_by_kind.setdefault((kind, tied.get(claimed.ids[row], PLAIN)), []).append(row)
    for (kind, tie), rows in rows_by_kind.items():
        yield KindBatch(claimed, kind.decode(), tie=tie), rows, BETWEEN.join([elements[row] for row in rows])


def _tied(claimed: Claimed) -> dict[int, Tie]:
    """Return the ids of the jobs that are not plain, each with its ties."""
    metas = {int(id_): kept["meta"] for id_, kept in claimed.beside.items() if isinstance(kept, dict)}
    ties = {
        id_: Tie(GATES.name in meta, WORKFLOW.name in meta, *around_of(meta, id_), version_in(meta))
        for id_, meta in metas.items()
    }
    return {id_: tie for id_, tie in ties.items() if tie != PLAIN}


def _only_kind(claimed: Claimed) -> bytes | None:
    """Return the kind if all jobs have the same one, without splitting: one comparison of bytes."""
    end = claimed.kinds.find(SEPARATOR)
    kind = claimed.kinds if end < 0 else claimed.kinds[:end]
    return kind if SEPARATOR.join([kind] * len(claimed.ids)) == claimed.kinds else None


def encode_ids(ids: Sequence[int]) -> bytes:
    """Encode a bigint[] in Postgres' binary format."""
    return chosen().encode_ints(ids)


def encode_floats(values: Sequence[float]) -> bytes:
    """Encode a float8[] in Postgres' binary format."""
    return chosen().encode_floats(values)


def encode_bools(values: Sequence[bool]) -> bytes:
    """Encode a boolean[] in Postgres' binary format."""
    return chosen().encode_bools(values)


def encode_texts(values: Sequence[str | None]) -> bytes:
    """Encode a text[] in Postgres' binary format; characters that Postgres cannot store become U+FFFD."""
    return chosen().encode_texts(values, MAX_TEXT)


def chosen() -> Twin:
    """Return the twin that works here."""
    if _twin is None:
        use(Config.load().codec)
    assert _twin is not None
    return _twin
