"""Queues with the counts of their jobs and their last hour, kinds that wait for a worker, and everything that is paused.

`load` runs in a thread of the source, over its connection. Counts stop at admin's bounds. The actions are those of pauses.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fastq import admin
from fastq.admin import statistics
from fastq.admin.pauses import ALL
from fastq.admin.queues import COUNT
from fastq.web.look.charts import Columns, columns, stacked
from fastq.web.routing.view import View

if TYPE_CHECKING:
    from fastq.admin.statistics import StatRow
    from fastq.postgres.db import Connection
    from fastq.web.routing.view import Visit

WAITING = 10_000
"""Where the count of jobs stops that wait for a worker of a kind."""

HOUR, HOURS = 3_600.0, 50
"""Seconds back for which the statistics of queues are told, and queues that are told, the busiest."""


def load(visit: Visit) -> Mapping[str, Any]:
    """Read queues, waiting kinds and pauses."""
    queues = admin.list_queues(visit.connection)
    counts = [
        [
            ("running", queue.claimed),
            ("available", queue.available),
            ("scheduled", queue.scheduled),
            ("retryable", queue.retryable),
            ("waiting", queue.waiting),
        ]
        for queue in queues
    ]
    most = max((sum(count for _, count in one) for one in counts), default=0)
    pauses = admin.list_pauses(visit.connection)
    return {
        "queues": [(queue, stacked(one, most)) for queue, one in zip(queues, counts, strict=True)],
        "hours": _hours(visit.connection),
        "most_hours": HOURS,
        "kinds": admin.list_waiting(visit.connection, WAITING),
        "pauses": pauses,
        "everything": any(pause.sort == "queue" and pause.name == ALL for pause in pauses),
        "own": {pause.name for pause in pauses if pause.sort == "queue"},
        "most": COUNT,
    }


def _hours(connection: Connection) -> list[tuple[StatRow, Columns]]:
    """Return the statistics of each queue, and its minutes."""
    rows = sorted(statistics.stats(connection, HOUR, "queue"), key=lambda row: (-row.ended - row.failed, row.queue or ""))
    minutes: dict[str | None, list[StatRow]] = {row.queue: [] for row in rows[:HOURS]}
    for row in statistics.stats(connection, HOUR, "queue", "minute") if rows else ():
        minutes.get(row.queue, []).append(row)
    now = datetime.now(UTC)
    return [(row, columns(minutes[row.queue], now)) for row in rows[:HOURS]]


CONTENT = (View("/queues", "Queues", "queues.read", "queues.html", load, every=2.0, menu=True),)
