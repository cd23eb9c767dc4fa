"""Choose how the jobs of a filter are found: on which legs a walk goes, in which bounds, and whether an index names them all.

Pure functions but for `chosen`, which asks one statement; run by the thread or event loop that asks for a page. Nothing is kept.

An index that has few jobs (those that wait, the steps of a workflow, the holder of a unique key) is asked first: if it names
fewer than CHOSEN_MOST, no other job can fit, and these are looked at one by one. Else a walk looks at all jobs, newest first.

It deliberately chooses no plan of Postgres': each statement has one.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from fastq.admin.search import cursors, terms
from fastq.admin.search.job_filter import time_of
from fastq.admin.session import Ask
from fastq.errors import OptionError
from fastq.jobs.job import State

if TYPE_CHECKING:
    from fastq.admin.search.cursors import Place
    from fastq.admin.search.job_filter import JobFilter
    from fastq.admin.search.terms import Moment
    from fastq.admin.session import Asking

FINISHED = frozenset({State.COMPLETED, State.CANCELLED, State.DISCARDED})
TIMED = frozenset({State.SCHEDULED, State.RETRYABLE})
"""The states of jobs that wait for a time."""

CHOSEN_MOST = 5_000
"""Jobs that an index may name: to read as many ids takes some 5 ms, and each page does it."""

TOGETHER = 100_000
"""Ids from the newest on of which living and finished jobs are looked for together, in the order of their ids. Beyond them the
living come first, then the finished: by an id, block ranges find those jobs badly which ended long after others of their age."""


class Bounds(NamedTuple):
    """Between which ids, and from which end on, jobs can fit; and in which tables they are."""

    low: int  # no job with this id or a smaller one
    high: int
    living: bool
    ended: bool
    ended_from: datetime | None  # none that ended earlier
    ended_to: datetime | None
    created_from: datetime | None  # none that was enqueued earlier, if it lives


def bounds_of(wanted: JobFilter, now: datetime) -> Bounds:
    """Return the bounds of a filter."""
    states = (frozenset(wanted.states) or frozenset(State)) - frozenset(wanted.not_states)
    low, high = wanted.id if isinstance(wanted.id, tuple) else (None, None)
    due = wanted.due_since is not None or wanted.due_until is not None
    of_end = wanted.ended_since is not None or wanted.ended_until is not None
    since, created, ended = (
        time(wanted.since, now),
        time(wanted.created_since, now),
        time(wanted.ended_since, now),
    )
    until = [each for each in (time(wanted.until, now), time(wanted.ended_until, now)) if each is not None]
    return Bounds(
        low=max(0, low - 1 if low is not None else 0),
        high=min(terms.LARGEST, high if high is not None else terms.LARGEST),
        living=bool(states - FINISHED) and not of_end,
        ended=bool(states & FINISHED) and not due,
        ended_from=max((each for each in (since, created, ended) if each is not None), default=None),
        ended_to=min(until, default=None),
        created_from=max((each for each in (since, created) if each is not None), default=None),
    )


def time(moment: Moment | float | None, now: datetime) -> datetime | None:
    """Return the time of a moment; None for none."""
    return None if moment is None else time_of(moment, now)


def begun(wanted: JobFilter, bounds: Bounds, now: datetime, newest: int, *, together: bool = True) -> Place:
    """Return the place at which a walk begins; without `together` one with the living jobs first."""
    high = min(bounds.high, newest)
    by_time = wanted.since is not None or wanted.until is not None  # the ends of finished jobs count, not their ids
    together = together and bounds.living and bounds.ended and not by_time
    leg = cursors.ALL if together else cursors.LIVING if bounds.living else cursors.ENDED
    top = max(high - TOGETHER, bounds.low) if together else high
    return cursors.Place(leg, high, None, top, now)


def chosen(wanted: JobFilter, bounds: Bounds, now: datetime) -> Asking[list[int] | None]:
    """Return the ids of all jobs that come into question, the largest first; None if no index names them, or too many."""
    low, high = bounds.low, bounds.high
    if high < terms.LARGEST and high - low <= CHOSEN_MOST:
        return list(range(high, low, -1))
    route = _route(wanted, now)
    if route is None:
        return None
    [(count, ids)] = yield Ask("search_sets", (*route, CHOSEN_MOST))
    if int(count) >= CHOSEN_MOST:
        if wanted.unique is not None:
            raise OptionError(f"unique '{wanted.unique}': expected more digits, thousands of keys begin with these")
        return None
    return sorted({number for number in map(int, filter(None, ids.split(","))) if low < number <= high}, reverse=True)


def _route(wanted: JobFilter, now: datetime) -> tuple[str, ...] | None:
    """Return the parameters of search_sets.sql; None where it has no answer."""
    ever = ("-infinity", "infinity")
    if wanted.unique is not None:
        return ("unique", wanted.unique.ljust(64, "0"), wanted.unique.ljust(64, "f"), *ever)
    if wanted.workflow is not None:
        return ("workflow", str(wanted.workflow), "", *ever)
    states = frozenset(wanted.states)
    if states == {State.WAITING}:
        return ("waiting", "", "", *ever)
    due_from, due_to = wanted.between("due", now)
    if due_from or due_to or (states and states <= TIMED):
        return ("due", "", "", due_from or ever[0], due_to or ever[1])
    return None
