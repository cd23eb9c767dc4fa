"""The audit: who has changed which jobs, when, and how.

`load` runs in a thread of the source, over its connection, and keeps nothing. A record is never changed here, nor anywhere else.
Filters are shown as on the page of operations; new args of a job are shown to those who may see args, through the redaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastq.admin.bulk import at_once
from fastq.masked import HIDDEN
from fastq.web.cluster.operations import told
from fastq.web.routing.view import View

if TYPE_CHECKING:
    from fastq.admin.bulk import AuditRow
    from fastq.web.routing.view import Visit
    from fastq.web.security.redacting import Redaction

SHOWN = 100
"""Records that are listed, the newest: some screens. `fastq audit list --limit` has more."""


def load(visit: Visit) -> Mapping[str, Any]:
    """Read the newest records."""
    rows = at_once.list_audit(visit.connection, SHOWN)
    return {
        "rows": [(row, *(told(row.filter, visit.redaction) if row.filter else ("", "")), *_change(row, visit)) for row in rows],
        "shown": SHOWN,
    }


def _change(row: AuditRow, visit: Visit) -> tuple[list[tuple[str, Any]], Any]:
    """Return the new values but args, and the args, redacted; None if they stayed."""
    change = row.change or {}
    plain = [(name, str(value)) for name, value in change.items() if name not in ("args", "kind")]
    return plain, _args(change, visit.redaction)


def _args(change: Mapping[str, Any], redaction: Redaction) -> Any:
    if "args" not in change:
        return None
    if redaction.redacts and not isinstance(change.get("kind"), str):
        return HIDDEN  # a dict was stored, and nobody can say how args of an unknown kind are hidden
    return redaction.stored(str(change.get("kind", "")), "args", str(change["args"]))


CONTENT = (View("/audit", "Audit", "audit.read", "audit.html", load, every=10.0, menu=True),)
