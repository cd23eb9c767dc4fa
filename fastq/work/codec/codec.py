"""The one door to the codec: from a claim to its jobs, and from completions to arrays, by the C core or its Python twin.

In a worker process, `decode` runs in the producer's thread, `encode_ids` there and in the completer's, and the other encoders in
the completer's thread alone. `FASTQ_CODEC` asks for one of the twins; `auto` takes C where it is there. Decided once per process,
at its start: the main thread of a worker process (seat.py) or of a command calls `use`, before any thread of ours runs. Without
that, it is decided at the first call. That decision is the only state (`_twin`).

Splitting a claim by kind and making its jobs is the same with either twin, so it is done here; a twin reads the args of one kind.
It deliberately does not decide over a job that cannot run: the producer does.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fastq.args.queues import QUEUES
from fastq.config import Config
from fastq.errors import ArgsError, ConfigError
from fastq.jobs.job import KEPT, UNKEPT, Job
from fastq.work.codec import twin
from fastq.work.codec.timed import choose_none
from fastq.work.shared.called import call_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fastq.args.text import ArgsCodec
    from fastq.jobs.worker import Worker
    from fastq.work.codec.claimed import Claimed

    Read = Callable[[ArgsCodec[Any], bytes, int], tuple[list[Any], list[int]]]

SMALL = 64
"""Jobs of a kind below which the Python twin is faster: a call into C with its buffers costs 5 to 13 us before the first job,
msgspec's 1."""

Jobs = list[Job[Any]]

MAX_TEXT = 2**20
"""Bytes that are kept of one text. More than any text of outcome.py has; it bounds a statement in any case."""


class Twin(Protocol):
    """The functions of twin.py, which is their specification, and of core.py."""

    def read(self, codec: ArgsCodec[Any], blob: bytes, count: int) -> tuple[list[Any], list[int]]:
        """Read the args of `count` jobs of a kind."""
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


def decode(
    claimed: Claimed,
    workers: Mapping[str, Worker[Any]],
    read: Read | None = None,
    choose: Callable[[Jobs], object] = choose_none,
) -> Decoded:
    """Make the jobs of a claim; `workers` are those by the names that jobs ask for (args/versions/names.py).

    A test gives the `read` of a twin; otherwise it is that of the twin in use, and for a few jobs that of the Python twin.
    `choose` is given the jobs of each batch that can run, and may have some of them timed (timed.py).
    """
    good, bad, unknown, barred = made = Decoded([], [], [], [])
    few, many = (read, read) if read else (twin.read, chosen().read)
    whole = True
    for batch, rows, blob in claimed.batches():
        whole = len(rows) == len(claimed.ids)
        ids = claimed.ids if whole else [claimed.ids[row] for row in rows]
        attempts = claimed.attempts if whole else [claimed.attempts[row] for row in rows]
        worker = workers.get(batch.asks_for)
        if worker is None:
            unknown.extend(map(Job, ids, attempts, repeat(None), rows, repeat(batch)))
            continue
        batch.found(worker, call_of(worker), rows[0])
        if batch.ends is KEPT and not worker.archive:
            batch.ends = UNKEPT
        args, refused = (few if len(rows) < SMALL else many)(worker.kind.reading(batch.version), blob, len(rows))
        jobs = list(map(Job, ids, attempts, args, rows, repeat(batch)))
        for place in refused:
            jobs[place].outcome = jobs[place].args
            bad.append(jobs[place])
        mine = jobs if not refused else [job for job in jobs if type(job.args) is not ArgsError]
        choose(mine)
        (barred if (worker.kind.gates or claimed.queue in QUEUES) and not batch.gated else good).extend(mine)
    if not whole:
        good.sort(key=lambda job: job.row)  # as claimed, not kind by kind
    return made


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
