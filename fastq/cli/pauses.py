"""`fastq pauses`: list, add and remove the pauses of queues, kinds, gates and keys, and of everything.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, cast

from fastq import admin
from fastq.admin.held import read_key
from fastq.cli.queues import add_end
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import opened

if TYPE_CHECKING:
    from fastq.admin.pauses import Target

EPILOG = """\
examples:
  fastq pauses list
  fastq pauses add --kind mail --until 2h --reason "the provider is down"
  fastq pauses add --gate mail-api --key 42     nothing of account 42 is let go
  fastq pauses add --all --reason "moving the database"
  fastq pauses remove --all

Jobs that run go on, and so do the few that their process has claimed. A
pause with --until is ended by the cluster's leader; while nobody leads it
stays. To add one that is there gives it the new end and reason.
"""
COLUMNS = ("paused", "since", "until", "reason")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show what is paused, since when, until when and why")
    adding = actions.add_parser("add", help="pause a queue, a kind, a gate, a key of a gate, or everything")
    removing = actions.add_parser("remove", help="end a pause")
    for action in (adding, removing):
        one = action.add_mutually_exclusive_group(required=True)
        one.add_argument("--queue", metavar="NAME", help="claim nothing more from this queue")
        one.add_argument("--kind", metavar="NAME", help="start no more jobs of this kind, in any queue")
        one.add_argument("--gate", metavar="NAME", help="let no more jobs go at this gate")
        one.add_argument("--all", action="store_true", help="claim nothing more from any queue")
        action.add_argument("--key", metavar="KEY", help="with --gate: this key of it alone, as JSON (42, '\"42\"'), else a text")
    add_end(adding)
    for action in (listing, adding, removing):
        action.add_argument("--json", action="store_true", help="print JSON")
        settings.add_database(action)


def main(options: argparse.Namespace) -> int:
    """Run the action."""
    with opened(settings.load(options)) as connection:
        if options.action == "list":
            return _list(admin.list_pauses(connection), options)
        target = _target(options)
        changed = True
        if options.action == "add":
            admin.pause(connection, target, options.until, options.reason)
        else:
            changed = admin.resume(connection, target)
    subject = admin.subject_of(target)
    if options.json:
        output.json({"subject": subject, "paused": options.action == "add", "changed": changed})
    elif options.action == "add":
        output.out(f"{subject} is paused")
    else:
        output.out(f"{subject} is resumed" if changed else f"{subject} was not paused")
    return 0


def _target(options: argparse.Namespace) -> Target:
    if options.all:
        given: dict[str, Any] = {"everything": True}
    else:
        given = {name: getattr(options, name) for name in ("queue", "kind", "gate") if getattr(options, name) is not None}
    if options.key is not None:
        given["key"] = read_key(options.key)
    return cast("Target", given)


def _list(rows: list[admin.PauseRow], options: argparse.Namespace) -> int:
    if options.json:
        output.json(rows)
    elif rows:
        output.table(COLUMNS, [(row.subject, row.paused_at, row.paused_until, row.reason) for row in rows])
    else:
        output.note("nothing is paused")
    return 0
