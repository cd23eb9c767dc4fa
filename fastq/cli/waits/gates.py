"""`fastq gates`: list the gates that jobs go through and the keys that stand still, set numbers, release keys.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from fastq.admin import gates, held
from fastq.admin.pauses import list_pauses
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import opened
from fastq.cli.terminal.parser import seconds
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
  fastq gates set sms-api 100 --per 60 --burst 10
                                    of a rate also its time and burst
  fastq gates remove mail-api       the code's number holds again
  fastq gates held                  keys that stand still: a discarded job
                                    holds them, or their job waits for its
                                    next attempt while others wait behind it
  fastq gates release stream 42     go on without that job

state: open; set: an operator's number holds; closed: that number is 0;
differs: living jobs carry several numbers, of old code and new: set one to
decide. A gate without living jobs and without a number is not listed.
The number of a fair gate is its window, of all its keys together. A gate
'?' stands for jobs whose gates this version cannot read: they wait.
"""
HELD = ("gate", "key", "job", "state", "kind", "queue", "since", "next attempt")
COLUMNS = ("gate", "sort", "state", "at most", "in code", "keys", "admitted", "waiting", "oldest")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="show the gates, their numbers and their jobs")
    setting = actions.add_parser("set", help="set the number of a gate, over the one in the code; 0 closes it")
    removing = actions.add_parser("remove", help="let the code's number hold again")
    holding = actions.add_parser("held", help="show the keys of gates in order that stand still, and the jobs that hold them up")
    releasing = actions.add_parser("release", help="have a discarded job hold a key no longer")
    for action in (setting, removing, releasing):
        action.add_argument("name", metavar="NAME")
    releasing.add_argument("key", metavar="KEY", nargs="?", default="", help="as 'fastq gates held' shows it, or a text")
    setting.add_argument("at_most", metavar="AT_MOST", type=_number, help="how many at once, for each key of the gate")
    setting.add_argument("--per", metavar="S", type=seconds, help="of a rate: so many start in S seconds [default: the code's]")
    setting.add_argument("--burst", metavar="B", type=_number, help="of a rate: so many more may start at once [the same]")
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
    at_most, per, burst = options.at_most, options.per, options.burst
    before = gates.set_gate(connection, name, at_most, per=per, burst=burst)
    told = f"gate '{name}' is closed" if at_most == 0 else f"gate '{name}': at most {_told(at_most, per, burst)}"
    pace = {word: value for word, value in (("per", per), ("burst", burst)) if value is not None}
    return told, {"gate": name, "at_most": at_most, **pace, "before": before, "changed": before != at_most or bool(pace)}


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
        output.table(HELD, [(row.gate, row.key, row.job, row.state, row.kind, row.queue, row.since, row.until) for row in rows])
    else:
        output.note("no key is held by a discarded job, nor by one that waits for its next attempt before others")
    return 0


def _cells(row: GateRow) -> tuple[object, ...]:
    more = "+" if row.more else ""
    counts = (f"{count:,}{more}" if more else count for count in (row.keys, row.admitted, row.waiting))
    at_most = "?" if row.at_most is None else row.at_most
    if row.per is not None or row.burst is not None:
        at_most = _told(row.at_most or 0, row.per, row.burst)
    return (row.name, row.sort, row.state, at_most, row.defaults, *counts, row.oldest)


def _told(at_most: int, per: float | None, burst: int | None) -> str:
    """Write `5 at once`, and of a rate `100 in 60 s, burst 10`: those numbers of it that are set."""
    starts = f"{at_most:,} at once" if per is None and burst is None else f"{at_most:,}"
    return starts + (f" in {per:g} s" if per is not None else "") + (f", burst {burst:,}" if burst is not None else "")


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 on, got {text!r}")
    return int(text)
