"""Encrypt the args of a kind's jobs anew, with the newest key, so that an older key is needed no longer.

Runs in the caller's thread or event loop: that of `fastq jobs rotate-keys`, or of a client. It reads the living jobs by their
ids, a window at a time, and writes those of a window in one statement; then, if it is told to, the finished ones (archived.py).
It keeps nothing; the caller gets the numbers (rows.py).

Invariant: a job that runs is left alone, and so is one whose args have changed since they were read. The living jobs come first:
one that ends meanwhile is in the archive when that is read, or was counted as one that ran. Finished jobs are deliberately left
alone unless the caller asks for them: each of them is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fastq.admin.sealed.archived import resealing_archive, resealing_dead
from fastq.admin.sealed.rows import WINDOW, Rotated, anew, count_written, lists
from fastq.admin.session import Ask, answered
from fastq.args.options import check_kind_name
from fastq.args.secret import ring
from fastq.events import emit

if TYPE_CHECKING:
    from fastq.admin.session import Asking
    from fastq.postgres.db import Connection


def rotate_keys(connection: Connection, kind: str, *, archive: bool = False) -> Rotated:
    """Encrypt a kind's args anew where another key than the newest has encrypted them, those of finished jobs if asked to."""
    return answered(connection, rotating(kind, archive=archive))


def rotating(kind: str, *, archive: bool = False) -> Asking[Rotated]:
    """Do as `rotate_keys`, statement by statement."""
    told = Rotated(check_kind_name(kind), ring.ring().newest)
    yield from _resealing_living(told)
    if archive:
        yield from resealing_archive(told)
        yield from resealing_dead(told)
    numbers = {"jobs": told.jobs, "left": told.left, "unreadable": told.unreadable}
    emit("args.rotated", kind=kind, key=told.key, **numbers, archived=told.archived, dead=told.dead)
    return told


def _resealing_living(told: Rotated) -> Asking[None]:
    after = 0
    while True:
        [(looked, last, rows)] = yield Ask("args_sealed", (told.kind, after, WINDOW))
        resting = []
        for job, was, args, runs in msgspec.json.decode(rows):
            if runs:
                told.left += told.keep(args)
            else:
                resting.append((job, was, args, job))
        if changed := anew(told, resting):
            [(written,)] = yield Ask("args_reseal", lists(changed))
            told.jobs += count_written(told, changed, written)
        if looked < WINDOW:
            return
        after = last
