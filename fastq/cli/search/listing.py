"""`fastq jobs list` and `fastq jobs count`: the jobs that the words of a filter mean.

Runs in the main thread of the command, and keeps nothing. The flags `--state`, `--kind`, `--queue` and `--tag` are words of the
filter, too.

A shell takes the quotes off: `error:"connection refused"` comes as one argument with a blank in it. So an argument in which not
each part is a word is one word, with all of its blanks.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fastq import admin
from fastq.admin import search
from fastq.admin.jobs import SIGNAL
from fastq.admin.search import JobFilter, terms
from fastq.admin.search.pages import MOST
from fastq.args.versions.names import told
from fastq.cli.terminal import output
from fastq.cli.terminal.parser import whole
from fastq.events import escaped
from fastq.jobs.job import State

if TYPE_CHECKING:
    from fastq.postgres.db import Connection

WORDS = """\
A filter is words NAME:VALUE, and a job fits that fits them all:
  state:discarded kind:mail queue:slow tag:red    one of several states, kinds
                              and queues is enough; each of several tags
  -queue:slow -state:completed        those are left out
  error:"connection refused"  in its last error, in upper or lower case
  since:2h until:30m          it ended then; of one that lives: it was enqueued
  created-since:1d ended-until:2026-12-24T18:00+01:00 due-until:+1h
  priority:>2 attempt:3 attempt:5..9 id:>1000
  args.account.id:42 -meta.cause:crashed          a value by its path
  workflow:7 unique:5e88489d gate:mail-api
"""
LIST_EPILOG = f"""\
examples:
  fastq jobs list                       the newest 50, living and finished
  fastq jobs list kind:mail state:discarded since:2h 'error:connection refused'
  fastq jobs list args.account.id:42 -queue:slow --limit 500 --json
  fastq jobs list --state running --state available

{WORDS}
Finished jobs are kept as FASTQ_ARCHIVE_DAYS and FASTQ_KEEP say.
"""
COUNT_EPILOG = f"""\
examples:
  fastq jobs count state:discarded kind:mail since:1d

{WORDS}
It counts up to {MOST:,}, and for some seconds.
"""
COLUMNS = ("id", "state", "kind", "queue", "attempt", "enqueued", "next/end", "error")


def add_filter(parser: argparse.ArgumentParser) -> None:
    """Declare the words of a filter, and the flags for the commonest of them."""
    parser.add_argument("words", nargs="*", metavar="WORD", help="only jobs that fit, such as kind:mail; see below")
    states = [state.value for state in State]
    parser.add_argument(
        "--state", action="append", choices=states, default=[], help="only these; may be repeated", metavar="STATE"
    )
    parser.add_argument("--kind", help="only this kind")
    parser.add_argument("--queue", help="only this queue")
    parser.add_argument("--tag", help="only with this tag")


def add_page(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of a list."""
    add_filter(parser)
    parser.add_argument("--limit", type=whole, default=50, metavar="N", help="how many at most [default 50]")
    parser.add_argument("--after", metavar="CURSOR", help="the next page: the cursor that the last one has told")


def filter_of(options: argparse.Namespace) -> JobFilter:
    """Return the filter that the arguments mean."""
    flags = [f"state:{name}" for name in options.state]
    flags += [
        f"{name}:{terms.quoted(getattr(options, name))}"
        for name in ("kind", "queue", "tag")
        if getattr(options, name) is not None
    ]
    return JobFilter.parse(" ".join([*map(_quoted, options.words), *flags]))


def _quoted(argument: str) -> str:
    """Give an argument its quotes back, if it is one word with blanks in its value."""
    parts = argument.split()
    if len(parts) < 2 or '"' in argument or all(_is_word(part) for part in parts):  # noqa: PLR2004 - more than one
        return argument.strip()
    name, _, value = argument.strip().partition(":")
    return f"{name}:{terms.quoted(value)}"


def _is_word(part: str) -> bool:
    name, colon, value = part.removeprefix("-").partition(":")
    return bool(colon and value) and name.replace(".", "").replace("-", "").replace("_", "").isalnum()


def jobs(connection: Connection, options: argparse.Namespace) -> int:
    """List jobs."""
    wanted = filter_of(options)
    found = search.list_jobs(connection, wanted, limit=min(options.limit, MOST), after=options.after)
    listed = found.jobs
    while len(listed) < options.limit and found.after is not None and found.looked_until is None:
        limit = min(options.limit - len(listed), MOST)
        found = search.list_jobs(connection, wanted, limit=limit, after=found.after)
        listed = [*listed, *found.jobs]
    if options.json:
        output.json(listed)
    elif listed:
        why = why_waiting(connection, listed)
        output.table(COLUMNS, [_cells(job, why) for job in listed])
    else:
        output.note("no such jobs" if str(wanted) or options.after else "no jobs")
    if found.looked_until is not None:
        output.note(f"looked back to {output.moment(found.looked_until)}, at {found.looked:,} jobs: older jobs may fit too")
    if found.after is not None:
        output.note(f"more: --after {found.after}")
    return 0


def number(connection: Connection, options: argparse.Namespace) -> int:
    """Count jobs."""
    told_of = search.count_jobs(connection, filter_of(options))
    if options.json:
        output.json(told_of)
    else:
        output.out(str(told_of))
        if told_of.looked_until is not None:
            output.note(f"looked back to {output.moment(told_of.looked_until)}: older jobs may fit too")
    return 0


def why_waiting(connection: Connection, of: Sequence[admin.JobRow]) -> dict[tuple[str, str], str]:
    """Return the reason of those jobs among these that wait for a worker, by queue and kind."""
    if not any((job.waits_for or "").startswith("worker:") for job in of):
        return {}
    return {(row.queue, row.kind): row.why for row in admin.list_waiting(connection, count=1)}


def _cells(job: admin.JobRow, why_of: Mapping[tuple[str, str], str]) -> tuple[object, ...]:
    moment = job.scheduled_at or job.finalized_at
    error = (job.error or "").partition("\n")[0] if job.state is not State.COMPLETED else None  # of an attempt before that
    reason = waits(job, why_of)
    why = reason if job.state is State.WAITING else error or reason
    attempt = f"{job.attempt}/{job.max_attempts}"
    return (job.id, job.state.value, job.kind, job.queue, attempt, job.created_at, moment, why)


def waits(job: admin.JobRow, why_of: Mapping[tuple[str, str], str]) -> str | None:
    """Say why a job waits: at gates, for steps, or since a process that had it did not run it and did not charge it for that."""
    if job.gates:
        return f"at {job.gates}"
    if job.waits_for == "workflow":
        return "for the jobs before it in its workflow"
    if job.waits_for is not None and job.waits_for.startswith(SIGNAL):
        return f"for the signal '{escaped(job.waits_for.removeprefix(SIGNAL))}'"
    if job.state is State.WAITING:
        name = (job.waits_for or job.kind).removeprefix("worker:")
        return why_of.get((job.queue, name), f"for a process that has a worker for {told(name)}")
    return "snoozed by its worker" if job.state is State.SCHEDULED and job.attempted_at is not None else None
