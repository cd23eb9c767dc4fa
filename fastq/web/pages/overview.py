"""The overview: what runs, what needs somebody, and what the last hour was like.

`load` runs in a thread of the source, over its connection, every two seconds while somebody looks; all that it asks is bounded.
What is worth a notice is judged in admin/running/notices.py; here each gets the page where it is mended.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from fastq import admin
from fastq.admin import statistics
from fastq.admin.dead.lately import Lately, list_lately
from fastq.admin.queues import GLANCE, GLANCE_TOTAL
from fastq.admin.running import list_notices, list_processes, list_running
from fastq.web.look.charts import columns, stacked
from fastq.web.look.rendering import address
from fastq.web.routing.view import View

if TYPE_CHECKING:
    from fastq.admin.running import Notice
    from fastq.web.routing.view import Visit

LATELY = 3_600.0
"""Seconds back for which statistics and discarded jobs are told: a shift's memory of now. A guess."""

SHOWN, RUNNING = 12, 200
"""Rows of a table, and running jobs that are counted."""

STATES = ("running", "available", "scheduled", "retryable", "waiting")
"""The states of living jobs, in the order of the charts."""


NEEDS = {"leaders": "leaders.read", "queues": "queues.read", "gates": "gates.read", "periodic": "periodic.read"}
"""The permissions of the pages on which things are mended, by what a notice is about."""


class Linked(NamedTuple):
    """A notice as the page shows it."""

    grave: bool
    text: str
    path: str  # the page where it is mended
    needs: str  # the permission of that page: a viewer without it is not told what stands there


def load(visit: Visit) -> Mapping[str, Any]:
    """Read what runs and what needs somebody."""
    connection = visit.connection
    queues = admin.list_queues(connection, GLANCE, GLANCE_TOTAL)
    processes = list_processes(connection)
    running = list_running(connection, RUNNING)
    lately = list_lately(connection, LATELY)
    bars = [(queue, _counts(queue)) for queue in queues]
    most = max((sum(count for _, count in counts) for _, counts in bars), default=0)
    groups = [(group, visit.redaction.text(group.kind, "error", group.shape)) for group in lately.groups]
    return {
        "notices": [_linked(notice) for notice in list_notices(connection, queues)],
        "tiles": _tiles(queues, lately, sum(process.lives for process in processes)),
        "running": running[:SHOWN],
        "more_running": max(0, len(running) - SHOWN),
        "groups": groups[:SHOWN],
        "bars": [
            (queue, stacked(counts, most), sum(count for _, count in counts), bool(queue.more))
            for queue, counts in bars[: 2 * SHOWN]
        ],
        "more_queues": max(0, len(bars) - 2 * SHOWN),
        "states": STATES,
        "hour": next(iter(statistics.stats(connection, LATELY)), None),
        "minutes": columns(statistics.stats(connection, LATELY, step="minute", times=False), datetime.now(UTC)),
        "processes": sum(process.lives for process in processes),
    }


def _counts(queue: admin.QueueRow) -> list[tuple[str, int]]:
    numbers = (queue.claimed, queue.available, queue.scheduled, queue.retryable, queue.waiting)
    return list(zip(STATES, numbers, strict=True))


def _tiles(queues: list[admin.QueueRow], lately: Lately, processes: int) -> list[tuple[str, int, str, bool]]:
    """Return the numbers on top: words, number, page, and whether there are more."""
    sums = {state: sum(dict(_counts(queue))[state] for queue in queues) for state in STATES}
    more = {
        "running" if name == "claimed" else name
        for queue in queues
        for name in queue.more
        if sums[name if name != "claimed" else "running"]
    }
    tiles = [(state, sums[state], address("/jobs", state=state), state in more) for state in STATES]
    tiles.append(("discarded in 1\N{NO-BREAK SPACE}h", lately.jobs, address("/dead", since="1h"), lately.more))
    tiles.append(("processes", processes, "/hosts", False))
    return tiles


def _linked(notice: Notice) -> Linked:
    path = address("/periodic/show", name=notice.name) if notice.about == "periodic" else f"/{notice.about}"
    return Linked(notice.grave, notice.text, path, NEEDS[notice.about])


CONTENT = (View("/", "Overview", "overview.read", "overview.html", load, every=2.0, menu=True),)
