"""The codec in Python: what decoding and encoding mean, the fallback where the C core was not built, and its oracle.

`decode` runs in the producer's thread of a worker process, `encode_ids` in the completer's. Pure functions of bytes and plain
values. The C twin must give equal answers for every input; tests compare them.
"""

from __future__ import annotations

import struct
from itertools import repeat
from typing import TYPE_CHECKING, Any

from fastq.claimed import SEPARATOR, Claimed, KindBatch
from fastq.errors import ArgsError
from fastq.job import Job

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastq.worker import Worker

INT8 = 20
"""The oid of bigint, in every Postgres."""

_ARRAY = struct.Struct(">iiiii")  # dimensions, has nulls, element oid, length, lower bound


def decode(claimed: Claimed, workers: Mapping[str, Worker[Any]]) -> tuple[list[Job[Any]], list[Job[Any]], list[Job[Any]]]:
    """Make the jobs of a claim: those to execute, those whose args do not decode (outcome: the error), those of unknown kinds."""
    kinds = claimed.kinds
    if kinds.count(kinds[0]) == len(kinds):
        blob = b"[" + claimed.args.replace(SEPARATOR, b"") + b"]"
        return _decode_kind(claimed, kinds[0], blob, list(range(len(kinds))), workers)
    good: list[Job[Any]] = []
    bad: list[Job[Any]] = []
    unknown: list[Job[Any]] = []
    elements = claimed.split_args()
    rows_by_kind: dict[bytes, list[int]] = {}
    for row, kind in enumerate(kinds):
        rows_by_kind.setdefault(kind, []).append(row)
    for kind, rows in rows_by_kind.items():
        blob = b"[" + b",".join([elements[row] for row in rows]) + b"]"
        some_good, some_bad, some_unknown = _decode_kind(claimed, kind, blob, rows, workers)
        good.extend(some_good)
        bad.extend(some_bad)
        unknown.extend(some_unknown)
    good.sort(key=lambda job: job.row)  # as claimed, not kind by kind
    return good, bad, unknown


def _decode_kind(
    claimed: Claimed, kind: bytes, blob: bytes, rows: list[int], workers: Mapping[str, Worker[Any]]
) -> tuple[list[Job[Any]], list[Job[Any]], list[Job[Any]]]:
    worker = workers.get(kind.decode())
    batch = KindBatch(claimed, kind.decode(), worker, worker and worker.work)
    whole = len(rows) == len(claimed)
    ids = claimed.ids if whole else [claimed.ids[row] for row in rows]
    attempts = claimed.attempts if whole else [claimed.attempts[row] for row in rows]
    if worker is None:
        return [], [], list(map(Job, ids, attempts, repeat(None), rows, repeat(batch)))
    args = worker.kind.codec.decode_batch(blob)
    jobs = list(map(Job, ids, attempts, args, rows, repeat(batch)))
    bad = [job for job in jobs if type(job.args) is ArgsError]
    if not bad:
        return jobs, [], []
    for job in bad:
        job.outcome = job.args
    return [job for job in jobs if type(job.args) is not ArgsError], bad, []


def encode_ids(ids: Sequence[int]) -> bytes:
    """Encode a bigint[] in Postgres' binary format."""
    count = len(ids)
    if not count:
        return struct.pack(">iii", 0, 0, INT8)
    words = [8, 0] * count
    words[1::2] = ids
    return _ARRAY.pack(1, 0, INT8, count, 1) + struct.pack(">" + "iq" * count, *words)
