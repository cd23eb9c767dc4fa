"""`fastq dead`: list discarded jobs in groups of like causes, show one group, replay and delete them.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fastq import admin
from fastq.admin import dead
from fastq.admin.dead.letters import PATIENCE
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import opened
from fastq.cli.terminal.parser import until, whole

if TYPE_CHECKING:
    from fastq.postgres.db import Connection

EPILOG = """\
examples:
  fastq dead                        the discarded jobs, in groups
  fastq dead list --kind mail --since 2h
  fastq dead show 5e884898da        the newest of a group with its traceback
  fastq dead replay 5e884898da --dry-run
  fastq dead replay 5e884898da --rate 50
                                    a new job for each of the group, 50 in a
                                    second
  fastq dead replay --kind mail --cause TimeoutError
  fastq dead delete --cause crashed --since 1d

A group is a kind, a cause and a message; numbers, ids, quoted texts,
addresses and paths in the message make no difference. A replay leaves the
old jobs, and replays none of them twice. What has been interrupted goes on
when the same command is given again.
"""
COLUMNS = ("group", "kind", "cause", "jobs", "replayed", "first", "last", "sample", "error")
GROUPS = 50
"""Groups that are listed: a screen. A guess."""

SHOWN_IDS = 20
"""Ids that are shown of a group: a few lines. A guess."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands and their arguments; without one, those of the list hold."""
    _add(parser, "how many groups at most [default 50]", None)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="group discarded jobs; the same without an ACTION")
    showing = actions.add_parser("show", help="show a group, and the newest of its jobs with its traceback")
    replaying = actions.add_parser("replay", help="enqueue a new job for each discarded one")
    deleting = actions.add_parser("delete", help="remove discarded jobs for good")
    showing.add_argument("group", metavar="GROUP")
    for action in (replaying, deleting):
        action.add_argument("group", metavar="GROUP", nargs="?", help="this group; without it, those that the flags name")
        action.add_argument("--dry-run", action="store_true", help="count them, and change nothing")
    replaying.add_argument("--rate", type=float, metavar="N", help="at most so many of them start in a second [no limit]")
    replaying.add_argument("--again", action="store_true", help="also those that were replayed before")
    _add(listing, "how many groups at most [default 50]", argparse.SUPPRESS)
    _add(showing, None, argparse.SUPPRESS)
    _add(replaying, "how many new jobs at most, the oldest first [no limit]", argparse.SUPPRESS)
    _add(deleting, "how many at most, the oldest first [no limit]", argparse.SUPPRESS)


def _add(parser: argparse.ArgumentParser, limit: str | None, none: Any) -> None:
    """Declare the flags that an action shares with the command; one that is given before the action holds for it, too."""
    parser.add_argument("--kind", default=none, help="only this kind")
    parser.add_argument("--queue", default=none, help="only this queue")
    parser.add_argument("--cause", default=none, help="only failed, crashed or lost ones, or those with errors of this class")
    parser.add_argument("--since", default=none, type=until, metavar="TIME", help="only those that ended since: 2h, or a time")
    if limit is not None:
        parser.add_argument("--limit", type=whole, default=none, metavar="N", help=limit)
    parser.add_argument("--json", action="store_true", default=none, help="print JSON")
    settings.add_database(parser, none)


def main(options: argparse.Namespace) -> int:
    """Run the action."""
    which: dict[str, Any] = {name: getattr(options, name) for name in ("kind", "queue", "cause", "since")}
    with opened(settings.load(options)) as connection:
        if options.action == "show":
            return _show(connection, options, which)
        if options.action == "replay":
            return _replay(connection, options, which)
        if options.action == "delete":
            return _delete(connection, options, which)
        return _list(connection, options, which)


def _list(connection: Connection, options: argparse.Namespace, which: dict[str, Any]) -> int:
    found = dead.list_dead(connection, limit=GROUPS if options.limit is None else options.limit, **which)
    if options.json:
        output.json(found)
        return 0
    if found.groups:
        output.table(COLUMNS, [_cells(group) for group in found.groups])
    else:
        output.note("no such discarded jobs" if any(which.values()) else "no discarded jobs")
    if found.more:
        output.note(f"and {output.plural(found.more, 'group')} more: --limit")
    for kind, jobs in found.older.items():
        output.note(f"and {jobs:,} older of kind '{kind}', no longer kept")
    _tell_incomplete(found)
    return 0


def _tell_incomplete(found: dead.DeadList) -> None:
    if found.searched_to is not None:
        at = output.moment(found.searched_to)
        output.note(f"stopped looking at {at} after {PATIENCE:g} s: older jobs may fit too, --since and --kind find fewer")


def _cells(group: dead.DeadGroup) -> tuple[object, ...]:
    counts = (group.jobs, group.replayed)
    return (group.id, group.kind, group.cause, *counts, group.first, group.last, group.sample, group.message.partition("\n")[0])


def _show(connection: Connection, options: argparse.Namespace, which: dict[str, Any]) -> int:
    found = dead.list_dead(connection, options.group, limit=1, **which)
    if not found.groups:
        _tell_incomplete(found)
        output.note(
            f"fastq: there is no group {options.group}: `fastq dead` lists them; finished jobs are kept as FASTQ_KEEP says"
        )
        return 1
    [group] = found.groups
    sample = admin.show_job(connection, group.sample)
    error = sample.errors[-1] if sample is not None and sample.errors else {}
    trace = str(error.get("trace") or error.get("error", ""))
    if options.json:
        output.json({"group": group, "args": sample.args if sample else None, "trace": trace})
        return 0
    ids = " ".join(map(str, group.ids[:SHOWN_IDS])) + (" ..." if group.jobs > SHOWN_IDS else "")
    output.fields(
        [
            ("group", group.id),
            ("kind", group.kind),
            ("cause", group.cause),
            ("message", group.shape),
            ("jobs", f"{group.jobs:,}, of which {group.replayed:,} are replayed"),
            ("first", output.moment(group.first)),
            ("last", output.moment(group.last)),
            ("ids", ids),
            ("sample", group.sample),
            ("args", sample.args_json if sample is not None else None),
        ]
    )
    output.block(f"job {group.sample}", trace)
    _tell_incomplete(found)
    return 0


def _replay(connection: Connection, options: argparse.Namespace, which: dict[str, Any]) -> int:
    how = {"rate": options.rate, "limit": options.limit, "again": options.again, "dry_run": options.dry_run}
    told = dead.replay_dead(connection, options.group, **how, **which)
    if options.json:
        output.json(told)
        return 0
    output.out(f"{output.plural(told.jobs, 'job')} {_done(options, told.jobs)} enqueued anew")
    for count, why in (
        (told.done, "replayed before: --again does it once more"),
        (told.steps, "of workflows, where they have their place: fastq workflows retry ID"),
        (told.in_order, "that hold their keys in order: fastq jobs retry ID runs them before those behind them"),
        (told.held, "unique, and another job holds the key"),
        (told.missing, "gone meanwhile: retried, deleted or pruned by somebody else"),
    ):
        if count:
            output.note(f"skipped {output.plural(count, 'job')} {why}")
    for old, holder in [*told.holders.items()][:SHOWN_IDS]:
        output.note(f"  job {old}: its key is held by {'another job' if holder is None else f'job {holder}'}")
    return 0


def _delete(connection: Connection, options: argparse.Namespace, which: dict[str, Any]) -> int:
    count = dead.delete_dead(connection, options.group, limit=options.limit, dry_run=options.dry_run, **which)
    if options.json:
        output.json({"jobs": count, "dry_run": options.dry_run})
    else:
        output.out(f"{output.plural(count, 'job')} {_done(options, count)} deleted")
    return 0


def _done(options: argparse.Namespace, count: int) -> str:
    return "would be" if options.dry_run else "was" if count == 1 else "were"
