"""Unworked: report queues that no living process works, and kinds that wait because no process of their queue knows them.

A chore of the schema's leader, run in its track's thread of the supervisor that leads. A schema has that leader with any
queues and domains. It keeps the queues and kinds that it has seen: its track's thread alone writes its
attributes, and a new term makes a new one. It deliberately changes nothing in the database: people do.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from fastq.events import emit
from fastq.postgres import db, sqlstate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastq.lead.term.chore import Site

INTERVAL = 30.0
"""Seconds between looks. Twice FASTQ_PROCESS_TTL: a queue that is seen twice is not just between two processes."""

TOLD_EVERY = 600.0
"""Seconds until the same is reported again while it lasts: a guess at how often a person wants to read it."""

DETOUR = 600.0
"""Seconds until the queues are looked at again after that took too long. Dead rows that an old snapshot keeps then lie at the
beginning of the index, and each look costs as much of the server as the time limit allows. A guess at how long that lasts."""

COUNT = 1_000
"""Jobs at which counting stops: how many more there are makes no difference for the operator."""

KINDS = 1_000
"""Kinds that one look reads: more than an app has."""


class Unworked:
    """The chore: tells when it has seen something twice, and again now and then while it lasts. Only it uses `_seen`."""

    name = "unworked"

    def __init__(self) -> None:
        self._look_at = 0.0  # monotonic time before which the queues are not looked at
        self._seen: dict[tuple[str, str], float] = {}  # by queue and kind ("": all): monotonic time from which on to report it

    def start(self, site: Site) -> None:
        """Need nothing."""

    def run(self, site: Site) -> float:
        """Look."""
        queues = self._queues(site)
        rows = site.connection.run("kind_waiting", COUNT, KINDS, COUNT * KINDS)
        kinds = {
            (queue, kind): jobs for queue, kind, jobs, known, paused_at, *_ in rows if not (known or paused_at or queue in queues)
        }
        for queue, kind in self._to_tell([*((queue, "") for queue in queues), *kinds]):
            if kind:
                emit("kind.unworked", level=logging.WARNING, queue=queue, kind=kind, jobs=kinds[queue, kind])
            else:
                available, waiting = queues[queue]
                emit("queue.unworked", level=logging.WARNING, queue=queue, available=available, waiting=waiting)
        return INTERVAL

    def _queues(self, site: Site) -> dict[str, list[int]]:
        """Return the queues without a process: their jobs that are available, and those that wait for a worker."""
        if time.monotonic() < self._look_at:
            return {}
        try:
            return {queue: counts for queue, *counts in site.connection.run("queue_unworked", COUNT)}
        except db.Error as error:
            if not sqlstate.too_slow(error):
                raise
            self._look_at = time.monotonic() + DETOUR
            emit("unworked.unseen", level=logging.WARNING, seconds=DETOUR, error=db.first_line(error))
            return {}

    def _to_tell(self, found: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return those of the found ones that are to be reported now; forget those that are over."""
        now = time.monotonic()
        before, self._seen = self._seen, {}
        for key in found:
            self._seen[key] = before.get(key, 0.0)
        due = [key for key, at in self._seen.items() if key in before and at <= now]
        self._seen.update(dict.fromkeys(due, now + TOLD_EVERY))
        return due

    def end(self, site: Site, reason: str) -> None:
        """Keep nothing."""
