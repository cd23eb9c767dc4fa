"""Operations, the changes of many jobs that the leader works through: a list, one of them as it gets on, and asking for its end.

The functions run in threads of the source, over its connection. They keep nothing. An operation is made on the list of jobs
(pages/many.py), by the command or by a program.

Invariant: nobody learns by the filter of somebody else what no page shows to him. Values in words about args and meta are there
for those alone who may see args (the template asks), and for nobody where the application redacts values; so are those of errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastq.admin.bulk import at_once
from fastq.admin.search import JobFilter
from fastq.errors import OptionError
from fastq.masked import HIDDEN
from fastq.web.routing.view import Action, Asked, Done, Missing, View

if TYPE_CHECKING:
    from fastq.admin.bulk import OperationRow
    from fastq.web.routing.view import Visit
    from fastq.web.security.redacting import Redaction

SHOWN = 50
"""Operations that are listed, the newest."""

EVERY = 2.0
"""Seconds between two looks at operations that are shown."""

VALUES, ERRORS = ("args", "not_args", "meta", "not_meta"), ("errors", "not_errors")
"""Fields of a filter with values of jobs."""


def load(visit: Visit) -> Mapping[str, Any]:
    """Read the newest operations."""
    rows = at_once.list_operations(visit.connection, SHOWN)
    return {"rows": [(row, *told(row.filter, visit.redaction), seen(row)) for row in rows], "shown": SHOWN}


def load_one(visit: Visit) -> Mapping[str, Any]:
    """Read one operation."""
    row = _found(visit)
    words, hidden = told(row.filter, visit.redaction)
    return {
        "title": f"Operation {row.id}",
        "row": row,
        "words": words,
        "hidden": hidden,
        "seen": seen(row),
        "change": [(name, str(value)) for name, value in row.change.items()],
        "left": [(_reason(reason, visit), jobs) for reason, jobs in sorted(row.skipped.items(), key=lambda one: -one[1])],
    }


def _reason(reason: str, visit: Visit) -> str:
    """Return why jobs were skipped; what the database said may quote a value of a job."""
    return reason.partition(":")[0] if visit.redaction.redacts else reason


def told(words: str, redaction: Redaction) -> tuple[str, str]:
    """Return the words of a filter, for those who may see args and for the others."""
    try:
        wanted = JobFilter.parse(words)
    except OptionError:  # a newer program has made it
        return (HIDDEN if redaction.redacts else words), HIDDEN
    hiding: dict[str, Any] = {name: [(path, HIDDEN) for path, _ in getattr(wanted, name)] for name in VALUES}
    without = str(replace(wanted, **hiding))
    if not redaction.redacts:
        return words, without
    hiding |= {name: [HIDDEN for _ in getattr(wanted, name)] for name in ERRORS}
    nobody = str(replace(wanted, **hiding))
    return nobody, nobody


def seen(row: OperationRow) -> int:
    """Return how many jobs an operation has looked at: those that it has changed, and those that it has skipped."""
    return row.done + sum(row.skipped.values())


def _found(visit: Visit) -> OperationRow:
    rows = at_once.list_operations(visit.connection, 1, visit.id)
    if not rows:
        raise Missing(f"there is no operation {visit.id}: operations are kept as FASTQ_AUDIT_DAYS says")
    return rows[0]


def _ask(visit: Visit) -> Asked:
    row = _found(visit)
    facts = (("verb", row.verb), ("done", f"{row.done:,}"), ("asked by", row.by))
    explained = "It ends before its next chunk. The jobs that it has changed stay changed."
    refused = f"It has ended already: {row.state}." if row.ended_at is not None else ""
    question = f"Cancel operation {row.id}?"
    return Asked(question, f"operation {row.id}", f"/operations/{row.id}", facts, explained, refused=refused)


def _cancel(visit: Visit) -> Done:
    asked = at_once.cancel_operation(visit.connection, visit.id)
    return Done(f"operation {visit.id} " + ("is asked to end" if asked else "had ended already"), ok=asked)


CONTENT = (
    View("/operations", "Operations", "operations.read", "operations.html", load, every=EVERY, menu=True),
    View("/operations/{id:int}", "Operation", "operations.read", "operation.html", load_one, every=EVERY),
    Action("/operations/{id:int}/cancel", "Cancel it", "operations.cancel", _ask, _cancel, severe=True),
)
