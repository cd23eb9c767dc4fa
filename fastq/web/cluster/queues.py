"""Queues with the counts of their jobs, kinds that wait for a worker, and everything that is paused.

`load` runs in a thread of the source, over its connection. Counts stop at admin's bounds. The actions are those of pauses.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastq import admin
from fastq.admin.pauses import ALL
from fastq.admin.queues import COUNT
from fastq.web.look.charts import stacked
from fastq.web.routing.view import View

if TYPE_CHECKING:
    from fastq.web.routing.view import Visit

WAITING = 10_000
"""Where the count of jobs stops that wait for a worker of a kind."""


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
        "kinds": admin.list_waiting(visit.connection, WAITING),
        "pauses": pauses,
        "everything": any(pause.sort == "queue" and pause.name == ALL for pause in pauses),
        "own": {pause.name for pause in pauses if pause.sort == "queue"},
        "most": COUNT,
    }


CONTENT = (View("/queues", "Queues", "queues.read", "queues.html", load, every=2.0, menu=True),)
