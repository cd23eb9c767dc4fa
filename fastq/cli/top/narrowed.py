"""Narrow the views down by the words of a filter, the same ones as elsewhere: `queue:mails kind:report state:discarded since:2h`.

Run by the watcher's thread, and by the main thread when a filter is typed; pure functions and statements, nothing is kept. No
other module of this room knows a word of a filter: `read` is given its text, and `keep`, `jobs` and `failures` apply it.

All words count for the newest jobs. Queues, processes, running jobs and groups of failures know their queue, kind and state
alone: these words count there, and the others deliberately leave those views as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from fastq.admin import search
from fastq.admin.dead.lately import Lately, list_lately
from fastq.admin.search import JobFilter
from fastq.jobs.job import State

if TYPE_CHECKING:
    from fastq.admin.search import JobPage
    from fastq.cli.top.figures import Figures
    from fastq.postgres.db import Connection

LATELY = 3_600.0
"""Seconds back for which discarded jobs are shown, as on the overview of the dashboard."""

JOBS, GROUPS = 100, 100
"""Rows that are read of the newest jobs and of the groups of failures: two screens of a large terminal."""

EVERYTHING = JobFilter()


def read(text: str) -> JobFilter:
    """Read a filter; OptionError for a word that there is not."""
    return JobFilter.parse(text)


def keep(figures: Figures, narrow: JobFilter) -> Figures:
    """Return the figures without the queues, processes and running jobs that do not fit."""
    if narrow == EVERYTHING:
        return figures
    runs = _fits(State.RUNNING, narrow.states, narrow.not_states)
    return replace(
        figures,
        queues=[row for row in figures.queues if _of_queue(row.queue.name, narrow)],
        processes=[
            row
            for row in figures.processes
            if any(_of_queue(queue, narrow) for queue in row.queues)
            and (row.kinds is None or any(_of_kind(kind, narrow) for kind in row.kinds))
        ],
        running=[row for row in figures.running if runs and _of_queue(row.queue, narrow) and _of_kind(row.kind, narrow)],
    )


def jobs(connection: Connection, narrow: JobFilter) -> JobPage:
    """Return the newest jobs that fit, living and finished."""
    return search.list_jobs(connection, narrow, limit=JOBS)


def failures(connection: Connection, narrow: JobFilter) -> Lately:
    """Return the groups of the jobs that were discarded lately and fit."""
    kind, queue = _only(narrow.kinds), _only(narrow.queues)
    found = list_lately(connection, LATELY, GROUPS, kind=kind, queue=queue)
    return found._replace(groups=[group for group in found.groups if _of_kind(group.kind, narrow)])


def _of_queue(name: str, narrow: JobFilter) -> bool:
    return _fits(name, narrow.queues, narrow.not_queues)


def _of_kind(name: str, narrow: JobFilter) -> bool:
    return _fits(name, narrow.kinds, narrow.not_kinds)


def _fits(value: object, wanted: Iterable[object], left_out: Iterable[object]) -> bool:
    chosen = [*wanted]
    return (not chosen or value in chosen) and value not in [*left_out]


def _only(names: Iterable[str]) -> str | None:
    """Return the one name that a filter has, if it has one."""
    given = [*names]
    return given[0] if len(given) == 1 else None
