"""Encrypt the args of a kind's finished jobs anew: the rows of the archive, and those of discarded jobs that wait for a replay.

Runs in the caller's thread or event loop, as rotation.py does, which calls it. It reads each partition of the archive once, some
pages at a time, and writes the rows of a window in one statement: each window is a transaction of its own. A change that was
broken off is begun anew, and finds the rows that it had written under the newest key.

Invariant: a row that only the newest key has encrypted is not sent, and a partition without others is read and not written. What
is written goes to the end of its partition, behind the pages that were there at the beginning. The module deliberately keeps no
place to go on from: reading is the small part of the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fastq.admin.sealed.rows import WINDOW, anew, count_written, lists
from fastq.admin.session import Ask

if TYPE_CHECKING:
    from fastq.admin.sealed.rows import Rotated
    from fastq.admin.session import Asking

PAGES = 128
"""Pages of a partition that one statement reads: a megabyte, the figure of schema/partitions.py."""


def resealing_dead(told: Rotated) -> Asking[None]:
    """Encrypt the args of discarded jobs anew, as a replay would take them."""
    after, told.dead = 0, 0
    while True:
        [(looked, last, rows)] = yield Ask("dead_sealed", (told.kind, after, WINDOW))
        if changed := anew(told, [(job, was, args, job) for job, was, args in msgspec.json.decode(rows)]):
            [(written,)] = yield Ask("dead_reseal", lists(changed))
            told.dead += count_written(told, changed, written)
        if looked < WINDOW:
            return
        after = last


def resealing_archive(told: Rotated) -> Asking[None]:
    """Encrypt the args of the archive's rows anew, one partition after the other."""
    told.archived = 0
    parts = yield Ask("archive_parts")
    for partition, low, high, pages in parts:
        yield from _partition(told, partition, low, high, pages)


def _partition(told: Rotated, partition: int, low: str, high: str, pages: int) -> Asking[None]:
    after, page = "(0,0)", 0
    while page < pages:
        end = f"({min(page + PAGES, pages)},0)"
        place = (partition, low, high)
        [(looked, rows)] = yield Ask("archive_sealed", (told.kind, told.key, *place, after, end, WINDOW))
        found = msgspec.json.decode(rows)
        if changed := anew(told, found):
            [(written,)] = yield Ask("archive_reseal", (*place, *lists(changed)))
            told.archived = (told.archived or 0) + count_written(told, changed, written)
        if looked < WINDOW:
            after, page = end, page + PAGES
        else:
            after = found[-1][0]  # there may be more in these pages
