"""`fastq jobs cancel`, `retry`, `delete`, `move`, `edit`: by ids at once, by a filter as an operation.

Runs in the main thread of the command, and keeps nothing. An operation is made with `--yes` alone; without it the command says
what the operation would be about.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from fastq import admin
from fastq.admin.bulk import at_once
from fastq.cli.search import listing
from fastq.cli.search.operations import told as told_of
from fastq.cli.terminal import output
from fastq.cli.terminal.parser import whole
from fastq.errors import OptionError

if TYPE_CHECKING:
    from fastq.postgres.db import Connection

HELP = {
    "retry": "run jobs now, once more if they are finished",
    "cancel": "end jobs before they are done",
    "delete": "remove jobs for good, finished ones too",
    "move": "put jobs that do not run into another queue",
    "edit": "change jobs that do not run",
}
"""The verbs, with a line of help for each."""

SAID = {  # by verb and outcome; the rest is refused
    ("retry", "available"): "available",
    ("cancel", "cancelled"): "cancelled",
    ("cancel", "asked"): "is running: asked to end",
    ("delete", "deleted"): "deleted",
    ("move", "edited"): "moved",
    ("edit", "edited"): "changed",
}
REFUSED = {
    ("retry", "running"): "is running already",
    ("retry", "waiting"): "waits for the steps of its workflow before it",
    ("retry", "held"): "is unique, and job {holder} holds its key",
    ("cancel", "finished"): "has ended already ({was})",
    ("delete", "running"): "is running: cancel it first, or wait",
    **{(verb, "running"): "is running: cancel it first, or wait" for verb in ("move", "edit")},
    **{(verb, "gated"): "goes through gates, which know its queue, priority and args" for verb in ("move", "edit")},
    **{(verb, "gone"): "does not exist, or has ended" for verb in ("move", "edit")},
    ("edit", "waiting"): "waits for something that is no time",
    ("edit", "encrypted"): "has encrypted args: edit them from Python, with its Args class",
    ("edit", "versioned"): "has args of a version: enqueue it anew",
}
EPILOG = f"""\
examples:
  fastq jobs retry 42 43
  fastq jobs retry state:discarded kind:mail since:2h         what it would be
  fastq jobs retry state:discarded kind:mail since:2h --yes   do it
  fastq jobs move --queue slow kind:report --yes

By ids it is done at once; by a filter it is an operation, which the leader
works through: fastq operations. The audit has both: fastq audit.

{listing.WORDS}"""


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Declare the arguments of a verb."""
    parser.add_argument("words", metavar="ID|WORD", nargs="+", help="ids, or words of a filter such as kind:mail")
    parser.add_argument("--yes", action="store_true", help="with a filter: do it, and do not only say what it would be")
    parser.add_argument("--by", metavar="NAME", help="who asks for it, for the audit [default: USER@HOST]")
    if verb in ("move", "edit"):
        parser.add_argument("--queue", required=verb == "move", help="the new queue")
    if verb == "edit":
        parser.add_argument("--priority", type=whole, metavar="N", help="the new priority, 1 to 4")
        parser.add_argument("--max-attempts", type=whole, metavar="N", help="how many attempts at most")
        parser.add_argument("--at", type=_time, metavar="TIME", help="not before then, such as 2026-12-24T18:00+01:00")
        parser.add_argument("--args", type=_object, metavar="JSON", help="the new args, of single jobs alone")


def change(connection: Connection, options: argparse.Namespace) -> int:
    """Run a verb."""
    ids = [int(word) for word in options.words if word.isascii() and word.isdecimal()]
    if len(ids) == len(options.words):
        return _single(connection, options, ids)
    options.state, options.kind, options.tag = [], None, None
    values, options.queue = _values(options), None
    wanted = listing.filter_of(options)
    if not options.yes:
        preview = at_once.preview_operation(connection, options.action, wanted)
        if options.json:
            output.json(preview)
        else:
            count = f"{'at least ' if preview.at_least else ''}{output.plural(preview.jobs, 'job')}"
            output.out(f"{options.action}: {count} fit {preview.filter}")
            output.note("nothing was changed: add --yes to make it an operation")
        return 0
    row = at_once.make_operation(connection, options.action, wanted, values, options.by)
    if options.json:
        output.json(row)
    else:
        output.out(told_of(row))
        output.note(f"the leader works through it: fastq operations show {row.id}")
    return 0


def _single(connection: Connection, options: argparse.Namespace, ids: Sequence[int]) -> int:
    values = _values(options)
    if options.action in ("move", "edit"):
        changes = at_once.edit_jobs(connection, options.action, ids, values, options.by)
    else:
        changes = at_once.change_jobs(connection, options.action, ids, options.by)
    refused = sum((options.action, each.outcome) not in SAID for each in changes)
    if options.json:
        output.json(changes)
    else:
        for each in changes:
            _tell(options.action, each)
    return 1 if refused else 0


def _tell(verb: str, change: admin.Change) -> None:
    key = (verb, change.outcome)
    text = SAID.get(key) or REFUSED.get(key, "does not exist").format(was=change.was, holder=change.holder)
    (output.out if key in SAID else output.note)(f"job {change.id} {text}")


def _values(options: argparse.Namespace) -> dict[str, Any]:
    """Return the new values that `move` and `edit` were given."""
    names = ("queue", "priority", "max_attempts", "at", "args") if options.action in ("move", "edit") else ()
    return {name: value for name in names if (value := getattr(options, name, None)) is not None}


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a time with a zone like 2026-12-24T18:00+01:00, got {text!r}") from None


def _object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, OptionError):
        raise argparse.ArgumentTypeError(f"expected a JSON object, got {text!r}") from None
