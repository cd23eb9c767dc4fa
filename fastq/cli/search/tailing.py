"""`fastq jobs tail`: jobs that fit the words of a filter, as they are enqueued and as they end.

Runs in the main thread of the command, and keeps the ids of the last moments alone. It looks once in INTERVAL, by two searches
that are short whatever the filter asks for: new jobs lie above an id, ended ones behind a time. `fastq events` is told of
attempts, processes and more by those to whom it happens; this needs nothing but the right to read jobs, and knows their tags,
args and errors.

Each look reaches back over the last moments, since a transaction shows its jobs when it commits; none comes twice. A job of a
transaction that was open for longer than BACK shows when it ends.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from fastq.admin import search
from fastq.admin.jobs import JobRow
from fastq.cli.search import listing
from fastq.cli.terminal import output
from fastq.cli.terminal.parser import whole
from fastq.errors import OptionError
from fastq.events import escaped

if TYPE_CHECKING:
    import argparse

    from fastq.admin.search import JobFilter, JobPage
    from fastq.postgres.db import Connection

INTERVAL = 1.0
"""Seconds between two looks."""

BACK = 3.0
"""Seconds that a look reaches back behind the last one: the time of most transactions. A guess."""

MOST = 1_000
"""Jobs that one look shows: more than anybody reads."""

EPILOG = f"""\
examples:
  fastq jobs tail                       all jobs, until Ctrl-C
  fastq jobs tail kind:mail -state:completed
  fastq jobs tail args.account.id:42 --lines 0 --json

A job has a line when it is enqueued and one when it ends, if it fits then.
For attempts and what processes do: fastq events -f.

{listing.WORDS}"""


class Change(NamedTuple):
    """A job that has come, or has ended."""

    at: datetime
    what: str
    job: JobRow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    listing.add_filter(parser)
    parser.add_argument(
        "--lines", "-n", type=whole, default=10, metavar="N", help="show so many that there are already [default 10]"
    )


def tail(connection: Connection, options: argparse.Namespace) -> int:
    """Show jobs as they come, until the command is interrupted."""
    wanted = listing.filter_of(options)
    if wanted.id is not None or wanted.ended_since is not None:
        raise OptionError("filter: expected no id and no ended-since: a tail shows the jobs that come from now on")
    tailed = Tail(connection, wanted)
    if options.lines > 0:
        before = search.list_jobs(connection, wanted, limit=min(options.lines, MOST)).jobs
        _show([Change(job.created_at, "enqueued", job) for job in reversed(before)], options)
    while True:
        time.sleep(INTERVAL)
        _show(tailed.look(), options)
        if tailed.left_out:
            output.note(f"and more: only {MOST:,} are shown at a time, narrow the filter")


class Tail:
    """What was shown, and from where on to look."""

    def __init__(self, connection: Connection, wanted: JobFilter) -> None:
        self.left_out = False  # the last look
        self._connection, self._wanted = connection, wanted
        now, newest = self._begin()
        self._newest = deque([(now, newest)])  # the largest ids of the last moments
        self._since = now
        self._enqueued: set[int] = set()  # ids that were shown, those above the oldest of these
        self._ended: dict[int, datetime] = {}

    def look(self) -> list[Change]:
        """Return the jobs that have come and those that have ended since the last look."""
        now, newest = self._begin()
        self.left_out = False
        changes = sorted([*self._come(), *self._gone()], key=lambda change: change.at)
        self._newest.append((now, newest))
        while len(self._newest) > 1 and self._newest[1][0] <= now - timedelta(seconds=BACK):
            self._newest.popleft()
        self._since = now - timedelta(seconds=BACK)
        self._enqueued = {number for number in self._enqueued if number > self._newest[0][1]}
        self._ended = {number: at for number, at in self._ended.items() if at >= self._since}
        return changes

    def _come(self) -> Iterator[Change]:
        page = self._page(replace(self._wanted, id=(self._newest[0][1] + 1, None)))
        for job in page:
            if job.id not in self._enqueued:
                self._enqueued.add(job.id)
                yield Change(job.created_at, "enqueued", job)

    def _gone(self) -> Iterator[Change]:
        for job in self._page(replace(self._wanted, ended_since=self._since)):
            if job.finalized_at is not None and self._ended.get(job.id) != job.finalized_at:
                self._ended[job.id] = job.finalized_at
                yield Change(job.finalized_at, job.state.value, job)

    def _page(self, wanted: JobFilter) -> JobPage:
        page = search.list_jobs(self._connection, wanted, limit=MOST)
        self.left_out = self.left_out or len(page) == MOST
        return page

    def _begin(self) -> tuple[datetime, int]:
        now, newest = self._connection.run_one("search_begin")
        return now, int(newest)


def _show(changes: list[Change], options: argparse.Namespace) -> None:
    for change in changes:
        output.out(_json(change) if options.json else _line(change))
    sys.stdout.flush()


def _json(change: Change) -> str:
    return msgspec.json.encode({"at": change.at, "what": change.what, **asdict(change.job)}).decode()


def _line(change: Change) -> str:
    job = change.job
    error = (job.error or "").partition("\n")[0] if change.what in ("cancelled", "discarded") else ""
    tags = ",".join(job.tags)
    told = [f"{change.at.astimezone():%H:%M:%S}", f"{change.what:9s}", str(job.id), job.kind, job.queue, tags, error]
    return escaped(" ".join(part for part in told if part))
