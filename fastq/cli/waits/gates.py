"""`fastq gates`: list the gates that jobs go through and the keys that are held, set numbers, release keys.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fastq.admin import gates, held
from fastq.admin.pauses import list_pauses
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import opened
from fastq.events import escaped

if TYPE_CHECKING:
    from fastq.admin.gates import GateRow
    from fastq.admin.held import HeldRow
    from fastq.admin.pauses import PauseRow
    from fastq.postgres.db import Connection

EPILOG = """\
examples:
  fastq gates list
  fastq gates set mail-api 5        at most 5 at once for each of its keys,
                                    whatever the code says; those that run
                                    go on
  fastq gates set mail-api 0        closes it: its jobs wait
  fastq gates remove mail-api       the code's number holds again
  fastq gates held                  keys that a discarded job holds
  fastq gates release stream 42     go on without that job

state: open; set: an operator's number holds; closed: that number is 0;
differs: living jobs carry several numbers, of old code and new: set one to
decide. A gate without living jobs and without a number is not listed.
The number of a fair gate is its window, of all its keys together. A gate
'?' stands for jobs whose gates this version cannot read: they wait.
"""
HELD = ("gate", "key", "discarded job", "kind", "queue", "discarded")
COLUMNS = ("gate", "sort", "state", "at most", "in code", "keys", "admitted", "waiting", "oldest")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show the gates, their numbers and their jobs")
    setting = actions.add_parser("set", help="set the number of a gate, over the one in the code; 0 closes it")
    removing = actions.add_parser("remove", help="let the code's number hold again")
    holding = actions.add_parser("held", help="show the keys that discarded jobs hold, so that nothing behind them starts")
    releasing = actions.add_parser("release", help="have a discarded job hold a key no longer")
    for action in (setting, removing, releasing):
        action.add_argument("name", metavar="NAME")
    releasing.add_argument("key", metavar="KEY", nargs="?", default="", help="as 'fastq gates held' shows it, or a text")
    setting.add_argument("at_most", metavar="AT_MOST", type=_number, help="how many at once, for each key of the gate")
    for action in (listing, setting, removing, holding, releasing):
        action.add_argument("--json", action="store_true", help="print JSON")
        settings.add_database(action)


def main(options: argparse.Namespace) -> int:
    """Run the action."""
    with opened(settings.load(options)) as connection:
        if options.action == "list":
            return _list(gates.list_gates(connection), list_pauses(connection), options)
        if options.action == "held":
            return _held(held.list_held(connection), options)
        told, result = _act(connection, options)
    if options.json:
        output.json(result)
    else:
        output.out(told)
    return 0


def _act(connection: Connection, options: argparse.Namespace) -> tuple[str, dict[str, object]]:
    """Run an action on one gate; return its result as a sentence, and as values for a script."""
    name = options.name
    if options.action == "release":
        jobs = held.release_held(connection, name, held.read_key(options.key))
        by = " and ".join(f"job {job}" for job in jobs)
        told = f"it was held by {by}, which stays discarded" if jobs else "no discarded job holds it (fastq gates held)"
        key = f" for key {escaped(options.key)}" if options.key else ""
        return f"gate '{name}'{key}: {told}", {"gate": name, "key": options.key, "jobs": jobs, "changed": bool(jobs)}
    if options.action == "remove":
        before = gates.remove_gate(connection, name)
        told = "the code's number holds" + (": no other was set" if before is None else " again")
        return f"gate '{name}': {told}", {"gate": name, "at_most": None, "before": before, "changed": before is not None}
    if not any(row.name == name for row in gates.list_gates(connection)):
        output.note(f"note: no living job goes through a gate '{name}'; is that its name? (fastq gates list)")
    before = gates.set_gate(connection, name, options.at_most)
    told = f"gate '{name}' is closed" if options.at_most == 0 else f"gate '{name}': at most {options.at_most:,} at once"
    return told, {"gate": name, "at_most": options.at_most, "before": before, "changed": before != options.at_most}


def _list(rows: list[GateRow], pauses: list[PauseRow], options: argparse.Namespace) -> int:
    if options.json:
        output.json([{name: getattr(row, name) for name in (*row.__slots__, "state")} for row in rows])
        return 0
    if not rows:
        output.note("no gates: no living job goes through one, and no number is set; Limit(...) declares one")
        return 0
    output.table(COLUMNS, [_cells(row) for row in rows])
    for pause in pauses:
        if pause.sort == "gate":
            output.note(escaped(str(pause)))
    return 0


def _held(rows: list[HeldRow], options: argparse.Namespace) -> int:
    if options.json:
        output.json(rows)
    elif rows:
        output.table(HELD, [(row.gate, row.key, row.job, row.kind, row.queue, row.since) for row in rows])
    else:
        output.note("no key is held by a discarded job")
    return 0


def _cells(row: GateRow) -> tuple[object, ...]:
    more = "+" if row.more else ""
    counts = (f"{count:,}{more}" if more else count for count in (row.keys, row.admitted, row.waiting))
    at_most = "?" if row.at_most is None else row.at_most
    return (row.name, row.sort, row.state, at_most, row.defaults, *counts, row.oldest)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 on, got {text!r}")
    return int(text)
