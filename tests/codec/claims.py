"""Claims made by hand: the blobs of sql/job_claim.sql for jobs that no database has seen."""

import struct
from dataclasses import dataclass

import attrs

from fastq.args.kinds import Kind
from fastq.jobs.registry import Registry
from fastq.jobs.worker import Worker
from fastq.work.codec.claimed import Claimed

TOKEN = 1 << 32 | 1


@dataclass
class Flat:
    n: int
    f: float = 0.5
    s: str = "?"
    b: bool = False
    o: int | None = 7
    t: str | None = None


@attrs.define
class Attrs:
    n: int
    s: str | None = None
    items: list[int] = attrs.field(factory=list)


@attrs.define(slots=False)
class FlatAttrs:
    n: int
    s: str = "?"


@dataclass
class Nested:
    n: int
    items: list[str]


@dataclass(slots=True)
class Slots:
    n: int
    s: str = "?"


@dataclass(frozen=True)
class Frozen:
    n: int
    s: str = "?"


@dataclass
class Own:
    """A constructor of the user's own: decoding fills the fields, it does not call this."""

    n: int
    s: str = "?"

    def __init__(self) -> None:
        raise AssertionError("not called")


@dataclass
class Checked:
    n: int
    s: str = "?"

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("n is negative")
        self.s += "!"


@dataclass(kw_only=True)
class Keywords:
    s: str = "?"
    n: int


SHAPES = (Flat, Attrs, FlatAttrs, Nested, Slots, Frozen, Own, Checked, Keywords)


def worker_of(kind: Kind) -> Worker:
    """Make a worker of a kind."""

    class Nothing(Worker, kind=kind):
        def work(self, job):
            return None

    registry = Registry()
    registry.register(Nothing)
    return registry.workers[kind.name]


def workers_of(*kinds: Kind) -> dict[str, Worker]:
    """Make workers by kind."""
    return {kind.name: worker_of(kind) for kind in kinds}


def claimed(rows: list[tuple[str, bytes]], *, priorities=None, seqs=None, beside=None, clock=None) -> Claimed:
    """Make a claim of (kind, args), with ids from 1."""
    count = len(rows)
    ids = range(1, count + 1)
    words = [1 << 32 | 25 << 16 | priority for priority in priorities or [1] * count]
    blobs = [
        struct.pack(f">{count}q", *ids),
        struct.pack(f">{count}q", *(seqs or ids)),
        struct.pack(f">{count}q", *words),
        struct.pack(f">{count}q", *[1_000_000 * job_id for job_id in ids]),
        b"\x1e".join([kind.encode() for kind, _ in rows]),
        b",\x1e".join([args for _, args in rows]),
        beside,
        clock,
    ]
    return Claimed("default", TOKEN, blobs if rows else [])
