"""Return the jobs that fit a filter as pages, count them up to an end, and complete the words of a filter.

Each function is an `Asking` (admin/session.py), run by the thread or event loop of the caller: that of a client, or the main
thread of a command. Nothing is kept: a page's cursor has all that the next page needs.

Invariant: a page comes within PATIENCE and one look, however many jobs there are, and says how far it has looked. It deliberately
never counts all jobs that fit: nobody reads a number of millions to its last digit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from fastq.admin.jobs import JobRow
from fastq.admin.search import cursors, terms
from fastq.admin.search.job_filter import FIELDS, LISTS, WORDS, JobFilter
from fastq.admin.search.walks import walk
from fastq.admin.session import Ask
from fastq.args.faults import show
from fastq.errors import OptionError
from fastq.jobs.job import State

if TYPE_CHECKING:
    from fastq.admin.session import Asking

PATIENCE = 2.0
"""Seconds after which a page ends: as long as a person waits without wondering. A guess."""

MOST = 10_000
"""Jobs of a page, and jobs that are counted: 2 MB. Beyond that a person wants to know that there are many."""

NEWEST = 1_000
"""Living jobs of which the kinds and tags are told: some milliseconds. A guess."""


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of jobs, newest first. `for job in page` goes through them."""

    jobs: list[JobRow]
    after: str | None
    """The cursor for the next page, as `client.jobs.list(filter, after=page.after)` takes it. None: all jobs were looked at."""
    looked_until: datetime | None
    """The time back to which it has looked, if time was over before the page was full: older jobs may fit, too."""
    looked: int
    """How many jobs it has looked at."""

    def __iter__(self) -> Iterator[JobRow]:
        """Go through the jobs."""
        return iter(self.jobs)

    def __len__(self) -> int:
        """Count the jobs."""
        return len(self.jobs)


@dataclass(frozen=True, slots=True)
class JobCount:
    """How many jobs fit. `str()` says it: `at least 10,000`."""

    jobs: int
    at_least: bool
    """There may be more: so many were found before the count or its time came to an end."""
    looked_until: datetime | None
    """The time back to which it has looked, if time was over."""

    def __str__(self) -> str:
        """Say the number."""
        return f"{'at least ' if self.at_least else ''}{self.jobs:,}"


def page(given: JobFilter | str, limit: int, after: str | None) -> Asking[JobPage]:
    """Return the next jobs that fit."""
    wanted = JobFilter.of(given)
    if type(limit) is not int or not 0 < limit <= MOST:
        raise OptionError(f"limit {show(limit)}: expected a whole number from 1 to {MOST}")
    place = None if after is None else cursors.read(after, wanted)
    looked = yield from walk(wanted, place, limit, PATIENCE)
    over = looked.place is not None and len(looked.found) < limit
    cursor = None if looked.place is None else cursors.written(looked.place, wanted)
    return JobPage([found.job for found in looked.found], cursor, looked.until if over else None, looked.rows)


def count(given: JobFilter | str) -> Asking[JobCount]:
    """Count the jobs that fit, up to MOST."""
    looked = yield from walk(JobFilter.of(given), None, MOST, PATIENCE)
    found = len(looked.found)
    return JobCount(found, looked.place is not None, looked.until if looked.place is not None and found < MOST else None)


def complete(text: str) -> Asking[list[str]]:
    """Return the words that the last word of a text may become.

    They are names of words, and states, kinds, queues and tags that are known.
    """
    begun = "" if not text.strip() or text[-1].isspace() else text.rsplit(maxsplit=1)[-1]
    sign, word = ("-", begun[1:]) if begun.startswith("-") else ("", begun)
    name, colon, value = word.partition(":")
    if not colon:
        known = [*LISTS, *FIELDS] if sign else [each.removesuffix(".PATH") for each in WORDS]
        ends = {each: "." if each in FIELDS else ":" for each in known}
        return [f"{sign}{each}{ends[each]}" for each in known if each.startswith(name)]
    if name == "state":
        values = [state.value for state in State]
    else:
        rows = yield Ask("search_values", (NEWEST,))
        values = [str(known) for sort, known in rows if sort == name]
    return [f"{sign}{name}:{terms.quoted(known)}" for known in values if known.startswith(terms.unquoted(value).lstrip('"'))]
