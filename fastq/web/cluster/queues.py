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
from fastq.admin.queues import GLANCE, GLANCE_TOTAL
from fastq.web.look.charts import Columns, columns, stacked
from fastq.web.routing.view import View

if TYPE_CHECKING:
    from fastq.admin.statistics import StatRow
    from fastq.postgres.db import Connection
    from fastq.web.routing.view import Visit

HOUR = 3_600.0
"""Seconds back for which the statistics of queues are told."""

QUEUES, HOURS, KINDS = (20, 500), (5, 50), (15, 500)
"""Queues, busiest queues of the hour, and kinds that are shown: at first, for a page of 30 kB, and if somebody asks for more."""


def load(visit: Visit) -> Mapping[str, Any]:
    """Read queues, waiting kinds and pauses."""
    queues = admin.list_queues(visit.connection, GLANCE, GLANCE_TOTAL)
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
    more = visit.get("more") is not None
    kinds, hours = admin.list_waiting(visit.connection, GLANCE, GLANCE_TOTAL), _hours(visit.connection, HOURS[more])
    pauses = admin.list_pauses(visit.connection)
    return {
        "queues": [(queue, stacked(one, most)) for queue, one in zip(queues, counts, strict=True)][: QUEUES[more]],
        "hours": hours,
        "kinds": kinds[: KINDS[more]],
        "left_out": {
            "queues": len(queues) - QUEUES[more],
            "hours": len(hours) == HOURS[more] and len(queues) > len(hours),
            "kinds": len(kinds) - KINDS[more],
        },
        "further": not more,
        "pauses": pauses,
        "everything": any(pause.sort == "queue" and pause.name == ALL for pause in pauses),
        "own": {pause.name for pause in pauses if pause.sort == "queue"},
    }


def _hours(connection: Connection, most: int) -> list[tuple[StatRow, Columns]]:
    """Return the statistics of each queue, and its minutes."""
    rows = sorted(statistics.stats(connection, HOUR, "queue"), key=lambda row: (-row.ended - row.failed, row.queue or ""))
    minutes: dict[str | None, list[StatRow]] = {row.queue: [] for row in rows[:most]}
    for row in statistics.stats(connection, HOUR, "queue", "minute", times=False) if rows else ():
        minutes.get(row.queue, []).append(row)
    now = datetime.now(UTC)
    return [(row, columns(minutes[row.queue], now)) for row in rows[:most]]


CONTENT = (View("/queues", "Queues", "queues.read", "queues.html", load, every=2.0, menu=True),)
