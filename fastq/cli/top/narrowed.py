"""Narrow the views down to some queue, kind or state, by the words of a filter: `queue:mails kind:report state:discarded`.

Run by the watcher's thread, and by the main thread when a filter is typed; pure functions and statements, nothing is kept. No
other module of this room knows a word of a filter: `read` is given its text, and `keep`, `jobs` and `failures` apply it.

It deliberately has few words: the same ones as the options of `fastq jobs list`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fastq import admin
from fastq.admin.dead.lately import Lately, list_lately
from fastq.args.faults import show
from fastq.args.options import check_kind_name, check_queue
from fastq.errors import OptionError
from fastq.jobs.job import State

if TYPE_CHECKING:
    from fastq.cli.top.figures import Figures
    from fastq.postgres.db import Connection

LATELY = 3_600.0
"""Seconds back for which discarded jobs are shown, as on the overview of the dashboard."""

JOBS, GROUPS = 100, 100
"""Rows that are read of the newest jobs and of the groups of failures: two screens of a large terminal."""

WORDS = ("queue", "kind", "state")


@dataclass(frozen=True, slots=True)
class Narrow:
    """The things that are to be shown; None and an empty tuple stand for all of them."""

    queue: str | None = None
    kind: str | None = None
    states: tuple[State, ...] = ()


EVERYTHING = Narrow()


def read(text: str) -> Narrow:
    """Read a filter; OptionError for a word that there is not. Several states mean any of them."""
    queue = kind = None
    states: list[State] = []
    for word in text.split():
        name, colon, value = word.partition(":")
        if not colon or not value or name not in WORDS:
            raise OptionError(f"filter {show(word)}: expected words like queue:mails, kind:report and state:discarded")
        if name == "queue":
            queue = check_queue(value)
        elif name == "kind":
            kind = check_kind_name(value)
        elif value in tuple(State):
            states.append(State(value))
        else:
            raise OptionError(f"state {show(value)}: expected one of {', '.join(State)}")
    return Narrow(queue, kind, tuple(states))


def keep(figures: Figures, narrow: Narrow) -> Figures:
    """Return the figures without the queues, processes and running jobs that do not fit."""
    if narrow == EVERYTHING:
        return figures
    queue, kind, states = narrow.queue, narrow.kind, narrow.states
    runs = not states or State.RUNNING in states
    return replace(
        figures,
        queues=[row for row in figures.queues if queue in (None, row.queue.name)],
        processes=[
            row
            for row in figures.processes
            if (queue is None or queue in row.queues) and (kind is None or row.kinds is None or kind in row.kinds)
        ],
        running=[row for row in figures.running if runs and queue in (None, row.queue) and kind in (None, row.kind)],
    )


def jobs(connection: Connection, narrow: Narrow) -> admin.JobList:
    """Return the newest jobs that fit, living and finished."""
    return admin.list_jobs(connection, states=narrow.states, kind=narrow.kind, queue=narrow.queue, limit=JOBS)


def failures(connection: Connection, narrow: Narrow) -> Lately:
    """Return the groups of the jobs that were discarded lately and fit."""
    return list_lately(connection, LATELY, GROUPS, kind=narrow.kind, queue=narrow.queue)
