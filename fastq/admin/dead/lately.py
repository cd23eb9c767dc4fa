"""Group the jobs that were discarded a short time ago, in one look: for an overview, which is asked again and again.

Runs in the caller's thread, over a connection of the caller's (admin/session.py), and keeps nothing. One statement reads the
newest LOOKED of them, so the cost is bounded however many there are; `letters.py` reads all of them, and takes its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fastq.admin.dead.groups import Dead, DeadGroup, Filter, Groups
from fastq.admin.dead.letters import LAST_ID

if TYPE_CHECKING:
    from fastq.postgres.db import Connection

LOOKED = 1_000
"""Discarded jobs that are looked at: some ten milliseconds."""


class Lately(NamedTuple):
    """The largest groups, and how many jobs were discarded; with `more` there were more than were looked at."""

    groups: list[DeadGroup]
    jobs: int
    more: bool


def list_lately(
    connection: Connection, seconds: float, limit: int = 10, *, kind: str | None = None, queue: str | None = None
) -> Lately:
    """Return the groups of the jobs that were discarded in the last so many seconds, of a kind and a queue if these are given."""
    wanted = Filter.of(None, {"kind": kind, "queue": queue})
    low, now = connection.run_one("dead_span", seconds)
    rows = connection.run("dead_list", now, LAST_ID, low, wanted.kind, wanted.queue, LOOKED)
    fit = [dead for dead in (Dead(*row) for row in rows) if kind is queue is None or wanted.fits(dead)]
    groups = Groups()
    for dead in fit:
        groups.add(dead)
    return Lately(groups.told(limit, {}, None).groups, len(fit), len(rows) == LOOKED)
