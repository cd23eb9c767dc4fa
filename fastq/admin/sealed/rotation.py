"""Encrypt the args of a kind's living jobs anew, with the newest key, so that an older key is needed no longer.

Runs in the caller's thread or event loop: that of `fastq jobs rotate-keys`, or of a client. It reads the jobs by their ids, a
window at a time, and writes those of a window in one statement. It keeps nothing; the caller gets the numbers.

Invariant: a job that runs is left alone, and so is one whose args have changed since they were read. A job that does not open
stays as it is, and is counted. It deliberately leaves finished jobs alone: nothing writes the archive, so a key has to be kept
for as long as discarded jobs of its time may be replayed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.admin.session import Ask, answered
from fastq.args.options import check_kind_name
from fastq.args.secret import ring
from fastq.args.secret.envelopes import resealed
from fastq.errors import ArgsError
from fastq.events import emit
from fastq.texts import in_ascii

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastq.admin.session import Asking
    from fastq.postgres.db import Connection

WINDOW = 500
"""Jobs read by a statement: the figure of admin/deploys/misfits.py, for the same reason."""

RECORD = "\x1e"
"""The character that joins the elements of a list; JSON has no raw control character."""


@dataclass(slots=True)
class Rotated:
    """The numbers of a rotation. Where `left` is not 0, do it once more when those jobs have ended."""

    kind: str
    key: str  # the newest, with which they are encrypted now
    jobs: int = 0  # that were encrypted anew
    left: int = 0  # that ran, or were changed meanwhile, and may have another key
    unreadable: int = 0  # that this program's keys do not open
    sample: int | None = None  # the id of the first of these
    reason: str = ""  # why that one does not open


def rotate_keys(connection: Connection, kind: str) -> Rotated:
    """Encrypt the args of a kind's living jobs anew where another key than the newest has encrypted them."""
    return answered(connection, rotating(kind))


def rotating(kind: str) -> Asking[Rotated]:
    """Do as `rotate_keys`, statement by statement."""
    told = Rotated(check_kind_name(kind), ring.ring().newest)
    after = 0
    while True:
        [(looked, last, running, rows)] = yield Ask("args_sealed", (kind, after, WINDOW))
        told.left += running
        changed = list(_anew(told, msgspec.json.decode(rows)))
        if changed:
            ids, was, texts = zip(*changed, strict=True)
            [(written,)] = yield Ask("args_reseal", (RECORD.join(map(str, ids)), RECORD.join(was), RECORD.join(texts)))
            told.jobs += written
            told.left += len(changed) - written
        if looked < WINDOW:
            break
        after = last
    emit("args.rotated", kind=kind, key=told.key, jobs=told.jobs, left=told.left, unreadable=told.unreadable)
    return told


def _anew(told: Rotated, rows: Iterable[tuple[int, str, Any]]) -> Iterable[tuple[int, str, str]]:
    """Yield the jobs that are to be written: id, digest of their args as they were, and their args as they are to be."""
    for job, was, args in rows:
        try:
            new = resealed(args, told.kind)
        except ArgsError as error:
            if told.sample is None:
                told.sample, told.reason = job, error.reason
            told.unreadable += 1
            continue
        if new is not args:
            yield job, was, in_ascii(msgspec.json.encode(new).decode())
