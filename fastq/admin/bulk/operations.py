"""Change many jobs, which a filter means: preview them, make an operation of it, list operations, ask for the end of one.

Each `Asking` runs in the thread or event loop of the caller, on its session; nothing is kept. The work is done by the schema's
leader (lead/bulk/), which takes the filter and the place from the operation's row.

Invariant: an operation is about the jobs that were there when it was made: its place begins at the newest id of that time, and
finished jobs that end later are none of its own. It deliberately runs no statement about jobs itself, and has no limit: a preview
says how many it would be.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from fastq.admin.bulk.audits import check_by
from fastq.admin.jobs import JobRow
from fastq.admin.search import cursors, pages, routes
from fastq.admin.search.job_filter import JobFilter
from fastq.admin.search.walks import walk
from fastq.admin.session import Ask
from fastq.args.faults import show
from fastq.errors import OptionError
from fastq.events import emit
from fastq.jobs.job import State

if TYPE_CHECKING:
    from fastq.admin.session import Asking

SAMPLE = 10
"""Jobs of a preview that are shown: a few, for the eye."""

LIVING = tuple(state.value for state in State if state not in routes.FINISHED)
ABOUT = {"retry": (), "delete": (), "cancel": LIVING, "move": LIVING, "edit": LIVING}
"""The states of jobs that a verb can change; empty: any."""

VERBS = tuple(ABOUT)


@dataclass(frozen=True, slots=True)
class Preview:
    """What an operation would be about."""

    verb: str
    filter: str  # its words, with the states that the verb can change
    jobs: int
    at_least: bool  # there may be more: they were not counted to their end
    sample: list[JobRow]  # the newest of them


@dataclass(frozen=True, slots=True)
class OperationRow:
    """One operation."""

    id: int
    verb: str
    filter: str
    change: dict[str, Any]
    state: str  # 'waiting', 'running', 'done', 'cancelled' or 'failed'
    by: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    cancel_requested: bool
    expected: int
    at_least: bool
    done: int
    skipped: dict[str, int]  # by reason
    error: str | None


def meant(verb: str, given: JobFilter | str) -> JobFilter:
    """Return the filter of an operation: the jobs that fit and that the verb can change."""
    if verb not in VERBS:
        raise OptionError(f"verb {show(verb)}: expected one of {', '.join(VERBS)}")
    wanted = JobFilter.of(given)
    if not str(wanted):
        raise OptionError(f"{verb}: expected a filter with one word at least, got none: 'id:>0' means all jobs")
    states = ABOUT[verb]
    if not states or wanted.states:
        return wanted
    return JobFilter.parse(" ".join([str(wanted), *(f"state:{state}" for state in states)]))


def previewing(verb: str, given: JobFilter | str) -> Asking[Preview]:
    """Count the jobs that an operation would be about."""
    wanted = meant(verb, given)
    looked = yield from walk(wanted, None, pages.MOST, pages.PATIENCE)
    sample = [found.job for found in looked.found[:SAMPLE]]
    return Preview(verb, str(wanted), len(looked.found), looked.place is not None, sample)


def making(verb: str, given: JobFilter | str, change: str, by: str | None) -> Asking[OperationRow]:
    """Make an operation; return its row."""
    wanted, name = meant(verb, given), check_by(by)
    [(now, newest)] = yield Ask("search_begin")
    bounds = routes.bounds_of(wanted, now)
    place = routes.begun(wanted, bounds, now, int(newest), together=False)
    if (yield from routes.chosen(wanted, bounds, now)) is not None:
        place = place.moved(leg=cursors.CHOSEN)
    preview = yield from previewing(verb, wanted)
    told = (verb, str(wanted), change, name, preview.jobs, preview.at_least, cursors.written(place, wanted))
    [(number,)] = yield Ask("operation_add", told, True)
    emit("operation.asked", id=int(number), verb=verb, filter=str(wanted), jobs=preview.jobs, by=name)
    [row] = yield from listing(1, int(number))
    return row


def listing(limit: int, number: int | None = None) -> Asking[list[OperationRow]]:
    """Return the newest operations, or one."""
    rows = yield Ask("operation_list", (limit, number))
    return [_row(*row) for row in rows]


def cancelling(number: int) -> Asking[bool]:
    """Ask for the end of an operation; False if there is none that has not ended."""
    [(asked, _)] = yield Ask("operation_cancel", (number,), True)
    return bool(asked)


def _row(number: int, verb: str, words: str, change: str, *rest: Any) -> OperationRow:
    *told, skipped, error = rest
    values = [number, verb, words, msgspec.json.decode(change), *told, msgspec.json.decode(skipped), error]
    return OperationRow(*values)
