"""`fastq leader`: show the leaders and the last runs of their chores, and ask one to resign.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

import argparse

from fastq.admin import leaders
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import opened
from fastq.cli.terminal.parser import whole
from fastq.lead.term.domains import conflicts
from fastq.lead.term.term import NOTE_CHANGED, NOTE_IDLE

EPILOG = """\
examples:
  fastq leader                     domains, holders, terms; chores with their
                                   last run
  fastq leader resign              ask the leader of the default domain to
                                   leave leading to another supervisor
  fastq leader resign --domain billing
  fastq leader resign --lease singleton:projection:orders

A leader notes at once what failed, within 5 s what changed rows, and within
a minute that a chore ran and found nothing to do. A leader that resigns goes
on working jobs; it stands again two seconds later.
"""
LEASES = ("lease", "holder", "term", "since", "expires", "queues")
CHORES = ("lease", "chore", "last run", "took", "runs", "changed", "fenced", "error")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands and their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="[ACTION]")
    listing = actions.add_parser("list", help="show leases and chores (the same without ACTION)")
    resigning = actions.add_parser("resign", help="ask a leader to resign")
    which = resigning.add_mutually_exclusive_group()
    which.add_argument("--domain", metavar="DOMAIN", default="default", help="the leader of this domain [default: default]")
    which.add_argument("--lease", metavar="NAME", help="any lease, by the name that `fastq leader` shows")
    resigning.add_argument("--term", type=whole, metavar="TERM", help="only if this is still its term")
    for action in (parser, listing, resigning):
        action.add_argument("--json", action="store_true", help="print JSON")
        settings.add_database(action)


def main(options: argparse.Namespace) -> int:
    """Run the action."""
    config = settings.load(options)
    with opened(config) as connection:
        if options.action == "resign":
            name = options.lease or f"leader:{options.domain}"
            asked = leaders.resign(connection, name, options.term)
            return _resigned(name, asked, options)
        leases, chores = leaders.list_leases(connection), leaders.list_chores(connection)
        overlaps = conflicts(connection)
    if options.json:
        output.json({"leases": leases, "chores": chores, "overlaps": [overlap._asdict() for overlap in overlaps]})
        return 0
    if not leases:
        output.note("no leases: no supervisor has run yet")
        return 0
    output.table(LEASES, [_lease_cells(row) for row in leases])
    if chores:
        output.out()
        output.table(CHORES, [_chore_cells(row) for row in chores])
        output.note(f"runs that changed nothing are noted within {NOTE_IDLE:.0f}s, others within {NOTE_CHANGED:.0f}s")
    for overlap in overlaps:
        output.note(f"warning: {overlap}")
    return 0


def _resigned(name: str, asked: leaders.LeaseRow | None, options: argparse.Namespace) -> int:
    if options.json:
        output.json({"lease": name, "asked": asked})
    elif asked is None:
        output.note(f"nobody holds '{name}'{'' if options.term is None else f' in term {options.term}'}: nobody was asked")
    else:
        output.out(f"asked {asked.holder} to resign from '{name}' (term {asked.term})")
    return 0 if asked is not None else 1


def _lease_cells(row: leaders.LeaseRow) -> tuple[object, ...]:
    if not row.held:
        return (row.name, "nobody", row.term, None, None, row.queues)
    expires = f"in {row.expires_in:.1f}s" + (", resigning" if row.resigning else "")
    return (row.name, row.holder, row.term, row.acquired_at, expires, row.queues)


def _chore_cells(row: leaders.ChoreRow) -> tuple[object, ...]:
    return (row.lease, row.name, row.ran_at, f"{row.took * 1000:.1f}ms", row.runs, row.changed, row.fenced, row.error)
